-- Names that need quotes, of schemas, filters, columns, triggers, roles and of the extension's own
-- schema: every call takes them, and every command that is shown can be run as it stands.
set client_min_messages = warning;
create table names (i int, name text);
insert into names values
    (1, 'My Schema'), (2, 'a "quote"'), (3, 'o''clock'), (4, 'back\slash'), (5, 'dot.ted'), (6, 'select'),
    (7, 'Имя名前'), (8, E'two\nlines; --'), (9, repeat('n', 63)), (10, repeat('é', 31) || 'x'), (11, '%s $1 "$f$"');
create schema "The ""Extension's"" Schema";
alter extension bloomfilter set schema "The ""Extension's"" Schema";
set search_path = public, "The ""Extension's"" Schema";

-- Filters, in schemas of the same names.
select format('create schema %I', name) from names order by i \gexec
create function full_name(name text) returns text language sql immutable as $$ select format('%I.%I', name, name) $$;
select count(bloom_create(full_name(name), 1000, source => 'values (''ada'')')) from names;
-- As one sees it who pastes a name: from the view into a call.
select count(*) as filters, count(*) filter (where bloom_might_contain(filter::text::regclass, 'ada')) as found
from bloom_filters;
-- Also with backslashes in plain strings, which servers before 19 still have.
do $$ begin
    perform set_config('standard_conforming_strings', 'off', false);
exception when others then null;
end $$;
select count(*) as filters, count(*) filter (where bloom_might_contain(filter::text::regclass, 'ada')) as found
from bloom_filters;
do $$
declare
    f text;
    q text;
    n text;
begin
    foreach n in array array(select name from names order by i) loop
        f := full_name(n);
        perform bloom_add(f, 'bob'), bloom_add_many(f, '{eve,fay}'), bloom_merge(f, bloom_value(f)),
                bloom_suspend(f), bloom_resume(f), bloom_stat_reset(f), bloom_report_false_positive(f);
        q := format('%I.%I', n, left(n, 20) || ' users');
        execute format('create table %s (%I varchar)', q, n);
        execute format('create trigger %I after insert on %s for each row execute function bloom_add_trigger(%L, %L)', n, q, f, n);
        execute format('insert into %s values (''gus'')', q);
        execute format('drop trigger %I on %s', n, q);
        perform bloom_drain(f, q::regclass);
        if bloom_might_contain_any(array[f::regclass], 'gus') is distinct from array[f::regclass]
           or bloom_might_contain_many(f, '{bob,eve,fay,gus}') <> '{t,t,t,t}'
           or (select status from bloom_info(f)) <> 'ready' then
            raise warning 'difference at %', f;
        end if;
        -- Of a table made by hand, and from a source whose names need quotes.
        execute format('create table by_hand (chunk int primary key, bits bit(8192) not null)');
        execute format('insert into by_hand select * from %s', f);
        execute format('drop table %s', f);
        execute format('alter table by_hand rename to %I', n);
        execute format('alter table %I set schema %I', n, n);
        perform bloom_register(f, 'lower', 1000, known => '{ada,gus}');
        execute format('insert into %s values (''hal'')', q);
        perform bloom_create(format('%I.%I', n, left(n, 20) || '2'), 1000, source => format('select %I from %s', n, q));
        execute format('drop table %I.%I', n, left(n, 20) || '2');
    end loop;
end $$;
reset standard_conforming_strings;
\set ECHO none
select format('call bloom_rebuild(%L, ''values (''''ada''''), (''''bob'''')'', grace => ''0'', min_share => 0)', full_name(name))
from names order by i \gexec
select format('call bloom_grow(%L)', full_name(name)) from names order by i \gexec
\set ECHO all
select count(*) from names
where bloom_might_contain(full_name(name), 'ada') and not bloom_might_contain(full_name(name), 'gus')
  and (select chunks from bloom_info(full_name(name))) = 256;
-- Each state that has advice, of all filters; the advice is run as it is shown, with the source and the
-- capacity filled in; then all are ready.
create procedure for_each(command text) language plpgsql as $$
declare
    n text;
begin
    foreach n in array array(select name from names order by i) loop
        execute replace(replace(replace(replace(command, '$f', full_name(n)), '$n', format('%I', n)),
                                '$l', quote_literal(full_name(n))), '$i', format('%I', 'i ' || left(n, 40)));
    end loop;
end $$;
create view advice as
select regexp_replace(status, ' "bits?.*| ".*"', ' …') as status, count(*) as filters, count(distinct advice) as advice
from names, bloom_filters where filter = full_name(name)::regclass group by 1 order by 1;
create view commands as
select replace(replace(case when advice ~ '^call' then replace(advice, '<source>''',
                              '<source>'', grace => ''0'', min_share => 0') else advice end,
                       '<source>', 'values (''''ada'''')'), '<capacity>', '1000') as command
from names, bloom_filters where filter = full_name(name)::regclass order by i;

call for_each('select bloom_suspend($l)');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

-- Never loaded.
call for_each('drop table $f');
call for_each('select bloom_create($l, 1000)');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

call for_each('alter table $f disable trigger bloom_filter');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

call for_each('alter table $f alter bits drop not null');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

-- What pg_repack and reindex leave behind.
call for_each('create trigger $n after insert on $f for each row execute function suppress_redundant_updates_trigger()');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

call for_each('create unique index $i on $f (chunk)');
update pg_index set indisvalid = false
where not indisprimary and indrelid in (select full_name(name)::regclass from names);
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

call for_each('update $f set bits = ~ 0::bit(8192)');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

-- Sessions look for the last chunk when the relation has changed.
call for_each('insert into $f values (1000, 0::bit(8192))');
call for_each('alter table $f set (fillfactor = 80)');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select status, filters from advice;

-- Locked by somebody.
begin;
call for_each('lock table $f');
prepare transaction 'bloom_locks';
table advice;
select command from commands \gexec
commit prepared 'bloom_locks';

-- Not readable, for a role whose name needs quotes as well.
create table roles as select i, left(translate(name, E'\n', ' '), 40) || ' role' as role from names;
select format('create role %I', role) from roles order by i \gexec
create table grants (command text);
grant insert on grants to public;
grant usage on schema "The ""Extension's"" Schema" to public;
do $$
declare
    n record;
begin
    for n in select full_name(name)::regclass as f, role, name from names join roles using (i) order by i loop
        execute format('grant usage on schema %I to %I', n.name, n.role);
        execute format('set local role %I', n.role);
        insert into grants select advice from bloom_info_sampled(n.f, 1);
        reset role;
    end loop;
end $$;
select command from grants \gexec
select count(*) from names join roles using (i) where has_table_privilege(role, full_name(name)::regclass, 'select');

-- No filter any more: another one is made beside it. Its name is cut off where it would be too long.
call for_each('alter table $f add other int');
table advice;
\set ECHO none
\o /dev/null
select command from commands \gexec
\o
\set ECHO all
select relname from pg_class where relname like '%\_new' order by relname collate "C";

-- The hint's example is a literal that names the filter.
call for_each('alter table $f drop other');
create function named_by_hint(n text) returns text language plpgsql as $$
declare
    hint text;
    named text;
begin
    execute format('create trigger %I after insert on %I.%I for each row execute function bloom_add_trigger(%L, %L)',
                   n, n, left(n, 20) || ' users', format('%I', n), n);
    execute format('insert into %I.%I values (''x'')', n, left(n, 20) || ' users');
exception when invalid_parameter_value then
    get stacked diagnostics hint = pg_exception_hint;
    execute 'select ' || rtrim(split_part(hint, 'for example ', 2), '.') into named;
    return named;
end $$;
select i, named_by_hint(name) from names where named_by_hint(name) is distinct from full_name(name);

drop view advice, commands;
\set ECHO none
\o /dev/null
set client_min_messages = error;
select format('drop schema %I cascade', name) from names order by i \gexec
select format('drop owned by %I', role) from roles order by i \gexec
select format('drop role %I', role) from roles order by i \gexec
\o
\set ECHO all
reset search_path;
alter extension bloomfilter set schema public;
drop schema "The ""Extension's"" Schema";
drop table names, roles, grants;
drop procedure for_each;
drop function full_name, named_by_hint;
