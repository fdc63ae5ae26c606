// What a rebuild and the adds beside it share: whether one runs, and its journal, a table of the
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
void end_rebuild(Oid relid, Oid journal);

// Whether the rebuild whose journal the settings name still runs. One that does not will never run
// on: another begins with another journal. The caller holds a lock of the filter that keeps
// settings from changing, or does not mind.
bool rebuild_runs(const FilterTable &table);

// What bloom_info says of a rebuild of the filter, one that runs or one that broke off; else null.
const char *running_rebuild(const FilterTable &table);
const char *broken_rebuild(const FilterTable &table);

// Writes down what is being added to a filter that is open for adds, where a rebuild runs: also
// items whose bits are all there, since those bits may be others', and leave.
void write_journal(const OpenFilter &filter, std::span<const Digest> digests);

// Makes a journal for the relation, inside an SPI connection. Returns its OID.
Oid make_journal(Oid relid);

// Takes the lock that says that the journal's rebuild runs, until end_rebuild or an error. Before
// the journal is committed.
void hold_journal(Oid journal);

// Which journal entries were applied, for the next time: those that had committed at some moment.
struct JournalMark {
  SnapshotData snapshot;  // a copy, with arrays of its own; not registered
  bool valid;
  RelFileNumber file;  // of the journal: another was emptied by hand
};

// Calls apply(argument, digest) for each entry that has committed, but not for those that `mark`
// says were applied; then moves the mark, whose memory is `context`'s. Returns how many.
using ApplyDigest = void (*)(void *argument, const Digest &digest);
int64 read_journal(Oid journal, JournalMark *mark, MemoryContext context, ApplyDigest apply,
                   void *argument);

}  // namespace bloomfilter

#endif
