// Whether a rebuild runs, and which phase it is in. The session of the rebuild holds locks that
// tell it. So other sessions see it at once, without a commit, and the locks are gone with the
// session or with an error.
#ifndef BLOOMFILTER_REBUILD_PHASE_HPP
#define BLOOMFILTER_REBUILD_PHASE_HPP

#include "pg.hpp"

#include "filter_table.hpp"

namespace bloomfilter {

// The phases of a rebuild, in order. Each phase is a lock of its own.
enum class Phase : uint16 { kOpening, kWaiting, kReading, kWriting, kSwapping };

// Takes the lock that keeps a second rebuild of the relation out. Returns false if somebody has it.
// The session keeps it over commits, until unlock_rebuild or an error.
bool try_lock_rebuild(Oid relid);
// Releases the lock of the phase before, and takes the lock of this one. The session holds the lock
// of try_lock_rebuild.
void enter_phase(Oid relid, Phase phase);

// Takes the lock that tells that the rebuild with this journal runs.
void lock_journal(Oid relid, uint32 journal);

// Releases all locks of a rebuild. `journal` is 0 if the rebuild has no journal yet. Raises
// nothing.
void unlock_rebuild(Oid relid, uint32 journal);

// Whether the rebuild still runs whose journal the settings name. If it does not run now, it never
// will again, because the next rebuild has another journal. The caller either holds a lock of the
// filter that keeps the settings from changing, or can use an answer that is out of date. False on
// a standby.
bool rebuild_runs(const FilterTable &table);

// The status that bloom_info shows for a rebuild that runs, and for one that broke off. Null if
// there is no such rebuild.
const char *running_rebuild(const FilterTable &table);
const char *broken_rebuild(const FilterTable &table);

}  // namespace bloomfilter

#endif
