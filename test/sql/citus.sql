-- A table that Citus manages has its rows in shards. Nothing of Citus is here but one row of its
-- catalog; test/citus.sh tests with Citus itself.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
create table by_hand (chunk int primary key, bits bit(8192) not null);

begin;
set local allow_system_table_mods = on;
create table pg_catalog.pg_dist_partition (
    logicalrelid regclass not null, partmethod "char" not null, partkey text,
    colocationid int not null default 0, repmodel "char" not null default 's');
-- Citus tells sessions that a table has changed; here this does.
create procedure citus_has(partmethod "char", colocationid int, repmodel "char") language sql as $$
    truncate pg_dist_partition;
    insert into pg_dist_partition
    select t, partmethod, null, colocationid, repmodel from unnest('{f, by_hand}'::regclass[]) t;
    alter table f set (fillfactor = 80);
$$;
savepoint s;
call citus_has('h', 1, 's');
select bloom_might_contain('f', 'bob');
rollback to s;
call citus_has('h', 1, 's');
select bloom_add('f', 'bob');
rollback to s;
call citus_has('h', 1, 's');
update f set bits = bits where chunk = 0;
rollback to s;
call citus_has('h', 1, 's');
select bloom_resume('f');
rollback to s;
call citus_has('n', 1, 's');
select bloom_might_contain('f', 'bob');
rollback to s;
call citus_has('n', 1, 't');
select bloom_might_contain('f', 'bob');
rollback to s;
call citus_has('n', 0, 's');
select bloom_might_contain('f', 'bob');
rollback to s;
call citus_has('h', 1, 's');
select bloom_register('by_hand', 'lower');
rollback to s;
call citus_has('h', 1, 's');
select status, advice from bloom_filters where filter = 'f'::regclass;
-- A catalog of another version: what it does not say is no reason to answer.
alter table pg_dist_partition drop partmethod, drop colocationid, drop repmodel;
alter table f set (fillfactor = 80);
select bloom_might_contain('f', 'bob');
rollback to s;
-- Citus is here and does not know the table.
alter table f set (fillfactor = 80);
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
rollback;

select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
drop table f, by_hand;
