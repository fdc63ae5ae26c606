// What a filter is, what it holds and what it needs: bloom_info, and the rows of the view
// bloom_filters.
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"
#include "bloomfilter/sizing.hpp"
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

// How many items the filter holds at the rate that it was made for.
float8 items_at_target(const Settings &settings) {
  return items_at_fp_rate(settings.fp_rate, settings.chunks, kChunkBits, kTableHashes);
}

// The capacity that spreads the items of the worst chunk over so many chunks that none is above the
// target rate.
float8 capacity_to_spread(const Settings &settings, const Sample &sample) {
  const float8 fill = std::pow(settings.fp_rate, 1.0 / kTableHashes);
  const float8 at_target = estimated_items(fill * kChunkBits, kChunkBits, kTableHashes);
  return std::ceil(worst_items(sample) / at_target) * items_at_target(settings);
}

// The status of a filter whose worst chunk holds too many items. More chunks solve that, and only
// where the chunk is above the target rate is there anything to solve.
Verdict skewed(const FilterTable &table, const Sample &sample) {
  const Settings &settings = table.settings;
  const char *status =
      psprintf("ready: skewed, chunk %d holds %.0f items, the mean is %.0f", sample.worst_chunk,
               worst_items(sample), sample.items / settings.chunks);
  if (std::pow(sample.worst_fill, kTableHashes) <= settings.fp_rate) return {status, nullptr};
  return {status, enlarge_command(table.relid, capacity_to_spread(settings, sample))};
}

// The status of a filter whose file is damaged or that lacks bits. Where checks may deny, names of
// which bits are gone are denied now, so the first thing to do is to stop that.
Verdict damaged(const FilterTable &table, const Sample &sample) {
  const bool denies = sample.lacks_bits && suspension_reason(table) == nullptr;
  return {sample.damage, denies ? suspend_command(table.relid) : rebuild_command(table.relid)};
}

// The first status that applies, the most urgent one first. docs/operations.md has them in a table.
Verdict judge(Relation relation, const FilterTable &table, const Sample &sample, int64 bytes) {
  const Settings &settings = table.settings;
  const char *rebuild = rebuild_command(table.relid);
  // A filter that is being loaded by hand, chunk by chunk, lacks bits until that is done.
  const bool loading = sample.lacks_bits && settings.state == State::kLoading;
  if (sample.damage != nullptr && !loading) return damaged(table, sample);
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
  // Before the rate: a rebuild of the same size would not lower one that a few chunks make high.
  const Verdict skew = sample.skewed ? skewed(table, sample) : Verdict{};
  if (skew.advice != nullptr) return skew;
  if (sample.fp_rate > settings.fp_rate) return {"ready: over its false-positive rate", rebuild};
  if (is_bloated(table, bytes)) return {"ready: over twice its size when made", rebuild};
  return sample.skewed ? skew : Verdict{"ready", nullptr};
}

// What the user may not expect but cannot change, or what cannot be seen from here; or null. It
// changes neither status nor advice.
const char *note_on(Relation relation, const FilterTable &table, const Sample &sample) {
  if (!has_plain_columns(relation))
    return "bloom_rebuild refuses it: its columns are not, or were not, (chunk, bits) alone";
  if (table.settings.normalization == Normalization::kLower && lowers_ascii_only())
    return "folds ASCII letters only";
  if (is_subscribed(table.relid)) return "subscribed to: the publisher's must have as many chunks";
  if (table.settings.trust_failover && !RecoveryInProgress() && !has_synchronous_standbys())
    return "trusts failovers, but no standby is synchronous";
  // The least of all notes: every large filter has it.
  if (sample.damage == nullptr && sample.chunks_read < table.settings.chunks)
    return psprintf("%d of %d chunks were read, and another may be skewed or damaged",
                    sample.chunks_read, table.settings.chunks);
  return nullptr;
}

// A figure without the digits that its standard error makes meaningless: of the error, the first
// digit stays.
float8 rounded(float8 value, float8 error) {
  if (!(error > 0)) return value;
  const float8 exponent = std::floor(std::log10(error));
  const float8 step = std::pow(10.0, std::fabs(exponent));
  return exponent >= 0 ? std::rint(value / step) * step : std::rint(value * step) / step;
}

// Items, a whole number, without the digits that their error makes meaningless.
float8 rounded_items(const Sample &sample, const Settings &settings) {
  return rounded(items_added(sample, settings), Max(sample.items_error, 1.0));
}

// Forecasts the day when the filter crosses its target rate, if items go on to come as they have
// since the build. Today if it has crossed it. False if that cannot be told: the filter is younger
// than a day, or it has not grown by more than the estimate may be wrong, or the day is more than a
// hundred years away. `at_target` is how many items the filter holds at that rate.
bool forecast(const Settings &settings, const Sample &sample, float8 at_target, Datum *day) {
  constexpr float8 kFarAway = 100.0 * DAYS_PER_YEAR * SECS_PER_DAY;
  const TimestampTz now = GetCurrentTransactionStartTimestamp();
  float8 wait = 0;
  if (sample.items < at_target) {
    const float8 age =
        static_cast<float8>(now - time_t_to_timestamptz(settings.built_at)) / USECS_PER_SEC;
    const float8 growth = items_added(sample, settings) - settings.items_at_build;
    if (age < SECS_PER_DAY || growth < 1 || growth <= 3 * sample.items_error) return false;
    wait = (at_target - sample.items) / growth * age;
    if (wait > kFarAway) return false;
  }
  const TimestampTz then = now + static_cast<TimestampTz>(wait * USECS_PER_SEC);
  *day = DirectFunctionCall1(timestamptz_date, TimestampTzGetDatum(then));
  return true;
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
  kItemsError,
  kSaturation,
  kTargetFpRate,
  kItemsAtTarget,
  kFpRate,
  kFill,
  kWorstChunk,
  kWorstFill,
  kChunksRead,
  kBytes,
  kBytesWhenMade,
  kBuiltAt,
  kAge,
  kItemsAtBuild,
  kFullOn,
  kNote,
  kColumns
};

// The row of a filter that can be read, from `count` of its chunks. If a chunk is missing or has
// another length, the status says so, and every column that depends on bits is null.
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
  const float8 items = rounded_items(sample, settings);
  values[kItems] = Float8GetDatum(items);
  const float8 error = items > 0 ? sample.items_error / items : 0;
  values[kItemsError] = Float8GetDatum(rounded(error, error / 10));
  if (!nulls[kSaturation])
    values[kSaturation] = Float8GetDatum(rounded(sample.items / settings.capacity,
                                                 Max(sample.items_error, 1.0) / settings.capacity));
  values[kTargetFpRate] = Float8GetDatum(settings.fp_rate);
  const float8 at_target = items_at_target(settings);
  values[kItemsAtTarget] = Float8GetDatum(at_target);
  values[kFpRate] = Float8GetDatum(rounded(sample.fp_rate, sample.fp_rate_error));
  values[kFill] = Float8GetDatum(rounded(sample.fill, sample.fill_error));
  values[kWorstChunk] = Int32GetDatum(sample.worst_chunk);
  values[kWorstFill] = Float8GetDatum(sample.worst_fill);
  values[kChunksRead] = Int32GetDatum(sample.chunks_read);
  values[kBytes] = bytes;
  values[kBytesWhenMade] = Int64GetDatum(static_cast<int64>(table_bytes_on_disk(settings.chunks)));
  const Datum built_at = TimestampTzGetDatum(time_t_to_timestamptz(settings.built_at));
  values[kBuiltAt] = built_at;
  values[kAge] = DirectFunctionCall2(
      timestamp_mi, TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()), built_at);
  values[kItemsAtBuild] = Float8GetDatum(settings.items_at_build);
  nulls[kFullOn] = sample.damage != nullptr || suspension_reason(*table) != nullptr ||
                   !forecast(settings, sample, at_target, &values[kFullOn]);
  set_text(kNote, verdict.note != nullptr ? verdict.note : note_on(relation, *table, sample));
  if (sample.damage != nullptr && !sample.lacks_bits)
    for (Column column :
         {kItems, kItemsError, kSaturation, kFpRate, kFill, kWorstChunk, kWorstFill})
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
// SELECT, or the privileges of pg_monitor.
PG_FUNCTION_INFO_V1(bloom_info);
PGDLLEXPORT Datum bloom_info(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock,
                                        may_monitor() ? ACL_NO_RIGHTS : ACL_SELECT);
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
