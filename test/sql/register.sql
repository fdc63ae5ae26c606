-- bloom_register: what it takes over, and what it refuses.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create function chunk_table(name text, chunks int) returns void language plpgsql as $$
begin
    execute format('create table %I (chunk int primary key, bits bit(8192) not null)', name);
    execute format('insert into %I select c, 0::bit(8192) from generate_series(0, %s) c', name,
                   chunks - 1);
end $$;
select chunk_table('hand', 200);
update hand set bits = bits + 'Ada' where chunk = bloom_chunk('ada', 200);
select bloom_register('hand', 'lower', 1000, known => '{ada,null}');
select bloom_might_contain('hand', 'ADA'), bloom_might_contain('hand', 'bob'),
       bloom_add('hand', 'bob'), bloom_might_contain('hand', 'Bob');
select status, chunks, capacity, round(items) as items from bloom_info('hand');
select bloom_register('hand', 'lower');

-- Without a capacity there is no saturation.
select chunk_table('plain', 128);
comment on table plain is 'its own';
select bloom_register('plain', 'none');
-- A table that has no comment gets one.
select relname, obj_description(oid) from pg_class where relname in ('hand', 'plain') order by 1;
select status, normalization, capacity, saturation from bloom_info('plain');

-- Columns the other way round, and a column dropped between them, are a filter too.
create table dropped (bits bit(8192) not null, gone text, chunk int primary key);
insert into dropped select 0::bit(8192), 'x', c from generate_series(0, 127) c;
alter table dropped drop column gone;
select bloom_register('dropped', 'lower', 1000);
select bloom_add('dropped', 'ada'), bloom_might_contain('dropped', 'ada'),
       bloom_might_contain('dropped', 'bob');
select status, note from bloom_info('dropped');

-- A known name that is denied: other normalization, other layout.
select chunk_table('other', 128);
update other set bits = bits + 'ada' where chunk = bloom_chunk('ada', 128);
select bloom_register('other', 'none', known => '{Ada}');
select bloom_register('other', 'lower', known => '{Ada,grace}');
select bloom_register('other', 'lower', known => '{{Ada},{grace}}');
select bloom_might_contain('other', 'ada');
select bloom_register('other', 'lower', known => '{Ada}');

-- Rows: one missing in the middle, at the start, numbers below zero, too few, none.
select chunk_table('holes', 200);
delete from holes where chunk = 77;
select bloom_register('holes', 'lower');
delete from holes where chunk = 0;
select bloom_register('holes', 'lower');
update holes set chunk = -1 where chunk = 1;
select bloom_register('holes', 'lower');
select chunk_table('few', 127);
select bloom_register('few', 'lower');
truncate few;
select bloom_register('few', 'lower');

-- Shapes that cannot be a filter.
create table shape (chunk int, bits bit(8192) not null);
select bloom_register('shape', 'lower');
alter table shape add unique (chunk), alter chunk set not null;
select bloom_register('shape', 'lower');
alter table shape drop constraint shape_chunk_key, add primary key (chunk) deferrable;
select bloom_register('shape', 'lower');
alter table shape drop constraint shape_pkey, add primary key (chunk, bits);
select bloom_register('shape', 'lower');
alter table shape drop constraint shape_pkey, add primary key (chunk);
create index on shape (bits);
select bloom_register('shape', 'lower');
drop index shape_bits_idx;
alter table shape alter bits drop not null;
select bloom_register('shape', 'lower');
alter table shape alter bits set not null, add extra text;
select bloom_register('shape', 'lower');
alter table shape drop extra, alter bits type bit(4096);
select bloom_register('shape', 'lower');
alter table shape alter bits type bit(8192), alter chunk type bigint;
select bloom_register('shape', 'lower');
drop table shape;
-- As "create table as select bit_or" makes it: bit without a length.
create table unsized as
select c as chunk, bit_or(0::bit(8192)) as bits from generate_series(0, 127) c group by c;
alter table unsized add primary key (chunk), alter bits set not null;
select bloom_register('unsized', 'lower');
alter table unsized alter bits type bit(8192);
select bloom_register('unsized', 'lower');

select chunk_table('kind', 128);
create view kind_view as select * from kind;
select bloom_register('kind_view', 'lower');
create materialized view kind_matview as select * from kind;
select bloom_register('kind_matview', 'lower');
drop view kind_view;
drop materialized view kind_matview;
create trigger other before insert on kind for each row
execute function suppress_redundant_updates_trigger();
select bloom_register('kind', 'lower');
drop trigger other on kind;
create rule other as on insert to kind do also nothing;
select bloom_register('kind', 'lower');
drop rule other on kind;
alter table kind enable row level security;
select bloom_register('kind', 'lower');
alter table kind disable row level security;
create table kind_child () inherits (kind);
select bloom_register('kind', 'lower');
drop table kind_child;
alter table kind set unlogged;
select bloom_register('kind', 'lower');
alter table kind set logged;
create table referring (chunk int references kind);
select bloom_register('kind', 'lower');
drop table referring;
create table parted (chunk int primary key, bits bit(8192) not null) partition by range (chunk);
select bloom_register('parted', 'lower');
create table part partition of parted for values from (0) to (128);
select bloom_register('part', 'lower');
create temp table temporary (chunk int primary key, bits bit(8192) not null);
select bloom_register('temporary', 'lower');
create sequence seq;
select bloom_register('seq', 'lower');
select bloom_register('hand_pkey', 'lower');
select bloom_register('pg_class', 'lower');

-- Bad arguments.
select bloom_register(null, 'lower');
select bloom_register('nowhere', 'lower');
select bloom_register(12::oid::regclass, 'lower');
select bloom_register('kind', null);
select bloom_register('kind', 'upper');
select bloom_register('kind', 'lower', 0);
select bloom_register('kind', 'lower', 1000, 5);
begin read only;
select bloom_register('kind', 'lower');
rollback;
-- After all of it, it still can be.
select bloom_register('kind', 'lower', 1000);

drop table hand, plain, dropped, other, holes, few, unsized, kind, parted;
drop sequence seq;
drop function chunk_table;
