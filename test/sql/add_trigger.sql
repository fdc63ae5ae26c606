-- bloom_add_trigger: what a table gets goes into a filter, in the same transaction.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
set search_path = '';  -- as in a worker of logical replication
create schema app;
create schema filters;
select public.bloom_create('filters.username_filter', 1000, ready => true);
create table app.users (id int primary key, username text);
create function app.maybes(variadic names text[]) returns text language sql as $$
    select pg_catalog.string_agg(name, ' ')
    from pg_catalog.unnest(names) name
    where public.bloom_might_contain('filters.username_filter', name)
$$;
create function app.tries(command text) returns text language plpgsql as $$
declare told text; told_detail text; told_hint text;
begin
    execute command;
    return 'done';
exception when others then
    get stacked diagnostics told = message_text, told_detail = pg_exception_detail,
                            told_hint = pg_exception_hint;
    return pg_catalog.concat_ws(e'\n', sqlstate || ' ' || told, told_detail, told_hint);
end $$;

-- For each row: inserts, updates, bulks. A null is nobody's name.
create trigger add_name after insert or update on app.users for each row
execute function public.bloom_add_trigger('filters.username_filter', 'username');
insert into app.users values (1, 'Ada'), (2, 'grace'), (3, null);
update app.users set username = 'linus' where id = 2;
select app.maybes('ada', 'grace', 'linus', 'nobody');
insert into app.users select i, 'bulk' || i from generate_series(101, 1100) i;
select count(*) as denied from app.users
where not public.bloom_might_contain('filters.username_filter', username);
-- Rolled back with its row, also in a subtransaction.
begin;
savepoint s;
insert into app.users values (4, 'gone');
rollback to s;
select app.maybes('gone', 'ada');
insert into app.users values (4, 'kept');
commit;
select app.maybes('gone', 'kept');
-- What is stored counts, not what was given: another trigger changes it, and an upsert.
create function app.prefix() returns trigger language plpgsql as $$
begin new.username := 'x-' || new.username; return new; end $$;
create trigger zz_prefix before insert or update on app.users for each row execute function app.prefix();
insert into app.users values (5, 'margaret') on conflict do nothing;
insert into app.users values (5, 'other') on conflict (id) do update set username = 'upserted';
select app.maybes('margaret', 'x-margaret', 'other', 'x-upserted');
drop trigger zz_prefix on app.users;
-- An update that leaves the name as it is adds it again: a filter that was rebuilt may lack it.
call public.bloom_rebuild('filters.username_filter', 'select ''ada''', grace => '0', min_share => 0);
select app.maybes('kept');
update app.users set id = 40 where username = 'kept';
select app.maybes('kept');

-- In the same transaction as hand-written adds, deferred, with a list of columns, with a condition.
drop trigger add_name on app.users;
create constraint trigger add_name after insert or update of username on app.users
deferrable initially deferred for each row when (new.username is not null)
execute function public.bloom_add_trigger('filters.username_filter', 'username');
begin;
insert into app.users values (6, 'late');
select app.maybes('late');
select public.bloom_add('filters.username_filter', 'late too');
commit;
select app.maybes('late', 'late too');
update app.users set username = 'later' where id = 6;
select app.maybes('late', 'later');
drop trigger add_name on app.users;

-- For each statement: one ordered call.
create trigger add_names after insert on app.users referencing new table as added
for each statement execute function public.bloom_add_trigger('filters.username_filter', 'username');
create trigger change_names after update on app.users referencing new table as changed
for each statement execute function public.bloom_add_trigger('filters.username_filter', 'username');
insert into app.users select i, 'many' || i from generate_series(2001, 4000) i union all select 4001, null;
insert into app.users select 1, 'none' where false;
update app.users set username = 'renamed' || id where id between 2001 and 2100;
select count(*) as denied from app.users
where (username like 'many%' or username like 'renamed%')
  and not public.bloom_might_contain('filters.username_filter', username);
copy app.users from stdin;
5001	copied
5002	\N
\.
select app.maybes('copied', 'nobody');
-- Beside a trigger that reads the same rows.
create function app.counts() returns trigger language plpgsql as $$
begin raise info '% rows', (select count(*) from added); return null; end $$;
create trigger a_counts after insert on app.users referencing new table as added
for each statement execute function app.counts();
create trigger z_counts after insert on app.users referencing new table as added
for each statement execute function app.counts();
insert into app.users values (5003, 'between'), (5004, 'them');
select app.maybes('between', 'them');
drop table app.users;

-- Columns of every type that is text, and rows that are large.
create domain app.username as text check (value <> '');
create table app.typed (v varchar(20), c char(20), n name, d app.username, t text, i int,
                        g text generated always as ('gen-' || v) stored);
create function app.add_column(name text) returns text language plpgsql as $$
begin
    execute format('create trigger %I after insert on app.typed for each row execute function '
                   'public.bloom_add_trigger(''filters.username_filter'', %L)', 'add_' || name, name);
    return 'trigger add_' || name;
end $$;
select app.add_column(name) from unnest('{v,c,n,d,t,g}'::text[]) name;
alter table app.typed alter t set storage external;
insert into app.typed values ('varchar', 'char', 'name', 'domain', repeat('t', 20000), 1);
select app.maybes('varchar', 'char', 'name', 'domain', 'gen-varchar');
select public.bloom_might_contain('filters.username_filter', repeat('t', 20000)) as large;
select app.add_column('i');
select app.tries($$insert into app.typed values ('a')$$);
drop table app.typed;

-- Partitions and children, by the parent and directly. Their columns are in another order.
create table app.users (id int, username text) partition by range (id);
create table app.users_0 (username text, dropped int, id int);
alter table app.users_0 drop dropped;
alter table app.users attach partition app.users_0 for values from (0) to (10);
create table app.users_1 partition of app.users for values from (10) to (20);
create trigger add_name after insert or update on app.users for each row
execute function public.bloom_add_trigger('filters.username_filter', 'username');
insert into app.users values (1, 'part0'), (11, 'part1');
insert into app.users_0 (id, username) values (2, 'direct');
update app.users set id = 12, username = 'moved' where id = 1;
select app.maybes('part0', 'part1', 'direct', 'moved');
drop trigger add_name on app.users;
create trigger add_names after insert on app.users referencing new table as added
for each statement execute function public.bloom_add_trigger('filters.username_filter', 'username');
insert into app.users values (3, 'all0'), (13, 'all1');
select app.maybes('all0', 'all1');
-- A statement trigger of the parent does not fire for its partition: use a row trigger.
insert into app.users_0 (id, username) values (4, 'missed');
select app.maybes('missed');
drop trigger add_names on app.users;
-- Nor does one of a partition or child fire for the parent, so it is refused at its first row.
create trigger add_names after insert on app.users_1 referencing new table as added
for each statement execute function public.bloom_add_trigger('filters.username_filter', 'username');
insert into app.users values (14, 'missed by the partition');
insert into app.users_1 values (15, 'missed');
drop table app.users;
create table app.users (username text);
create table app.users_0 () inherits (app.users);
create trigger add_names after update on app.users_0 referencing new table as added
for each statement execute function public.bloom_add_trigger('filters.username_filter', 'username');
insert into app.users_0 values ('child');
update app.users_0 set username = 'missed';
drop table app.users cascade;

-- What could miss names is refused, at the first row.
create table app.users (username text, email text);
create function app.fires(definition text, command text = $$insert into app.users values ('new')$$)
returns text language plpgsql as $$
begin
    execute 'create trigger add_name ' || definition;
    return app.tries(command);
end $$;
\pset format unaligned
\pset tuples_only on
create procedure app.refused(definition text, command text = $$insert into app.users values ('new')$$)
language plpgsql as $$
begin
    raise info e'%\n%\n', definition, app.fires(definition, command);
    rollback;
end $$;
\set VERBOSITY terse
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger()');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''f'')');
call app.refused('before insert on app.users for each row execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')');
call app.refused('before insert on app.users for each statement execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')');
call app.refused('after insert on app.users for each statement execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')');
call app.refused('after insert or delete on app.users for each row execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')');
call app.refused('after truncate on app.users for each statement execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')', 'truncate app.users');
call app.refused('after insert or update of email on app.users for each row execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''filters.username_filter'', ''Username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''filters.username_filter'', ''ctid'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''username_filter'', ''username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger('''', ''username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''filters.other'', ''username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''nowhere.username_filter'', ''username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''elsewhere.filters.username_filter'', ''username'')');
call app.refused('after insert on app.users for each row execute function public.bloom_add_trigger(''app.users'', ''username'')');
create view app.usernames as select * from app.users;
call app.refused('instead of insert on app.usernames for each row execute function public.bloom_add_trigger(''filters.username_filter'', ''username'')',
                 $$insert into app.usernames values ('new')$$);
select app.tries('select public.bloom_add_trigger()');
\set VERBOSITY default
\pset format aligned
\pset tuples_only off
select count(*) as rows from app.users;

-- A filter that is renamed or dropped stops the insert. It is never passed over, nor is a filter of
-- that name in the search path taken instead.
create trigger add_name after insert or update on app.users for each row
execute function public.bloom_add_trigger('Filters."username_filter"', 'username');
insert into app.users values ('folded');
select app.maybes('folded');
alter table filters.username_filter rename to old_filter;
create schema decoy;
select public.bloom_create('decoy.username_filter', 1000, ready => true);
set search_path = decoy, public;
insert into app.users values ('unlucky');
select bloom_might_contain('decoy.username_filter', 'unlucky') as decoy,
       bloom_might_contain('filters.old_filter', 'unlucky') as old;
reset search_path;
drop schema decoy cascade;
alter table filters.old_filter rename to username_filter;
alter table app.users rename username to login;
insert into app.users values ('unlucky');
alter table app.users rename login to username;

-- It runs with the rights of whoever writes, as bloom_add does.
create role bloom_app;
grant usage on schema app, filters to bloom_app;
grant insert, select on app.users to bloom_app;
set role bloom_app;
insert into app.users values ('by app');
reset role;
grant insert on filters.username_filter to bloom_app;
set role bloom_app;
insert into app.users values ('by app');
reset role;
grant select on filters.username_filter to bloom_app;
set role bloom_app;
insert into app.users values ('by app');
select bloom_might_contain('filters.username_filter', 'by app');
-- Who may not create triggers cannot make others add.
create trigger mine after insert on app.users for each row
execute function bloom_add_trigger('filters.username_filter', 'username');
reset role;
revoke usage on schema filters from bloom_app;
set role bloom_app;
insert into app.users values ('by app');
reset role;

-- A suspended filter takes names, without a word to whoever inserts.
set client_min_messages = notice;
select bloom_suspend('filters.username_filter');
insert into app.users values ('while suspended');
select bloom_resume('filters.username_filter') is not null as resumed;
select bloom_might_contain('filters.username_filter', 'while suspended');
set client_min_messages = warning;
drop schema app cascade;
drop schema filters cascade;
drop role bloom_app;
