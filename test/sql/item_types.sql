-- The type an item comes from makes no difference: added as one, checked as any other.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create extension if not exists citext;
create domain username as text check (length(value) < 64);
select bloom_create('f', 1000, ready => true);
create table typed (id int, t text, v varchar(20), b char(10), n name, c citext, d username);
insert into typed values (1, 'Ada', 'Ada', 'Ada', 'Ada', 'Ada', 'Ada'),
                         (2, 'Åsa', 'Åsa', 'Åsa', 'Åsa', 'Åsa', 'Åsa');
create function all_there() returns table (id int, t bool, v bool, b bool, n bool, c bool, d bool)
language sql as $$
    select id, bloom_might_contain('f', t), bloom_might_contain('f', v),
           bloom_might_contain('f', b), bloom_might_contain('f', n),
           bloom_might_contain('f', c), bloom_might_contain('f', d)
    from typed order by id
$$;
select * from all_there();
begin; select bloom_add('f', t) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', v) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', b) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', n) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', c) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', d) from typed; select * from all_there(); rollback;
begin; select bloom_add('f', 'ADA'), bloom_add('f', 'ÅSA'); select * from all_there(); rollback;
begin;
select bloom_add_many('f', array_agg(v)), bloom_add_many('f', array_agg(c::text)) from typed;
select * from all_there();
select bloom_might_contain_many('f', array_agg(v order by id)),
       bloom_might_contain_many('f', array_agg(t order by id)) from typed;
rollback;
-- The same at chunk level, and stored long or compressed.
select bool_and(bits @> t and bits @> v and bits @> b::text and bits @> n::text and bits @> d)
from typed, lateral (select 0::bit(8192) + t) x (bits);
create table long (item text);
insert into long values (repeat('Compressible', 2000)), (repeat('ÜBER', 3000));
select bloom_add('f', item) from long;
select bloom_might_contain('f', lower(item)), bloom_might_contain('f', upper(item)) from long;

-- A statement's own collation is nobody's business.
select bloom_add('f', 'COLLATED' collate "C"), bloom_might_contain('f', 'collated' collate "POSIX"),
       bloom_chunk('ADA' collate "C", 128) = bloom_chunk('ada', 128) as equal;

-- What lower() of this database says decides, for the letters that locales fight about.
select bloom_add('f', i) is not null as added, bloom_might_contain('f', lower(i)) as lowered,
       bloom_normalize(i, 'lower') = lower(i) as as_lower
from unnest(array['I', 'İ', 'ı', 'ß', 'ẞ', 'ς', 'σ', 'Σ', E'\u212a', E'\u212b', E'A\u030a',
                  E'\u00c5', 'ΟΔΟΣ', 'Ǆ', 'ﬁ']) i;
drop table f, typed, long;
drop function all_there;
drop domain username;
drop extension citext;
