-- What is counted of a filter, wherever there is shared memory for it; nulls and no error where
-- there is none. What is counted exactly: test/t/025_counters.pl.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_might_contain('f', 'ada'), bloom_add('f', 'ada'), bloom_might_contain_many('f', '{ada,null,bob}');
select bloom_report_false_positive('f'), bloom_report_false_positive('f', 3);
-- Before PostgreSQL 17 it has to be preloaded.
select current_setting('server_version_num')::int >= 170000
       or current_setting('shared_preload_libraries') ~ 'bloomfilter' as counted \gset
select case when :'counted' then (lookups, maybes, adds, new_items, bulk_calls, errors, false_positives) = (3, 1, 1, 1, 1, 0, 4)
                                 and maybe_share = 1::float8 / 3 and measured_fp_rate = 4::float8 / 6
                                 and stats_since between now() - interval '1 hour' and now()
       else stats is not distinct from (null::bigint, null::bigint, null::float8, null::bigint, null::bigint,
                                        null::bigint, null::bigint, null::bigint, null::float8, null::timestamptz) end as as_expected
from bloom_stats('f') stats;
select v.lookups is not distinct from s.lookups and v.stats_since is not distinct from s.stats_since as same
from bloom_filters v, bloom_stats('f') s where v.filter = 'f'::regclass;
select bloom_stat_reset('f'), bloom_stat_reset(null);
select coalesce(lookups + adds + false_positives, 0) as zero, maybe_share, measured_fp_rate from bloom_stats('f');

-- What is not there.
select bloom_stats(null);
select bloom_stats(99999999::oid::regclass) is null as gone;
select bloom_stat_reset(99999999::oid::regclass);
select bloom_report_false_positive(null);
select bloom_report_false_positive('f', null);
select bloom_report_false_positive('f', 0);
select bloom_report_false_positive('pg_class');

-- Who may what.
create role regress_nobody;
create role regress_reader;
create role regress_monitor in role pg_monitor;
create role regress_owner;
grant select on f to regress_reader;
grant create on schema public to regress_owner;
alter table f owner to regress_owner;
set role regress_nobody;
select bloom_stats('f');
select bloom_stat_reset('f');
select bloom_stat_reset();
select bloom_report_false_positive('f');
set role regress_reader;
select count(*) from bloom_stats('f');
select bloom_report_false_positive('f');
select bloom_stat_reset('f');
set role regress_monitor;
select count(*) from bloom_stats('f');
select bloom_report_false_positive('f');
set role regress_owner;
select bloom_stat_reset('f');
select bloom_stat_reset();
reset role;
drop table f;
revoke create on schema public from regress_owner;
drop role regress_nobody, regress_reader, regress_monitor, regress_owner;
