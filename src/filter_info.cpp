// What a filter is, holds and needs: bloom_info, and the rows of the view bloom_filters.
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

// What a filter's state is called, and the command that mends it; null where there is nothing to
// do.
struct Verdict {
  const char *status;
  const char *advice;
  const char *note = nullptr;
};

// Of a table that is over twice its size when made: dead rows have blown it up. A rebuild stops
// nobody. cluster locks everybody out while it runs, and vacuum full does so too and leaves the
// rows out of order, which makes checks slower.
bool is_bloated(const FilterTable &table, int64 bytes) {
  return static_cast<float8>(bytes) > 2 * table_bytes_on_disk(table.settings.chunks);
}

// The first of these that holds, the most urgent first. docs/operations.md has them in a table.
Verdict judge(Relation relation, const FilterTable &table, const Sample &sample, int64 bytes) {
  const Settings &settings = table.settings;
  const char *rebuild = rebuild_command(table.relid);
  if (sample.damage != nullptr) return {sample.damage, rebuild};
  if (const char *status = running_rebuild(table)) return {status, nullptr};
  if (const char *reason = suspension_reason(table)) {
    // Who suspended it by hand knows when every name is in again. Otherwise names may be missing,
    // and only a rebuild finds them.
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
  const float8 saturation = settings.capacity > 0 ? sample.items / settings.capacity : 0;
  if (saturation > 1) return {"ready: over capacity", rebuild};
  if (saturation > kNearlyFull) return {"ready: over 80 % of its capacity", rebuild};
  if (sample.fp_rate > settings.fp_rate) return {"ready: over its false-positive rate", rebuild};
  if (is_bloated(table, bytes)) return {"ready: over twice its size when made", rebuild};
  return {"ready", nullptr};
}

// What cannot be mended, or not told from here, and may surprise; or null.
const char *note_on(const FilterTable &table) {
  if (table.settings.normalization == Normalization::kLower && lowers_ascii_only())
    return "folds ASCII letters only";
  if (is_subscribed(table.relid)) return "subscribed to: the publisher's must have as many chunks";
  if (table.settings.trust_failover && !RecoveryInProgress() && !has_synchronous_standbys())
    return "trusts failovers, but no standby is synchronous";
  return nullptr;
}

// The columns of bloom_info and bloom_filters, in order.
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

// The row of a filter of which no more can be known than its status.
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

// The row of bloom_info_sampled; 0 where the filter is gone.
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

// Whether an error tells something of the filter that was being read: not a cancel or shutdown, a
// lack of memory, or a transaction that has to be begun again.
bool is_of_filter(int sqlstate) {
  const int category = ERRCODE_TO_CATEGORY(sqlstate);
  return category != ERRCODE_OPERATOR_INTERVENTION && category != ERRCODE_INSUFFICIENT_RESOURCES &&
         category != ERRCODE_TRANSACTION_ROLLBACK;
}

}  // namespace

extern "C" {

// bloom_info(filter regclass) -> record: one row, exact, reads every chunk. Needs SELECT.
PG_FUNCTION_INFO_V1(bloom_info);
PGDLLEXPORT Datum bloom_info(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(0)) null_filter();
  const OpenFilter filter = open_filter(PG_GETARG_OID(0), AccessShareLock, ACL_SELECT);
  const Datum row = info_row(fcinfo, filter.relation, filter.table, filter.settings().chunks);
  close_filter(filter);
  return row;
}

// bloom_info_sampled(filter regclass, sample int) -> record: the same from `sample` chunks. No
// error, and no waiting for a lock, where the filter cannot be read, but a row whose status says
// why; null where it is gone. A cancel and the like are errors all the same.
PG_FUNCTION_INFO_V1(bloom_info_sampled);
PGDLLEXPORT Datum bloom_info_sampled(PG_FUNCTION_ARGS) {
  MemoryContext context = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  volatile Datum row = 0;
  // What a file that is damaged or missing raises would keep all other filters' rows back.
  BeginInternalSubTransaction(nullptr);
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
    // Also before an error goes on: whoever catches it knows nothing of this subtransaction, and
    // would end another (a savepoint around a cancel crashed the server).
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
