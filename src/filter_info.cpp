// What a filter is, holds and needs: bloom_info, and the rows of the view bloom_filters.
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"
#include "chunk_estimate.hpp"
#include "filter_ddl.hpp"
#include "filter_leftover.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "rebuild_phase.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// What was read from chunks, all of them or a sample.
struct Reading {
  int32 chunks_read;
  float8 items;    // of the whole filter
  float8 fill;     // share of bits set
  float8 fp_rate;  // mean of fill^7: what a check of an absent item meets
  int32 worst_chunk;
  float8 worst_fill;
  const char *damage;  // null where all was well
};

// Reads `sample` chunks, evenly apart, or all; stops at one that is missing or holds something
// else.
Reading read_chunks(Relation relation, FilterTable *table, int32 sample) {
  const int32 chunks = table->settings.chunks;
  Reading reading{};
  reading.chunks_read = Min(sample, chunks);
  reading.worst_chunk = -1;
  for (int32 i = 0; i < reading.chunks_read; ++i) {
    CHECK_FOR_INTERRUPTS();
    const auto chunk = static_cast<int32>(static_cast<int64>(i) * chunks / reading.chunks_read);
    ChunkRow row;
    if (!find_chunk(relation, &table->rows, chunk, nullptr, Access::kRead, &row)) {
      reading.chunks_read = i;
      reading.damage = psprintf("damaged: chunk %d is missing", chunk);
      return reading;
    }
    if (!holds_chunk(relation, table->rows.shape, &row.tuple)) {
      row.release();
      reading.chunks_read = i;
      reading.damage = psprintf("damaged: chunk %d does not hold %d bits", chunk, kChunkBits);
      return reading;
    }
    const ChunkEstimate estimate(stored_chunk(relation, table->rows.shape, &row.tuple));
    row.release();
    reading.items += estimate.items();
    reading.fill += estimate.fill();
    reading.fp_rate += estimate.fp_rate();
    if (reading.worst_chunk < 0 || estimate.fill() > reading.worst_fill) {
      reading.worst_chunk = chunk;
      reading.worst_fill = estimate.fill();
    }
  }
  const float8 read = reading.chunks_read;
  reading.items *= chunks / read;
  reading.fill /= read;
  reading.fp_rate /= read;
  return reading;
}

const char *status_of(const FilterTable &table, const Reading &reading) {
  if (reading.damage != nullptr) return reading.damage;
  if (const char *status = running_rebuild(table)) return status;
  if (const char *reason = suspension_reason(table)) return reason;
  if (const char *status = broken_rebuild(table)) return status;
  if (table.agreement == Agreement::kAsciiOnly)
    return "normalization changed: only ASCII is denied";
  if (table.agreement == Agreement::kNone) return "normalization changed: nothing is denied";
  return "ready";
}

// What to do about a table that dead rows have blown up. First what stops nobody: cluster locks
// everybody out while it runs, and vacuum full does so too and leaves the rows out of order, which
// makes checks slower.
const char *advice_on_size(const FilterTable &table, int64 bytes) {
  if (static_cast<float8>(bytes) <= 2 * table_bytes_on_disk(table.settings.chunks)) return nullptr;
  return psprintf(
      "over twice its size when made: call bloom_rebuild, or where checks can wait: cluster %s "
      "using %s",
      qualified_name(table.relid), quote_identifier(get_rel_name(table.rows.shape.index)));
}

// What to do about it, or null.
const char *advice_on(const FilterTable &table, const Reading &reading) {
  const Settings &settings = table.settings;
  const float8 saturation = settings.capacity > 0 ? reading.items / settings.capacity : 0;
  if (reading.damage != nullptr || settings.canary_lost || table.agreement != Agreement::kFull)
    return "call bloom_rebuild";
  if (running_rebuild(table) != nullptr) return nullptr;
  if (suspension_reason(table) != nullptr) return "once every name is in, call bloom_resume";
  if (broken_rebuild(table) != nullptr && !RecoveryInProgress()) return "call bloom_rebuild again";
  if (saturation > 1) return "over its capacity: call bloom_rebuild";
  if (saturation > kNearlyFull) return "nearly full: plan a bloom_rebuild";
  if (reading.fp_rate > settings.fp_rate) return "over its rate: call bloom_rebuild";
  return nullptr;
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

Datum info_row(FunctionCallInfo fcinfo, Relation relation, FilterTable *table, int32 sample) {
  const Reading reading = read_chunks(relation, table, sample);
  const Settings &settings = table->settings;
  Datum values[kColumns] = {};
  bool nulls[kColumns] = {};
  const Datum relid = ObjectIdGetDatum(RelationGetRelid(relation));
  const auto set_text = [&](Column column, const char *text) {
    nulls[column] = text == nullptr;
    if (text != nullptr) values[column] = CStringGetTextDatum(text);
  };
  values[kFilter] = relid;
  set_text(kStatus, status_of(*table, reading));
  const Datum bytes = DirectFunctionCall1(pg_total_relation_size, relid);
  const char *advice = advice_on(*table, reading);
  if (advice == nullptr) advice = leftover_advice(relation, table->rows.shape);
  if (advice == nullptr) advice = advice_on_size(*table, DatumGetInt64(bytes));
  set_text(kAdvice, advice);
  values[kChunks] = Int32GetDatum(settings.chunks);
  set_text(kNormalization, normalization_name(settings.normalization));
  nulls[kCapacity] = nulls[kSaturation] = settings.capacity == 0;
  values[kCapacity] = Float8GetDatum(settings.capacity);
  // Of a filter that has grown the bits tell of more items than there are; how full it is they tell
  // rightly.
  values[kItems] = Float8GetDatum(Max(std::round(reading.items - settings.excess_items), 0.0));
  if (!nulls[kSaturation]) values[kSaturation] = Float8GetDatum(reading.items / settings.capacity);
  values[kTargetFpRate] = Float8GetDatum(settings.fp_rate);
  values[kFpRate] = Float8GetDatum(reading.fp_rate);
  values[kFill] = Float8GetDatum(reading.fill);
  values[kWorstChunk] = Int32GetDatum(reading.worst_chunk);
  values[kWorstFill] = Float8GetDatum(reading.worst_fill);
  values[kChunksRead] = Int32GetDatum(reading.chunks_read);
  values[kBytes] = bytes;
  const Datum built_at = TimestampTzGetDatum(time_t_to_timestamptz(settings.built_at));
  values[kBuiltAt] = built_at;
  values[kAge] = DirectFunctionCall2(
      timestamp_mi, TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()), built_at);
  values[kItemsAtBuild] = Float8GetDatum(settings.items_at_build);
  set_text(kNote, note_on(*table));
  if (reading.damage != nullptr)
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
    row = unreadable_row(fcinfo, {psprintf("not readable: %s", error->message), kMakeAnew});
  }
  PG_END_TRY();
  MemoryContextSwitchTo(context);
  CurrentResourceOwner = owner;
  if (row == 0) PG_RETURN_NULL();
  return row;
}

}  // extern "C"

}  // namespace bloomfilter
