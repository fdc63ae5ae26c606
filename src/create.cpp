// Making, adopting, suspending and resuming filter tables: all that writes settings.
#include "pg.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bloomfilter/sizing.hpp"
#include "chunk_row.hpp"
#include "filter_ddl.hpp"
#include "filter_table.hpp"
#include "journal.hpp"
#include "normalize.hpp"
#include "popcount.hpp"
#include "row_writer.hpp"
#include "size_arguments.hpp"
#include "source.hpp"
#include "standby_wait.hpp"

using namespace bloomfilter;

namespace {

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

// Makes the empty table where the caller would: in the first schema of its search path, unless
// the name says another.
Oid create_table(const char *name) {
  RangeVar *range = makeRangeVarFromNameList(compat_qualified_name_list(name));
  const Oid schema = RangeVarGetCreationNamespace(range);
  if (isTempNamespace(schema))
    ereport(ERROR, (errcode(ERRCODE_INVALID_TABLE_DEFINITION),
                    errmsg("a Bloom filter cannot be temporary")));
  make_chunk_table(quote_qualified_identifier(get_namespace_name(schema), range->relname), "");
  return get_relname_relid(range->relname, schema);
}

// Writes the rows of a new table from what the source yields. Returns about how many items.
float8 load_source(Relation relation, const char *source, SourceRows rows, Oid caller, int32 chunks,
                   Normalization normalization) {
  SourceSpool *spool = open_spool(normalization, chunks, false);
  read_source(source, caller, rows, RelationGetRelationName(relation), spool);
  const float8 items = write_spooled_rows(relation, spool, chunks);
  close_spool(spool);
  return items;
}

void tell_how_it_was_made(const char *name, const Settings &settings, bool loaded) {
  tell_ascii_only(settings.normalization, name);
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

// The settings of a filter that its owner is about to change, and that nobody else changes until
// the commit. *agreement is that with the server's normalisation.
Settings settings_to_change(FunctionCallInfo fcinfo, const char *function, LOCKMODE lock,
                            Agreement *agreement) {
  PreventCommandIfReadOnly(function);
  if (PG_ARGISNULL(0)) null_filter();
  const Oid relid = PG_GETARG_OID(0);
  // Before the lock: nobody else may stop the adds.
  require_owner(relid);
  LockRelationOid(relid, lock);
  lock_settings(relid);
  const OpenFilter filter = open_filter(relid, lock, ACL_NO_RIGHTS);
  Settings settings = filter.settings();
  *agreement = filter.table->agreement;
  if (settings.trust_failover) wait_for_standbys();
  // Of a rebuild that broke off nothing is needed any more.
  if (!rebuild_runs(*filter.table)) settings.journal = 0;
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

// What a publisher's filter is cannot be seen here, and only its rows arrive.
void warn_of_subscription(Oid relid, const Settings &settings) {
  if (!is_subscribed(relid)) return;
  ereport(
      WARNING,
      (errmsg("a subscription writes to Bloom filter \"%s\"", get_rel_name(relid)),
       errdetail("Unless the publisher's filter has %d chunks and normalization \"%s\" too, and "
                 "keeps them, this one denies names.",
                 settings.chunks, normalization_name(settings.normalization)),
       errhint("Compare bloom_info on both. Or subscribe to the names, and have a trigger add "
               "them.")));
}

void warn_without_standbys(const char *name) {
  if (has_synchronous_standbys()) return;
  ereport(WARNING,
          (errmsg("Bloom filter \"%s\" trusts failovers, but no standby is synchronous", name),
           errdetail("After a failover it would deny the names whose adds the standby "
                     "never got."),
           errhint("Set synchronous_standby_names.")));
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
  const bool ready = source != nullptr || (!PG_ARGISNULL(5) && PG_GETARG_BOOL(5));
  const int32 chunks = chunks_argument(fcinfo, 6, capacity, fp_rate);

  const Oid caller = fcinfo->flinfo->fn_oid;
  SPI_connect();
  SourceRows rows = SourceRows::kNames;
  if (source != nullptr) rows = require_source(source, caller);
  const Oid relid = create_table(name);
  Relation relation = table_open(relid, AccessExclusiveLock);
  Settings settings = new_settings(relid, chunks, normalization, capacity, fp_rate);
  settings.state = ready ? State::kReady : State::kLoading;
  if (source == nullptr)
    write_rows(relation, {nullptr, 0, chunks});
  else
    settings.items_at_build = load_source(relation, source, rows, caller, chunks, normalization);
  table_close(relation, NoLock);
  execute(psprintf("alter table %s add primary key (chunk)", qualified_name(relid)));
  store_settings(relid, settings, caller);
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
  tell_ascii_only(normalization, get_rel_name(relid));
  warn_of_subscription(relid, settings);
  PG_RETURN_VOID();
}

// bloom_suspend(filter regclass): from its commit on every check answers maybe; adds go on. It
// waits for no add, nor an add for it: whatever an add under way reads of the settings, it does the
// same. Under a normalisation that has changed there is no way back but another build: names may be
// added with bits that no check would look for, were the server as before.
BLOOM_SQL_FUNCTION(bloom_suspend) {
  Agreement agreement;
  Settings settings = settings_to_change(fcinfo, "bloom_suspend()", AccessShareLock, &agreement);
  settings.state = State::kSuspended;
  settings.canary_lost |= agreement != Agreement::kFull;
  overwrite_settings(PG_GETARG_OID(0), settings);
  PG_RETURN_VOID();
}

// bloom_resume(filter regclass, trust_failover boolean): the caller vouches that every name is
// in; checks may deny from its commit on, of this table on this server and timeline. trust_failover
// says whether a failover suspends the filter; null leaves that as it is. It waits for the adds
// under way: the caller's word may count a bulk that has not committed yet, and adds that do not
// know of the trust would not wait for a standby.
BLOOM_SQL_FUNCTION(bloom_resume) {
  Agreement agreement;
  Settings settings =
      settings_to_change(fcinfo, "bloom_resume()", ShareRowExclusiveLock, &agreement);
  if (!normalized_as_here(settings))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot resume Bloom filter \"%s\"", get_rel_name(PG_GETARG_OID(0))),
                    errdetail("Normalisation \"%s\" is not what it was when names were added.",
                              normalization_name(settings.normalization)),
                    errhint("Make the filter anew from its source.")));
  settings.state = State::kReady;
  settings.origin = origin_here(PG_GETARG_OID(0));
  settings.columns = columns_of(PG_GETARG_OID(0));
  strlcpy(settings.stamp, server_stamp(settings.normalization), kStampBytes);
  const bool trusted = settings.trust_failover;
  if (!PG_ARGISNULL(1)) settings.trust_failover = PG_GETARG_BOOL(1);
  change_settings(fcinfo, settings);
  if (settings.trust_failover) wait_for_standbys();
  if (settings.trust_failover && !trusted) warn_without_standbys(get_rel_name(PG_GETARG_OID(0)));
  warn_of_subscription(PG_GETARG_OID(0), settings);
  PG_RETURN_VOID();
}
