-- The matrix of test/t/027_types.pl: names are added as a value of one type by one entry point, and asked for
-- as a value of every type by every function that answers. It expects three lists in settings: types.names,
-- in the encoding of the database, types.normalizations, and types.collations.
\set ON_ERROR_STOP on
set client_min_messages = error;
create extension bloomfilter;
create extension citext;

create domain of_text as text check (value is not null);
create domain of_varchar as varchar(60) collate "C";
create domain of_of_varchar as of_varchar check (value <> 'nobody');
create domain of_char as char(40);
create domain of_name as name;
create domain of_citext as citext;

-- The types that a name is added as. Each is a column of the table names.
create table kinds (id int generated always as identity, type text not null, collation_name text);
insert into kinds (type) values ('text'), ('varchar'), ('varchar(60)'), ('bpchar'), ('char(40)'), ('name'),
    ('citext'), ('of_text'), ('of_varchar'), ('of_of_varchar'), ('of_char'), ('of_name'), ('of_citext');
insert into kinds (type, collation_name)
select type, name from (values ('text'), ('char(40)')) t (type), unnest(current_setting('types.collations')::text[]) name
where type = 'text' or name = 'loose';

-- The expressions that ask for a name: a column, and a column with a collation of the statement.
create table questions (kind int not null, expression text not null);
insert into questions select id, format('k%s', id) from kinds;
insert into questions select 2, format('(k2 collate %I)', name) from unnest(current_setting('types.collations')::text[]) name;
insert into questions select id, format('(k%s collate "C")', id) from kinds where collation_name = 'loose';

-- What the name is added to, by which entry point.
create table entries (entry text, target text);
insert into entries values ('add', 'filter'), ('literal', 'filter'), ('many', 'filter'), ('row', 'filter'),
    ('statement', 'filter'), ('drain', 'filter'), ('merge', 'filter'), ('agg', 'value'), ('plus', 'value'),
    ('bits_agg', 'chunk'), ('bits_plus', 'chunk'), ('source', 'sources'), ('rebuild', 'sources');

-- The key of a name, by the server's own lower() where that is what makes it.
create function key_of(item text, normalization text) returns text language sql immutable as $$
    select case normalization when 'none' then item when 'lower' then pg_catalog.lower(item collate "default")
                              else bloom_normalize(item, normalization) end collate "C"
$$;

-- The name as a value of a type, as text.
create function as_type(name text, type text) returns text language plpgsql as $$
declare result text;
begin execute format('select cast($1 as %s)::text', type) into result using name; return result; end
$$;

-- A row for each name, type that it is added as, entry point, and spelling: the one that is added comes first.
do $$
declare kind kinds;
begin
    create table names (id int generated always as identity, kind int, entry text, target text, added bool, item text, asked text);
    for kind in select * from kinds loop
        execute format('alter table names add k%s %s', kind.id,
                       kind.type || coalesce(' collate ' || quote_ident(kind.collation_name), ''));
    end loop;
    execute format('insert into names (kind, entry, target, added, item, asked, %s) select k.id, entry, target, s = 1, item, asked, %s from kinds k, entries,
        unnest(current_setting(''types.names'')::text[]) name,
        lateral as_type(format(''K%%sE%%s_'', k.id, entry) || name, k.type) item,
        unnest(array[item, upper(item collate "default"), lower(item collate "default")]) with ordinality s (asked, s)
        where s = 1 or entry in (''add'', ''agg'', ''bits_agg'')',
        (select string_agg(format('k%s', id), ', ' order by id) from kinds),
        (select string_agg(format('cast(asked as %s)', type), ', ' order by id) from kinds));
end
$$;
analyze names;

-- A filter, a value and a chunk for each normalization; they are hardly filled, so that a maybe is no accident.
create table holders (normalization text, filter text, value bloomfilter, bits bit(8192));
-- A Turkish database builds no values with "lower".
create function has_values(normalization text) returns bool language sql as $$
    select normalization <> 'lower' or pg_catalog.lower('I' collate "default") = 'i'
$$;

create procedure add_names(normalization text) language plpgsql as $$
declare
    kind kinds; filter text := 'by_' || normalization; value bloomfilter; bits bit(8192); one text; source text; part bloomfilter;
begin
    perform bloom_create(filter, 100000, 1e-6, normalization, ready => true);
    for kind in select * from kinds loop
        source := format('select k%s as name from names where added and kind = %1$s and entry = %%L', kind.id);
        execute format('select bloom_add(%L, name) from (%s) n', filter, format(source, 'add'));
        for one in execute format('select name::text from (%s) n', format(source, 'literal')) loop
            execute format('select bloom_add(%L, %L::%s)', filter, one, kind.type);
        end loop;
        execute format('select bloom_add_many(%L, array_agg(name)) from (%s) n', filter, format(source, 'many'));
        execute format('create table feed as %s limit 0', format(source, 'row'));
        execute format('create trigger feed after insert on feed for each row execute function bloom_add_trigger(%L, %L)',
                       'public.' || filter, 'name');
        execute format('insert into feed %s', format(source, 'row'));
        execute format('create or replace trigger feed after insert on feed referencing new table as added
                        for each statement execute function bloom_add_trigger(%L, %L)', 'public.' || filter, 'name');
        execute format('insert into feed %s', format(source, 'statement'));
        execute 'drop trigger feed on feed; truncate feed';
        execute format('insert into feed %s', format(source, 'drain'));
        execute format('select bloom_drain(%L, %L)', filter, 'feed');
        execute 'drop table feed';
        execute format('select bloom_bits_agg(name) | coalesce($1, 0::bit(8192)) from (%s) n', format(source, 'bits_agg')) into bits using bits;
        for one in execute format('select name::text from (%s) n', format(source, 'bits_plus')) loop
            execute format('select $1 + cast($2 as %s)', kind.type) into bits using bits, one;
        end loop;
        if has_values(normalization) then
            execute format('select bloom_merge(%L, bloom_agg_chunks(name, (select chunks from bloom_info(%1$L)), %L)) from (%s) n',
                           filter, normalization, format(source, 'merge'));
            execute format('select bloom_agg(name, 100000, 1e-6, %L) from (%s) n', normalization, format(source, 'agg')) into part;
            value := case when value is null then part else value | part end;
            for one in execute format('select name::text from (%s) n', format(source, 'plus')) loop
                execute format('select $1 + cast($2 as %s)', kind.type) into value using value, one;
            end loop;
        else
            execute format('select bloom_add(%L, name) from (%s) n', filter, format(source, 'merge'));
        end if;
    end loop;
    insert into holders values (normalization, filter, value, bits);
end
$$;
select format('call add_names(%L)', name) from unnest(current_setting('types.normalizations')::text[]) name \gexec

-- A filter for each type, made from a source; half of them from another one by a rebuild. The normalizations
-- take turns: how a source is read does not depend on them.
create function normalization_of(kind int) returns text language sql as $$
    select names[1 + kind % cardinality(names)] from (select current_setting('types.normalizations')::text[] names) n
$$;
select format('select bloom_create(''source_%s'', 1000, 1e-6, %L, source => %L)', id, normalization_of(id),
              format('select k%s from names where added and kind = %1$s and entry = %L', id, 'source'))
from kinds order by id \gexec
select format('call bloom_rebuild(''source_%s'', %L, grace => ''0'', min_share => 0)', id,
              format('select k%s from names where added and kind = %1$s and target = %L', id, 'sources'))
from kinds where id % 2 = 0 or type in ('name', 'char(40)') order by id \gexec
delete from names where entry = 'rebuild' and kind in (select id from kinds where id % 2 = 1 and type not in ('name', 'char(40)'));

-- Asks for every name by one expression, in every way. Returns how many questions had to be answered with
-- maybe, how many were for another key, and by which types, and which were answered with a wrong "no".
create function ask(expression text, normalization text, entries text default '.')
returns table (asked bigint, others bigint, other_kinds text, denied text) language plpgsql as $$
declare holder holders;
begin
    select * into holder from holders h where h.normalization = ask.normalization;
    return query execute format($query$
        with answers as (
            select kind, entry, item, asked, %1$s::text as asked_as, key_of(item, %2$L) = key_of(%1$s::text, %2$L) as equal,
                   case target
                   when 'filter' then array[bloom_might_contain(%3$L, %1$s),
                                            bloom_might_contain_any(array[%3$L, %3$L]::regclass[], %1$s) = array[%3$L, %3$L]::regclass[]]
                   when 'sources' then array[bloom_might_contain(format('source_%%s', kind), %1$s)]
                   when 'value' then array[$1 @> %1$s, %1$s <@ $1]
                   when 'chunk' then array[$2 @> %1$s, %1$s <@ $2, bloom_chunk(%1$s, 1000) = bloom_chunk(item, 1000),
                                           username_bits(%1$s, 1000) = username_bits(item, 1000)]
                   end as answers
            from names
            where %1$s is not null and entry ~ %4$L and (target <> 'value' or $1 is not null) and (target <> 'chunk' or %2$L = 'lower')
                  and (target <> 'sources' or %2$L = normalization_of(kind))
            union all
            select kind, 'many', item, asked, asked_as, equal, array[answer]
            from (select unnest(array_agg(kind order by id)) as kind, unnest(array_agg(item order by id)) as item,
                         unnest(array_agg(asked order by id)) as asked, unnest(array_agg(%1$s::text order by id)) as asked_as,
                         unnest(array_agg(key_of(item, %2$L) = key_of(%1$s::text, %2$L) order by id)) as equal,
                         unnest(bloom_might_contain_many(%3$L, array_agg(%1$s order by id))) as answer
                  from names where %1$s is not null and entry ~ %4$L and target = 'filter') many
        )
        select count(*) filter (where equal), count(*) filter (where not equal),
               (select string_agg(distinct k.type, ', ') from answers a join kinds k on k.id = a.kind where not equal and asked = item),
               string_agg(format('"%%s", added by %%s as %%s', asked_as, entry, (select type from kinds where id = kind)), '; ')
                   filter (where equal and not (true = all (answers)))
        from answers$query$,
        expression, normalization, 'by_' || normalization, entries)
        using holder.value, holder.bits;
end
$$;

-- A name of one character, added as "char" by each entry point and asked for as each type, and the other way
-- round. Returns which were denied.
create function ask_characters(normalization text) returns text language plpgsql as $$
declare
    kind kinds; denied text := ''; answer bool; filter text := 'by_' || normalization; value bloomfilter;
begin
    execute format('select bloom_add(%1$L, ''Q''::"char"), bloom_add_many(%1$L, array[''V'', ''W'']::"char"[])', filter);
    create table characters (name "char");
    execute format('create trigger feed after insert on characters for each row execute function bloom_add_trigger(%L, %L)',
                   'public.' || filter, 'name');
    insert into characters values ('X');
    drop trigger feed on characters;
    truncate characters;
    insert into characters values ('Y');
    perform bloom_drain(filter::regclass, 'characters');
    perform bloom_create('characters_source', 1000, 1e-6, normalization, source => 'select ''Z''::"char"');
    if has_values(normalization) then
        value := bloom_agg('Q'::"char", 1000, 1e-6, normalization) + 'V'::"char" + 'W' + 'X' + 'Y';
    end if;
    for kind in select * from kinds loop
        execute format('select bool_and(bloom_might_contain(%L, letter) and case when $1 is null then true else $1 @> letter end) and bloom_might_contain(%L, ''Z''::%3$s)
                        from unnest(%L::text[]) l, cast(l as %3$s) letter', filter, 'characters_source', kind.type, '{Q,V,W,X,Y}')
            into answer using value;
        if answer is not true then denied := denied || format('"char" as %s; ', kind.type); end if;
        execute format('select bloom_add(%1$L, %2$L::%3$s) is not null and bloom_might_contain(%1$L, %2$L::"char")',
                       filter, chr(96 + kind.id), kind.type) into answer;
        if answer is not true then denied := denied || format('%s as "char"; ', kind.type); end if;
    end loop;
    drop table characters, characters_source;
    return denied;
end
$$;
