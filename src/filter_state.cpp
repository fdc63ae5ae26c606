// bloom_suspend and bloom_resume: whether checks of a filter may deny.
#include "pg.hpp"

#include "arguments.hpp"
#include "filter_command.hpp"
#include "filter_ddl.hpp"
#include "filter_sample.hpp"
#include "filter_table.hpp"
#include "rebuild_phase.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// A filter that the names of users were loaded into holds more than this share of its capacity.
constexpr float8 kFewItems = 0.01;

// At most this many chunks are counted while adds wait: all chunks of a filter of 128 MiB, in 80
// ms.
constexpr int32 kMaxCounted = 1 << 17;

// The settings of a filter that its owner is about to change. Nobody else changes them until the
// commit. Sets *agreement to how far the server's normalization is the filter's. Sets *items,
// unless it is null, to about how many items the filter holds.
Settings settings_to_change(Oid relid, LOCKMODE lock, Agreement *agreement, float8 *items) {
  // Before the lock: only the owner may stop the adds.
  require_owner(relid);
  LockRelationOid(relid, lock);
  lock_settings(relid);
  require_owner(relid);
  const OpenFilter filter = open_filter(relid, lock, ACL_NO_RIGHTS);
  Settings settings = filter.settings();
  *agreement = filter.table->agreement;
  if (settings.trust_failover) wait_for_standbys();
  // Nothing of a rebuild that broke off is needed any more.
  if (!rebuild_runs(*filter.table)) settings.journal = 0;
  if (items != nullptr) {
    const Sample sample = read_chunks(filter.relation, filter.table, kMaxCounted);
    if (sample.damage != nullptr)
      ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                      errmsg("cannot resume Bloom filter \"%s\"", filter.name()),
                      errdetail("Its status is \"%s\".", sample.damage),
                      errhint("Rebuild the filter with bloom_rebuild.")));
    *items = items_added(sample, settings);
  }
  close_filter(filter);
  return settings;
}

// A warning and not an error: the standbys may be configured later.
void warn_without_standbys(const char *name) {
  if (has_synchronous_standbys()) return;
  ereport(WARNING,
          (errmsg("Bloom filter \"%s\" trusts failovers, but no standby is synchronous", name),
           errdetail("After a failover, checks would answer \"definitely not\" for names whose "
                     "adds did not reach the standby."),
           errhint("Set synchronous_standby_names.")));
}

// Tells what checks rely on from now on. Warns if a filter that was never loaded is almost empty:
// it would call every name free that is not in it.
void notice_resumed(Oid relid, State before, const Settings &settings, float8 items) {
  const char *name = get_rel_name(relid);
  if (settings.canary_lost)
    ereport(WARNING,
            (errmsg("Bloom filter \"%s\" is ready for ASCII names only", name),
             errdetail("Normalization \"%s\" has changed since names were added.  Checks of names "
                       "with non-ASCII characters answer maybe.",
                       normalization_name(settings.normalization)),
             errhint("Run: %s", rebuild_command(relid))));
  ereport(NOTICE, (errmsg("Bloom filter \"%s\" is ready", name),
                   settings.capacity == 0
                       ? errdetail("The filter holds about %.0f items.", items)
                       : errdetail("The filter holds about %.0f items of a capacity of %.0f.",
                                   items, settings.capacity)));
  if (before != State::kLoading || items >= kFewItems * settings.capacity) return;
  ereport(WARNING,
          (errmsg("Bloom filter \"%s\" was never loaded and holds less than 1 %% of its capacity",
                  name),
           errdetail("Checks answer \"definitely not\" for every name that was not added."),
           errhint("If users have other names, run: select bloom_suspend(%s); %s",
                   quote_literal_cstr(qualified_name(relid)), rebuild_command(relid))));
}

}  // namespace

extern "C" {

// bloom_suspend(filter regclass): from its commit on, every check answers maybe, and adds go on. It
// waits for no add, and no add waits for it: an add does the same with the old settings as with the
// new ones. If the normalization has changed, checks of the names whose keys have changed answer
// maybe until a rebuild: from now on such names are added, with bits that no check would look for
// if the server were as before.
PG_FUNCTION_INFO_V1(bloom_suspend);
PGDLLEXPORT Datum bloom_suspend(PG_FUNCTION_ARGS) {
  PreventCommandIfReadOnly("bloom_suspend()");
  const Oid relid = filter_argument(fcinfo);
  Agreement agreement;
  Settings settings = settings_to_change(relid, AccessShareLock, &agreement, nullptr);
  settings.state = State::kSuspended;
  settings.canary_lost |= agreement != Agreement::kFull;
  settings.canary_ascii_lost |= agreement == Agreement::kNone;
  overwrite_settings(relid, settings);
  PG_RETURN_VOID();
}

// bloom_resume(filter regclass, trust_failover boolean): the caller promises that every name is in
// the filter. From the commit on, checks of this table may deny, on this server and timeline.
// trust_failover says whether a failover suspends the filter; null leaves that as it is. If the
// normalization has changed beyond ASCII, the filter is ready for ASCII names, and takes the
// others, which are never denied. The call waits for the adds under way. Without that, the caller
// may have counted a bulk that has not committed yet, and an add that does not know of the trust
// would not wait for a standby.
PG_FUNCTION_INFO_V1(bloom_resume);
PGDLLEXPORT Datum bloom_resume(PG_FUNCTION_ARGS) {
  PreventCommandIfReadOnly("bloom_resume()");
  const Oid relid = filter_argument(fcinfo);
  float8 items;
  Agreement agreement;
  Settings settings = settings_to_change(relid, ShareRowExclusiveLock, &agreement, &items);
  const State before = settings.state;
  agreement = agreement_by_canaries(settings);
  if (agreement == Agreement::kNone)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot resume Bloom filter \"%s\"", get_rel_name(relid)),
                    errdetail("Normalization \"%s\" has changed since names were added.",
                              normalization_name(settings.normalization)),
                    errhint("Rebuild the filter with bloom_rebuild.")));
  settings.canary_lost = agreement != Agreement::kFull;
  settings.state = State::kReady;
  settings.origin = origin_here(relid);
  settings.columns = columns_of(relid);
  // Else the stamp goes on to say what the filter was built with.
  if (!settings.canary_lost)
    strlcpy(settings.stamp, server_stamp(settings.normalization), kStampBytes);
  const bool trusted = settings.trust_failover;
  if (!PG_ARGISNULL(1)) settings.trust_failover = PG_GETARG_BOOL(1);
  store_settings_alone(relid, settings, fcinfo->flinfo->fn_oid);
  if (settings.trust_failover) wait_for_standbys();
  notice_resumed(relid, before, settings, items);
  if (settings.trust_failover && !trusted) warn_without_standbys(get_rel_name(relid));
  warn_if_subscribed(relid, settings);
  PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace bloomfilter
