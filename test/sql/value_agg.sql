-- bloom_agg, bloom_agg_chunks and bloom_union_agg: whatever rows they get, in whatever plan.
-- No rows: null. Rows without an item: an empty filter.
select bloom_agg(name, 100, 0.01, 'lower') is null as agg, bloom_agg_chunks(name, 3, 'lower') is null as chunks
from unnest('{}'::text[]) name;
select bloom_union_agg(v) is null as union_agg from (select bloom_empty(5) where false) s (v);
select bloom_agg(name, 100, 0.01, 'lower') = bloom_empty(100) as agg,
       (bloom_value_info(bloom_agg_chunks(name, 3, 'none'))).*
from unnest(array[null, null]::text[]) name;
select bloom_agg(name, 100, 0.01, 'lower') = bloom_empty(100) + 'ada' + 'bob' as null_first
from unnest(array[null, 'ada', null, 'BOB', 'ada', null]) name;

-- Parameters: null, changing, out of range.
select bloom_agg(name, null, 0.01, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg(name, 100, null, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg(name, 100, 0.01, null) from unnest('{ada}'::text[]) name;
select bloom_agg_chunks(name, null, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg_chunks(name, 5, null) from unnest('{ada}'::text[]) name;
select bloom_agg('n' || i, case when i < 3 then 100 else 200 end, 0.01, 'lower') from generate_series(1, 5) i;
select bloom_agg('n' || i, 100, 0.01 * i, 'lower') from generate_series(1, 5) i;
select bloom_agg('n' || i, 100, 0.01, case when i < 3 then 'lower' else 'none' end) from generate_series(1, 5) i;
select bloom_agg_chunks('n' || i, i, 'lower') from generate_series(1, 5) i;
select bloom_agg(name, 0, 0.01, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg(name, 100, 'NaN', 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg(name, 1e12, 0.01, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg(name, 100, 0.01, 'Lower') from unnest('{ada}'::text[]) name;
select bloom_agg_chunks(name, 0, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg_chunks(name, -1, 'lower') from unnest('{ada}'::text[]) name;
select bloom_agg_chunks(name, 262145, 'lower') from unnest('{ada}'::text[]) name;
-- A null value is a missing filter, and another shape is named.
select bloom_union_agg(v) from (values (bloom_empty(5)), (null)) s (v);
select bloom_union_agg(v) from (values (bloom_empty(5)), (bloom_empty(50))) s (v);

-- Large enough for the queue, with k that takes two digests, keys of every length and any content:
-- the bits of adding each.
create table agg_names as
select case when i % 97 = 0 then null when i % 31 = 0 then 'Žofie' || i when i % 101 = 0 then ''
            else rpad('Name' || i, 1 + i % 70, 'xyzw') end as name, i % 7 as g
from generate_series(1, 3000) i;
create function one_by_one(empty bloomfilter, out v bloomfilter) language plpgsql as $$
declare
    name text;
begin
    v := empty;
    for name in select a.name from agg_names a loop
        v := v + name;
    end loop;
end $$;
select (bloom_value_info(empty)).k, agg = one_by_one(empty) as equal
from (select bloom_agg(name, 20000, 1e-4, 'lower') agg, bloom_empty(20000, 1e-4) empty from agg_names
      union all select bloom_agg(name, 20000, 1e-9, 'none'), bloom_empty(20000, 1e-9, 'none') from agg_names
      union all select bloom_agg(name, 20000, 0.5, 'lower'), bloom_empty(20000, 0.5) from agg_names) s;

-- FILTER, DISTINCT, ORDER BY, GROUPING SETS: items in the filters of groups are those of their rows.
select g, (select count(*) from agg_names a where a.g = s.g and name is not null and not s.v @> name) as denied,
       s.v = s.ordered as ordered, s.filtered @> 'name1' as filtered,
       s.v = (select bloom_agg(name, 500, 0.001, 'lower') from agg_names a where a.g = s.g) as again
from (select g, bloom_agg(name, 500, 0.001, 'lower') v,
             bloom_agg(distinct name, 500, 0.001, 'lower' order by name) ordered,
             bloom_agg(name, 500, 0.001, 'lower') filter (where name <> 'Name1') filtered
      from agg_names group by g) s
order by g;
select g, bloom_union_agg(v) = (select bloom_agg(name, 3000, 0.01, 'lower') from agg_names) as whole,
       grouping(g)
from (select g, bloom_agg(name, 3000, 0.01, 'lower') v from agg_names group by g) s
group by grouping sets ((g), ()) order by grouping(g) desc, g limit 2;

-- Windows, with frames that grow and that move: each row's own answer, and what one row was given
-- does not change with the next.
select i, growing @> ('n' || i) as last, growing @> ('n' || i + 1) as next,
       moving = two as moving_right, united = growing as united
from (select i, bloom_agg('n' || i, 2000, 0.001, 'lower') over w as growing,
             bloom_union_agg(bloom_empty(2000, 0.001) + ('n' || i)) over w as united,
             bloom_agg('n' || i, 2000, 0.001, 'lower') over (order by i rows 1 preceding) as moving,
             bloom_empty(2000, 0.001) + ('n' || i) + case when i > 1 then 'n' || i - 1 end as two
      from generate_series(1, 5) i window w as (order by i)) s
order by i;
with kept as materialized (select i, bloom_agg_chunks('n' || i, 20, 'lower') over (order by i) v
                           from generate_series(1, 40) i)
select count(*) as pairs, count(*) filter (where v @> ('n' || j) <> (j <= i)) as wrong
from kept, generate_series(1, 40) j;
-- The final function twice for one state.
select bloom_agg(name, 500, 0.01, 'lower') = bloom_agg(name, 500, 0.01, 'lower') as equal,
       bloom_agg(name, 500, 0.01, 'lower') @> 'Name1' as contain from agg_names;
-- What an aggregate made lives on in every place it is put to.
create table agg_kept as select g, bloom_agg(name, 40000, 0.01, 'lower') v from agg_names group by g;
select count(*) as groups, count(*) filter (where v = (select bloom_agg(name, 40000, 0.01, 'lower')
                                                       from agg_names a where a.g = k.g)) as equal
from agg_kept k;
select count(*) as elements, bool_and(e = any (select v from agg_kept)) as equal
from unnest((select array_agg(v) from (select bloom_agg(name, 40000, 0.01, 'lower') v from agg_names group by g) s)) e;
do $$
declare
    v bloomfilter;
    w bloomfilter;
begin
    select bloom_agg(name, 40000, 0.01, 'lower') into v from agg_names;
    w := (select bloom_agg(name, 40000, 0.01, 'lower') from agg_names);
    if v <> w or not v @> 'Name1' or not (v + 'else') @> 'else' or w @> 'else' then raise 'wrong'; end if;
end $$;

-- Many groups in little memory.
set work_mem = '4MB';
select count(*) as groups, count(*) filter (where v @> ('n' || i)) as contained, sum(pg_column_size(v)) < 15000000 as small
from (select i, bloom_agg('n' || i, 50, 0.01, 'lower') v from generate_series(1, 100000) i group by i) g;
reset work_mem;

-- Parallel plans give the very bits of the serial one.
alter table agg_names set (parallel_workers = 2);
analyze agg_names;
create table agg_serial as
select bloom_agg(name, 20000, 1e-4, 'lower') a, bloom_agg_chunks(name, 300, 'none') c from agg_names;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
explain (costs off) select bloom_agg(name, 20000, 1e-4, 'lower') a from agg_names;
select p.a = s.a as agg, p.c = s.c as chunks
from (select bloom_agg(name, 20000, 1e-4, 'lower') a, bloom_agg_chunks(name, 300, 'none') c from agg_names) p, agg_serial s;
set parallel_leader_participation = off;
select p.a = s.a as agg, p.c = s.c as chunks
from (select bloom_agg(name, 20000, 1e-4, 'lower') a, bloom_agg_chunks(name, 300, 'none') c from agg_names) p, agg_serial s;
-- A worker that saw nothing (one page for two workers), and workers that saw only nulls.
create table agg_few (name text) with (parallel_workers = 2);
insert into agg_few values ('ada');
select bloom_agg(name, 5, 0.01, 'lower') = bloom_empty(5) + 'ada' as one_row from agg_few;
update agg_few set name = null;
insert into agg_few select null from generate_series(1, 10000);
select bloom_agg(name, 5, 0.01, 'lower') = bloom_empty(5) as nulls from agg_few;
truncate agg_few;
select bloom_agg(name, 5, 0.01, 'lower') is null as nothing from agg_few;
create table agg_values with (parallel_workers = 2) as
select bloom_empty(2000) + ('n' || i) v from generate_series(1, 500) i;
analyze agg_values;
explain (costs off) select bloom_union_agg(v) from agg_values;
select bloom_union_agg(v) = (select bloom_agg('n' || i, 2000, 0.01, 'lower') from generate_series(1, 500) i) as equal
from agg_values;
set enable_hashagg = off;
select count(*) as groups, count(*) filter (where v = (select bloom_agg(name, 40000, 0.01, 'lower')
                                                       from agg_names a where a.g = k.g)) as equal
from (select g, bloom_agg(name, 40000, 0.01, 'lower') v from agg_names group by g) k;
reset all;

drop table agg_names, agg_kept, agg_serial, agg_few, agg_values;
drop function one_by_one;
