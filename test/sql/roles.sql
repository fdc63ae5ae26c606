-- What each call needs, as docs/operations.md has it in "Roles and grants": every subset of the
-- privileges on a filter is tried with every call. Shown are differences and counts.
set client_min_messages = warning;
create role bloom_owner;
create role bloom_app;
create schema own authorization bloom_owner;
grant usage on schema own to public;
set role bloom_owner;
select bloom_create('own.f', 1000, source => 'values (''ada'')');
create table own.hand (chunk int primary key, bits bit(8192) not null);
insert into own.hand select c, 0::bit(8192) from generate_series(0, 127) c;
create table own.queue (name text);
insert into own.queue values ('eve');
create table own.users (name text);
create trigger add_name after insert on own.users for each row
execute function bloom_add_trigger('own.f', 'name');
grant select, delete on own.queue to public;
grant insert on own.users to public;
reset role;

-- The routines that take a filter, with a call of each. %s stands for the filter.
create table calls (routine regprocedure, needs text, call text);
insert into calls values
    ('bloom_might_contain(regclass, text)', 'select', 'bloom_might_contain(%s, ''ada'')'),
    ('bloom_might_contain_many(regclass, text[])', 'select', 'bloom_might_contain_many(%s, ''{ada}'')'),
    ('bloom_might_contain_any(regclass[], text)', 'select', 'bloom_might_contain_any(array[%s::regclass], ''ada'')'),
    ('bloom_value(regclass)', 'select', 'bloom_value(%s)'),
    ('bloom_report_false_positive(regclass, bigint)', 'select', 'bloom_report_false_positive(%s)'),
    ('bloom_info(regclass)', 'select or monitor', 'bloom_info(%s)'),
    ('bloom_info_sampled(regclass, int)', 'select or monitor', 'look_at(%s)'),
    ('bloom_stats(regclass)', 'select or monitor', 'bloom_stats(%s)'),
    ('bloom_add(regclass, text)', 'select and insert', 'bloom_add(%s, ''bob'')'),
    ('bloom_add_many(regclass, text[])', 'select and insert', 'bloom_add_many(%s, ''{bob}'')'),
    ('bloom_merge(regclass, bloomfilter)', 'select and insert', 'bloom_merge(%s, bloom_agg_chunks(''bob'', 128, ''lower''))'),
    ('bloom_drain(regclass, regclass, int)', 'select and insert', 'bloom_drain(%s, ''own.queue'')'),
    ('bloom_add_trigger()', 'select and insert', 'write_user(''bob'')'),
    ('bloom_suspend(regclass)', 'ownership', 'bloom_suspend(%s)'),
    ('bloom_resume(regclass, boolean)', 'ownership', 'bloom_resume(%s)'),
    ('bloom_stat_reset(regclass)', 'ownership', 'bloom_stat_reset(%s)'),
    ('bloom_register(regclass, text, float8, float8, text[])', 'ownership', 'bloom_register(''own.hand'', ''lower'')'),
    ('bloom_rebuild(regclass, text, float8, float8, interval, float8)', 'ownership, called below', null),
    ('bloom_grow(regclass)', 'ownership, called below', null),
    ('bloom_create(text, float8, float8, text, text, boolean, int)', 'create on the schema, called below', null),
    ('bloom_guard()', 'nothing: whoever may update', null),
    -- The view, as a call.
    ('bloom_info_sampled(regclass, int)', 'select or monitor', 'look_in_view(%s)');
-- A new routine needs an entry here, and in the manual. Who sees what of bloom_progress, which takes no
-- filter: progress.sql.
select p.oid::regprocedure as missing
from pg_proc p join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid
     join pg_extension e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
where e.extname = 'bloomfilter' and d.deptype = 'e' and p.oid not in (select routine from calls)
  and (proargtypes::oid[] && '{regclass,_regclass}'::regtype[]::oid[] or prorettype = 'trigger'::regtype
       or proargnames[1:pronargs] && '{filter,filters}');
select c.oid::regclass as missing
from pg_class c join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid
     join pg_extension e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
where e.extname = 'bloomfilter' and d.deptype = 'e' and c.oid <> all ('{bloom_filters,bloom_progress}'::regclass[]);

-- A refusal of these two is no error.
create function look_at(filter regclass) returns text language plpgsql as $$
begin
    if (select status from bloom_info_sampled(filter, 1000)) = 'not readable: permission denied' then
        raise insufficient_privilege;
    end if;
    return 'seen';
end $$;
create function look_in_view(wanted regclass) returns text language plpgsql as $$
begin
    if not exists (select from bloom_filters where filter = wanted) then raise insufficient_privilege; end if;
    return 'seen';
end $$;
create function write_user(name text) returns void language sql as 'insert into own.users values ($1)';
-- Calls as a role, and takes back what the call did.
create function try_as(role name, call text) returns text language plpgsql as $$
begin
    perform set_config('role', role, true);
    execute 'select ' || call;
    raise exception using errcode = 'BF000';
exception
    when sqlstate 'BF000' then return 'ok';
    when insufficient_privilege then return 'refused';
    when others then return sqlerrm;
end $$;

-- 256 subsets: seven privileges, and grants on columns alone, which do not count. MAINTAIN, where
-- there is one, goes with those.
create table tried as
select 0 as subset, ''::text as granted, null::regprocedure as routine, ''::text as needs, ''::text as outcome limit 0;
do $$
declare
    privileges text[] := '{select,insert,update,delete,truncate,references,trigger}';
    maintain text := case when current_setting('server_version_num')::int >= 170000 then ', maintain' else '' end;
    granted text;
begin
    for subset in 0..255 loop
        execute 'revoke all on own.f from bloom_app';
        granted := (select string_agg(p, ',') from unnest(privileges) with ordinality u (p, i)
                    where subset >> (i - 1)::int & 1 = 1);
        if granted is not null then execute format('grant %s on own.f to bloom_app', granted); end if;
        if subset >= 128 then
            execute format('grant select (chunk, bits), insert (chunk, bits), update (bits),
                            references (chunk)%s on own.f to bloom_app', maintain);
        end if;
        insert into tried
        select subset, coalesce(granted, ''), routine, needs, try_as('bloom_app', format(call, quote_literal('own.f')))
        from calls where call is not null;
    end loop;
end $$;
select count(distinct subset) as subsets, count(distinct routine) as routines,
       count(*) filter (where outcome = 'ok') as allowed,
       count(*) filter (where outcome = 'refused') as refused,
       count(*) filter (where outcome not in ('ok', 'refused')) as other
from tried;
select * from tried
where outcome <> case when needs ~ '^select' and granted !~ 'select' or needs ~ 'insert' and granted !~ 'insert'
                           or needs = 'ownership' then 'refused' else 'ok' end
order by subset, routine::text collate "C";
-- A drain reads and empties its queue.
grant select, insert on own.f to bloom_app;
revoke all on own.queue from public;
create table drained (subset int, outcome text);
do $$
begin
    for subset in 0..7 loop
        execute 'revoke all on own.queue from bloom_app';
        if subset & 1 = 1 then execute 'grant select on own.queue to bloom_app'; end if;
        if subset & 2 = 2 then execute 'grant delete on own.queue to bloom_app'; end if;
        if subset & 4 = 4 then execute 'grant insert, update, truncate on own.queue to bloom_app'; end if;
        insert into drained values (subset, try_as('bloom_app', 'bloom_drain(''own.f'', ''own.queue'')'));
    end loop;
end $$;
select outcome, array_agg(subset order by subset) as subsets from drained group by outcome order by outcome;
grant select, delete on own.queue to public;
revoke all on own.f from bloom_app;

-- Who else may do what. A need that only a part of its calls grants would be a difference.
create role bloom_member in role bloom_owner;
create role bloom_no_inherit noinherit in role bloom_owner;
create role bloom_super superuser;
create role bloom_monitor in role pg_monitor;
create role bloom_stats_reader in role pg_read_all_stats;
create role bloom_reads_all in role pg_read_all_data;
create role bloom_writes_all in role pg_write_all_data;
create role bloom_reads_and_writes in role pg_read_all_data, pg_write_all_data;
create role bloom_bypass bypassrls;
create role bloom_has_all;
grant all on own.f to bloom_has_all;
select r as role, string_agg(distinct needs, ', ' order by needs) filter (where outcome = 'ok') as allowed
from unnest('{bloom_owner,bloom_member,bloom_no_inherit,bloom_super,bloom_monitor,bloom_stats_reader,bloom_reads_all,
              bloom_writes_all,bloom_reads_and_writes,bloom_bypass,bloom_has_all}'::name[]) with ordinality r (r, i),
     calls, try_as(r, format(call, quote_literal('own.f'))) outcome
where call is not null group by i, r order by i;
select r as role, routine, needs, outcome
from unnest('{bloom_owner,bloom_member,bloom_no_inherit,bloom_super,bloom_monitor,bloom_stats_reader,bloom_reads_all,
              bloom_writes_all,bloom_reads_and_writes,bloom_bypass,bloom_has_all}'::name[]) with ordinality r (r, i),
     calls, try_as(r, format(call, quote_literal('own.f'))) outcome
where call is not null
  and (outcome not in ('ok', 'refused') or r = 'bloom_stats_reader' and outcome = 'ok')
order by i, routine::text collate "C";
-- All counters at once.
select r as role, try_as(r, 'bloom_stat_reset()') from unnest('{bloom_owner,bloom_monitor,bloom_super}'::name[]) r;

-- Without USAGE on the schema a filter cannot be named. Its number is no secret, and the privileges
-- on the table decide.
revoke usage on schema own from public;
grant select, insert on own.f to bloom_app;
select 'own.f'::regclass::oid as number \gset
select left(routine::text, 30) as routine, try_as('bloom_app', format(call, quote_literal('own.f'))) as by_name,
       try_as('bloom_app', format(call, :number)) as by_number
from calls where routine in ('bloom_might_contain(regclass, text)'::regprocedure, 'bloom_add(regclass, text)'::regprocedure,
                             'bloom_add_trigger()'::regprocedure);
grant usage on schema own to public;

-- Calls that commit, and bloom_create: not by privileges on the filter.
\set VERBOSITY terse
set role bloom_has_all;
call bloom_rebuild('own.f', 'values (''ada'')', grace => '0');
call bloom_grow('own.f');
select bloom_create('own.g', 1000);
set role bloom_monitor;
call bloom_grow('own.f');
-- An owner who may not create in the schema cannot rebuild.
reset role;
create role bloom_guest;
alter table own.f owner to bloom_guest;
set role bloom_guest;
select bloom_suspend('own.f');
call bloom_rebuild('own.f', 'values (''ada'')', grace => '0');
call bloom_grow('own.f');
select bloom_resume('own.f');
reset role;
alter table own.f owner to bloom_owner;
set role bloom_member;
call bloom_rebuild('own.f', 'values (''ada'')', grace => '0');
call bloom_grow('own.f');
reset role;
select pg_get_userbyid(relowner), relacl::text ~ 'bloom_has_all=' as grants_kept from pg_class where oid = 'own.f'::regclass;

-- Row-level security on the table of a source: all rows, or an error.
create table own.people (name text);
insert into own.people values ('ada'), ('bob');
alter table own.people owner to bloom_owner;
alter table own.people enable row level security;
create policy p on own.people using (name = 'ada');
grant create on schema own to bloom_bypass, bloom_reads_all, bloom_app;
grant select on own.people to bloom_bypass, bloom_app;
select r as role, try_as(r, 'bloom_create(''own.h'', 1000, source => ''select name from own.people'')')
from unnest('{bloom_owner,bloom_member,bloom_super,bloom_bypass,bloom_reads_all,bloom_app}'::name[]) r;
alter table own.people force row level security;
select r as role, try_as(r, 'bloom_create(''own.h'', 1000, source => ''select name from own.people'')')
from unnest('{bloom_owner,bloom_super,bloom_bypass}'::name[]) r;

-- What other privileges are good for: to make a filter unusable, or answer maybe. Never for a "no".
set role bloom_owner;
select bloom_create('own.g', 1000, source => 'values (''ada'')');
reset role;
grant all on own.g to bloom_app;
grant create on schema own to bloom_app;
set role bloom_app;
truncate own.g;
delete from own.g;
update own.g set bits = 0::bit(8192);
begin;
create table own.refers (chunk int references own.g);
select bloom_might_contain('own.g', 'ada');
rollback;
begin;
insert into own.g values (1000, 0::bit(8192));
select bloom_might_contain('own.g', 'ada');
rollback;
begin;
update own.g set bits = ~ 0::bit(8192);
select bloom_might_contain('own.g', 'zed');
rollback;
-- With TRIGGER he puts something else in the place of the guard for a while, and clears every bit.
create function own.nothing() returns trigger language plpgsql as 'begin return new; end';
create table own.kept as
select replace(pg_get_triggerdef(oid), 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER') as guard
from pg_trigger where tgrelid = 'own.g'::regclass and tgname = 'bloom_filter';
create or replace trigger bloom_filter before update or delete on own.g for each row execute function own.nothing();
update own.g set bits = 0::bit(8192);
do $$ begin execute (select guard from own.kept); end $$;
\set VERBOSITY default
select bloom_might_contain('own.g', 'ada');
reset role;
-- Advice that made such a guard fire again would make the filter deny.
select status, advice from bloom_filters where filter = 'own.g'::regclass;
-- Nobody but the owner: it is what pg_restore --disable-triggers leaves behind.
revoke all on own.g from bloom_app;
select status, advice from bloom_filters where filter = 'own.g'::regclass;

drop schema own cascade;
drop table calls, tried, drained;
drop function look_at, look_in_view, write_user, try_as;
drop role bloom_owner, bloom_app, bloom_member, bloom_no_inherit, bloom_super, bloom_monitor, bloom_stats_reader,
    bloom_reads_all, bloom_writes_all, bloom_reads_and_writes, bloom_bypass, bloom_has_all, bloom_guest;
