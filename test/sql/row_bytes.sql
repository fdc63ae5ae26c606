-- Bits are read and set only where a row itself holds them.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
\set try 'select bloom_add(''hand'', ''ada''), bloom_might_contain(''hand'', ''ada''), bloom_might_contain(''hand'', ''nobody'');'

-- A column that was added with a default is in no row, but in the relation cache: what is set
-- there is gone with it, and is every chunk's meanwhile.
create table hand (chunk int primary key);
insert into hand select generate_series(0, 255);
alter table hand add column bits bit(8192) not null default repeat('0', 8192)::bit(8192);
select bloom_register('hand', 'lower');
\set VERBOSITY sqlstate
select bloom_register('hand', 'lower');
\set VERBOSITY default
vacuum full hand;
select bloom_register('hand', 'lower');
:try

-- The same under a filter that there is already.
create table saved as table hand;
alter table hand drop column bits;
alter table hand add column bits bit(8192) not null default repeat('0', 8192)::bit(8192);
select bloom_might_contain('hand', 'ada');
select bloom_add('hand', 'bob');
select status from bloom_filters where filter = 'hand'::regclass;
drop table hand, saved;

-- A generated column is not ours to write.
create table hand (chunk int primary key,
                   bits bit(8192) not null generated always as (0::bit(8192)) stored);
insert into hand select generate_series(0, 255);
select bloom_register('hand', 'lower');
drop table hand;

-- A value that is compressed within its row, as it comes from a wide one.
create table wide (chunk int, bits bit(8192), more bit(8192));
insert into wide select i, 0::bit(8192), 0::bit(8192) from generate_series(0, 255) i;
select bool_and(pg_column_size(bits) < 1000) as compressed from wide;
create table hand (chunk int primary key, bits bit(8192) not null);
insert into hand select chunk, bits from wide;
select bloom_register('hand', 'lower');
truncate hand;
insert into hand select chunk, bits | bits from wide;
select bloom_register('hand', 'lower');
update hand set bits = (select bits from wide limit 1) where chunk = 7;
:try
drop table hand, wide;

-- Columns in another order, behind one that was dropped.
create table hand (gone text, bits bit(8192) not null, chunk int primary key);
insert into hand select 'word' || i, 0::bit(8192), i from generate_series(0, 255) i;
alter table hand drop column gone;
select bloom_register('hand', 'lower');
:try
select bloom_add_many('hand', array(select 'n' || i from generate_series(1, 500) i)) > 490 as added;
select count(*) as denied
from generate_series(1, 500) i where not bloom_might_contain('hand', 'n' || i);
drop table hand;
