-- Objects that somebody else made in the extension's schema are never run: not by CREATE EXTENSION,
-- nor by what it made. He traps every name that the script uses; then a superuser installs the
-- extension there and calls all of it. A trap that is sprung says who ran it.
\set VERBOSITY terse
select current_database() as here \gset
create role bloom_mallory;
create database bloom_hostile;
grant create on database bloom_hostile to bloom_mallory;
\c bloom_hostile
set client_min_messages = warning;
create schema hostile authorization bloom_mallory;
create schema safe;
grant usage on schema safe to bloom_mallory;

-- What the script makes, as an installation elsewhere shows it.
create extension bloomfilter schema safe;
create function safe.type_name(oid) returns text language sql as $$
    select format('%s.%s', replace(nspname, 'safe', 'hostile'), typname)
    from pg_type t join pg_namespace n on n.oid = typnamespace where t.oid = $1
$$;
create function safe.shape(p pg_proc, out name text, out kind "char", out args text[],
    out modes text[], out names text[], out result text) language sql as $$
    select p.proname, p.prokind,
           array(select safe.type_name(t)
                 from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality a (t, i)
                 order by i),
           array(select case coalesce(p.proargmodes[i], 'i') when 'i' then '' when 'o' then 'out'
                        when 'b' then 'inout' else 'variadic' end
                 from generate_series(1, coalesce(array_length(p.proallargtypes, 1), p.pronargs)) i),
           array(select coalesce(p.proargnames[i], '')
                 from generate_series(1, coalesce(array_length(p.proallargtypes, 1), p.pronargs)) i),
           case when p.proretset then 'setof ' else '' end || safe.type_name(p.prorettype)
$$;
create table safe.member as
select classid, objid from pg_depend
where refclassid = 'pg_extension'::regclass and deptype = 'e'
  and refobjid = (select oid from pg_extension where extname = 'bloomfilter');
create table safe.ours as
select s.* from pg_proc p cross join lateral safe.shape(p) s
where oid in (select objid from safe.member where classid = 'pg_proc'::regclass);
create table safe.operators as
select oprname as name, safe.type_name(oprleft) as l, safe.type_name(oprright) as r from pg_operator
where oid in (select objid from safe.member where classid = 'pg_operator'::regclass);
create table safe.servers as
select s.* from pg_proc p cross join lateral safe.shape(p) s
where pronamespace = 'pg_catalog'::regnamespace
  and proname in ('contsel', 'contjoinsel', 'eqsel', 'eqjoinsel', 'neqsel', 'neqjoinsel', 'bitor',
                  'float8_combine', 'float8_avg', 'has_table_privilege');
grant select on safe.ours, safe.operators, safe.servers to bloom_mallory;
drop extension bloomfilter;

-- The traps.
set role bloom_mallory;
create sequence hostile.sprung;  -- counts also what is rolled back
create table hostile.calls (who pg_catalog.name, trap pg_catalog.text);
create function hostile.spring(trap pg_catalog.text) returns pg_catalog.bool language plpgsql as $$
begin
    perform pg_catalog.nextval('hostile.sprung');
    insert into hostile.calls values (current_user, trap);
    return true;
end $$;
reset role;
create function safe.try(command text) returns void language plpgsql as $$
begin
    execute command;
exception when others then  -- exists, or a type that nobody may use
end $$;
-- Functions with the argument types of the script's, and with others that may fit better;
-- operators for all pairs of types; domains.
create procedure safe.lay_traps() language plpgsql set search_path = pg_catalog as $$
declare
    types text[] := '{oid,regproc,regprocedure,regclass,name,text,varchar,"\"char\"",int2,int4,int8,
                      float8,numeric,bool,bit,varbit,bytea,_text,interval,timestamptz,anyelement}';
    t text;
    command text;
    with_type text := '';
begin
    for command in
        select distinct format(
            'create function hostile.%I(%s) %s language plpgsql as $x$begin
             perform hostile.spring(%L); return %s; end$x$', f.name,
            (select string_agg(format('%s %s %s', modes[i],
                                      case when names[i] = '' then '' else quote_ident(names[i]) end,
                                      case when modes[i] in ('', 'inout') and args[i] = 'pg_catalog.' || a
                                           then 'pg_catalog.' || b else args[i] end), ', ' order by i)
             from generate_subscripts(args, 1) i),
            case when 'out' = any (modes) or 'inout' = any (modes) then '' else 'returns ' || result end,
            'function ' || f.name,
            case when 'out' = any (modes) or 'inout' = any (modes) or result ~ '^setof|void$' then ''
                 else 'null' end)
        from (select true as ours, * from safe.ours union all select false, * from safe.servers) f,
             (values ('', ''), ('text', 'varchar'), ('text', 'name'), ('text', 'anyelement'),
                     ('regclass', 'oid'), ('regclass', 'text'), ('regclass', 'regproc'),
                     ('oid', 'regclass'), ('float8', 'numeric'), ('float8', 'int4'), ('int4', 'int8'),
                     ('int4', 'int2'), ('bit', 'varbit'), ('_text', 'text'), ('bytea', 'text')) v (a, b)
        where case a when '' then not ours
              else exists (select from generate_subscripts(args, 1) i
                           where modes[i] in ('', 'inout') and args[i] = 'pg_catalog.' || a) end
    loop
        perform safe.try(command);
    end loop;
    -- A name alone would be ambiguous.
    perform safe.try('create function hostile.bloom_guard(pg_catalog.int4) returns pg_catalog.int4
                      language plpgsql as ''begin perform hostile.spring(''''guard''''); return 1; end''');
    for t in select pg_catalog.unnest(types) loop
        perform safe.try(format('create domain hostile.%s as pg_catalog.%s check (hostile.spring(%L))',
                                t, replace(t, 'anyelement', 'text'), 'domain ' || t));
    end loop;
    for t in select unnest('{cstring,internal,trigger,record,void,_float8}'::text[]) loop
        perform safe.try(format('create domain hostile.%s as pg_catalog.text check (hostile.spring(%L))',
                                t, 'domain ' || t));
    end loop;
    types := array(select 'pg_catalog.' || unnest(types));
    -- The second time round only what has the new type is still to be made.
    if to_regtype('hostile.bloomfilter') is not null then
        types := types || 'hostile.bloomfilter'::text;
        with_type := 'hostile';
    end if;
    for command in
        select format('create function hostile.trap(%s, %s) returns pg_catalog.bool language plpgsql as
                       $x$begin perform hostile.spring(%L); return true; end$x$',
                      l, r, 'operator ' || l || ', ' || r)
        from unnest(types) l, unnest(types) r where concat_ws('|', l, r) ~ with_type
        union all
        select format('create operator hostile.%s (leftarg = %s, rightarg = %s, function = hostile.trap)',
                      o, l, r)
        from unnest(types) l, unnest(types) r,
             (select name from safe.operators
              union values ('='), ('~'), ('<'), ('-'), ('||')) v (o)
        where (o, l, r) not in (select name, operators.l, operators.r from safe.operators)
          and concat_ws('|', l, r) ~ with_type
    loop
        perform safe.try(command);
    end loop;
end $$;

-- Calls of all that the script makes, with everything else qualified.
create function safe.sample(routine text, type text, argument text) returns text language sql as $$
    select case split_part(type, '.', 2)
        when 'text' then
            quote_literal(case argument when 'normalization' then 'lower' when 'filter' then 'safe.made'
                                        when 'source' then 'select name from safe.items' else 'ada' end)
            || '::pg_catalog.text'
        when 'regclass' then
            case when routine = 'bloom_register' then '''safe.hand'''
                 when argument = 'queue' then '''safe.feed''' else '''safe.f''' end
            || '::pg_catalog.regclass'
        when 'float8' then
            case argument when 'fp_rate' then '0.01' when 'min_share' then '0' else '1000' end
            || '::pg_catalog.float8'
        when 'int4' then case argument when 'k' then '7' else '128' end || '::pg_catalog.int4'
        when 'int8' then '1::pg_catalog.int8'
        when 'bool' then 'false'
        when 'interval' then '''0''::pg_catalog.interval'
        when 'bit' then '0::pg_catalog.bit(8192)'
        when '_text' then '''{user1,user2}''::pg_catalog._text'
        when '_regclass' then '''{safe.f}''::pg_catalog._regclass'
        when '_float8' then '''{0,0,0}''::pg_catalog._float8'
        when 'varchar' then '''ada''::pg_catalog.varchar'
        when 'bloomfilter' then 'hostile.bloom_value(''safe.f''::pg_catalog.regclass)'
        when 'bytea' then 'hostile.bloom_value(''safe.f''::pg_catalog.regclass)::pg_catalog.bytea'
        when 'cstring' then
            'hostile.bloomfilter_out(hostile.bloom_value(''safe.f''::pg_catalog.regclass))'
        end
$$;
create table safe.statements (n serial, name text, statement text);
insert into safe.statements (name, statement)
select name,
       format(case kind when 'p' then 'call hostile.%I(%s)'
                        when 'a' then 'select hostile.%I(%s) is not null from safe.items'
                        else 'select pg_catalog.count(*) from hostile.%I(%s) called' end,
              name,
              (select string_agg(case when kind = 'a' and names[i] = 'item' then 'items.name'
                                      else safe.sample(name, args[i], names[i]) end, ', ' order by i)
               from generate_subscripts(args, 1) i where modes[i] <> 'out'))
from safe.ours
where not '{pg_catalog.internal,pg_catalog.trigger}'::text[] && (args || result)
  and name not in ('bloom_bits_agg_add', 'bloom_fp_rate_add')
order by array_position('{bloom_suspend,bloom_resume}', name) nulls first, name collate "C", args::text collate "C";
insert into safe.statements (name, statement)
select name, format('select (%s operator(hostile.%s) %s) is not null',
                    safe.sample('', l, ''), name, safe.sample('', r, ''))
from safe.operators;
insert into safe.statements (statement) values
    ('create trigger t after insert on safe.feed for each row execute function hostile.bloom_add_trigger(''safe.f'', ''name'')'),
    ('insert into safe.feed values (''ada''), (''eve'')'),
    ('drop trigger t on safe.feed'),
    ('select name from safe.items where 0::pg_catalog.bit(8192) operator(hostile.@>) name'),
    ('select pg_catalog.count(*) from hostile.bloom_filters'),
    ('table hostile.bloom_filters'),
    ('table hostile.bloom_progress'),
    ('select hostile.bloom_value(''safe.f''::pg_catalog.regclass)::pg_catalog.bytea::hostile.bloomfilter'),
    ('create table safe.v (v hostile.bloomfilter)'),
    ('insert into safe.v select hostile.bloom_value(''safe.f''::pg_catalog.regclass) from safe.items limit 3'),
    ('create index on safe.v using hash (v)'),
    ('select distinct v from safe.v'),
    ('select from safe.v a join safe.v b on a.v operator(hostile.=) b.v where b.v operator(hostile.@>) ''ada''::pg_catalog.text'),
    ('copy safe.v to ''/dev/null'' (format binary)'),
    ('drop table safe.v, safe.made, safe.hand');
-- What has no call of its own: what the server calls.
select name from safe.ours
where name not in (select name from safe.statements where name is not null)
order by name collate "C";

create table safe.feed (name varchar);
insert into safe.feed values ('ada');
create table safe.items (name text);
insert into safe.items select 'user' || i from generate_series(1, 900) i;
analyze safe.items;

-- What of the extension hangs on an object of his.
create view safe.hangs as
with his (oid) as (
    select p.oid from pg_proc p join pg_roles r on r.oid = proowner where rolname = 'bloom_mallory'
    union all
    select o.oid from pg_operator o join pg_roles r on r.oid = oprowner where rolname = 'bloom_mallory'
    union all
    select t.oid from pg_type t join pg_roles r on r.oid = typowner where rolname = 'bloom_mallory')
select pg_describe_object(classid, objid, 0) as ours, pg_describe_object(refclassid, refobjid, 0) as his
from pg_depend d
where refobjid in (select oid from his)
  and (objid in (select objid from pg_depend
                 where refclassid = 'pg_extension'::regclass and deptype = 'e')
       or objid in (select oid from pg_rewrite where ev_class = to_regclass('hostile.bloom_filters')));

-- Two filters, for the calls to come; aggregates in parallel, so that their states are combined.
\set make 'select hostile.bloom_create(''safe.f''::pg_catalog.text, 1000::pg_catalog.float8, 0.01::pg_catalog.float8, ''lower''::pg_catalog.text, ''select name from safe.items''::pg_catalog.text);'
\set hand 'create table safe.hand (chunk pg_catalog.int4 primary key, bits pg_catalog.bit(8192) not null); insert into safe.hand select chunk, bits from safe.f where chunk operator(pg_catalog.<) 128;'
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;

-- The traps work.
set role bloom_mallory;
call safe.lay_traps();
reset role;
select 1::pg_catalog.oid operator(hostile.=) 'now'::pg_catalog.regproc as sprung;
select distinct who = current_user as ours, trap from hostile.calls limit 10;
truncate hostile.calls;
select setval('hostile.sprung', 1, false);
select count(*) > 4000 as operators from pg_operator where oprowner = 'bloom_mallory'::regrole;
select count(*) > 100 as functions from pg_proc where proowner = 'bloom_mallory'::regrole and proname <> 'trap';
select count(*) as domains from pg_type where typowner = 'bloom_mallory'::regrole and typtype = 'd';

-- Where he has the very thing, there is no extension.
set role bloom_mallory;
create function hostile.bloom_chunk(pg_catalog.text, pg_catalog.int4) returns pg_catalog.int4
language sql return 1;
reset role;
create extension bloomfilter schema hostile;
drop function hostile.bloom_chunk(pg_catalog.text, pg_catalog.int4);
set role bloom_mallory;
create operator hostile.<@ (leftarg = pg_catalog.text, rightarg = pg_catalog.bit, function = hostile.trap);
reset role;
create extension bloomfilter schema hostile;
drop operator hostile.<@ (pg_catalog.text, pg_catalog.bit);
set role bloom_mallory;
create type hostile.bloomfilter as (one pg_catalog.int4);
reset role;
create extension bloomfilter schema hostile;
drop type hostile.bloomfilter;
set role bloom_mallory;
create view hostile.bloom_filters as select 1 as one;
reset role;
create extension bloomfilter schema hostile;
drop view hostile.bloom_filters;

-- A superuser installs it; more traps, for the new type; a superuser calls.
create extension bloomfilter schema hostile;
set role bloom_mallory;
call safe.lay_traps();
reset role;
table safe.hangs;
\set ECHO none
\o /dev/null
set search_path = '';
:make
:hand
select statement from safe.statements order by n \gexec
set search_path = hostile, pg_catalog;
:hand
select statement from safe.statements order by n \gexec
reset search_path;
\o
\set ECHO all
select distinct who, trap from hostile.calls limit 10;
select is_called as sprung from hostile.sprung;

-- He installs it himself, which a trusted extension lets him.
drop extension bloomfilter cascade;
drop table safe.f;
set role bloom_mallory;
create extension bloomfilter schema hostile;
call safe.lay_traps();
reset role;
table safe.hangs;
\set ECHO none
\o /dev/null
set search_path = '';
:make
:hand
select statement from safe.statements order by n \gexec
set search_path = hostile, pg_catalog;
:hand
select statement from safe.statements order by n \gexec
reset search_path;
\o
\set ECHO all
select distinct who, trap from hostile.calls limit 10;
select is_called as sprung from hostile.sprung;

\c :here
drop database bloom_hostile;
drop role bloom_mallory;
