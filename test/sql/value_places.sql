-- A value lives wherever PostgreSQL puts one.
create domain members as bloomfilter not null check (value @> 'root');
create type tagged as (tag text, v bloomfilter);
create table places (
    id int,
    v bloomfilter not null default bloom_empty(100) check (v <> bloom_empty(5000)),
    list bloomfilter[],
    pair tagged,
    must members default bloom_empty(5) + 'root',
    name text,
    known boolean generated always as (v @> name) stored);
insert into places (id, v, list, pair, must, name)
select i, bloom_empty(100) + ('n' || i), array[bloom_empty(5) + 'a', bloom_empty(10000) + 'b'],
       row('tag', bloom_empty(20000) + ('t' || i))::tagged, bloom_empty(5) + 'root', 'n' || i % 3
from generate_series(1, 5) i;
insert into places (id) values (6);
select id, v @> ('n' || id) as v, list[1] @> 'a' as a, list[2] @> 'b' as b, list[2] @> 'a' as not_a,
       (pair).v @> ('t' || id) as pair, must @> 'root' as must, known
from places where id < 6 order by id;
\set VERBOSITY terse
insert into places (must) values (bloom_empty(5));
insert into places (v) values (bloom_empty(5000));
\set VERBOSITY default
update places set v = v + 'more', list[1] = list[1] + 'c', pair.v = (pair).v + 'd' where id = 2;
select v @> 'more' as v, v @> 'n2' as before, list[1] @> 'c' as c, (pair).v @> 'd' as d from places where id = 2;

-- Expression index, view, materialised view, temporary table, partition, function.
create index on places ((v @> 'n1'));
create index on places using hash (v);
set enable_seqscan = off;
select id from places where v = bloom_empty(100) + 'n3';
reset enable_seqscan;
create view with_n1 as select id from places where v @> 'n1';
select * from with_n1;
create materialized view all_of_them as select bloom_union_agg(v) v from places;
select v @> 'n1' as n1, v @> 'n5' as n5, v @> 'n9' as n9 from all_of_them;
refresh materialized view all_of_them;
create temp table here as select * from all_of_them;
select v @> 'n1' as n1 from here;
create table parts (id int, v bloomfilter) partition by hash (v);
create table parts_0 partition of parts for values with (modulus 2, remainder 0);
create table parts_1 partition of parts for values with (modulus 2, remainder 1);
insert into parts select i, bloom_empty(5) + i::text from generate_series(1, 40) i;
select count(*) from parts where v = bloom_empty(5) + '7';
do $$
declare
    r record;
    v bloomfilter := bloom_empty(100000);
    a bloomfilter[] := '{}';
begin
    for r in select id from places order by id loop
        v := v + r.id::text;
        a := a || v;
    end loop;
    if not a[6] @> '6' or a[5] @> '6' or not v @> '1' then raise 'wrong'; end if;
end $$;

-- Stored out of line, a check reads two slices; compressed, inline or short it answers the same.
create table stored (kind text, v bloomfilter);
create function info(value bloomfilter) returns float8 language sql return (bloom_value_info(value)).items;
alter table stored alter v set storage extended;
insert into stored select 'compressed', bloom_empty(100000) + 'ada';
alter table stored alter v set storage external;
insert into stored select 'out of line', bloom_empty(100000) + 'ada';
alter table stored alter v set storage plain;
insert into stored select 'inline', bloom_empty(5000) + 'ada';
insert into stored select 'short', bloom_empty(5) + 'ada';
alter table stored alter v set storage external;
insert into stored select 'many', bloom_agg('m' || i, 100000, 1e-4, 'lower') from generate_series(1, 100000) i;
select kind, pg_column_size(v) < octet_length(v::bytea) as smaller, v @> 'ADA' as ada, v @> 'bob' as bob,
       info(v)
from stored order by kind;
select count(*) as denied from stored, generate_series(1, 100000) i
where kind = 'many' and i % 10 = 0 and not v @> ('m' || i);
-- The column's storage is external from the type.
select attstorage from pg_attribute where attrelid = 'places'::regclass and attname = 'v';
drop table places, parts, stored cascade;
drop function info;
drop domain members;
drop type tagged;
