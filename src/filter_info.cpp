// What a filter is, what it holds and what it needs: bloom_info, and the rows of the view
// bloom_filters.
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"
#include "filter_command.hpp"
#include "filter_ddl.hpp"
#include "filter_leftover.hpp"
#include "filter_sample.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "rebuild_phase.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// The status of a filter, the command that solves its problem, and what else to know about it. The
// command is null if nothing has to be done.
struct Verdict {
  const char *status;
  const char *advice;
  const char *note = nullptr;
};

// Whether a table has more than twice the size that it had when it was made, because of dead rows.
// The advice is a rebuild, because it stops nobody. CLUSTER locks everybody out while it runs.
// VACUUM FULL does so too, and leaves the rows out of order, which makes checks slower.
bool is_bloated(const FilterTable &table, int64 bytes) {
  return static_cast<float8>(bytes) > 2 * table_bytes_on_disk(table.settings.chunks);
}

// The first status that applies, the most urgent one first. docs/operations.md has them in a table.
Verdict judge(Relation relation, const FilterTable &table, const Sample &sample, int64 bytes) {
  const Settings &settings = table.settings;
  const char *rebuild = rebuild_command(table.relid);
  if (sample.damage != nullptr) return {sample.damage, rebuild};
  if (const char *status = running_rebuild(table)) return {status, nullptr};
  if (const char *reason = suspension_reason(table)) {
    // A person who suspended it knows when every name is in again. In all other cases names may be
    // missing, and only a rebuild finds them.
    const bool by_hand = settings.state == State::kSuspended && !settings.canary_lost;
    return {reason, by_hand ? resume_command(table.relid) : rebuild};
  }
  if (const char *status = broken_rebuild(table))
    return {status, RecoveryInProgress() ? nullptr : rebuild};
  if (table.agreement == Agreement::kAsciiOnly)
    return {"normalization changed: only ASCII is denied", rebuild};
  if (table.agreement == Agreement::kNone)
    return {"normalization changed: nothing is denied", rebuild};
  const Leftover leftover = find_leftover(relation, table.rows.shape);
  if (leftover.status != nullptr) return {leftover.status, leftover.command, leftover.note};
  // By all items that the bits show. After bloom_grow they are more than the items that were added,
  // but they are what fills the filter.
  const float8 saturation = settings.capacity > 0 ? sample.items / settings.capacity : 0;
  if (saturation > 1) return {"ready: over capacity", rebuild};
  if (saturation > kNearlyFull) return {"ready: over 80 % of its capacity", rebuild};
  if (sample.fp_rate > settings.fp_rate) return {"ready: over its false-positive rate", rebuild};
  if (is_bloated(table, bytes)) return {"ready: over twice its size when made", rebuild};
  return {"ready", nullptr};
}

// What the user may not expect but cannot change, or what cannot be seen from here; or null. It
// changes neither status nor advice.
const char *note_on(const FilterTable &table) {
  if (table.settings.normalization == Normalization::kLower && lowers_ascii_only())
    return "folds ASCII letters only";
  if (is_subscribed(table.relid)) return "subscribed to: the publisher's must have as many chunks";
  if (table.settings.trust_failover && !RecoveryInProgress() && !has_synchronous_standbys())
    return "trusts failovers, but no standby is synchronous";
  return nullptr;
}

// The columns of bloom_info and bloom_filters, in the order of sql/bloomfilter.sql.
enum Column {
  kFilter,
  kStatus,
  kAdvice,
  kChunks,
  kNormalization,
  kCapacity,
  kItems,
  kSaturation,
  kTargetFpRate,
  kFpRate,
  kFill,
  kWorstChunk,
  kWorstFill,
  kChunksRead,
  kBytes,
  kBuiltAt,
  kAge,
  kItemsAtBuild,
  kNote,
  kColumns
};

// The row of a filter that can be read, from `count` of its chunks. If a chunk is damaged, the
// status says so, and every column that depends on bits is null.
Datum info_row(FunctionCallInfo fcinfo, Relation relation, FilterTable *table, int32 count) {
  const Sample sample = read_chunks(relation, table, count);
  const Settings &settings = table->settings;
  Datum values[kColumns] = {};
  bool nulls[kColumns] = {};
  const Datum relid = ObjectIdGetDatum(RelationGetRelid(relation));
  const auto set_text = [&](Column column, const char *text) {
    nulls[column] = text == nullptr;
    if (text != nullptr) values[column] = CStringGetTextDatum(text);
  };
  values[kFilter] = relid;
  const Datum bytes = DirectFunctionCall1(pg_total_relation_size, relid);
  const Verdict verdict = judge(relation, *table, sample, DatumGetInt64(bytes));
  set_text(kStatus, verdict.status);
  set_text(kAdvice, verdict.advice);
  values[kChunks] = Int32GetDatum(settings.chunks);
  set_text(kNormalization, normalization_name(settings.normalization));
  // A filter may be registered without a capacity.
  nulls[kCapacity] = nulls[kSaturation] = settings.capacity == 0;
  values[kCapacity] = Float8GetDatum(settings.capacity);
  values[kItems] = Float8GetDatum(items_added(sample, settings));
  if (!nulls[kSaturation]) values[kSaturation] = Float8GetDatum(sample.items / settings.capacity);
  values[kTargetFpRate] = Float8GetDatum(settings.fp_rate);
  values[kFpRate] = Float8GetDatum(sample.fp_rate);
  values[kFill] = Float8GetDatum(sample.fill);
  values[kWorstChunk] = Int32GetDatum(sample.worst_chunk);
  values[kWorstFill] = Float8GetDatum(sample.worst_fill);
  values[kChunksRead] = Int32GetDatum(sample.chunks_read);
  values[kBytes] = bytes;
  const Datum built_at = TimestampTzGetDatum(time_t_to_timestamptz(settings.built_at));
  values[kBuiltAt] = built_at;
  values[kAge] = DirectFunctionCall2(
      timestamp_mi, TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()), built_at);
  values[kItemsAtBuild] = Float8GetDatum(settings.items_at_build);
  set_text(kNote, verdict.note != nullptr ? verdict.note : note_on(*table));
  if (sample.damage != nullptr)
    for (Column column : {kItems, kSaturation, kFpRate, kFill, kWorstChunk, kWorstFill})
      nulls[column] = true;
  return row_result(fcinfo, values, nulls);
}

// The row of a filter that has only a status and, perhaps, advice.
Datum unreadable_row(FunctionCallInfo fcinfo, const Obstacle &obstacle) {
  Datum values[kColumns] = {};
  bool nulls[kColumns];
  for (bool &null : nulls) null = true;
  nulls[kFilter] = nulls[kStatus] = false;
  values[kFilter] = PG_GETARG_DATUM(0);
  values[kStatus] = CStringGetTextDatum(obstacle.status);
  nulls[kAdvice] = obstacle.advice == nullptr;
  if (!nulls[kAdvice]) values[kAdvice] = CStringGetTextDatum(obstacle.advice);
  return row_result(fcinfo, values, nulls);
}

// The row of bloom_info_sampled. 0 if the filter was dropped meanwhile. Waits for no lock: one
// locked filter would stop the rows of all others.
Datum row_if_readable(FunctionCallInfo fcinfo) {
  Relation relation;
  Obstacle obstacle;
  FilterTable *table = try_open_filter(PG_GETARG_OID(0), &relation, &obstacle);
  Datum row = 0;
  if (table != nullptr)
    row = info_row(fcinfo, relation, table, Max(PG_GETARG_INT32(1), 1));
  else if (obstacle.status != nullptr)
    row = unreadable_row(fcinfo, obstacle);
  if (relation != nullptr) relation_close(relation, NoLock);
  return row;
}

// Whether an error tells something about the filter that was read. A cancel or a shutdown does not,
// nor does a lack of memory, nor a transaction that has to be repeated.
bool is_of_filter(int sqlstate) {
  const int category = ERRCODE_TO_CATEGORY(sqlstate);
  return category != ERRCODE_OPERATOR_INTERVENTION && category != ERRCODE_INSUFFICIENT_RESOURCES &&
         category != ERRCODE_TRANSACTION_ROLLBACK;
}

}  // namespace

extern "C" {

// bloom_info(filter regclass) -> record: one row, exact, since it reads every chunk. It needs
// SELECT.
PG_FUNCTION_INFO_V1(bloom_info);
PGDLLEXPORT Datum bloom_info(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock, ACL_SELECT);
  const Datum row = info_row(fcinfo, filter.relation, filter.table, filter.settings().chunks);
  close_filter(filter);
  return row;
}

// bloom_info_sampled(filter regclass, sample int) -> record: the same from `sample` chunks. If the
// filter cannot be read, or is locked, it neither raises an error nor waits: the row has a status
// that gives the reason. Null if the filter was dropped. A cancel, and what else is_of_filter
// leaves out, is an error all the same. The view reads 256 chunks: 1 ms a filter, fit for a scrape
// every 15 s.
PG_FUNCTION_INFO_V1(bloom_info_sampled);
PGDLLEXPORT Datum bloom_info_sampled(PG_FUNCTION_ARGS) {
  MemoryContext context = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  // It is set inside PG_TRY and read behind it, so it has to be volatile.
  volatile Datum row = 0;
  // Without it, an error from a damaged or missing file would hide the rows of all other filters.
  // Only the abort of a subtransaction releases the locks and pins that the error left.
  BeginInternalSubTransaction(nullptr);
  // BeginInternalSubTransaction has switched to a context that ends with it, and the row has to
  // stay.
  MemoryContextSwitchTo(context);
  PG_TRY();
  {
    row = row_if_readable(fcinfo);
    ReleaseCurrentSubTransaction();
  }
  PG_CATCH();
  {
    MemoryContextSwitchTo(context);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    // This comes before an error is raised again, too. The code that catches that error knows
    // nothing of this subtransaction, and would end another one. A savepoint around a cancel
    // crashed the server.
    RollbackAndReleaseCurrentSubTransaction();
    MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    if (!is_of_filter(error->sqlerrcode)) ReThrowError(error);
    row = unreadable_row(fcinfo, {psprintf("not readable: %s", error->message),
                                  replacement_command(PG_GETARG_OID(0))});
  }
  PG_END_TRY();
  MemoryContextSwitchTo(context);
  CurrentResourceOwner = owner;
  if (row == 0) PG_RETURN_NULL();
  return row;
}

}  // extern "C"

}  // namespace bloomfilter
