-- bloom_info and bloom_filters on chunks that hold more items than chance gives them, or fewer.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
-- Names that an attacker has chosen: all of them go to chunk 17.
create table users as select 'user' || i as username from generate_series(1, 60000) i;
create table mined as
select username from (select 'mined' || i as username from generate_series(1, 300000) i) names
where bloom_chunk(username, 128) = 17 limit 2000;
select count(*) as mined from mined;

-- Names as they come: neither, also not after growing, folding and merging.
select bloom_create('f', 120000, chunks => 128, source => 'select username from users');
select status, advice, items_error < 0.001 as items_error, note from bloom_filters;
call bloom_grow('f');
select status, chunks from bloom_info('f');
select bloom_create('folded', 120000, chunks => 128, ready => true);
select bloom_merge('folded', bloom_value('f')) > 0 as merged;
-- The merge has left a dead version of each row, so some servers call it too large.
select status like 'ready%' as ready from bloom_info('folded');
drop table folded, f;

-- Skewed: checks still answer, but the chunk is of little use.
select bloom_create('f', 120000, chunks => 128, source => 'select username from users');
select bloom_add_many('f', array(select username from mined)) > 1500 as added;
select status, advice, worst_chunk, round(worst_fill::numeric ^ 7, 2) as worst_rate from bloom_info('f');
select status, advice is not null as advice from bloom_filters;
select advice from bloom_info('f') \gset
call bloom_rebuild('f', 'select username from users union all table mined',
                   capacity => regexp_replace(:'advice', '.*=> |\)', '', 'g')::float8, grace => '0');
select status, advice, worst_fill ^ 7 <= target_fp_rate as as_promised from bloom_info('f');
-- One more name than others in an almost empty filter is chance.
select bloom_create('few', 100000, ready => true);
select bloom_add_many('few', '{ada}');
select status from bloom_info('few');
select bloom_add_many('few', array(select username from mined limit 100)) > 90 as added;
select status, advice from bloom_info('few');
-- Chunks that were filled do not make the others seem to lack bits.
select bloom_create('full', 120000, chunks => 128, source => 'select username from users');
update "full" set bits = ~0::bit(8192) where chunk < 10;
select status from bloom_info('full');
-- The view's sample may miss a chunk, and says so.
select bloom_create('wide', 1000000, chunks => 1000, source => 'select username from users');
select bloom_add_many('wide', array(select username from (select 'mined' || i as username from generate_series(1, 600000) i) names
                                    where bloom_chunk(username, 1000) = 17)) > 400 as added;
select status from bloom_info('wide');
select status, note from bloom_filters where filter = 'wide'::regclass;
drop table f, few, "full", wide;

-- Damaged: bits of a chunk were lost, and its names are denied.
select bloom_create('f', 120000, chunks => 128, source => 'select username from users');
create function lose(filter regclass, condition text) returns void language plpgsql as $$
begin
    execute format('alter table %s disable trigger bloom_filter', filter);
    execute format('update %s set bits = 0::bit(8192) where %s', filter, condition);
    execute format('alter table %s enable always trigger bloom_filter', filter);
end $$;
select lose('f', 'chunk = 5');
select count(*) > 400 as denied from users where not bloom_might_contain('f', username);
select status, advice, items < items_at_build as items, full_on from bloom_info('f');
select status, advice from bloom_filters;
select bloom_suspend('f');
select count(*) as denied from users where not bloom_might_contain('f', username);
select status, advice from bloom_info('f');
select bloom_resume('f');
select bloom_add_many('f', array(select username from users));  -- it counts none while suspended
select status, advice from bloom_info('f');
select bloom_resume('f');
select status from bloom_info('f');
-- Bits that were lost in more than half of the chunks, or in all.
select lose('f', 'chunk < 100');
select status, advice from bloom_info('f');
select lose('f', 'true');
select status, items from bloom_info('f');
-- Chunks of few items cannot be compared with each other, but with what was there at the build.
select bloom_create('small', 10000, source => 'select username from users limit 1000');
select lose('small', 'chunk = 5');
select status from bloom_info('small');
-- A filter that is being loaded by hand lacks bits until that is done, and denies nothing.
select bloom_create('loading', 120000, chunks => 128);
select bloom_add_many('loading', array(select username from users where bloom_chunk(username, 128) <> 5));
select status, advice from bloom_info('loading');
select bloom_resume('loading');
drop table f, small, loading;
drop function lose;

-- full_on: the day when the target rate is crossed, by the growth since the build.
create function aged(filter regclass, age interval) returns void language plpgsql as $$
begin
    execute regexp_replace(replace(pg_get_triggerdef(oid), 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER'),
                           'built_at=-?\d+', format('built_at=%s', extract(epoch from now() - age)::bigint))
    from pg_trigger where tgrelid = filter and tgname = 'bloom_filter';
    execute format('alter table %s enable always trigger bloom_filter', filter);
end $$;
select bloom_create('f', 120000, 0.01, source => 'select username from users limit 20000');
select items_at_target > 120000 as enough, bloom_expected_fp_rate(items_at_target, chunks) <= 0.01 as below,
       bloom_expected_fp_rate(items_at_target + 1, chunks) > 0.01 as above from bloom_info('f');
select aged('f', '10 days');
select full_on from bloom_info('f');  -- no growth
select bloom_add_many('f', array(select username from users limit 60000)) > 30000 as added;
-- 40,000 in ten days, so fifteen days and a half for the 62,000 that are left.
select full_on - current_date between 15 and 16 as days from bloom_info('f');
select full_on - current_date between 15 and 16 as days from bloom_filters;
select aged('f', '20 hours');
select full_on from bloom_info('f');
select aged('f', '500 years');
select full_on from bloom_info('f');
select aged('f', '10 days');
select bloom_suspend('f');
select full_on from bloom_info('f');
select bloom_resume('f');
-- Twice the chunks, so twice the items: the copies count as items, the growth is that of the names.
call bloom_grow('f');
select full_on - current_date between 30 and 32 as days from bloom_info('f');
-- Crossed already: today.
select bloom_add_many('f', array(select 'more' || i from generate_series(1, 150000) i)) > 0 as added;
select full_on = current_date as today, status from bloom_info('f');
drop table f;
drop function aged;

-- Members of pg_monitor see the figures of every filter, and can ask for no name.
create role bloom_monitor in role pg_monitor;
create role bloom_outsider noinherit in role pg_monitor;
select bloom_create('f', 1000, ready => true);
set role bloom_monitor;
select filter, status, items from bloom_filters;
select status, items, bytes between bytes_when_made and 2 * bytes_when_made as as_made from bloom_info('f');
select status from bloom_info_sampled('f', 10);
select bloom_might_contain('f', 'ada');
select bloom_value('f');
select count(*) from f;
select bloom_suspend('f');
-- Without the privileges of the role, not.
set role bloom_outsider;
select count(*) from bloom_filters;
select bloom_info('f');
select status from bloom_info_sampled('f', 10);
reset role;
drop role bloom_monitor, bloom_outsider;
drop table f, users, mined;
