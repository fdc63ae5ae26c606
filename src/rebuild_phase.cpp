
#include "pg.hpp"

#include "rebuild_phase.hpp"

namespace bloomfilter {
namespace {

// Lock tags: objects of pg_class with a subobject that no column has. The first is the rebuild
// itself, the others are its phases.
constexpr uint16 kRebuildLock = 0x7B00;
// The journal's lock says that its rebuild runs. The tag has the filter and the journal's number,
// for the journal that a restored dump names is another's; no catalog has the filter's OID.
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

// Whether some session, this one perhaps, holds the lock.
bool is_held(const LOCKTAG &tag) {
  if (compat_lock_held_by_me(tag, ExclusiveLock)) return true;
  if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL) return true;
  LockRelease(&tag, ShareLock, false);
  return false;
}

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
  if (compat_lock_held_by_me(tag, ExclusiveLock)) return false;
  return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

void enter_phase(Oid relid, Phase phase) {
  Assert(compat_lock_held_by_me(rebuild_tag(relid, 0), ExclusiveLock));
  release_phases(relid);
  // A moment's look by another session at what it is may be in the way: wait for that.
  const LOCKTAG tag = phase_tag(relid, phase);
  LockAcquire(&tag, ExclusiveLock, true, false);
}

void lock_journal(Oid relid, uint32 journal) {
  const LOCKTAG tag = journal_tag(relid, journal);
  LockAcquire(&tag, ExclusiveLock, true, false);
}

void unlock_rebuild(Oid relid, uint32 journal) {
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
  return "rebuilding";
}

const char *broken_rebuild(const FilterTable &table) {
  if (table.settings.journal == 0) return nullptr;
  // The primary's locks are not to be seen on a standby.
  return RecoveryInProgress() ? "ready: a rebuild runs on the primary, or broke off"
                              : "rebuild broken off";
}

}  // namespace bloomfilter
