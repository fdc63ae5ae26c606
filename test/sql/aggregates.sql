-- bloom_bits_agg and bloom_fp_rate: zero rows, nulls, windows, parallel.
select bloom_bits_agg(name) is null as none from unnest('{}'::text[]) name;
select bit_count(bloom_bits_agg(name)) as all_null from unnest(array[null, null]::text[]) name;
select bloom_bits_agg(name) = (0::bit(8192) + 'ada' + 'bob') as equal
from unnest(array[null, 'ada', null, 'bob', 'ADA']) name;
select bloom_fp_rate(bits) is null as none from (select 0::bit(8192) where false) c (bits);
select bloom_fp_rate(bits) is null as all_null from (values (null::bit(8192)), (null)) c (bits);
select bloom_fp_rate(bits) from (values (~0::bit(8192)), (null), (0::bit(8192))) c (bits);
select bloom_fp_rate(bits) = (7 / 8192.0::float8) ^ 7 as seven_bits
from (select 0::bit(8192) + 'ada') c (bits);
select bloom_fp_rate(b'101');

-- FILTER, DISTINCT, ORDER BY, GROUPING SETS.
select g, bit_count(bloom_bits_agg(name)), bit_count(bloom_bits_agg(distinct name order by name)),
       bit_count(bloom_bits_agg(name) filter (where name < 'n2'))
from (select i % 2 as g, 'n' || i % 10 as name from generate_series(1, 100) i) s
group by grouping sets ((g), ()) order by g;

-- As window aggregates, with frames that move: each row's own answer, and no row's state touched
-- by a later one.
select i, bit_count(growing) as growing, growing = lag_bits as as_before,
       moving = two as moving_right
from (select i, bloom_bits_agg('n' || i) over (order by i) as growing,
             bloom_bits_agg('n' || i) over (order by i rows 1 preceding) as moving,
             (0::bit(8192) + ('n' || i) + case when i > 1 then 'n' || i - 1 end) as two,
             (select bloom_bits_agg('n' || j) from generate_series(1, i) j) as lag_bits
      from generate_series(1, 5) i) w
order by i;
select i, round(rate::numeric, 6) as rate
from (select i, bloom_fp_rate(case i % 2 when 0 then ~0::bit(8192) else 0::bit(8192) end)
                    over (order by i rows between 1 preceding and 1 following) as rate
      from generate_series(1, 5) i) w
order by i;

-- Many groups in little memory.
set work_mem = '4MB';
select count(*), sum(bit_count(bits)) > 100000 * 6.9 as bits
from (select i, bloom_bits_agg('n' || i) as bits from generate_series(1, 100000) i group by i) g;
reset work_mem;

-- Parallel plans give the very bits of the serial one.
create table agg_names as
select 'name' || i as name, bloom_chunk('name' || i, 16) as chunk from generate_series(1, 20000) i;
insert into agg_names select null, 99 from generate_series(1, 100);
alter table agg_names set (parallel_workers = 2);
analyze agg_names;
create table agg_serial as select chunk, bloom_bits_agg(name) as bits from agg_names group by chunk;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
explain (costs off) select chunk, bloom_bits_agg(name) as bits from agg_names group by chunk;
create table agg_parallel as
select chunk, bloom_bits_agg(name) as bits from agg_names group by chunk;
select count(*), count(*) filter (where s.bits = p.bits) as equal
from agg_serial s join agg_parallel p using (chunk);
set enable_hashagg = off;
create table agg_sorted as
select chunk, bloom_bits_agg(name) as bits from agg_names group by chunk;
select count(*), count(*) filter (where s.bits = p.bits) as equal
from agg_serial s join agg_sorted p using (chunk);
alter table agg_serial set (parallel_workers = 2);
explain (costs off) select bloom_fp_rate(bits) from agg_serial;
select bloom_fp_rate(bits) as parallel from agg_serial \gset
set max_parallel_workers_per_gather = 0;
select abs(bloom_fp_rate(bits) / :'parallel'::float8 - 1) < 1e-12 as equal from agg_serial;
reset all;

-- Not to be called by hand.
select bloom_bits_agg_add(0::bit(8192), 'ada');
select bloom_fp_rate_add('{0,0,0}', 0::bit(8192));
-- Nor with a state of another shape: it is written in place.
create aggregate bad_state(bit) (sfunc = bloom_fp_rate_add, stype = float8[], initcond = '{}');
select bad_state(0::bit(8192));
create or replace aggregate bad_state(bit)
    (sfunc = bloom_fp_rate_add, stype = float8[], initcond = '{0,null,0}');
select bad_state(0::bit(8192));
create aggregate bad_chunk(text) (sfunc = bloom_bits_agg_add, stype = bit, initcond = '101');
select bad_chunk('ada');
drop aggregate bad_state(bit);
drop aggregate bad_chunk(text);
drop table agg_names, agg_serial, agg_parallel, agg_sorted;
