// Making, adopting, suspending and resuming filter tables: all that writes settings.
#include "pg.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bits_memory.hpp"
#include "bloomfilter/add_queue.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_row.hpp"
#include "chunk_value.hpp"
#include "filter_table.hpp"
#include "normalize.hpp"
#include "popcount.hpp"
#include "size_arguments.hpp"
#include "value.hpp"

using namespace bloomfilter;

namespace {

// Beyond this much on disk a filter is made only where its chunks are given: a capacity with a
// zero too many should not fill the disk.
constexpr float8 kMaxUnaskedBytes = 16.0 * 1024 * 1024 * 1024;

// Room for six rows a page and a seventh, so that updates of single rows are HOT (99.97 % of
// 437,592 measured; at 100 none fit).
constexpr int kFillFactor = 80;

void execute(const char *command) {
  const int result = SPI_execute(command, false, 0);
  if (result < 0) elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
}

const char *qualified_name(Oid relid) {
  return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                    get_rel_name(relid));
}

// Writes the guard with these settings, inside an SPI connection. Every session learns of it
// through its relation cache.
void store_settings(Oid relid, const Settings &settings, Oid caller) {
  const char *name = qualified_name(relid);
  execute(
      psprintf("create or replace trigger %s before update or delete on %s for each row "
               "execute function %s.bloom_guard(%s)",
               kGuardTrigger, name, extension_schema(caller), settings_arguments(settings)));
  execute(
      psprintf("create or replace trigger %s before truncate on %s for each statement execute "
               "function %s.bloom_guard()",
               kTruncateTrigger, name, extension_schema(caller)));
  execute(psprintf("alter table %s enable always trigger %s, enable always trigger %s", name,
                   kGuardTrigger, kTruncateTrigger));
  // What adds rely on from now on is durable with this transaction.
  ForceSyncCommit();
}

void require_owner(Oid relid) {
  if (!compat_owns_relation(relid))
    aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

float8 capacity_argument(FunctionCallInfo fcinfo, int argument, const char *function) {
  if (PG_ARGISNULL(argument))
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("capacity of %s must not be null", function),
                    errhint("It is the number of items that the filter is meant to hold.")));
  return PG_GETARG_FLOAT8(argument);
}

const char *text_argument(FunctionCallInfo fcinfo, int argument, const char *name) {
  if (PG_ARGISNULL(argument))
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
  return text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

// ---- Loading: names of a query into bits in memory, one range of chunks at a time.

// Receives the rows of a source query, names or values, and sets their bits.
struct Loader {
  DestReceiver receiver;  // first: the executor knows the loader by it
  Header header;          // of the filter, as if it were a value
  const char *filter;     // its name
  ChunkRange range;       // in memory
  AddQueue queue;
  Oid value_type;
  bool takes_values;
  bool casts;  // to_text makes text of the source's type
  FmgrInfo to_text;
  MemoryContext row_context;
};

void start_source(DestReceiver *receiver, int, TupleDesc descriptor) {
  auto *loader = reinterpret_cast<Loader *>(receiver);
  if (descriptor->natts != 1)
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("source must yield one column, not %d", descriptor->natts)));
  const Oid type = TupleDescAttr(descriptor, 0)->atttypid;
  loader->takes_values = getBaseType(type) == loader->value_type;
  if (loader->takes_values) return;
  Oid function = InvalidOid;
  const CoercionPathType path =
      type == TEXTOID ? COERCION_PATH_RELABELTYPE
                      : find_coercion_pathway(TEXTOID, type, COERCION_IMPLICIT, &function);
  if (path != COERCION_PATH_RELABELTYPE && path != COERCION_PATH_FUNC)
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("source yields type %s, not text", format_type_be(type)),
                    errhint("Cast the column to text.")));
  loader->casts = path == COERCION_PATH_FUNC;
  if (loader->casts) fmgr_info(function, &loader->to_text);
}

void receive_name(Loader *loader, std::string_view name) {
  const Header &header = loader->header;
  if (write_short_key(header.normalization, name, loader->queue.max_key_bytes(),
                      loader->queue.block()))
    return loader->queue.push(name.size());
  const ItemBits placed = place_item(header, name);
  if (uint8 *chunk = loader->range.find(header, placed.chunk); chunk != nullptr)
    chunk_add(chunk, placed);
}

void receive_value(Loader *loader, const ValueView &value) {
  const ChunkRange &range = loader->range;
  const auto factor = static_cast<Size>(require_mergeable(
      value.header, loader->header.chunks, loader->header.normalization, loader->filter));
  Header part = value.header;
  part.chunks = range.count * static_cast<int32>(factor);
  fold(part,
       value.bits().subspan(static_cast<Size>(range.first) * factor * kChunkBytes,
                            part.bits_bytes()),
       range.count, range.bits);
}

bool receive_row(TupleTableSlot *slot, DestReceiver *receiver) {
  auto *loader = reinterpret_cast<Loader *>(receiver);
  bool is_null;
  Datum datum = slot_getattr(slot, 1, &is_null);
  if (is_null) {
    // Of a name that nobody has nothing is missing; of a filter all its names are.
    if (loader->takes_values) null_filter();
    return true;
  }
  MemoryContext caller = MemoryContextSwitchTo(loader->row_context);
  if (loader->casts) datum = FunctionCall1(&loader->to_text, datum);
  if (loader->takes_values)
    receive_value(loader, view_value(datum));
  else
    receive_name(loader, text_view(DatumGetTextPP(datum)));
  MemoryContextSwitchTo(caller);
  MemoryContextReset(loader->row_context);
  return true;
}

void end_source(DestReceiver *) {}

// The source as a plan of one query that yields rows, which may be run in parallel.
SPIPlanPtr prepare_source(const char *source) {
  SPIPlanPtr plan = SPI_prepare_cursor(source, 0, nullptr, CURSOR_OPT_PARALLEL_OK);
  if (plan == nullptr)
    elog(ERROR, "SPI_prepare_cursor failed: %s", SPI_result_code_string(SPI_result));
  if (!SPI_is_cursor_plan(plan))
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("source must be one query that yields rows"), errdetail("It is: %s", source)));
  return plan;
}

// Runs the source to its end into the loader. Row-level security is an error rather than a
// filter: hidden rows would be missing names.
void run_source(const char *source, Loader *loader) {
  const int nesting = NewGUCNestLevel();
  set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                    false);
  SPIPlanPtr plan = prepare_source(source);
  SPIExecuteOptions options{};
  options.dest = &loader->receiver;
  const int result = SPI_execute_plan_extended(plan, &options);
  if (result < 0) elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
  SPI_freeplan(plan);
  AtEOXact_GUC(true, nesting);
}

// The extension's type bloomfilter; `function` is any of its functions.
Oid value_type_of(Oid function) {
  return GetSysCacheOid2(TYPENAMENSP, static_cast<AttrNumber>(Anum_pg_type_oid),
                         CStringGetDatum("bloomfilter"),
                         ObjectIdGetDatum(get_func_namespace(function)));
}

// Writes the rows of a range of chunks, or of empty ones where it has no bits.
void write_rows(Relation relation, const ChunkRange &range, BulkInsertState bulk) {
  Datum values[2];
  bool nulls[2] = {false, false};
  VarBit *bits = new_chunk_value();
  values[1] = VarBitPGetDatum(bits);
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    values[0] = Int32GetDatum(range.first + i);
    if (range.bits != nullptr)
      std::memcpy(VARBITS(bits), range.bits + static_cast<Size>(i) * kChunkBytes, kChunkBytes);
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
    heap_insert(relation, tuple, GetCurrentCommandId(true), HEAP_INSERT_SKIP_FSM, bulk);
    heap_freetuple(tuple);
  }
  pfree(bits);
}

float8 items_in(const ChunkRange &range) {
  float8 items = 0;
  for (int32 i = 0; i < range.count; ++i) {
    const ChunkView chunk(range.bits + static_cast<Size>(i) * kChunkBytes, kChunkBytes);
    items += estimated_items(static_cast<float8>(popcount(chunk)), kChunkBits, kTableHashes);
  }
  return items;
}

// Writes all rows of a new filter table from what `source` yields. The source is run once for each
// maintenance_work_mem full of chunks. Returns about how many different items it yielded.
float8 load_source(Relation relation, const Header &header, const char *source, Oid value_type,
                   BulkInsertState bulk) {
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter load", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(context);
  Loader loader{};
  loader.receiver.receiveSlot = receive_row;
  loader.receiver.rStartup = start_source;
  loader.receiver.rShutdown = end_source;
  loader.receiver.rDestroy = end_source;
  loader.header = header;
  loader.filter = RelationGetRelationName(relation);
  loader.value_type = value_type;
  loader.row_context = AllocSetContextCreate(context, "bloomfilter row", ALLOCSET_SMALL_SIZES);
  // One chunk is one kilobyte, the unit of maintenance_work_mem.
  const int32 most = Min(header.chunks, maintenance_work_mem);
  const Size bytes = static_cast<Size>(most) * kChunkBytes;
  loader.range.bits = static_cast<uint8 *>(allocate_bits(bytes));
  float8 items = 0;
  for (int32 first = 0; first < header.chunks; first += loader.range.count) {
    loader.range.first = first;
    loader.range.count = Min(most, header.chunks - first);
    if (first > 0) std::memset(loader.range.bits, 0, bytes);
    loader.queue.start(header, loader.range);
    run_source(source, &loader);
    loader.queue.flush();
    items += items_in(loader.range);
    write_rows(relation, loader.range, bulk);
  }
  MemoryContextSwitchTo(caller);
  MemoryContextDelete(context);
  return items;
}

// Writes all rows of a new filter table, final and in order: with the names of `source`, where
// one is given, else empty. Returns about how many different items there are.
float8 load(Relation relation, int32 chunks, Normalization normalization, const char *source,
            Oid value_type) {
  BulkInsertState bulk = GetBulkInsertState();
  float8 items = 0;
  if (source == nullptr) {
    write_rows(relation, {nullptr, 0, chunks}, bulk);
  } else {
    const Header header = {kTableHashes, log2_of_chunk_bits(kChunkBits), normalization, chunks, 0};
    items = load_source(relation, header, source, value_type, bulk);
  }
  FreeBulkInsertState(bulk);
  CommandCounterIncrement();
  return items;
}

// ---- bloom_create

int32 chunks_argument(FunctionCallInfo fcinfo, int argument, float8 capacity, float8 fp_rate) {
  if (PG_ARGISNULL(argument)) {
    const int32 chunks = table_chunks(capacity, fp_rate);
    const float8 bytes = table_bytes_on_disk(chunks);
    if (bytes > kMaxUnaskedBytes)
      ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                      errmsg("a filter for %.0f items at a rate of %g takes %.0f GB on disk",
                             capacity, fp_rate, bytes / 1e9),
                      errhint("If that is what you want, say chunks => %d.", chunks)));
    return chunks;
  }
  const int32 chunks = PG_GETARG_INT32(argument);
  if (chunks < kMinTableChunks)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("chunks must be at least %d, not %d", kMinTableChunks, chunks),
                    errhint("With fewer, adds would wait for one another. Left out, the number "
                            "comes from capacity and fp_rate.")));
  return chunks;
}

// A lone word is a table's name given for a query.
void require_query(const char *source) {
  if (std::strpbrk(source, " \t\r\n(") == nullptr)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("source must be a query, not \"%s\"", source),
                    errhint("For example: select username from users")));
}

// Makes the empty table where the caller would: in the first schema of its search path, unless
// the name says another.
Oid create_table(const char *name) {
  RangeVar *range = makeRangeVarFromNameList(compat_qualified_name_list(name));
  const Oid schema = RangeVarGetCreationNamespace(range);
  if (isTempNamespace(schema))
    ereport(ERROR, (errcode(ERRCODE_INVALID_TABLE_DEFINITION),
                    errmsg("a Bloom filter cannot be temporary")));
  const char *name_there = quote_qualified_identifier(get_namespace_name(schema), range->relname);
  execute(
      psprintf("create table %s (chunk pg_catalog.int4 not null, bits pg_catalog.bit(%d) not "
               "null) with (fillfactor = %d)",
               name_there, kChunkBits, kFillFactor));
  // Nobody plans by statistics of random bits, and while analyze gathers them its snapshot keeps
  // adds from being HOT: a million of them, with autovacuum every four seconds, made the table grow
  // by 6.9 %, and now by 0.1.
  execute(psprintf("alter table %s alter chunk set statistics 0, alter bits set statistics 0",
                   name_there));
  return get_relname_relid(range->relname, schema);
}

void tell_how_it_was_made(const char *name, const Settings &settings, bool loaded) {
  if (settings.state == State::kLoading)
    ereport(NOTICE, (errmsg("Bloom filter \"%s\" is not ready: every check answers maybe", name),
                     errhint("Have sign-ups call bloom_add, then add the names there are with "
                             "bloom_add_many, then call bloom_resume.")));
  else if (loaded && settings.items_at_build == 0)
    ereport(NOTICE, (errmsg("source of Bloom filter \"%s\" yielded no names", name)));
  if (settings.items_at_build > settings.capacity)
    ereport(WARNING, (errmsg("Bloom filter \"%s\" holds about %.0f items, more than its capacity "
                             "of %.0f",
                             name, settings.items_at_build, settings.capacity)));
}

// ---- bloom_register

// Raises unless the table holds the rows 0 to n - 1 and nothing else; returns n, and about how
// many items in *items. The caller's lock keeps writers out.
int32 count_chunks(Relation relation, const Shape &shape, float8 *items) {
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = compat_table_beginscan(relation, snapshot);
  TupleTableSlot *slot = table_slot_create(relation, nullptr);
  int64 rows = 0, highest = -1, lowest = 0;
  *items = 0;
  while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    CHECK_FOR_INTERRUPTS();
    HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, nullptr);
    const int64 chunk = chunk_number(relation, shape, tuple);
    *items += estimated_items(static_cast<float8>(popcount(chunk_bits(relation, shape, tuple))),
                              kChunkBits, kTableHashes);
    lowest = Min(lowest, chunk);
    highest = Max(highest, chunk);
    ++rows;
  }
  ExecDropSingleTupleTableSlot(slot);
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
  // The primary key sees to it that no number is there twice.
  if (lowest < 0 || rows != highest + 1)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("\"%s\" does not hold every chunk", RelationGetRelationName(relation)),
                    errdetail("It has " INT64_FORMAT " rows, with numbers from " INT64_FORMAT
                              " to " INT64_FORMAT ".",
                              rows, lowest < 0 ? lowest : Min(highest, 0), highest),
                    errhint("A filter of n chunks has the rows 0 to n - 1, empty ones too.")));
  if (rows < kMinTableChunks)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("\"%s\" has " INT64_FORMAT " chunks; a filter has at least %d",
                           RelationGetRelationName(relation), rows, kMinTableChunks)));
  return static_cast<int32>(rows);
}

// Raises if one of the names that must be in the table is not: then its bits were made another
// way than ours.
void require_known(const OpenFilter &filter, ArrayType *known) {
  Datum *items;
  bool *nulls;
  int count;
  deconstruct_array(known, TEXTOID, -1, false, TYPALIGN_INT, &items, &nulls, &count);
  for (int i = 0; i < count; ++i) {
    if (nulls[i]) continue;
    text *item = DatumGetTextPP(items[i]);
    const Digest digest = hash_item(filter.settings().normalization, text_view(item));
    const Positions positions = positions_of(digest);
    ChunkRow row = require_chunk(filter, chunk_of(digest, filter.settings().chunks), &positions,
                                 Access::kRead);
    const bool there =
        chunk_contains(chunk_bits(filter.relation, filter.table->shape, &row.tuple), positions);
    row.release();
    if (!there)
      ereport(
          ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("\"%s\" does not contain \"%s\"", filter.name(), text_to_cstring(item)),
           errdetail("As a filter of %d chunks with normalisation \"%s\" it would call a "
                     "known name free.",
                     filter.settings().chunks, normalization_name(filter.settings().normalization)),
           errhint("Its bits may be of another layout, or of another normalisation.")));
  }
}

// ---- bloom_suspend, bloom_resume

// The settings of a filter that its owner is about to change, with adds locked out until commit.
Settings settings_to_change(FunctionCallInfo fcinfo, const char *function) {
  PreventCommandIfReadOnly(function);
  if (PG_ARGISNULL(0)) null_filter();
  const Oid relid = PG_GETARG_OID(0);
  // Before the lock: nobody else may stop the adds.
  require_owner(relid);
  const OpenFilter filter = open_filter(relid, ShareRowExclusiveLock, ACL_NO_RIGHTS);
  const Settings settings = filter.settings();
  close_filter(filter);
  return settings;
}

bool normalized_as_here(const Settings &settings) {
  return !settings.canary_lost &&
         settings.canary == server_canary(settings.normalization, CanaryPart::kAll) &&
         settings.canary_ascii == server_canary(settings.normalization, CanaryPart::kAscii);
}

void change_settings(FunctionCallInfo fcinfo, const Settings &settings) {
  SPI_connect();
  store_settings(PG_GETARG_OID(0), settings, fcinfo->flinfo->fn_oid);
  SPI_finish();
}

}  // namespace

// bloom_create(filter text, capacity float8, fp_rate float8, normalization text, source text,
// ready boolean, chunks int) -> regclass: makes a filter table, loaded from source where one is
// given.
BLOOM_SQL_FUNCTION(bloom_create) {
  PreventCommandIfReadOnly("bloom_create()");
  const char *name = text_argument(fcinfo, 0, "filter");
  const float8 capacity = capacity_argument(fcinfo, 1, "bloom_create");
  const float8 fp_rate = PG_ARGISNULL(2) ? 0.01 : PG_GETARG_FLOAT8(2);
  require_size_arguments(capacity, fp_rate);
  const Normalization normalization =
      normalization_named(text_argument(fcinfo, 3, "normalization"));
  const char *source = PG_ARGISNULL(4) ? nullptr : text_argument(fcinfo, 4, "source");
  if (source != nullptr) require_query(source);
  const bool ready = source != nullptr || (!PG_ARGISNULL(5) && PG_GETARG_BOOL(5));
  const int32 chunks = chunks_argument(fcinfo, 6, capacity, fp_rate);

  SPI_connect();
  const Oid relid = create_table(name);
  Relation relation = table_open(relid, AccessExclusiveLock);
  Settings settings = new_settings(relid, chunks, normalization, capacity, fp_rate);
  settings.state = ready ? State::kReady : State::kLoading;
  settings.items_at_build =
      load(relation, chunks, normalization, source, value_type_of(fcinfo->flinfo->fn_oid));
  table_close(relation, NoLock);
  execute(psprintf("alter table %s add primary key (chunk)", qualified_name(relid)));
  store_settings(relid, settings, fcinfo->flinfo->fn_oid);
  SPI_finish();
  tell_how_it_was_made(get_rel_name(relid), settings, source != nullptr);
  PG_RETURN_OID(relid);
}

// bloom_register(filter regclass, normalization text, capacity float8, fp_rate float8, known
// text[]): adopts a table made by hand, with its bits. Refused if an item of `known` is denied.
BLOOM_SQL_FUNCTION(bloom_register) {
  PreventCommandIfReadOnly("bloom_register()");
  if (PG_ARGISNULL(0)) null_filter();
  const Oid relid = PG_GETARG_OID(0);
  const Normalization normalization =
      normalization_named(text_argument(fcinfo, 1, "normalization"));
  const float8 fp_rate = PG_ARGISNULL(3) ? 0.01 : PG_GETARG_FLOAT8(3);
  const float8 capacity = PG_ARGISNULL(2) ? 0 : PG_GETARG_FLOAT8(2);
  require_size_arguments(PG_ARGISNULL(2) ? 1 : capacity, fp_rate);

  require_owner(relid);
  Relation relation = relation_open(relid, ShareRowExclusiveLock);
  if (has_guard(relation))
    ereport(ERROR, (errcode(ERRCODE_DUPLICATE_OBJECT),
                    errmsg("\"%s\" is a Bloom filter already", RelationGetRelationName(relation)),
                    errhint("To register it otherwise, drop its triggers \"%s\" and \"%s\" first.",
                            kGuardTrigger, kTruncateTrigger)));
  Shape shape;
  require_filter_shape(relation, &shape);
  float8 items;
  const int32 chunks = count_chunks(relation, shape, &items);
  relation_close(relation, NoLock);

  Settings settings = new_settings(relid, chunks, normalization, capacity, fp_rate);
  settings.items_at_build = items;
  change_settings(fcinfo, settings);
  const OpenFilter filter = open_filter(relid, AccessShareLock, ACL_NO_RIGHTS);
  if (!PG_ARGISNULL(4)) require_known(filter, PG_GETARG_ARRAYTYPE_P(4));
  close_filter(filter);
  PG_RETURN_VOID();
}

// bloom_suspend(filter regclass): from its commit on every check answers maybe; adds go on. Under
// a normalisation that has changed there is no way back but another build: names may be added
// with bits that no check would look for, were the server as before.
BLOOM_SQL_FUNCTION(bloom_suspend) {
  Settings settings = settings_to_change(fcinfo, "bloom_suspend()");
  settings.state = State::kSuspended;
  settings.canary_lost = !normalized_as_here(settings);
  change_settings(fcinfo, settings);
  PG_RETURN_VOID();
}

// bloom_resume(filter regclass, trust_failover boolean): the caller vouches that every name is
// in; checks may deny from its commit on, of this table on this server and timeline. trust_failover
// says whether a failover suspends the filter; null leaves that as it is.
BLOOM_SQL_FUNCTION(bloom_resume) {
  Settings settings = settings_to_change(fcinfo, "bloom_resume()");
  if (!normalized_as_here(settings))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot resume Bloom filter \"%s\"", get_rel_name(PG_GETARG_OID(0))),
                    errdetail("Normalisation \"%s\" is not what it was when names were added.",
                              normalization_name(settings.normalization)),
                    errhint("Make the filter anew from its source.")));
  settings.state = State::kReady;
  settings.origin = origin_here(PG_GETARG_OID(0));
  strlcpy(settings.stamp, server_stamp(settings.normalization), kStampBytes);
  if (!PG_ARGISNULL(1)) settings.trust_failover = PG_GETARG_BOOL(1);
  change_settings(fcinfo, settings);
  PG_RETURN_VOID();
}
