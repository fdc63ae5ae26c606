-- Whatever is missing or is no filter is an error; never "no".
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
create table t (chunk int primary key, bits bit(8192) not null);
create view v as select * from t;
select bloom_might_contain('t', 'ada');
select bloom_might_contain('v', 'ada');
select bloom_might_contain('t_pkey', 'ada');
select bloom_might_contain('pg_class', 'ada');
select bloom_might_contain('nowhere', 'ada');
select bloom_might_contain(12::oid::regclass, 'ada');
select bloom_might_contain(0::regclass, 'ada');
select bloom_might_contain_many('t', '{ada}');
select bloom_add('t', 'ada');
select bloom_add_many('t', '{ada}');
select bloom_info('t');
select bloom_suspend('t');
select bloom_resume('t');
\set VERBOSITY sqlstate
select bloom_might_contain('t', 'ada');
select bloom_might_contain(null, 'ada');
select bloom_might_contain(12::oid::regclass, 'ada');
\set VERBOSITY default

-- A trigger of that name is no guard.
create function bloom_filter_lookalike() returns trigger language plpgsql as $$
begin return new; end $$;
create trigger bloom_filter before update or delete on t for each row
execute function bloom_filter_lookalike('layout=1', 'chunks=128');
alter table t enable always trigger bloom_filter;
select bloom_might_contain('t', 'ada');
drop table t cascade;
drop function bloom_filter_lookalike;

-- A filter that was spoiled since: what the shape forbids is refused at each use.
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
alter table f enable row level security;
select bloom_might_contain('f', 'bob');
alter table f disable row level security;
create index extra on f (bits);
select bloom_might_contain('f', 'bob');
drop index extra;
alter table f add column extra int;
select bloom_add('f', 'bob');
alter table f drop column extra;
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
alter table f disable trigger bloom_filter;
select bloom_might_contain('f', 'bob');
alter table f enable trigger bloom_filter;
select bloom_might_contain('f', 'bob');
alter table f enable always trigger bloom_filter;
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
alter table f drop constraint f_pkey;
select bloom_might_contain('f', 'bob');
alter table f add primary key (chunk);
select bloom_might_contain('f', 'ada'), bloom_might_contain('f', 'bob');
alter table f set unlogged;
select bloom_might_contain('f', 'bob');
alter table f set logged;
create rule r as on delete to f do instead nothing;
select bloom_might_contain('f', 'bob');
drop rule r on f;
alter table f disable trigger bloom_filter_truncate;
select bloom_might_contain('f', 'bob');
drop trigger bloom_filter_truncate on f;
select bloom_might_contain('f', 'bob');
drop trigger bloom_filter on f;
select bloom_might_contain('f', 'bob');
drop table f;
select bloom_might_contain('f', 'bob');

-- A statement that was prepared before the filter was dropped and made anew, with another
-- number of chunks.
select bloom_create('f', 1000, ready => true);
select bloom_add('f', 'ada');
prepare p as select bloom_might_contain('f', $1);
execute p('ada');
drop table f;
execute p('ada');
select bloom_create('f', 500000, ready => true);
execute p('ada');
select bloom_add('f', 'ada');
execute p('ada');
execute p('bob');
drop table f;
