-- The type bloomfilter: in and out, operators, what one value tells.
-- ("none", since the canary of "lower" is the server's.)
select bloom_empty(1, 0.01, 'none')::text as smallest, pg_column_size(bloom_empty(100)) <= 160 as small;
select bloom_empty(5, 0.01, 'none') + 'ada' as ada, (bloom_empty(5, 0.01, 'none') + 'ada')::bytea as bytes;

-- Chunk and positions against plain SQL over md5(), for any geometry: further positions come from
-- md5('1:' || key) and so on, and a small chunk takes the top bits of each.
create function plain_bits(key text, chunks int, chunk_bits int, k int) returns int[]
language sql immutable return (
    select array(
        select distinct floor((substring(h from 1 for 17) || substring(h from 109 for 20))::bit(37)::bigint
                              * chunks::numeric / 137438953472)::int * chunk_bits
               + case when i < 7 then substring(h from 18 + 13 * i for 13)
                      else substring(('x' || md5((i - 7) / 9 + 1 || ':' || key))::bit(128)
                                     from 1 + 13 * ((i - 7) % 9) for 13) end::int
                 * chunk_bits / 8192
        from generate_series(0, k - 1) i order by 1)
    from (select ('x' || md5(key))::bit(128) h) md5);
create function value_bits(value bloomfilter) returns int[] language sql immutable return (
    select array(select p from generate_series(0, octet_length(value::bytea) * 8 - 129) p
                 where get_bit(value::bytea, p / 8 * 8 + 7 - p % 8 + 128) = 1));
create table shapes as
select capacity, rate, empty, chunks, chunk_bits, k
from unnest(array[1, 10, 100, 1000, 5000]) capacity, unnest(array[0.3, 0.01, 1e-4, 1e-7]) rate,
     bloom_empty(capacity, rate) empty, bloom_value_info(empty) info;
select count(*) as shapes, count(distinct k) > 8 as many_k, max(k) > 16 as two_more_digests,
       min(chunk_bits), max(chunk_bits), max(chunks) > 1 as many_chunks from shapes;
create table some_names as
select unnest(array['ada', 'ADA', '', 'x', 'Žofie', repeat('long', 13) || 'x', repeat('long', 13) || 'xyz',
                    repeat('longer', 20)]) as name;
select count(*) as added,
       count(*) filter (where value_bits(empty + name) = plain_bits(lower(name), chunks, chunk_bits, k)) as equal
from shapes, some_names;
select count(*) as none,
       count(*) filter (where value_bits(bloom_empty(capacity, rate, 'none') + name)
                            = plain_bits(name, chunks, chunk_bits, k)) as equal
from shapes, some_names;
-- The aggregate sets the same.
select count(*) as shapes, count(*) filter (where agg = one_by_one) as equal
from shapes,
     lateral (select bloom_agg(name, capacity, rate, 'lower') agg,
                     bloom_union_agg(empty + name) one_by_one from some_names) x;

-- Checks.
select (bloom_empty(100) + 'ada') @> 'ADA', 'Ada' <@ (bloom_empty(100) + 'ada'),
       (bloom_empty(100) + 'ada') @> 'bob', 'bob' <@ (bloom_empty(100) + 'ada');
select count(*) filter (where not v @> ('in' || i)) as denied,
       count(*) filter (where v @> ('out' || i)) < 60 as few
from generate_series(1, 3000) i,
     (select bloom_agg('in' || j, 3000, 0.01, 'lower') v from generate_series(1, 3000) j) b;

-- Null: an item gives null and adds nothing; a filter is an error.
select (bloom_empty(5) @> null) is null as contain, (null <@ bloom_empty(5)) is null as contained,
       bloom_empty(5) + null = bloom_empty(5) as same;
select null::bloomfilter @> 'ada';
select 'ada' <@ null::bloomfilter;
select null::bloomfilter @> null;
select null::bloomfilter + 'ada';
select bloom_empty(5) | null;
select null | bloom_empty(5);
select bloom_fold(null, 1);
select bloom_fold(bloom_empty(5), null);
select bloom_value_info(null);
select * from bloom_chunks(null);

-- Union and equality.
select (bloom_empty(5) + 'ada') | (bloom_empty(5) + 'bob') = bloom_empty(5) + 'bob' + 'ada' as united,
       bloom_empty(5) = bloom_empty(5) as equal, bloom_empty(5) <> bloom_empty(5) as not_equal,
       bloom_empty(5) = bloom_empty(5) + 'ada' as other, bloom_empty(5) = bloom_empty(5, 0.1) as shape,
       bloom_empty(5) = bloom_empty(5, 0.01, 'none') as normalization;
select bloom_empty(5) | bloom_empty(5000);
select bloom_empty(100) | bloom_empty(100, 0.01, 'none');
select v | overlay(v::bytea placing '\xab4ed2e3' from 9)::bloomfilter as latin1
from bloom_empty(5, 0.01, 'none') v;
select count(*) as values, count(distinct bloom_value_hash(v)) as hashes,
       count(distinct bloom_value_hash_extended(v, 1)) as seeded,
       count(*) filter (where bloom_value_hash_extended(v, 0) & x'ffffffff'::bigint
                              = bloom_value_hash(v)::bigint & x'ffffffff'::bigint) as unseeded
from (select distinct bloom_empty(5) + (i % 3)::text from generate_series(1, 9) i) s (v);
select count(*) as pairs from (select bloom_empty(5) + (i % 3)::text v from generate_series(1, 9) i) a
join (select bloom_empty(5) + (i % 3)::text v from generate_series(1, 3) i) b using (v);
explain (costs off) select v from (values (bloom_empty(5)), (bloom_empty(6))) s (v) group by v;

-- Fold, for every divisor: the filter of fewer chunks.
select n, count(*) as divisors, count(*) filter (
           where bloom_fold(v, d) = (select bloom_agg_chunks('u' || i, d, 'lower')
                                     from generate_series(1, 500) i)) as equal
from unnest(array[1, 12, 30, 128]) n, generate_series(1, 128) d,
     lateral (select bloom_agg_chunks('u' || i, n, 'lower') v from generate_series(1, 500) i) b
where d <= n and n % d = 0 group by n order by n;
select bloom_fold(bloom_agg_chunks('u', 12, 'lower'), 5);
select bloom_fold(bloom_agg_chunks('u', 12, 'lower'), 24);
select bloom_fold(bloom_agg_chunks('u', 12, 'lower'), 0);
select bloom_fold(bloom_agg_chunks('u', 12, 'lower'), -12);

-- What a value tells.
select chunks, chunk_bits, k, normalization, bytes, items, round(fill::numeric, 3) as fill,
       fp_rate between 0.008 and 0.012 as fp_rate, worst_fill >= fill as worst
from bloom_value_info((select bloom_agg('u' || i, 1000, 0.01, 'none') from generate_series(1, 1000) i));
-- A full one tells only that there are very many.
select items > 50 as many, fill, fp_rate
from bloom_value_info(overlay(bloom_empty(5)::bytea placing
    decode(repeat('ff', octet_length(bloom_empty(5)::bytea) - 16), 'hex') from 17)::bloomfilter);

-- A grown filter has each item in two chunks, and its value counts it in both.
set client_min_messages = warning;  -- where lower folds ASCII only, a notice says so
select bloom_create('grown', 1000, ready => true, chunks => 128);
reset client_min_messages;
select bloom_add_many('grown', array(select 'u' || i from generate_series(1, 1000) i)) > 0 as added;
call bloom_grow('grown');
select (bloom_info('grown')).items between 950 and 1050 as table_items,
       (bloom_value_info(bloom_value('grown'))).items between 1900 and 2100 as value_items;
drop table grown;

-- Every way in validates alike.
create function rejected(bytes bytea) returns text language plpgsql as $$
declare
    reason text;
    again text;
begin
    begin
        return bytes::bloomfilter::text;
    exception when invalid_binary_representation then
        get stacked diagnostics reason = pg_exception_detail;
    end;
    begin
        return bytes::text::bloomfilter::text;
    exception when invalid_binary_representation then
        get stacked diagnostics again = pg_exception_detail;
    end;
    return case when reason = again then reason else 'they differ' end;
end $$;
select what, rejected(bytes) from (values
    ('right', '\x0107060000000001e896d102000000000000000000000000'::bytea),
    ('empty', ''), ('short', '\x0107060000000001e896d102000000'),
    ('no bits', '\x0107060000000001e896d10200000000'),
    ('one byte less', '\x0107060000000001e896d1020000000000000000000000'),
    ('one byte more', '\x0107060000000001e896d10200000000000000000000000000'),
    ('version 0', '\x0007060000000001e896d102000000000000000000000000'),
    ('version 2', '\x0207060000000001e896d102000000000000000000000000'),
    ('k 0', '\x0100060000000001e896d102000000000000000000000000'),
    ('k 33', '\x0121060000000001e896d102000000000000000000000000'),
    ('chunk of 32', '\x0107050000000001e896d102000000000000000000000000'),
    ('chunk of 16384', '\x01070e0000000001e896d102000000000000000000000000'),
    ('normalization', '\x010706040000000100000000000000000000000000000000'),
    ('chunks 0', '\x0107060000000000e896d102000000000000000000000000'),
    ('chunks -1', '\x01070600ffffffffe896d102000000000000000000000000'),
    ('256 MiB and 64 bits', '\x0107060002000001e896d102000000000000000000000000'),
    ('end of the header', '\x0107060000000001e896d102000000010000000000000000'),
    ('nfkc', '\x0107060200000001000000006e666b630000000000000000'),
    ('a lower called nfkc', '\x010706020000000100000000000000000000000000000000'),
    ('an nfkc called username', '\x0107060300000001000000006e666b630000000000000000'),
    ('a username called lower', '\x010706010000000100000000757365720000000000000000'),
    ('lower', '\x010706010000000100000000000000000000000000000000'),
    ('a lower called none', '\x010706000000000100000000000000000000000000000000'),
    ('a none called lower', '\x0107060100000001e896d102000000000000000000000000')) t (what, bytes);
-- So is any value of this server whose rule alone is changed: it would deny its members.
create function with_rule(value bloomfilter, rule int) returns bytea language sql immutable return
    set_byte(value::bytea, 3, rule);
select normalization, rejected(with_rule(bloom_empty(5, 0.01, normalization), 1 - rule)) as changed,
       rejected(with_rule(bloom_empty(5, 0.01, normalization), rule)) like '\\x%' as kept
from (values ('none', 0), ('lower', 1)) n (normalization, rule);
-- One that came past the validator is damaged, whatever reads it, inline or stored out of line.
create function past_validator(bytea) returns bloomfilter language internal immutable strict as 'byteasend';
create table called_none as
select capacity, past_validator(with_rule(bloom_empty(capacity) + 'ada', 0)) as v from unnest(array[5, 5000]) capacity;
create function reading(call text) returns text language plpgsql as $$
declare
    answer text;
begin
    execute call into answer;
    return answer;
exception when data_corrupted then
    get stacked diagnostics answer = pg_exception_detail;
    return answer;
end $$;
select call, reading(format('select %s from called_none where capacity = 5', call)) as inline,
       reading(format('select %s from called_none where capacity = 5000', call)) as out_of_line
from unnest(array['v @> ''ADA''', '''ADA'' <@ v', 'v + ''bob''', 'v | v', 'v = v', 'bloom_fold(v, 1)', 'v::text',
                  'bloom_value_info(v)', 'bloom_value_hash(v)', 'bloom_union_agg(v)']) call;
-- An expanded object of another type, here an array, is flattened, and is no value.
create function expanded_array(int[], int) returns bloomfilter language internal immutable as 'array_append';
select expanded_array('{1,2}', 3) @> 'ada';
select expanded_array('{1,2}', 3) + 'ada';
select bloom_union_agg(expanded_array('{1,2}', i)) from generate_series(1, 3) i;
-- The canary of "none" in every encoding that a server can have, and in no other.
create function of_encoding(encoding text) returns bytea language sql immutable return (
    select overlay('\x010706000000000100000000000000000000000000000000'::bytea placing substring(
               decode(md5(string_agg(chr(c) || e'\n', '' order by c) || e'\n' || encoding || e'\n'), 'hex')
               from 1 for 4) from 9)
    from generate_series(1, 127) c);
select count(*) > 30 as encodings,
       string_agg(pg_encoding_to_char(i), ' ') filter (
           where rejected(of_encoding(pg_encoding_to_char(i))) not like '\\x%') as refused
from generate_series(0, 34) i where pg_encoding_to_char(i) <> '';
select rejected(of_encoding('SJIS')) as client_only,
       substring(of_encoding(getdatabaseencoding()) from 9 for 4)
           = substring(bloom_empty(1, 0.99, 'none')::bytea from 9 for 4) as of_this_server;
select ''::bloomfilter;
select 'ada'::bloomfilter;
select '\x0'::bloomfilter;
-- Hex, whatever bytea_output says.
set bytea_output = escape;
select '\x0107060000000001e896d102000000000000000000000000'::bloomfilter;
reset bytea_output;

select bloom_empty(0);
select bloom_empty(100, 5);
select bloom_empty(100, 0.01, 'upper');
select bloom_empty(1e9);
select bloom_empty(null) is null as "null";

-- A value from a server that lowers otherwise: ASCII goes on, the rest is maybe, and not added.
create function foreign_value(value bloomfilter) returns bloomfilter language sql immutable return
    set_byte(value::bytea, 8, 255 - get_byte(value::bytea, 8))::bloomfilter;
select v @> 'ADA' as ada, v @> 'bob' as bob, v @> 'žofie' as beyond, v @> 'Ñandú' as again
from (select foreign_value(bloom_empty(5) + 'ada') v) f;
select foreign_value(bloom_empty(5)) + 'bob' @> 'bob' as bob;
select foreign_value(bloom_empty(5)) + 'žofie';
select overlay(bloom_empty(5, 0.01, 'none')::bytea placing '\xab4ed2e3' from 9)::bloomfilter @> 'žofie' as beyond;

-- Never a word of an argument changed: not of a stored row, a constant or a variable.
create table kept (v bloomfilter);
insert into kept select bloom_empty(1000) + 'ada' union all select bloom_agg_chunks('ada', 300, 'lower');
select (v + 'bob') @> 'bob' as bob, (v | (v + 'eve')) @> 'eve' as eve from kept;
select v @> 'bob' as bob, v @> 'eve' as eve from kept;
do $$
declare
    v bloomfilter := bloom_empty(1000);
    w bloomfilter := v;
begin
    for i in 1..3 loop
        w := w + 'ada';
        if v @> 'ada' or not w @> 'ada' or (v | w) <> w or v @> 'ada' then
            raise 'changed';
        end if;
    end loop;
end $$;
drop table kept, shapes, some_names, called_none;
drop function plain_bits, value_bits, rejected, with_rule, past_validator, reading, expanded_array, of_encoding, foreign_value;
