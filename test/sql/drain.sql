-- bloom_drain: names wait in a plain table, and move into the filter in one transaction.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('username_filter', 1000, ready => true);
create table username_feed (username text);
select bloom_drain('username_filter', 'username_feed') as of_empty;
insert into username_feed values ('Ada'), ('grace'), ('ada'), (null);
select bloom_might_contain('username_filter', 'ada') as before;
select bloom_drain('username_filter', 'username_feed');
select bloom_might_contain_many('username_filter', '{ada,grace,nobody}'), (select count(*) from username_feed);
select bloom_drain('username_filter', 'username_feed');

-- In parts.
insert into username_feed select 'name' || i from generate_series(1, 2500) i;
select bloom_drain('username_filter', 'username_feed', 1000),
       (select count(*) from username_feed) as seen_by_this_statement;
select count(*) from username_feed;
select bloom_drain('username_filter', 'username_feed', max_rows => 1000);
select bloom_drain('username_filter', 'username_feed', 1000);
select bloom_drain('username_filter', 'username_feed', 1000);
select count(*) as denied from generate_series(1, 2500) i
where not bloom_might_contain('username_filter', 'name' || i);

-- All or nothing.
begin;
insert into username_feed values ('mine');
select bloom_drain('username_filter', 'username_feed') as own_rows;
select bloom_might_contain('username_filter', 'mine') as mine, (select count(*) from username_feed) as waiting;
rollback;
insert into username_feed values ('rolled back');
begin;
select bloom_drain('username_filter', 'username_feed');
rollback;
select * from username_feed;
select bloom_might_contain('username_filter', 'rolled back') as denied_so_far;
-- Twice in one statement, at each isolation level.
select bloom_drain('username_filter', 'username_feed', 1), bloom_drain('username_filter', 'username_feed') as again;
insert into username_feed values ('one'), ('two');
begin isolation level serializable;
select bloom_drain('username_filter', 'username_feed', 1), bloom_drain('username_filter', 'username_feed') as again;
commit;
select bloom_might_contain_many('username_filter', '{one,two}');
select bloom_might_contain('username_filter', 'rolled back');

-- Large names, and the other text types.
create table feed_v (dropped int, username varchar);
alter table feed_v drop dropped;
alter table feed_v alter username set storage external;
insert into feed_v values (repeat('v', 30000)), ('varchar');
select bloom_drain('username_filter', 'feed_v'), bloom_might_contain('username_filter', repeat('v', 30000));
create table feed_n (username name);
insert into feed_n values ('of type name');
select bloom_drain('username_filter', 'feed_n'), bloom_might_contain('username_filter', 'of type name');
drop table feed_v, feed_n;

-- Duplicates and names that are in already.
insert into username_feed select 'ada' from generate_series(1, 100);
select bloom_drain('username_filter', 'username_feed');
-- A suspended filter, and one that was never loaded.
select bloom_suspend('username_filter');
insert into username_feed values ('while suspended');
select bloom_drain('username_filter', 'username_feed');
select bloom_resume('username_filter') is not null as resumed;
select bloom_might_contain('username_filter', 'while suspended');

-- What would lose names, or never add them, is no queue.
\set VERBOSITY sqlstate
\set SHOW_CONTEXT never
select bloom_drain('username_filter', null);
select bloom_drain(null, 'username_feed');
\set VERBOSITY default
select bloom_drain('username_filter', 'username_feed', null);
select bloom_drain('username_filter', 'username_feed', 0);
select bloom_drain('username_feed', 'username_feed');
select bloom_drain('username_filter', 'username_filter');
select bloom_drain('username_filter', 4000000000::oid::regclass);
create table refused (a text, b text);
select bloom_drain('username_filter', 'refused');
alter table refused drop a, drop b;
select bloom_drain('username_filter', 'refused');
alter table refused add number int;
select bloom_drain('username_filter', 'refused');
drop table refused;
create unlogged table refused (username text);
select bloom_drain('username_filter', 'refused');
drop table refused;
create temporary table refused (username text);
select bloom_drain('username_filter', 'refused');
drop table refused;
create view refused as select * from username_feed;
select bloom_drain('username_filter', 'refused');
drop view refused;
create table refused (username text) partition by list (username);
select bloom_drain('username_filter', 'refused');
drop table refused;
create table refused (username text);
create table child () inherits (refused);
select bloom_drain('username_filter', 'refused');
drop table child;
alter table refused enable row level security;
select bloom_drain('username_filter', 'refused');
alter table refused disable row level security;
create function steal() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger steal before delete on refused for each row execute function steal();
select bloom_drain('username_filter', 'refused');
drop trigger steal on refused;
create rule steal as on delete to refused do instead nothing;
select bloom_drain('username_filter', 'refused');
drop rule steal on refused;
alter table refused add primary key (username);
create table refers (username text references refused);
select bloom_drain('username_filter', 'refused');
drop table refers;
-- A key does no harm.
insert into refused values ('with a key');
select bloom_drain('username_filter', 'refused'), bloom_might_contain('username_filter', 'with a key');
drop table refused;
drop function steal;
create foreign data wrapper nothing;
create server nowhere foreign data wrapper nothing;
create foreign table refused (username text) server nowhere;
select bloom_drain('username_filter', 'refused');
drop foreign data wrapper nothing cascade;
begin read only;
select bloom_drain('username_filter', 'username_feed');
rollback;

-- Who drains needs SELECT and DELETE on the queue, SELECT and INSERT on the filter.
create role bloom_drainer;
insert into username_feed values ('by drainer');
grant select, insert on username_filter to bloom_drainer;
set role bloom_drainer;
select bloom_drain('username_filter', 'username_feed');
reset role;
grant select on username_feed to bloom_drainer;
set role bloom_drainer;
select bloom_drain('username_filter', 'username_feed');
reset role;
grant delete on username_feed to bloom_drainer;
revoke insert on username_filter from bloom_drainer;
set role bloom_drainer;
select bloom_drain('username_filter', 'username_feed');
reset role;
grant insert on username_filter to bloom_drainer;
set role bloom_drainer;
select bloom_drain('username_filter', 'username_feed'), bloom_might_contain('username_filter', 'by drainer');
reset role;

-- The plain statement does the same, without a limit.
insert into username_feed values ('plain'), ('statement');
with drained as (delete from username_feed returning username)
select bloom_add_many('username_filter', array_agg(username)) from drained;
select bloom_might_contain_many('username_filter', '{plain,statement}'), (select count(*) from username_feed);
with drained as (delete from username_feed returning username)
select bloom_add_many('username_filter', array_agg(username)) is null as of_empty from drained;
drop table username_filter, username_feed;
drop role bloom_drainer;
