// What a rebuild and the adds beside it share: whether one runs, and its journal, a file of the
// digests of all that was added since it began.
#ifndef BLOOMFILTER_JOURNAL_HPP
#define BLOOMFILTER_JOURNAL_HPP

#include "pg.hpp"

#include <span>

#include "bloomfilter/md5.hpp"
#include "filter_table.hpp"

namespace bloomfilter {

// Where a rebuild is. Each phase is a lock that its session holds: so others see it at once,
// without a commit, and it vanishes with the session or its error.
enum class Phase : uint16 { kOpening, kWaiting, kReading, kWriting, kSwapping };

// Takes the lock that keeps a second rebuild of the relation out; false if another session has it.
// It is held over commits, until end_rebuild or an error.
bool begin_rebuild(Oid relid);
void enter_phase(Oid relid, Phase phase);

// Lets go of all locks of a rebuild; `journal` is 0 where it has none yet.
void end_rebuild(Oid relid, uint32 journal);

// Whether the rebuild whose journal the settings name still runs. One that does not will never run
// on: another begins with another journal. The caller holds a lock of the filter that keeps
// settings from changing, or does not mind.
bool rebuild_runs(const FilterTable &table);

// What bloom_info says of a rebuild of the filter, one that runs or one that broke off; else null.
const char *running_rebuild(const FilterTable &table);
const char *broken_rebuild(const FilterTable &table);

// Writes down what is being added to a filter that is open for adds, where a rebuild runs: also
// items whose bits are all there, since those bits may be others', and leave. What rolls back
// afterwards stays in the journal; it makes a maybe too many.
void write_journal(const OpenFilter &filter, std::span<const Digest> digests);

// Makes a journal for a rebuild of the relation, and takes the lock that says that it runs. The
// file is one of the server's temporary files, out of reach of SQL, and gone after a crash. Returns
// its number, never 0.
uint32 make_journal(Oid relid);

// Removes the file, which need not be there. After end_rebuild: an add may be about to write to it.
void remove_journal(Oid relid, uint32 journal);

// Calls apply(argument, digest) for each entry from byte *position on, and moves *position to the
// end. Returns how many. Raises where entries may be missing.
using ApplyDigest = void (*)(void *argument, const Digest &digest);
int64 read_journal(Oid relid, uint32 journal, int64 *position, ApplyDigest apply, void *argument);

}  // namespace bloomfilter

#endif
