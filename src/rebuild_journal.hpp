// The journal of a rebuild: a file with the digests of all items that were added since the rebuild
// began. Adds write it, and the rebuild reads it.
#ifndef BLOOMFILTER_REBUILD_JOURNAL_HPP
#define BLOOMFILTER_REBUILD_JOURNAL_HPP

#include "pg.hpp"

#include <span>

#include "bloomfilter/md5.hpp"
#include "filter_table.hpp"
#include "function_ref.hpp"

namespace bloomfilter {

// Writes what is about to be added into the journal, if a rebuild runs; otherwise does nothing. The
// filter is open for adds. Items whose bits are all set are written too: those bits may belong to
// other items, which leave with the rebuild. An entry stays if its transaction rolls back. It then
// makes a maybe that is not needed. Raises 55000 if the journal is gone while its rebuild still
// runs.
void write_journal(const OpenFilter &filter, std::span<const Digest> digests);

// Makes a journal for a rebuild of the relation, and takes the lock that tells that the rebuild
// runs. The file is one of the server's temporary files, not a table: SQL cannot reach it, and the
// server removes what is left of it when it starts. Returns the number of the journal, which is
// never 0.
uint32 make_journal(Oid relid);

// Removes the file, if it exists. Called after unlock_rebuild, because an add may be about to write
// to the file. Raises nothing; a failure goes to the server's log.
void remove_journal(Oid relid, uint32 journal);

// Calls apply(digest) for each entry from byte *position on, and moves *position to the end.
// Returns the number of entries. Raises 55000 if entries may be missing.
int64 read_journal(Oid relid, uint32 journal, int64 *position,
                   FunctionRef<void(const Digest &)> apply);

}  // namespace bloomfilter

#endif
