-- bloom_info and bloom_filters.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 20000, 0.01, ready => true, chunks => 1000);
select bloom_add_many('f', array(select 'user' || i from generate_series(1, 10000) i)) > 9900 as added;
\x
select filter, status, advice, chunks, normalization, capacity, abs(items - 10000) < 100 as items,
       round(saturation::numeric, 1) as saturation, target_fp_rate, fp_rate < 1e-8 as fp_rate,
       round(fill::numeric, 3) as fill, worst_chunk between 0 and 999 as worst,
       worst_fill > fill as worst_fill, chunks_read, bytes > 1400000 as bytes,
       age < '1 hour' as age, built_at <= now() as built, items_at_build
from bloom_info('f');
select filter, status, advice, chunks, normalization, capacity, abs(items - 10000) < 2000 as items,
       target_fp_rate, fp_rate < 1e-8 as fp_rate, chunks_read
from bloom_filters where filter = 'f'::regclass;
\x
select (select fp_rate from bloom_info('f')) = bloom_fp_rate(bits) as same_rate,
       round((select fill from bloom_info('f'))::numeric, 12)
       = round(avg(bit_count(bits) / 8192.0), 12) as same_fill,
       (select worst_fill from bloom_info('f')) = max(bit_count(bits)) / 8192.0 as same_worst
from f;
-- The two have the same columns.
select attname from pg_attribute
where attrelid = 'bloom_filters'::regclass and attnum > 0
except select unnest(proargnames) from pg_proc where proname in ('bloom_info', 'bloom_stats');

-- Advice.
select bloom_create('small', 1000, ready => true);
select status, advice from bloom_info('small');
select bloom_add_many('small', array(select 'user' || i from generate_series(1, 900) i)) > 0 as added;
select round(saturation::numeric, 1) as saturation, status, advice from bloom_info('small');
select bloom_add_many('small', array(select 'more' || i from generate_series(1, 900) i)) > 0 as added;
select round(saturation::numeric, 1) as saturation, status, advice from bloom_info('small');
-- A full filter is counted for what it can tell.
update small set bits = ~0::bit(8192);
select fill, fp_rate, items > 100000 as items, status, advice from bloom_info('small');

-- The view lives with filters that were dropped, damaged or are no filter.
alter table small disable trigger bloom_filter;
select filter, status, advice, chunks from bloom_filters order by filter::text;
drop table small;
select filter, status from bloom_filters;
drop table f;
select count(*) from bloom_filters;
