// Whether a rebuild runs, and where it is: locks that its session holds, so that others see them at
// once, without a commit, and that vanish with the session or its error.
#ifndef BLOOMFILTER_REBUILD_PHASE_HPP
#define BLOOMFILTER_REBUILD_PHASE_HPP

#include "pg.hpp"

#include "filter_table.hpp"

namespace bloomfilter {

// Where a rebuild is. Each phase is a lock of its own.
enum class Phase : uint16 { kOpening, kWaiting, kReading, kWriting, kSwapping };

// Takes the lock that keeps a second rebuild of the relation out; false if another session has it.
// It is held over commits, until unlock_rebuild or an error.
bool try_lock_rebuild(Oid relid);
void enter_phase(Oid relid, Phase phase);

// Takes the lock that says that the rebuild with this journal runs.
void lock_journal(Oid relid, uint32 journal);

// Lets go of all locks of a rebuild; `journal` is 0 where it has none yet.
void unlock_rebuild(Oid relid, uint32 journal);

// Whether the rebuild whose journal the settings name still runs. One that does not will never run
// on: another begins with another journal. The caller holds a lock of the filter that keeps
// settings from changing, or does not mind.
bool rebuild_runs(const FilterTable &table);

// What bloom_info says of a rebuild of the filter, one that runs or one that broke off; else null.
const char *running_rebuild(const FilterTable &table);
const char *broken_rebuild(const FilterTable &table);

}  // namespace bloomfilter

#endif
