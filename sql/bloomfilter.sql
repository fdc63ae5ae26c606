-- The current definition of the extension, edited by hand; the build copies it to
-- bloomfilter--VERSION.sql. Objects go to the schema that CREATE EXTENSION names.
--
-- Others may have made objects in that schema before, and a superuser will call what this makes:
-- the extension is trusted. So every operator and function of the server is qualified by
-- pg_catalog: unqualified, one in that schema whose argument types fit better would be taken.
-- Our own functions cannot be qualified, since the schema is not known here, and need not: each
-- is named with its exact argument types, and CREATE fails where somebody has one of those. Nor
-- need the server's types: types are found by name alone, and CREATE EXTENSION runs a script with
-- pg_catalog searched first. The test hostile_schema shows all three.
\echo Use "CREATE EXTENSION bloomfilter" to load this file. \quit

-- Chunk level: for hand-written SQL over (chunk, bits) rows

-- Two functions, so that they stand beside the article's own username_bits(text): a default for
-- chunks would make every call with one text ambiguous. One varchar loses to one text while that
-- exists, and takes its calls over when it is dropped.
create function username_bits(name text, chunks int, out chunk int, out mask bit(8192))
returns record
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function username_bits(text, int) is
    'chunk and mask of a name in a filter of that many chunks, lowercased, k = 7';

create function username_bits(name varchar, out chunk int, out mask bit(8192)) returns record
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function username_bits(varchar) is
    'chunk and mask of a name in a filter of 131072 chunks, lowercased, k = 7';

create function bloom_chunk(item text, chunks int) returns int
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_chunk(text, int) is
    'chunk of an item in a filter of that many chunks, lowercased';

create function bloom_bits_add(bits bit, item text) returns bit
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_bits_add(bit, text) is 'chunk with the bits of an item set';

create function bloom_bits_contain(bits bit, item text) returns boolean
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_bits_contain(bit, text) is
    'whether all bits of an item are set in its chunk; false: definitely not in';

create function bloom_bits_contained(item text, bits bit) returns boolean
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_bits_contained(text, bit) is
    'whether all bits of an item are set in its chunk; false: definitely not in';

create operator + (leftarg = bit, rightarg = text, function = bloom_bits_add);
comment on operator + (bit, text) is 'chunk with the bits of an item set';

create operator @> (leftarg = bit, rightarg = text, function = bloom_bits_contain,
    commutator = <@, restrict = pg_catalog.contsel, join = pg_catalog.contjoinsel);
comment on operator @> (bit, text) is 'chunk might contain item; false: definitely not';

create operator <@ (leftarg = text, rightarg = bit, function = bloom_bits_contained,
    commutator = @>, restrict = pg_catalog.contsel, join = pg_catalog.contjoinsel);
comment on operator <@ (text, bit) is 'chunk might contain item; false: definitely not';

create function bloom_bits_agg_add(state bit, item text) returns bit
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_bits_agg_add(bit, text) is 'transition function of bloom_bits_agg';

create aggregate bloom_bits_agg(item text) (
    sfunc = bloom_bits_agg_add, stype = bit, sspace = 1040,
    combinefunc = pg_catalog.bitor, parallel = safe);
comment on aggregate bloom_bits_agg(text) is
    'chunk with the bits of all items set: the OR of their masks';

create function bloom_fp_rate_add(state float8[], bits bit) returns float8[]
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 2;
comment on function bloom_fp_rate_add(float8[], bit) is 'transition function of bloom_fp_rate';

create aggregate bloom_fp_rate(bits bit) (
    sfunc = bloom_fp_rate_add, stype = float8[], initcond = '{0,0,0}',
    combinefunc = pg_catalog.float8_combine, finalfunc = pg_catalog.float8_avg, parallel = safe);
comment on aggregate bloom_fp_rate(bit) is
    'false-positive rate of a filter, read from its chunks: avg((bits set / bits)^7)';

-- Normalization and sizing

create function bloom_normalize(item text, normalization text) returns text
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 2;
comment on function bloom_normalize(text, text) is
    'key that is hashed for an item with a normalization: none, lower, nfkc or username';

create function bloom_size(capacity float8, fp_rate float8 default 0.01,
    out storage text, out chunks int, out chunk_bits int, out k int, out bytes bigint,
    out disk_bytes bigint, out bits_per_item float8, out expected_fp_rate float8)
returns setof record
as 'MODULE_PATHNAME' language c immutable strict parallel safe rows 2 cost 10000;
comment on function bloom_size(float8, float8) is
    'size of a filter table and of a filter value for capacity items at fp_rate';

create function bloom_expected_fp_rate(items float8, chunks int, k int default 7) returns float8
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 100;
comment on function bloom_expected_fp_rate(float8, int, int) is
    'false-positive rate of that many items in that many chunks of 8192 bits';

-- Filter values: a whole filter in one value

create type bloomfilter;

create function bloomfilter_in(cstring) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable strict parallel safe;
comment on function bloomfilter_in(cstring) is 'input of type bloomfilter: bytes as of bytea';

create function bloomfilter_out(bloomfilter) returns cstring
as 'MODULE_PATHNAME' language c immutable strict parallel safe;
comment on function bloomfilter_out(bloomfilter) is 'output of type bloomfilter: hex as of bytea';

create function bloomfilter_recv(internal) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable strict parallel safe;
comment on function bloomfilter_recv(internal) is 'binary input of type bloomfilter';

create function bloomfilter_send(bloomfilter) returns bytea
as 'MODULE_PATHNAME' language c immutable strict parallel safe;
comment on function bloomfilter_send(bloomfilter) is 'binary output of type bloomfilter';

-- Random bits do not compress, and a value that is not compressed is read in slices.
create type bloomfilter (input = bloomfilter_in, output = bloomfilter_out,
    receive = bloomfilter_recv, send = bloomfilter_send, storage = external);
comment on type bloomfilter is 'Bloom filter as a value: header and chunks';

create function bloomfilter_from_bytea(bytea) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable strict parallel safe;
comment on function bloomfilter_from_bytea(bytea) is 'conversion of bytes to a Bloom filter; validates them';

create cast (bytea as bloomfilter) with function bloomfilter_from_bytea(bytea);
comment on cast (bytea as bloomfilter) is 'validates the bytes of a Bloom filter';
create cast (bloomfilter as bytea) without function;
comment on cast (bloomfilter as bytea) is 'bytes of a Bloom filter';

create function bloom_empty(capacity float8, fp_rate float8 default 0.01,
    normalization text default 'lower') returns bloomfilter
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 1000;
comment on function bloom_empty(float8, float8, text) is
    'empty filter value for capacity items at fp_rate';

create function bloom_value_add(value bloomfilter, item text) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 10;
comment on function bloom_value_add(bloomfilter, text) is 'filter with an item added';

create function bloom_value_union(one bloomfilter, other bloomfilter) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 100;
comment on function bloom_value_union(bloomfilter, bloomfilter) is
    'filter with the members of both, which must have the same shape';

create function bloom_value_contain(value bloomfilter, item text) returns boolean
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 5;
comment on function bloom_value_contain(bloomfilter, text) is
    'whether a filter might contain an item; false: definitely not';

create function bloom_value_contained(item text, value bloomfilter) returns boolean
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 5;
comment on function bloom_value_contained(text, bloomfilter) is
    'whether a filter might contain an item; false: definitely not';

create function bloom_value_eq(one bloomfilter, other bloomfilter) returns boolean
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 10;
comment on function bloom_value_eq(bloomfilter, bloomfilter) is 'same bytes';

create function bloom_value_ne(one bloomfilter, other bloomfilter) returns boolean
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 10;
comment on function bloom_value_ne(bloomfilter, bloomfilter) is 'not the same bytes';

create function bloom_value_hash(bloomfilter) returns int
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 10;
comment on function bloom_value_hash(bloomfilter) is 'hash';

create function bloom_value_hash_extended(bloomfilter, bigint) returns bigint
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 10;
comment on function bloom_value_hash_extended(bloomfilter, bigint) is 'hash with a seed';

create operator + (leftarg = bloomfilter, rightarg = text, function = bloom_value_add);
comment on operator + (bloomfilter, text) is 'filter with an item added';

create operator | (leftarg = bloomfilter, rightarg = bloomfilter, function = bloom_value_union,
    commutator = |);
comment on operator | (bloomfilter, bloomfilter) is 'filter with the members of both';

create operator @> (leftarg = bloomfilter, rightarg = text, function = bloom_value_contain,
    commutator = <@, restrict = pg_catalog.contsel, join = pg_catalog.contjoinsel);
comment on operator @> (bloomfilter, text) is 'filter might contain item; false: definitely not';

create operator <@ (leftarg = text, rightarg = bloomfilter, function = bloom_value_contained,
    commutator = @>, restrict = pg_catalog.contsel, join = pg_catalog.contjoinsel);
comment on operator <@ (text, bloomfilter) is 'filter might contain item; false: definitely not';

create operator = (leftarg = bloomfilter, rightarg = bloomfilter, function = bloom_value_eq,
    commutator = =, negator = <>, restrict = pg_catalog.eqsel, join = pg_catalog.eqjoinsel, hashes);
comment on operator = (bloomfilter, bloomfilter) is 'same bytes';

create operator <> (leftarg = bloomfilter, rightarg = bloomfilter, function = bloom_value_ne,
    commutator = <>, negator = =, restrict = pg_catalog.neqsel, join = pg_catalog.neqjoinsel);
comment on operator <> (bloomfilter, bloomfilter) is 'not the same bytes';

create operator class bloomfilter_ops default for type bloomfilter using hash as
    operator 1 = (bloomfilter, bloomfilter),
    function 1 bloom_value_hash(bloomfilter),
    function 2 bloom_value_hash_extended(bloomfilter, bigint);
comment on operator class bloomfilter_ops using hash is 'equality of Bloom filters';
comment on operator family bloomfilter_ops using hash is 'equality of Bloom filters';

create function bloom_fold(value bloomfilter, chunks int) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 1000;
comment on function bloom_fold(bloomfilter, int) is
    'filter with the same members in fewer chunks; their number must divide that of the value';

create function bloom_value_info(value bloomfilter, out chunks int, out chunk_bits int, out k int,
    out normalization text, out canary text, out bytes bigint, out items float8, out fill float8,
    out fp_rate float8, out worst_fill float8)
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 1000;
comment on function bloom_value_info(bloomfilter) is
    'header of a filter value, estimated items, fill and measured false-positive rate; after bloom_grow an item counts twice';

create function bloom_chunks(value bloomfilter, out chunk int, out bits bit(8192))
returns setof record
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe rows 1000 cost 1000;
comment on function bloom_chunks(bloomfilter) is 'chunks of a filter as the rows of a filter table';

create function bloom_agg_add(state internal, item text, capacity float8, fp_rate float8,
    normalization text) returns internal
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_agg_add(internal, text, float8, float8, text) is
    'transition function of bloom_agg';

create function bloom_agg_chunks_add(state internal, item text, chunks int, normalization text)
returns internal
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 2;
comment on function bloom_agg_chunks_add(internal, text, int, text) is
    'transition function of bloom_agg_chunks';

create function bloom_union_agg_add(state internal, value bloomfilter) returns internal
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 100;
comment on function bloom_union_agg_add(internal, bloomfilter) is
    'transition function of bloom_union_agg';

create function bloom_building_combine(state internal, other internal) returns internal
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 1000;
comment on function bloom_building_combine(internal, internal) is
    'combine function of the aggregates that build a filter';

create function bloom_building_serialize(state internal) returns bytea
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 100;
comment on function bloom_building_serialize(internal) is
    'serialization function of the aggregates that build a filter';

create function bloom_building_deserialize(bytea, internal) returns internal
as 'MODULE_PATHNAME' language c immutable strict parallel safe cost 100;
comment on function bloom_building_deserialize(bytea, internal) is
    'deserialization function of the aggregates that build a filter';

create function bloom_building_value(state internal) returns bloomfilter
as 'MODULE_PATHNAME' language c immutable called on null input parallel safe cost 100;
comment on function bloom_building_value(internal) is
    'final function of the aggregates that build a filter';

create aggregate bloom_agg(item text, capacity float8, fp_rate float8, normalization text) (
    sfunc = bloom_agg_add, stype = internal, sspace = 4096, finalfunc = bloom_building_value,
    combinefunc = bloom_building_combine, serialfunc = bloom_building_serialize,
    deserialfunc = bloom_building_deserialize, parallel = safe);
comment on aggregate bloom_agg(text, float8, float8, text) is
    'filter of all items, for capacity items at fp_rate';

create aggregate bloom_agg_chunks(item text, chunks int, normalization text) (
    sfunc = bloom_agg_chunks_add, stype = internal, sspace = 1048576,
    finalfunc = bloom_building_value, combinefunc = bloom_building_combine,
    serialfunc = bloom_building_serialize, deserialfunc = bloom_building_deserialize,
    parallel = safe);
comment on aggregate bloom_agg_chunks(text, int, text) is
    'filter of all items with that many chunks, k = 7: what bloom_merge takes';

create aggregate bloom_union_agg(value bloomfilter) (
    sfunc = bloom_union_agg_add, stype = internal, sspace = 1048576,
    finalfunc = bloom_building_value, combinefunc = bloom_building_combine,
    serialfunc = bloom_building_serialize, deserialfunc = bloom_building_deserialize,
    parallel = safe);
comment on aggregate bloom_union_agg(bloomfilter) is
    'filter with the members of all, which must have the same shape';

-- Filter tables

create function bloom_guard() returns trigger
as 'MODULE_PATHNAME' language c;
comment on function bloom_guard() is
    'guard trigger of a filter table; its arguments are the filter''s settings';

create function bloom_create(filter text, capacity float8, fp_rate float8 default 0.01,
    normalization text default 'lower', source text default null, ready boolean default false,
    chunks int default null) returns regclass
as 'MODULE_PATHNAME', 'bloom_create_filter' language c volatile called on null input parallel unsafe;
comment on function bloom_create(text, float8, float8, text, text, boolean, int) is
    'makes a filter table for capacity items, and loads it if a source query is given';

create function bloom_register(filter regclass, normalization text, capacity float8 default null,
    fp_rate float8 default 0.01, known text[] default null) returns void
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe;
comment on function bloom_register(regclass, text, float8, float8, text[]) is
    'makes a filter of an existing table of chunks; refuses it if it denies an item of known';

create function bloom_might_contain(filter regclass, item text) returns boolean
as 'MODULE_PATHNAME' language c stable called on null input parallel safe cost 10;
comment on function bloom_might_contain(regclass, text) is
    'whether a filter might contain an item; false: definitely not';

create function bloom_might_contain_many(filter regclass, items text[]) returns boolean[]
as 'MODULE_PATHNAME' language c stable called on null input parallel safe cost 1000;
comment on function bloom_might_contain_many(regclass, text[]) is
    'whether a filter might contain each item, in their order; null for null';

create function bloom_might_contain_any(filters regclass[], item text) returns regclass[]
as 'MODULE_PATHNAME' language c stable called on null input parallel safe cost 100;
comment on function bloom_might_contain_any(regclass[], text) is
    'which filters might contain an item, in their order; {}: definitely none of them';

create function bloom_add(filter regclass, item text) returns boolean
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe cost 100;
comment on function bloom_add(regclass, text) is
    'adds an item to a filter; true: it was definitely new';

create function bloom_add_many(filter regclass, items text[]) returns bigint
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe cost 10000;
comment on function bloom_add_many(regclass, text[]) is
    'adds items to a filter, all or none; returns how many were definitely new';

create function bloom_add_trigger() returns trigger
as 'MODULE_PATHNAME' language c;
comment on function bloom_add_trigger() is
    'trigger function that adds a column of new rows to a filter; arguments: schema.filter, column';

create function bloom_drain(filter regclass, queue regclass, max_rows int default 100000)
returns bigint
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe cost 10000;
comment on function bloom_drain(regclass, regclass, int) is
    'moves names from a queue table into a filter; returns how many rows it took';

create function bloom_merge(filter regclass, value bloomfilter) returns bigint
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe cost 100000;
comment on function bloom_merge(regclass, bloomfilter) is
    'adds the members of a value to a filter, all or none; returns how many bits were new';

create function bloom_value(filter regclass) returns bloomfilter
as 'MODULE_PATHNAME' language c stable called on null input parallel safe cost 100000;
comment on function bloom_value(regclass) is 'filter table as one value';

create function bloom_suspend(filter regclass) returns void
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe;
comment on function bloom_suspend(regclass) is
    'makes every check of a filter answer maybe, until bloom_resume';

create function bloom_resume(filter regclass, trust_failover boolean default null) returns void
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe;
comment on function bloom_resume(regclass, boolean) is
    'lets checks of a filter answer no again; the caller confirms that every name has been added';

create procedure bloom_rebuild(filter regclass, source text, capacity float8 default null,
    fp_rate float8 default null, grace interval default '1 minute', min_share float8 default 0.97)
as 'MODULE_PATHNAME' language c;
comment on procedure bloom_rebuild(regclass, text, float8, float8, interval, float8) is
    'rebuilds a filter from a query that returns all names, while checks and adds go on';

create procedure bloom_grow(filter regclass)
as 'MODULE_PATHNAME' language c;
comment on procedure bloom_grow(regclass) is
    'doubles a filter without a source, while checks and adds go on';

create function bloom_info(inout filter regclass, out status text, out advice text,
    out chunks int, out normalization text, out capacity float8, out items float8,
    out items_error float8, out saturation float8, out target_fp_rate float8,
    out items_at_target float8, out fp_rate float8, out fill float8, out worst_chunk int,
    out worst_fill float8, out chunks_read int, out bytes bigint, out bytes_when_made bigint,
    out built_at timestamptz, out age interval, out items_at_build float8, out full_on date,
    out note text)
as 'MODULE_PATHNAME' language c stable called on null input parallel safe cost 100000;
comment on function bloom_info(regclass) is
    'settings and state of a filter, exact: reads every chunk';

-- Unsafe: it reads in a subtransaction, so that a damaged file of one filter is no error.
create function bloom_info_sampled(inout filter regclass, sample int, out status text,
    out advice text, out chunks int, out normalization text, out capacity float8, out items float8,
    out items_error float8, out saturation float8, out target_fp_rate float8,
    out items_at_target float8, out fp_rate float8, out fill float8, out worst_chunk int,
    out worst_fill float8, out chunks_read int, out bytes bigint, out bytes_when_made bigint,
    out built_at timestamptz, out age interval, out items_at_build float8, out full_on date,
    out note text)
as 'MODULE_PATHNAME' language c stable strict parallel unsafe cost 1000;
comment on function bloom_info_sampled(regclass, int) is
    'settings and state of a filter, estimated from that many chunks';

create function bloom_stats(filter regclass, out lookups bigint, out maybes bigint,
    out maybe_share float8, out adds bigint, out new_items bigint, out bulk_calls bigint,
    out errors bigint, out false_positives bigint, out measured_fp_rate float8,
    out stats_since timestamptz)
as 'MODULE_PATHNAME' language c stable called on null input parallel restricted;
comment on function bloom_stats(regclass) is
    'what was done with a filter since its counters were at zero; null where nothing is counted';

create function bloom_stat_reset(filter regclass default null) returns void
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe;
comment on function bloom_stat_reset(regclass) is
    'sets the counters of a filter to zero, or of all filters of the database';

create function bloom_report_false_positive(filter regclass, count bigint default 1) returns void
as 'MODULE_PATHNAME' language c volatile called on null input parallel unsafe;
comment on function bloom_report_false_positive(regclass, bigint) is
    'counts answers "maybe" for items that were found to be free';

-- The filter is the trigger's, not the function's, so that a condition on it spares the others.
create view bloom_filters as
select guard.tgrelid::pg_catalog.regclass as filter, info.status, info.advice, info.chunks,
       info.normalization, info.capacity, info.items, info.items_error, info.saturation,
       info.target_fp_rate, info.items_at_target, info.fp_rate, info.fill, info.worst_chunk,
       info.worst_fill, info.chunks_read, info.bytes, info.bytes_when_made, info.built_at, info.age,
       info.items_at_build, info.full_on, stats.lookups, stats.maybes, stats.maybe_share,
       stats.adds, stats.new_items, stats.bulk_calls, stats.errors, stats.false_positives,
       stats.measured_fp_rate, stats.stats_since, info.note
from pg_catalog.pg_trigger guard
     cross join lateral bloom_info_sampled(guard.tgrelid::pg_catalog.regclass, 256) info
     cross join lateral bloom_stats(guard.tgrelid::pg_catalog.regclass) stats
where guard.tgfoid operator(pg_catalog.=) 'bloom_guard()'::pg_catalog.regprocedure
  and guard.tgname operator(pg_catalog.=) 'bloom_filter'
  and (pg_catalog.has_table_privilege(guard.tgrelid, 'select')
       or pg_catalog.pg_has_role('pg_monitor', 'usage'))
  and info.status is not null;
comment on view bloom_filters is
    'every filter that you may read or monitor, estimated from a sample of 256 chunks';
grant select on bloom_filters to public;

create function bloom_get_progress(out pid int, out datname name, out filter regclass,
    out command text, out phase text, out names_read bigint, out values_read bigint,
    out rows_expected bigint, out chunks_done bigint, out chunks_total bigint, out waiting_for int,
    out phase_time_left interval, out phase_started_at timestamptz, out started_at timestamptz)
returns setof record
as 'MODULE_PATHNAME' language c stable strict parallel restricted rows 10;
comment on function bloom_get_progress() is 'the rows of the view bloom_progress';

create view bloom_progress as
select pid, datname, filter, command, phase, names_read, values_read, rows_expected, chunks_done,
       chunks_total, waiting_for, phase_time_left, phase_started_at, started_at
from bloom_get_progress();
comment on view bloom_progress is
    'creates, registrations, rebuilds, growths and merges that run now, and how far each is';
grant select on bloom_progress to public;
