// What is counted of filters, and what the application reports: bloom_stats, bloom_stat_reset,
// bloom_report_false_positive.
#include "pg.hpp"

#include "arguments.hpp"
#include "filter_counters.hpp"
#include "filter_table.hpp"

namespace bloomfilter {
namespace {

// The columns of bloom_stats, in the order of sql/bloomfilter.sql.
enum Column {
  kLookupsColumn,
  kMaybesColumn,
  kMaybeShare,
  kAddsColumn,
  kNewItemsColumn,
  kBulkCallsColumn,
  kErrorsColumn,
  kFalsePositivesColumn,
  kMeasuredFpRate,
  kStatsSince,
  kColumns
};

// Whether the current role may see the counts: with SELECT on the filter, or as a monitor. Raises
// 42501 if it may not. Sets *missing if the relation is gone.
void require_may_see(Oid relid, bool *missing) {
  *missing = false;
  const AclResult result = pg_class_aclcheck_ext(relid, GetUserId(), ACL_SELECT, missing);
  if (*missing || result == ACLCHECK_OK || has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS))
    return;
  aclcheck_error(result, OBJECT_TABLE, get_rel_name(relid));
}

// The relation's owner and superusers. Raises 42P01 if it is gone, and 42501.
void require_owner(Oid relid) {
  const char *name = get_rel_name(relid);
  if (name == nullptr)
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("Bloom filter with OID %u does not exist", relid)));
  if (!compat_owns_relation(relid)) aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
}

}  // namespace

extern "C" {

// bloom_stats(filter regclass) -> record: what transactions that have ended did with the filter. It
// reads no row of the filter, and waits for no lock. Every column is null where nothing is counted.
// Null if the filter was dropped.
PG_FUNCTION_INFO_V1(bloom_stats);
PGDLLEXPORT Datum bloom_stats(PG_FUNCTION_ARGS) {
  const Oid relid = filter_argument(fcinfo);
  bool missing;
  require_may_see(relid, &missing);
  if (missing) PG_RETURN_NULL();
  Datum values[kColumns] = {};
  bool nulls[kColumns];
  for (bool &null : nulls) null = true;
  const auto set = [&](Column column, Datum value) {
    values[column] = value;
    nulls[column] = false;
  };
  if (const auto found = counts_of(relid)) {
    const auto &counts = found->counts;
    constexpr Column kPlaces[kCounters] = {kLookupsColumn,       kMaybesColumn,    kAddsColumn,
                                           kNewItemsColumn,      kBulkCallsColumn, kErrorsColumn,
                                           kFalsePositivesColumn};
    for (size_t i = 0; i < kCounters; ++i)
      set(kPlaces[i], Int64GetDatum(static_cast<int64>(counts[i])));
    set(kStatsSince, TimestampTzGetDatum(found->since));
    const auto share = [](uint64 part, uint64 whole) {
      return Float8GetDatum(static_cast<float8>(part) / static_cast<float8>(whole));
    };
    if (counts[kLookups] > 0) set(kMaybeShare, share(counts[kMaybes], counts[kLookups]));
    // Of the items that were free: those that were denied, and those that were found to be free
    // after a maybe. Nobody has measured anything before the first report.
    const uint64 denied = counts[kLookups] - Min(counts[kMaybes], counts[kLookups]);
    const uint64 reported = counts[kFalsePositives];
    if (reported > 0) set(kMeasuredFpRate, share(reported, denied + reported));
  }
  return row_result(fcinfo, values, nulls);
}

// bloom_stat_reset(filter regclass): sets the counters of a filter to zero; it needs ownership. For
// null those of all filters of the database; only superusers may.
PG_FUNCTION_INFO_V1(bloom_stat_reset);
PGDLLEXPORT Datum bloom_stat_reset(PG_FUNCTION_ARGS) {
  if (!PG_ARGISNULL(0)) {
    const Oid relid = PG_GETARG_OID(0);
    require_owner(relid);
    reset_counts(relid);
    PG_RETURN_VOID();
  }
  if (!superuser())
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("permission denied to reset the counters of all Bloom filters"),
                    errdetail("Only superusers may."),
                    errhint("Name a filter that you own: bloom_stat_reset('filter').")));
  reset_all_counts();
  PG_RETURN_VOID();
}

// bloom_report_false_positive(filter regclass, count bigint): the application found that so many
// items were free after the answer "maybe". It is only counted. It needs SELECT, as the check did,
// and works on a standby.
PG_FUNCTION_INFO_V1(bloom_report_false_positive);
PGDLLEXPORT Datum bloom_report_false_positive(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock, ACL_SELECT);
  if (PG_ARGISNULL(1)) null_argument("count");
  const int64 count = PG_GETARG_INT64(1);
  if (count < 1)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("count must be at least 1, not %lld", static_cast<long long>(count))));
  count_false_positives(&filter.table->pending, filter.table->relid, static_cast<uint64>(count));
  close_filter(filter);
  PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace bloomfilter
