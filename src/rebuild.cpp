// bloom_rebuild and bloom_grow: build a filter again from its source, or make it twice as large
// from its own bits, while checks and adds go on. docs/architecture.md has the steps in order.
#include "pg.hpp"

#include <cmath>
#include <cstring>

#include "arguments.hpp"
#include "chunk_insert.hpp"
#include "comparison.hpp"
#include "filter_ddl.hpp"
#include "filter_leftover.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "progress.hpp"
#include "rebuild_check.hpp"
#include "rebuild_journal.hpp"
#include "rebuild_lock.hpp"
#include "rebuild_phase.hpp"
#include "rebuild_shadow.hpp"
#include "rebuild_size.hpp"
#include "source_query.hpp"

namespace bloomfilter {
namespace {

// The journal is applied again, at most kDrains times, as long as more entries than this were
// found. So little of it is left when everybody is locked out.
constexpr int64 kFewEntries = 1000;
constexpr int kDrains = 10;

// What has to be released at the end of a rebuild, however it ends. It is kept over the
// transactions of the rebuild, and 0 or null if the rebuild does not have it. A global variable and
// not an object with a destructor: an error is a longjmp, which runs no destructors.
struct Belongings {
  Oid relid;
  uint32 journal;
  SourceSpool *spool;
};
constinit Belongings belongings{};

// Releases all of it. The second call does nothing. The locks go before the journal file, see
// write_journal.
void put_away() {
  const Belongings ours = belongings;
  belongings = {};
  if (OidIsValid(ours.relid)) unlock_rebuild(ours.relid, ours.journal);
  if (ours.journal != 0) remove_journal(ours.relid, ours.journal);
  if (ours.spool != nullptr) close_spool(ours.spool);
}

// Runs while a transaction aborts, so nothing in it may raise an error. The transaction of a
// session that is terminated aborts, too.
void put_away_at_abort(XactEvent event, void *) {
  if (event == XACT_EVENT_ABORT) put_away();
}

// Enters the phase, which bloom_filters shows, and tells the caller.
void say_phase(const Rebuild &rebuild, Phase phase, const char *message) {
  enter_phase(rebuild.relid, phase);
  ereport(NOTICE, (errmsg(message, rebuild.name)));
}

// Takes the lock that keeps a second rebuild out. Raises 55006 if another session has it.
void take_rebuild_lock(const Rebuild &rebuild) {
  // bloom_info looks for a rebuild by taking the same lock for a moment. So one refusal is not yet
  // another rebuild: this tries for a fifth of a second.
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

// Raises 55000: the rebuild was for a filter that is not there any more.
[[noreturn]] void made_anew(const Rebuild &rebuild) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("Bloom filter \"%s\" was replaced during its rebuild", rebuild.name),
                  errhint("Start the rebuild again.")));
  pg_unreachable();
}

// Checks everything that can be checked before the source is read, and decides on the size. Raises
// an error if another rebuild of the filter runs. Commits twice.
void inspect_filter(Rebuild *rebuild) {
  require_owner(rebuild->relid);
  begin_progress(rebuild->source == nullptr ? LongCommand::kGrow : LongCommand::kRebuild,
                 rebuild->relid, get_rel_name(rebuild->relid), Step::kOpening, 0);
  if (rebuild->source != nullptr) {
    rebuild->form = require_source(rebuild->source, rebuild->caller);
    reach_servers(rebuild->source);
  }
  // The plan of the source has locked its tables. DDL on them must not wait for the rebuild.
  next_transaction();
  const OpenFilter filter = open_to_replace(rebuild->relid, AccessShareLock);
  // Again, under the lock: the owner may have changed after the first check.
  require_owner(rebuild->relid);
  rebuild->name = pstrdup(filter.name());
  rebuild->old = filter.settings();
  require_plain_columns(filter.relation);
  if (rebuild->source == nullptr) require_growable(filter);
  require_available(filter.settings().normalization);
  refuse_replicated(*rebuild);
  if (rebuild->source != nullptr && rebuild->form.rows == SourceRows::kNames)
    warn_of_column(rebuild->form.type, rebuild->form.collation, rebuild->old.normalization,
                   rebuild->name);
  take_rebuild_lock(*rebuild);
  enter_phase(rebuild->relid, Phase::kOpening);
  rebuild->old_items_shown = scan_items(filter);
  rebuild->old_items = Max(rebuild->old_items_shown - filter.settings().excess_items, 0.0);
  decide_size(rebuild);
  close_filter(filter);
  // bloom_grow finds the rows by number, so the filter has to open as it does for a check.
  if (rebuild->source == nullptr)
    close_filter(open_filter(rebuild->relid, AccessShareLock, ACL_NO_RIGHTS));
  next_transaction();
}

// The settings as they are now. The caller has a lock of the filter that keeps adds out. Raises
// 55000 if the filter is not the one that the rebuild began with, because somebody made it again
// meanwhile.
Settings settings_meanwhile(const Rebuild &rebuild) {
  const OpenFilter filter = open_to_replace(rebuild.relid, ShareRowExclusiveLock);
  const Settings settings = filter.settings();
  require_one_index(filter.relation, filter.shape());
  close_filter(filter);
  if (settings.chunks != rebuild.old.chunks || settings.normalization != rebuild.old.normalization)
    made_anew(rebuild);
  return settings;
}

// Names a new journal in the settings. From this commit on, every add writes its items to the
// journal. The lock waits for every add that is under way and does not know of the journal.
void open_journal(Rebuild *rebuild) {
  belongings.journal = make_journal(rebuild->relid);
  const auto open = [&] {
    lock_settings(rebuild->relid);
    Settings settings = settings_meanwhile(*rebuild);
    // A suspension from now on may be about something that the rebuild does not solve, see
    // settings_after.
    rebuild->old.state = settings.state;
    settings.journal = belongings.journal;
    store_settings(rebuild->relid, settings, rebuild->caller);
  };
  LockTries tries(rebuild->relid, rebuild->name, ShareRowExclusiveLock);
  while (!tries.attempt(ShareRowExclusiveLock, open)) tries.pause();
  next_transaction();
}

// Runs the source to its end, in a transaction of its own, so that its tables are not locked for
// longer. Everything that was added meanwhile is spooled with it.
void read_names(Rebuild *rebuild) {
  belongings.spool = open_spool(rebuild->old.normalization, rebuild->chunks, true);
  rebuild->rows = read_source(rebuild->source, rebuild->caller, rebuild->form.rows, rebuild->chunks,
                              rebuild->name, belongings.spool);
  read_journal(rebuild->relid, belongings.journal, &rebuild->journal_read,
               [](const Digest &digest) { spool_digest(belongings.spool, digest); });
  if (rebuild->chunks == 0) size_by_items(rebuild, spooled_names(belongings.spool));
  next_transaction();
}

// Copies chunks of the filter into a range of one with twice as many: chunk c goes to the chunks 2c
// and 2c + 1. An item of chunk c is in one of the two, at the same positions.
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
  // DDL would wait for this lock, and checks would wait behind that DDL.
  UnlockRelationOid(rebuild.relid, AccessShareLock);
}

// Makes the shadow, with everything that was read. Returns about how many items it holds. Raises
// 55000, before anything is exchanged, if the source yielded too few.
float8 write_shadow(const Rebuild &rebuild, Shadow *shadow) {
  *shadow = make_shadow(rebuild.relid, rebuild.chunks);
  Relation relation = table_open(shadow->relid, AccessExclusiveLock);
  float8 items;
  enter_step(Step::kWriting, rebuild.chunks);
  if (rebuild.source == nullptr) {
    write_rows_by_range(relation, rebuild.chunks, maintenance_work_mem,
                        [&](const ChunkRange &range) { read_old_chunks(rebuild, range); });
    // Not counted: each of the two new chunks has all bits of the old one, so the bits show twice
    // as many.
    items = rebuild.old_items;
  } else {
    items = write_spooled_rows(relation, belongings.spool, rebuild.chunks);
    close_spool(belongings.spool);
    belongings.spool = nullptr;
    require_enough(rebuild, items);
  }
  table_close(relation, NoLock);
  enter_step(Step::kIndexing, 0);
  index_shadow(*shadow, rebuild.relid);
  return items;
}

// Adds the entries that came since the last call. Returns how many.
int64 drain_journal(Rebuild *rebuild, const Shadow &shadow) {
  return apply_journal(shadow, rebuild->relid, belongings.journal, &rebuild->journal_read);
}

// Waits the grace period: a name that was added before the journal was opened may belong to a user
// whose transaction commits only now. After the wait, the source sees that user.
void wait_grace(const Rebuild &rebuild, int64 milliseconds) {
  enter_phase(rebuild.relid, Phase::kWaiting);
  enter_step(Step::kGrace, 0);
  expect_end_after(milliseconds);
  if (milliseconds == 0)
    ereport(NOTICE, (errmsg("Bloom filter \"%s\": waiting for sign-ups under way", rebuild.name)));
  else
    ereport(NOTICE, (errmsg("Bloom filter \"%s\": waiting %g s (grace) for sign-ups under way",
                            rebuild.name, static_cast<float8>(milliseconds) / 1000)));
  pause_for(milliseconds);
}

// The settings of the filter from the exchange on. `before` has those of the moment before it.
Settings settings_after(const Rebuild &rebuild, const Settings &before, float8 items) {
  if (rebuild.source == nullptr) {
    // State and origin stay: a filter that lacks names lacks them after bloom_grow too.
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
  // Somebody suspended it during the rebuild, and may have had a reason that the rebuild does not
  // solve.
  if (before.state == State::kSuspended && rebuild.old.state != State::kSuspended) {
    settings.state = State::kSuspended;
    settings.canary_lost = before.canary_lost;
    settings.canary_ascii_lost = before.canary_ascii_lost;
  }
  return settings;
}

// Exchanges files and settings. Everybody is locked out while the rest of the journal, which is
// short, is applied and the files are exchanged. It does not lock adds out first and checks later:
// a transaction that has checked and is about to add would be in a deadlock with that.
void swap_shadow_in(Rebuild *rebuild, const Shadow &shadow, float8 items) {
  Settings before, after;
  const auto exchange = [&] {
    // The journal in the settings is still ours, so no add went past it.
    if (settings_meanwhile(*rebuild).journal != belongings.journal) made_anew(*rebuild);
    refuse_replicated(*rebuild);
    drain_journal(rebuild, shadow);
    exchange_with_shadow(shadow, rebuild->relid);
    // After the lock of the table, in the order of bloom_suspend. That one may have changed the
    // settings while this waited, so they are read again.
    lock_settings(rebuild->relid);
    before = settings_meanwhile(*rebuild);
    after = settings_after(*rebuild, before, items);
    store_settings(rebuild->relid, after, rebuild->caller);
  };
  LockTries tries(rebuild->relid, rebuild->name, AccessExclusiveLock);
  while (!tries.attempt(AccessExclusiveLock, exchange)) {
    tries.pause();
    // Adds go on between two tries. What is applied here need not be applied under the lock.
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

// All steps of a rebuild. Each ends with a commit, except for writing: the shadow is made,
// exchanged and dropped in one transaction.
void rebuild_filter(Rebuild *rebuild, int64 grace_milliseconds) {
  static constinit bool watches_aborts = false;
  if (!watches_aborts) RegisterXactCallback(put_away_at_abort, nullptr);
  watches_aborts = true;
  SPI_connect_ext(SPI_OPT_NONATOMIC);
  inspect_filter(rebuild);
  open_journal(rebuild);
  if (rebuild->source != nullptr) {
    wait_grace(*rebuild, grace_milliseconds);
    next_transaction();
    say_phase(*rebuild, Phase::kReading, gettext_noop("Bloom filter \"%s\": reading the source"));
    read_names(rebuild);
  }
  say_phase(*rebuild, Phase::kWriting, gettext_noop("Bloom filter \"%s\": writing"));
  Shadow shadow;
  const float8 items = write_shadow(*rebuild, &shadow);
  enter_step(Step::kJournal, 0);
  for (int drain = 0; drain < kDrains; ++drain)
    if (drain_journal(rebuild, shadow) < kFewEntries) break;
  say_phase(*rebuild, Phase::kSwapping, gettext_noop("Bloom filter \"%s\": swapping"));
  enter_step(Step::kSwapping, 0);
  swap_shadow_in(rebuild, shadow, items);
  // After the commit of the exchange: until then every add has to find the journal.
  put_away();
  wait_for_last_commit();
  end_progress();
  ereport(NOTICE, (errmsg("Bloom filter \"%s\" holds about %.0f items in %d chunks", rebuild->name,
                          items, rebuild->chunks)));
  warn_if_nearly_full(*rebuild, items);
  if (rebuild->source != nullptr) notice_ascii_only(rebuild->old.normalization, rebuild->name);
  SPI_finish();
}

// An interval in seconds. A month counts as 30 days.
float8 seconds_of(const Interval *interval) {
  constexpr float8 kSecondsPerDay = 86400;
  return static_cast<float8>(interval->time) / USECS_PER_SEC +
         (interval->day + 30.0 * interval->month) * kSecondsPerDay;
}

}  // namespace

extern "C" {

// call bloom_rebuild(filter regclass, source text, capacity float8, fp_rate float8, grace interval,
// min_share float8): builds a filter again from what a query yields, while checks and adds go on,
// and loses no add that commits meanwhile. grace has to be longer than a sign-up takes from its add
// to the commit of its user. A source that yields fewer names than min_share of what the filter
// holds is an error.
PG_FUNCTION_INFO_V1(bloom_rebuild);
PGDLLEXPORT Datum bloom_rebuild(PG_FUNCTION_ARGS) {
  require_top_level(fcinfo, "bloom_rebuild()");
  Rebuild rebuild{};
  rebuild.relid = filter_argument(fcinfo);
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

// call bloom_grow(filter regclass): twice the chunks and the capacity, without a source. The
// members are the same, and the false-positive rate is about the same until more are added.
PG_FUNCTION_INFO_V1(bloom_grow);
PGDLLEXPORT Datum bloom_grow(PG_FUNCTION_ARGS) {
  require_top_level(fcinfo, "bloom_grow()");
  Rebuild rebuild{};
  rebuild.relid = filter_argument(fcinfo);
  rebuild.caller = fcinfo->flinfo->fn_oid;
  rebuild_filter(&rebuild, 0);
  PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace bloomfilter
