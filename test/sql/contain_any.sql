-- Which of several filters may hold an item: a filter a shard, asked by one call.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create function make_shards() returns void language sql as $$
select bloom_create(format('users_%s_filter', i), 1000, ready => true),
       bloom_add_many(format('users_%s_filter', i)::regclass, array['both', 'user' || i])
from generate_series(0, 3) i $$;
select make_shards();

-- In the order given; twice if named twice; {} is definitely none.
select bloom_might_contain_any('{users_0_filter,users_1_filter,users_2_filter}', 'USER1');
select bloom_might_contain_any('{users_2_filter,users_0_filter,users_1_filter}', 'both');
select bloom_might_contain_any('{users_1_filter,users_0_filter,users_1_filter}', 'user1');
select bloom_might_contain_any('[5:6]={users_1_filter,users_2_filter}', 'both');
select bloom_might_contain_any('{users_0_filter,users_3_filter}', 'nobody');
-- As each filter alone answers, for many names and a filter that is full.
select bloom_create('saturated', 1000, ready => true);
update saturated set bits = ~0::bit(8192);
select count(*) as names, count(*) filter (where cardinality(one_call) > 1) as several,
       count(*) filter (where one_call is distinct from alone) as differ
from (select bloom_might_contain_any(filters, name) as one_call,
             array(select f from unnest(filters) with ordinality u(f, i)
                   where bloom_might_contain(f, name) order by i) as alone
      from (values ('{users_3_filter,saturated,users_0_filter,users_1_filter}'::regclass[])) v(filters),
           (select 'user' || i from generate_series(0, 3) i union all select 'both'
            union all select rpad('n' || i, 1 + i % 90, 'Žx') from generate_series(1, 2000) i) n(name)) s;
drop table saturated;

-- A null item gives null. What is not there must not read as free: no array, no element, no filter.
select bloom_might_contain_any('{users_0_filter}', null) is null as null_item;
select bloom_might_contain_any(null, 'user1');
select bloom_might_contain_any('{users_0_filter,null}', 'user1');
select bloom_might_contain_any('{null}', null);
select bloom_might_contain_any('{}', 'user1');
select bloom_might_contain_any('{}', null);
create table shards (filter regclass);
select bloom_might_contain_any(array(select filter from shards), 'user1');
insert into shards select format('users_%s_filter', i)::regclass from generate_series(0, 3) i;
select bloom_might_contain_any(array(select filter from shards order by 1), 'user3');
select bloom_might_contain_any('{{users_0_filter},{users_1_filter}}', 'user1');
select bloom_might_contain_any('{users_0_filter,pg_class}', 'user1');
select bloom_might_contain_any('{users_0_filter,4000000000}', 'user1');

-- A filter that was never loaded, or is suspended, is among the answers. It is told once.
reset client_min_messages;
select bloom_suspend('users_0_filter');
select bloom_might_contain_any('{users_0_filter,users_1_filter,users_2_filter}', 'nobody');
select bloom_might_contain_any('{users_1_filter,users_0_filter}', 'user1');
set client_min_messages = warning;
select bloom_resume('users_0_filter');
select bloom_create('unloaded', 1000);
reset client_min_messages;
select bloom_might_contain_any('{unloaded,users_1_filter}', 'nobody');
select bloom_might_contain_any('{users_1_filter,unloaded}', null);
set client_min_messages = warning;
drop table unloaded;

-- Mixed normalizations: each filter has its own key.
select bloom_create('as_is', 1000, normalization => 'none', ready => true);
select bloom_add_many('as_is', '{Ada,bob}'), bloom_add_many('users_0_filter', '{Ada,bob}');
select name, bloom_might_contain_any('{as_is,users_0_filter,as_is}', name)
from unnest('{Ada,ada,BOB,bob}'::text[]) name;
drop table as_is;

-- A normalization that has changed: only names beyond ASCII are maybe.
alter table users_2_filter disable trigger bloom_filter;
select format('create or replace trigger bloom_filter before update or delete on users_2_filter
               for each row execute function bloom_guard(%s)',
              string_agg(quote_literal(case when argument like 'canary=%' then 'canary=00000001'
                                            when argument like 'stamp=%' then 'stamp=another'
                                            else argument end), ', ' order by i)) as remake
from pg_trigger, unnest(string_to_array(encode(tgargs, 'escape'), '\000')) with ordinality a(argument, i)
where tgrelid = 'users_2_filter'::regclass and tgname = 'bloom_filter' and argument <> '' \gset
:remake;
alter table users_2_filter enable always trigger bloom_filter;
\set VERBOSITY sqlstate
select bloom_might_contain_any('{users_1_filter,users_2_filter}', 'nobody') as ascii,
       bloom_might_contain_any('{users_1_filter,users_2_filter}', 'Žofie') as beyond;
select bloom_might_contain_any('{users_1_filter,users_2_filter}', 'Žofie') as told_once;
\set VERBOSITY default
drop table users_2_filter;
-- A dropped filter is an error.
\set VERBOSITY sqlstate
select bloom_might_contain_any(array(select filter from shards), 'user3');
\set VERBOSITY default
delete from shards where filter not in (select oid from pg_class);
select bloom_might_contain_any(array(select filter from shards order by 1), 'user3');

-- A damaged one too, for the names that need the row that is lost.
alter table users_3_filter disable trigger bloom_filter;
delete from users_3_filter where chunk = bloom_chunk('user3', 128);
alter table users_3_filter enable always trigger bloom_filter;
select bloom_might_contain_any('{users_0_filter,users_3_filter}', 'user3');
select bloom_might_contain_any('{users_0_filter,users_3_filter}', 'user0');
drop table users_3_filter;

-- Every filter needs SELECT; one without it is an error, wherever it stands.
create role bloom_reader;
grant select on users_0_filter to bloom_reader;
set role bloom_reader;
select bloom_might_contain_any('{users_0_filter}', 'user0');
select bloom_might_contain_any('{users_0_filter,users_1_filter}', 'user0');
select bloom_might_contain_any('{users_1_filter,users_0_filter}', 'user0');
select bloom_might_contain_any('{users_1_filter}', null);
reset role;
grant select on users_1_filter to bloom_reader;
set role bloom_reader;
select bloom_might_contain_any('{users_0_filter,users_1_filter}', 'user0');
reset role;
revoke select on users_1_filter from bloom_reader;
set role bloom_reader;
select bloom_might_contain_any('{users_0_filter,users_1_filter}', 'user0');
reset role;
drop owned by bloom_reader;
drop role bloom_reader;

-- A prepared statement whose filters change, and are built again, renamed and replaced meanwhile.
prepare ask(regclass[], text) as select bloom_might_contain_any($1, $2);
set plan_cache_mode = force_generic_plan;
execute ask('{users_0_filter,users_1_filter}', 'user0');
execute ask('{users_1_filter}', 'user0');
execute ask('{users_1_filter,users_0_filter}', 'both');
select array['users_0_filter'::regclass, 'users_1_filter'::regclass]::oid[] as both \gset
prepare ask_both(text) as select bloom_might_contain_any(:'both'::oid[]::regclass[], $1);
execute ask_both('new');
call bloom_rebuild('users_1_filter', 'select ''new''', grace => '0', min_share => 0);
execute ask_both('new');
execute ask_both('user1');
call bloom_grow('users_0_filter');
execute ask_both('user0');
alter table users_0_filter rename to renamed;
execute ask_both('user0');
-- Rows in no order are found through the index, then by memory.
cluster renamed using users_0_filter_pkey;
alter table renamed disable trigger bloom_filter;
create table moved as table renamed;
delete from renamed;
insert into renamed select * from moved order by random();
alter table renamed enable always trigger bloom_filter;
execute ask_both('user0');
execute ask_both('user0');
execute ask_both('nobody');
drop table moved;

-- It sees what its transaction added, and rolled back.
begin;
select bloom_add('users_1_filter', 'mine'), bloom_might_contain_any('{users_1_filter,renamed}', 'mine');
savepoint s;
select bloom_add('renamed', 'mine'), bloom_might_contain_any('{users_1_filter,renamed}', 'mine');
rollback to s;
select bloom_might_contain_any('{users_1_filter,renamed}', 'mine');
commit;

-- The locks of all filters are kept to the end of the transaction, also where a cursor that took
-- them fails in a savepoint: the abort releases its locks, and the next check takes them again.
create function locked() returns bigint language sql as $$
select count(*) from pg_locks
where pid = pg_backend_pid() and mode = 'AccessShareLock'
  and relation in ('renamed'::regclass, 'users_1_filter'::regclass) $$;
begin;
declare c cursor for
    select bloom_might_contain_any('{users_1_filter,renamed}', 'n' || 1 / (2 - i))
    from generate_series(1, 2) i;
fetch 1 from c;
select locked();
savepoint s;
fetch 1 from c;
rollback to s;
select locked() as released;
select bloom_might_contain_any('{users_1_filter,renamed}', 'nobody');
select locked();
commit;
select locked();

-- A filter that is given very often takes the server quadratic time. It can be canceled meanwhile.
select clock_timestamp() as began \gset
set statement_timeout = '200ms';
select bloom_might_contain_any(array_fill('renamed'::regclass, '{200000}'), 'mine');
reset statement_timeout;
select clock_timestamp() - :'began' < interval '5 s' as soon;

-- In parallel workers.
create table names as select 'p' || i as name from generate_series(1, 20000) i;
alter table names set (parallel_workers = 2);
analyze names;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
select bloom_create('p', 20000, ready => true);
begin;
select bloom_add_many('p', array(select name from names)) > 19000 as added;
explain (costs off) select count(*) from names
where bloom_might_contain_any('{p,users_1_filter}', name) = '{}';
select count(*) as denied from names where bloom_might_contain_any('{p,users_1_filter}', name) = '{}';
commit;
drop table names, p, renamed, users_1_filter, shards;
drop function make_shards, locked;
