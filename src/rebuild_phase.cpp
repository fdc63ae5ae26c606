// The locks that tell whether a rebuild runs and which phase it is in, and the status texts that
// bloom_info makes of them.
#include "pg.hpp"

#include "rebuild_phase.hpp"

namespace bloomfilter {
namespace {

// The lock tags are objects of pg_class with a subobject number that no column has. The first tag
// is the rebuild itself, the next ones are its phases. They are session locks, but not advisory
// locks: an advisory lock of the session survives an error, and would then keep later rebuilds out
// of a pooled session. These locks are gone when the transaction aborts.
constexpr uint16 kRebuildLock = 0x7B00;
// Tells that the rebuild with this journal still runs. The tag contains the filter and the number
// of the journal, because a restored dump names a journal of another filter. No catalog has the OID
// of a filter, so nothing else has this tag.
constexpr uint16 kJournalLock = 0x7B10;

constexpr const char *kPhaseNames[] = {"opening", "waiting for sign-ups under way",
                                       "reading the source", "writing", "swapping"};

LOCKTAG rebuild_tag(Oid relid, int which) {
  LOCKTAG tag;
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid,
                     static_cast<uint16>(kRebuildLock + which));
  return tag;
}

LOCKTAG phase_tag(Oid relid, Phase phase) {
  return rebuild_tag(relid, 1 + static_cast<int>(phase));
}

LOCKTAG journal_tag(Oid relid, uint32 journal) {
  LOCKTAG tag;
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, relid, journal, kJournalLock);
  return tag;
}

// Whether any session holds the lock, this session included. It asks for ShareLock, does not wait,
// and releases the lock at once, so two sessions may look at the same time. Not for a standby,
// where the server refuses this lock mode with an error.
bool is_held(const LOCKTAG &tag) {
  if (compat_lock_held_by_me(tag, ExclusiveLock)) return true;
  if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL) return true;
  LockRelease(&tag, ShareLock, false);
  return false;
}

// LockRelease alone would print a warning for a lock that this session does not hold.
void release_if_held(const LOCKTAG &tag) {
  if (compat_lock_held_by_me(tag, ExclusiveLock)) LockRelease(&tag, ExclusiveLock, true);
}

void release_phases(Oid relid) {
  for (int phase = 0; phase <= static_cast<int>(Phase::kSwapping); ++phase)
    release_if_held(phase_tag(relid, static_cast<Phase>(phase)));
}

}  // namespace

bool try_lock_rebuild(Oid relid) {
  const LOCKTAG tag = rebuild_tag(relid, 0);
  // The server would grant the lock a second time to the session that holds it.
  if (compat_lock_held_by_me(tag, ExclusiveLock)) return false;
  return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

void enter_phase(Oid relid, Phase phase) {
  Assert(compat_lock_held_by_me(rebuild_tag(relid, 0), ExclusiveLock));
  release_phases(relid);
  // Another session that looks for the phase may hold the lock for a moment. This waits for it.
  const LOCKTAG tag = phase_tag(relid, phase);
  LockAcquire(&tag, ExclusiveLock, true, false);
}

void lock_journal(Oid relid, uint32 journal) {
  const LOCKTAG tag = journal_tag(relid, journal);
  LockAcquire(&tag, ExclusiveLock, true, false);
}

void unlock_rebuild(Oid relid, uint32 journal) {
  // The rebuild's own lock is last, so that the next rebuild never meets a phase of this one.
  release_phases(relid);
  if (journal != 0) release_if_held(journal_tag(relid, journal));
  release_if_held(rebuild_tag(relid, 0));
}

bool rebuild_runs(const FilterTable &table) {
  const uint32 journal = table.settings.journal;
  return journal != 0 && !RecoveryInProgress() && is_held(journal_tag(table.relid, journal));
}

const char *running_rebuild(const FilterTable &table) {
  if (RecoveryInProgress() || !is_held(rebuild_tag(table.relid, 0))) return nullptr;
  for (int phase = 0; phase <= static_cast<int>(Phase::kSwapping); ++phase)
    if (is_held(phase_tag(table.relid, static_cast<Phase>(phase))))
      return psprintf("rebuilding: %s", kPhaseNames[phase]);
  // Between two phases the session holds the lock of neither.
  return "rebuilding";
}

const char *broken_rebuild(const FilterTable &table) {
  if (table.settings.journal == 0) return nullptr;
  // A standby does not see the locks of the primary, so it cannot tell which of the two it is.
  return RecoveryInProgress() ? "ready: a rebuild runs on the primary, or broke off"
                              : "rebuild broken off";
}

}  // namespace bloomfilter
