// bloom_rebuild and bloom_grow: a filter made anew from its source, or twice as large from itself,
// beside checks and adds.
#include "pg.hpp"

#include <cmath>
#include <cstring>

#include "arguments.hpp"
#include "chunk_insert.hpp"
#include "filter_ddl.hpp"
#include "filter_leftover.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "rebuild_check.hpp"
#include "rebuild_journal.hpp"
#include "rebuild_lock.hpp"
#include "rebuild_phase.hpp"
#include "rebuild_shadow.hpp"
#include "rebuild_size.hpp"
#include "source_query.hpp"

namespace bloomfilter {
namespace {

// As long as more entries than this come while the journal is applied, it is applied again before
// adds are locked out.
constexpr int64 kFewEntries = 1000;
constexpr int kDrains = 10;

// What has to be put away whatever way a rebuild ends, over its transactions.
struct Belongings {
  Oid relid;
  uint32 journal;
  SourceSpool *spool;
};
constinit Belongings belongings{};

// Forgets first and frees then: an error on the way must not free twice. The lock goes before the
// file, since an add that misses the file looks at the lock.
void put_away() {
  const Belongings ours = belongings;
  belongings = {};
  if (OidIsValid(ours.relid)) unlock_rebuild(ours.relid, ours.journal);
  if (ours.journal != 0) remove_journal(ours.relid, ours.journal);
  if (ours.spool != nullptr) close_spool(ours.spool);
}

// Nothing of it raises an error. A session that is terminated aborts its transaction, too.
void put_away_at_abort(XactEvent event, void *) {
  if (event == XACT_EVENT_ABORT) put_away();
}

// `message` is a whole sentence with one place for the name, so that it can be translated.
void say_phase(const Rebuild &rebuild, Phase phase, const char *message) {
  enter_phase(rebuild.relid, phase);
  ereport(NOTICE, (errmsg(message, rebuild.name)));
}

// Tries for a fifth of a second and does not wait: the other rebuild may take hours.
void take_rebuild_lock(const Rebuild &rebuild) {
  // An add that looks whether a rebuild that broke off still runs is in the way for a moment.
  for (int tries = 0; tries < 20; ++tries) {
    if (try_lock_rebuild(rebuild.relid)) {
      belongings.relid = rebuild.relid;
      return;
    }
    pause_for(10);
  }
  ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                  errmsg("Bloom filter \"%s\" is already being rebuilt", rebuild.name)));
}

[[noreturn]] void made_anew(const Rebuild &rebuild) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("Bloom filter \"%s\" was replaced during its rebuild", rebuild.name),
                  errhint("Start the rebuild again.")));
  pg_unreachable();
}

// Looks at the filter, and has the second rebuild of it fail.
void inspect_filter(Rebuild *rebuild) {
  require_owner(rebuild->relid);
  if (rebuild->source != nullptr)
    rebuild->source_rows = require_source(rebuild->source, rebuild->caller);
  next_transaction();
  const OpenFilter filter = open_to_replace(rebuild->relid, AccessShareLock);
  require_owner(rebuild->relid);
  rebuild->name = pstrdup(filter.name());
  rebuild->old = filter.settings();
  require_plain_columns(filter.relation);
  if (rebuild->source == nullptr) require_growable(filter);
  refuse_replicated(*rebuild);
  take_rebuild_lock(*rebuild);
  enter_phase(rebuild->relid, Phase::kOpening);
  rebuild->old_items_shown = scan_items(filter);
  rebuild->old_items = Max(rebuild->old_items_shown - filter.settings().excess_items, 0.0);
  decide_size(rebuild);
  close_filter(filter);
  // Copies are made of rows that are found by number.
  if (rebuild->source == nullptr)
    close_filter(open_filter(rebuild->relid, AccessShareLock, ACL_NO_RIGHTS));
  next_transaction();
}

// The settings, under a lock of the filter that keeps adds out; raises where they are not those of
// the filter that the rebuild began with: somebody has made another of it.
Settings settings_meanwhile(const Rebuild &rebuild) {
  const OpenFilter filter = open_to_replace(rebuild.relid, ShareRowExclusiveLock);
  const Settings settings = filter.settings();
  require_one_index(filter.relation, filter.shape());
  close_filter(filter);
  if (settings.chunks != rebuild.old.chunks || settings.normalization != rebuild.old.normalization)
    made_anew(rebuild);
  return settings;
}

// From the commit of this on every add is written to the journal.
void open_journal(Rebuild *rebuild) {
  belongings.journal = make_journal(rebuild->relid);
  const auto open = [&] {
    lock_settings(rebuild->relid);
    Settings settings = settings_meanwhile(*rebuild);
    rebuild->old.state = settings.state;
    settings.journal = belongings.journal;
    store_settings(rebuild->relid, settings, rebuild->caller);
  };
  LockTries tries(rebuild->relid, rebuild->name, ShareRowExclusiveLock);
  while (!tries.attempt(ShareRowExclusiveLock, open)) tries.pause();
  next_transaction();
}

// Runs the source to its end, in a transaction of its own: its tables are not locked longer than
// that. What was added until then goes with it.
void read_names(Rebuild *rebuild) {
  belongings.spool = open_spool(rebuild->old.normalization, rebuild->chunks, true);
  rebuild->rows = read_source(rebuild->source, rebuild->caller, rebuild->source_rows, rebuild->name,
                              belongings.spool);
  read_journal(rebuild->relid, belongings.journal, &rebuild->journal_read,
               [](const Digest &digest) { spool_digest(belongings.spool, digest); });
  if (rebuild->chunks == 0) size_by_items(rebuild, spooled_names(belongings.spool));
  next_transaction();
}

// Copies chunks of the filter into a range of one with twice as many: chunk c to 2c and 2c + 1.
void read_old_chunks(const Rebuild &rebuild, const ChunkRange &range) {
  const OpenFilter filter = open_filter(rebuild.relid, AccessShareLock, ACL_NO_RIGHTS);
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    ChunkRow row = require_chunk(filter, (range.first + i) / 2, nullptr, Access::kRead);
    const ChunkView bits = stored_chunk(filter, &row);
    std::memcpy(range.bits + chunk_offset(i), bits.data(), kChunkBytes);
    row.release();
  }
  close_filter(filter);
  // DDL that waits for it would have checks wait.
  UnlockRelationOid(rebuild.relid, AccessShareLock);
}

// Makes the shadow, with all that was read. Returns about how many items it holds.
float8 write_shadow(const Rebuild &rebuild, Shadow *shadow) {
  *shadow = make_shadow(rebuild.relid, rebuild.chunks);
  Relation relation = table_open(shadow->relid, AccessExclusiveLock);
  float8 items;
  if (rebuild.source == nullptr) {
    write_rows_by_range(relation, rebuild.chunks, maintenance_work_mem,
                        [&](const ChunkRange &range) { read_old_chunks(rebuild, range); });
    // Each half of a chunk has the bits of both.
    items = rebuild.old_items;
  } else {
    items = write_spooled_rows(relation, belongings.spool, rebuild.chunks);
    close_spool(belongings.spool);
    belongings.spool = nullptr;
    require_enough(rebuild, items);
  }
  table_close(relation, NoLock);
  index_shadow(*shadow, rebuild.relid);
  return items;
}

// May be called any number of times, also after a failed try to swap: it goes on where it stopped.
int64 drain_journal(Rebuild *rebuild, const Shadow &shadow) {
  return apply_journal(shadow, rebuild->relid, belongings.journal, &rebuild->journal_read);
}

// The settings of the filter as it is from the swap on.
Settings settings_after(const Rebuild &rebuild, const Settings &before, float8 items) {
  if (rebuild.source == nullptr) {
    // What a filter lacks it lacks when it has grown, too.
    Settings settings = before;
    settings.chunks = rebuild.chunks;
    settings.capacity = rebuild.capacity;
    settings.excess_items = 2 * rebuild.old_items_shown - rebuild.old_items;
    settings.journal = 0;
    settings.updates_refused = true;
    return settings;
  }
  Settings settings = new_settings(rebuild.relid, rebuild.chunks, rebuild.old.normalization,
                                   rebuild.capacity, rebuild.fp_rate);
  settings.trust_failover = before.trust_failover;
  settings.updates_refused = before.updates_refused || rebuild.chunks != before.chunks;
  settings.items_at_build = std::round(items);
  // Who suspended it while it was rebuilt may have had a reason that the rebuild does not cure.
  if (before.state == State::kSuspended && rebuild.old.state != State::kSuspended) {
    settings.state = State::kSuspended;
    settings.canary_lost = before.canary_lost;
  }
  return settings;
}

// Exchanges files and settings, with everybody locked out for the rest of the journal, of which
// little is left, and the exchange. Not with adds locked out first and checks after: a transaction
// that has checked and is about to add would be in a deadlock with that.
void swap_shadow_in(Rebuild *rebuild, const Shadow &shadow, float8 items) {
  Settings before, after;
  const auto exchange = [&] {
    if (settings_meanwhile(*rebuild).journal != belongings.journal) made_anew(*rebuild);
    refuse_replicated(*rebuild);
    drain_journal(rebuild, shadow);
    exchange_with_shadow(shadow, rebuild->relid);
    // After the table's lock: bloom_suspend has that of the settings last, too. It may have come
    // while this waited.
    lock_settings(rebuild->relid);
    before = settings_meanwhile(*rebuild);
    after = settings_after(*rebuild, before, items);
    store_settings(rebuild->relid, after, rebuild->caller);
  };
  LockTries tries(rebuild->relid, rebuild->name, AccessExclusiveLock);
  while (!tries.attempt(AccessExclusiveLock, exchange)) {
    tries.pause();
    drain_journal(rebuild, shadow);
  }
  next_transaction();
  if (after.updates_refused && !before.updates_refused)
    ereport(NOTICE,
            (errmsg("the number of chunks of Bloom filter \"%s\" has changed", rebuild->name),
             errdetail("Statements that compute the chunk themselves would read and write the "
                       "wrong chunk.  Plain updates of the filter are refused from now on."),
             errhint("Use bloom_might_contain and bloom_add.")));
  if (after.state == State::kSuspended)
    ereport(NOTICE, (errmsg("Bloom filter \"%s\" stays suspended", rebuild->name),
                     errhint("Rebuild the filter with bloom_rebuild, or call bloom_resume.  By "
                             "calling bloom_resume you confirm that every name has been added.")));
}

// The whole rebuild, from top to bottom. Each step ends its own transaction. SPI_OPT_NONATOMIC lets
// the procedure commit.
void rebuild_filter(Rebuild *rebuild, int64 grace_milliseconds) {
  static constinit bool watches_aborts = false;
  if (!watches_aborts) RegisterXactCallback(put_away_at_abort, nullptr);
  watches_aborts = true;
  SPI_connect_ext(SPI_OPT_NONATOMIC);
  inspect_filter(rebuild);
  open_journal(rebuild);
  if (rebuild->source != nullptr) {
    say_phase(*rebuild, Phase::kWaiting,
              gettext_noop("Bloom filter \"%s\": waiting for sign-ups under way"));
    pause_for(grace_milliseconds);
    next_transaction();
    say_phase(*rebuild, Phase::kReading, gettext_noop("Bloom filter \"%s\": reading the source"));
    read_names(rebuild);
  }
  say_phase(*rebuild, Phase::kWriting, gettext_noop("Bloom filter \"%s\": writing"));
  Shadow shadow;
  const float8 items = write_shadow(*rebuild, &shadow);
  for (int drain = 0; drain < kDrains; ++drain)
    if (drain_journal(rebuild, shadow) < kFewEntries) break;
  say_phase(*rebuild, Phase::kSwapping, gettext_noop("Bloom filter \"%s\": swapping"));
  swap_shadow_in(rebuild, shadow, items);
  put_away();
  wait_for_last_commit();
  ereport(NOTICE, (errmsg("Bloom filter \"%s\" holds about %.0f items in %d chunks", rebuild->name,
                          items, rebuild->chunks)));
  if (rebuild->source != nullptr) notice_ascii_only(rebuild->old.normalization, rebuild->name);
  SPI_finish();
}

// A day has 24 hours and a month 30 days, as in the server's comparison of intervals.
float8 seconds_of(const Interval *interval) {
  constexpr float8 kSecondsPerDay = 86400;
  return static_cast<float8>(interval->time) / USECS_PER_SEC +
         (interval->day + 30.0 * interval->month) * kSecondsPerDay;
}

}  // namespace

extern "C" {

// call bloom_rebuild(filter regclass, source text, capacity float8, fp_rate float8, grace interval,
// min_share float8): makes a filter anew from what a query yields, beside checks and adds, and
// loses no add that commits meanwhile. grace is longer than a sign-up takes from its add to the
// commit of its user; a source that yields fewer names than min_share of what the filter holds is
// an error.
PG_FUNCTION_INFO_V1(bloom_rebuild);
PGDLLEXPORT Datum bloom_rebuild(PG_FUNCTION_ARGS) {
  require_top_level(fcinfo, "bloom_rebuild()");
  if (PG_ARGISNULL(0)) null_filter();
  Rebuild rebuild{};
  rebuild.relid = PG_GETARG_OID(0);
  rebuild.caller = fcinfo->flinfo->fn_oid;
  rebuild.source = text_argument(fcinfo, 1, "source");
  if (!PG_ARGISNULL(2)) rebuild.capacity = PG_GETARG_FLOAT8(2);
  if (!PG_ARGISNULL(3)) rebuild.fp_rate = PG_GETARG_FLOAT8(3);
  require_size_arguments(PG_ARGISNULL(2) ? 1 : rebuild.capacity,
                         PG_ARGISNULL(3) ? kDefaultFpRate : rebuild.fp_rate);
  const float8 grace = PG_ARGISNULL(4) ? kDefaultGraceSeconds : seconds_of(PG_GETARG_INTERVAL_P(4));
  if (!(grace >= 0 && grace <= 86400))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("grace must be from 0 to 1 day, not %g seconds", grace)));
  rebuild.min_share = PG_ARGISNULL(5) ? kDefaultMinShare : PG_GETARG_FLOAT8(5);
  if (!(rebuild.min_share >= 0 && rebuild.min_share <= 1))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("min_share must be from 0 to 1, not %g", rebuild.min_share)));
  rebuild_filter(&rebuild, static_cast<int64>(grace * 1000));
  PG_RETURN_VOID();
}

// call bloom_grow(filter regclass): twice the chunks and the capacity, without a source; the same
// members, and about the rate of before until more are added.
PG_FUNCTION_INFO_V1(bloom_grow);
PGDLLEXPORT Datum bloom_grow(PG_FUNCTION_ARGS) {
  require_top_level(fcinfo, "bloom_grow()");
  if (PG_ARGISNULL(0)) null_filter();
  Rebuild rebuild{};
  rebuild.relid = PG_GETARG_OID(0);
  rebuild.caller = fcinfo->flinfo->fn_oid;
  rebuild_filter(&rebuild, 0);
  PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace bloomfilter
