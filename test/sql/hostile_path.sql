-- A search path in which everything that the extension names is something else: before pg_catalog where
-- that can be, and in the session's temporary schema. hostile_schema traps the install and what it
-- makes; here the traps are laid for the statements that functions of the extension run themselves,
-- and for a source. A trap that is sprung says so.
set client_min_messages = warning;
create schema trap;
create function trap.spring(what text) returns boolean language plpgsql as $$
begin
    raise warning 'sprung: %', what;
    return true;
end $$;
-- Every function of the extension, with its argument types, and what of pg_catalog its statements
-- could mean.
do $$
declare
    command text;
begin
    for command in
        select format('create function trap.%I(%s) returns %s language plpgsql as $x$begin perform trap.spring(%L); return %s; end$x$',
                      p.proname, pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid), p.proname,
                      case when p.prorettype = 'void'::regtype or p.proretset then '' else 'null' end)
        from pg_proc p join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid
             join pg_extension e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
        where e.extname = 'bloomfilter' and d.deptype = 'e' and p.prokind = 'f'
          and pg_get_function_result(p.oid) !~ 'record|internal|bloomfilter|cstring'
          and pg_get_function_identity_arguments(p.oid) !~ 'internal|cstring|OUT'
        union all
        select format('create procedure trap.%I(%s) language plpgsql as $x$begin perform trap.spring(%L); end$x$',
                      p.proname, pg_get_function_identity_arguments(p.oid), p.proname)
        from pg_proc p where proname in ('bloom_rebuild', 'bloom_grow') and prokind = 'p'
        union all
        select format('create domain trap.%s as pg_catalog.%s check (trap.spring(%L))', t, t, 'type ' || t)
        from unnest('{int4,bit,text,regclass,bytea,float8,bool,int8,name,varchar}'::text[]) t
        union all
        select 'create type trap.bloomfilter as (bytes bytea)'
        union all
        select format('create table trap.%I (oid int)', t)
        from unnest('{pg_class,pg_trigger,pg_attribute,pg_index,pg_namespace,pg_proc,pg_depend,pg_locks}'::text[]) t
        union all
        select 'create view trap.bloom_filters as select trap.spring(''view'') as filter'
        union all
        select format('create function trap.op(%1$s, %2$s) returns boolean language plpgsql as
                       $x$begin return trap.spring(%3$L); end$x$', l, r, 'operator ' || l || ', ' || r)
        from unnest('{pg_catalog.text,pg_catalog.int4,pg_catalog.bit,pg_catalog.oid,pg_catalog.regclass,pg_catalog.name}'::text[]) l,
             unnest('{pg_catalog.text,pg_catalog.int4,pg_catalog.bit,pg_catalog.oid,pg_catalog.regclass,pg_catalog.name}'::text[]) r
        union all
        select format('create operator trap.%s (leftarg = %s, rightarg = %s, function = trap.op)', o, l, r)
        from unnest('{=,<>,<,+,|,||,@>,<@,~,-}'::text[]) o,
             unnest('{pg_catalog.text,pg_catalog.int4,pg_catalog.bit,pg_catalog.oid,pg_catalog.regclass,pg_catalog.name}'::text[]) l,
             unnest('{pg_catalog.text,pg_catalog.int4,pg_catalog.bit,pg_catalog.oid,pg_catalog.regclass,pg_catalog.name}'::text[]) r
        union all
        select format('create function trap.%s language plpgsql as $x$begin perform trap.spring(%L); return null; end$x$', f, f)
        from unnest('{lower(pg_catalog.text) returns pg_catalog.text,md5(pg_catalog.text) returns pg_catalog.text,
                      now() returns pg_catalog.timestamptz,
                      has_table_privilege(pg_catalog.oid\, pg_catalog.text) returns pg_catalog.bool,
                      pg_has_role(pg_catalog.name\, pg_catalog.text) returns pg_catalog.bool,
                      pg_total_relation_size(pg_catalog.regclass) returns pg_catalog.int8,
                      int4(pg_catalog.text) returns pg_catalog.int4}'::text[]) f
        union all
        select 'create collation trap.default from pg_catalog."C"'
        union all
        select 'create collation trap."C" from pg_catalog."POSIX"'
    loop
        execute command;
    end loop;
end $$;
select count(*) > 20 as functions from pg_proc where pronamespace = 'trap'::regnamespace and proname <> 'op';
-- In the temporary schema, tables, views and types come first even if it is not in the path.
create temporary table f (chunk int primary key, bits bit(8192) not null);
create temporary table users (name text);
create temporary table queue (name text);
create temporary view bloom_filters as select trap.spring('temporary view') as filter;
create domain pg_temp.bloomfilter as text check (trap.spring('temporary type'));
create domain pg_temp.int4 as pg_catalog.int4 check (trap.spring('temporary type'));
create domain pg_temp.bit as pg_catalog.bit(8192) check (trap.spring('temporary type'));

create schema s;
create table s.users (name text);
create table s.queue (name text);
create table s.hand (chunk int primary key, bits bit(8192) not null);
insert into s.hand select c, 0::bit(8192) from generate_series(0, 127) c;
-- The traps work.
set search_path = trap, pg_catalog;
select 'a'::pg_catalog.text < 'b'::pg_catalog.text as sprung;
select 1::int4 as sprung;
select lower('A'::pg_catalog.text) as sprung;
reset search_path;

-- Every call, by its full name; what the calls return is below.
create table public.calls (n serial, call pg_catalog.text);
insert into public.calls (call) values
    ('select public.bloom_create(''s.f'', 1000)'),
    ('call public.bloom_rebuild(''s.f'', ''values (''''ada'''')'', grace => ''0'')'),
    ('select public.bloom_create(''s.g'', 1000, source => ''select name from s.users'')'),
    ('call public.bloom_rebuild(''s.f'', ''select public.bloom_value(''''s.f'''')'', grace => ''0'')'),
    ('call public.bloom_grow(''s.f'')'),
    ('select public.bloom_register(''s.hand'', ''lower'', known => ''{}'')'),
    ('select public.bloom_add(''s.f'', ''Bob'')'),
    ('select public.bloom_add_many(''s.f'', ''{eve,fay}'')'),
    ('select public.bloom_merge(''s.f'', public.bloom_value(''s.f''))'),
    ('create trigger t after insert on s.users for each row execute function public.bloom_add_trigger(''s.f'', ''name'')'),
    ('insert into s.users values (''gus'')'),
    ('insert into s.queue values (''ida'')'),
    ('select public.bloom_drain(''s.f'', ''s.queue'')'),
    ('select public.bloom_might_contain(''s.f'', ''ada'')'),
    ('select public.bloom_might_contain_many(''s.f'', ''{ada}'')'),
    ('select public.bloom_might_contain_any(''{s.f}'', ''ada'')'),
    ('select public.bloom_suspend(''s.f'')'),
    ('select public.bloom_resume(''s.f'')'),
    ('select * from public.bloom_info(''s.f'')'),
    ('select * from public.bloom_info_sampled(''s.f'', 10)'),
    ('select * from public.bloom_filters'),
    ('select * from public.bloom_stats(''s.f'')'),
    ('select public.bloom_stat_reset(''s.f'')'),
    ('select public.bloom_report_false_positive(''s.f'')'),
    ('select public.bloom_size(1000)'),
    ('update s.f set bits = bits where false'),
    ('drop trigger t on s.users'),
    ('drop table s.f, s.g');
\set ECHO none
\o /dev/null
set search_path = trap, pg_catalog;
select call from public.calls where n operator(pg_catalog.<) 28 order by n using operator(pg_catalog.<) \gexec
\o
\set ECHO all
select filter, status from public.bloom_filters order by filter::pg_catalog.oid using operator(pg_catalog.<);
select public.bloom_might_contain_many('s.f', '{ada,bob,eve,gus,ida,zed}');
\set ECHO none
\o /dev/null
drop table s.f, s.g, s.hand;
create table s.hand (chunk pg_catalog.int4 primary key, bits pg_catalog.bit(8192) not null);
insert into s.hand select c, pg_catalog.bit(0, 8192) from pg_catalog.generate_series(0, 127) c;
set search_path = pg_temp, trap, pg_catalog;
select call from public.calls where n operator(pg_catalog.<) 28 order by n using operator(pg_catalog.<) \gexec
\o
\set ECHO all
select filter, status from public.bloom_filters order by filter::pg_catalog.oid using operator(pg_catalog.<);
select public.bloom_might_contain_many('s.f', '{ada,bob,eve,gus,ida,zed}');
-- A filter is the table that its name finds, as for any statement: here it is not the filter.
select public.bloom_might_contain('f', 'ada');
-- The trigger names the filter by its schema, and the column by the table's own.
create trigger t after insert on s.users for each row execute function public.bloom_add_trigger('f', 'name');
insert into s.users values ('x');
-- Names in what is shown have their schema, whatever the path.
reset search_path;
set search_path = s, public;
select public.bloom_suspend('s.f');
select filter, advice from public.bloom_filters where filter::oid = 's.f'::regclass;
reset search_path;
select filter, advice from public.bloom_filters where filter::oid = 's.f'::regclass;
-- A source is a query of the caller's, by his path.
set search_path = trap, pg_catalog;
call public.bloom_rebuild('s.f', 'select lower(''ADA''::pg_catalog.text)::pg_catalog.text', grace => '0', min_share => 0);
reset search_path;

drop table public.calls;
drop view pg_temp.bloom_filters;
drop table pg_temp.f, pg_temp.users, pg_temp.queue;
drop domain pg_temp.bloomfilter, pg_temp.int4, pg_temp.bit;
drop schema trap cascade;
drop schema s cascade;
