-- One filter that cannot be read keeps no other's row out of bloom_filters: it has a row that says
-- what is the matter.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create(name, 1000, ready => true) from unnest('{a,b,c,d,z}'::text[]) name;

-- b: a chunk that is stored compressed.
create table wide (chunk int, bits bit(8192), pad text);
alter table wide alter bits set storage main, alter pad set storage plain;
insert into wide values (0, 0::bit(8192), repeat('x', 3000));
select pg_column_size(bits) < 500 as compressed from wide;
alter table b disable trigger bloom_filter;
delete from b where chunk = 0;
alter table b enable always trigger bloom_filter;
insert into b select chunk, bits from wide;
-- c: one row a page, and settings and a last row of the most chunks there can be.
create table rows as select * from c;
alter table c disable trigger bloom_filter_truncate;
truncate c;
alter table c enable always trigger bloom_filter_truncate;
alter table c set (fillfactor = 12);
insert into c select * from rows order by chunk;
insert into c select 2147483646, bits from rows limit 1;
do $$ begin
    execute replace(replace(pg_get_triggerdef(oid), 'chunks=128', 'chunks=2147483647'),
                    'CREATE', 'CREATE OR REPLACE')
    from pg_trigger where tgrelid = 'c'::regclass and tgname = 'bloom_filter';
end $$;
alter table c enable always trigger bloom_filter;
-- d: settings that are not ours.
do $$ begin
    execute replace(replace(pg_get_triggerdef(oid), 'layout=1', 'layout=2'),
                    'CREATE', 'CREATE OR REPLACE')
    from pg_trigger where tgrelid = 'd'::regclass and tgname = 'bloom_filter';
end $$;
alter table d enable always trigger bloom_filter;

select filter, status, advice, chunks from bloom_filters order by filter::text;
-- The exact one says the same of a chunk; of what is no filter it is an error.
select status, advice, chunks_read from bloom_info('b');
select status, advice, chunks_read from bloom_info('c');
select status from bloom_info('d');
-- Checks, of course, are errors.
select bloom_might_contain('c', 'nobody');

-- Without the privilege the view has no row; asked for by name there is a row that says so.
create role bloom_nobody;
set role bloom_nobody;
select count(*) from bloom_filters;
select filter, status, advice, chunks from bloom_info_sampled('a', 256);
select bloom_info_sampled(99999999::oid::regclass, 1) is null as gone;
reset role;
drop role bloom_nobody;
-- A cancel is a cancel.
\set VERBOSITY terse
begin;
savepoint s;
set local statement_timeout = '20ms';
do $$ begin loop perform count(status) from bloom_filters; end loop; end $$;
rollback to s;
select count(*) from bloom_filters;
commit;
\set VERBOSITY default

-- A table that takes over twice the room it should.
alter table z set (autovacuum_enabled = false);
select status, advice from bloom_info('z');
begin;
update z set bits = bits;
update z set bits = bits;
commit;
select status, advice from bloom_info('z');
select status, advice from bloom_filters where filter = 'z'::regclass;
cluster z using z_pkey;
select status, advice from bloom_info('z');
drop table a, b, c, d, z, wide, rows;
