// The journal of a rebuild: a file of the digests of all that was added since it began. Adds write
// it, the rebuild reads it.
#ifndef BLOOMFILTER_REBUILD_JOURNAL_HPP
#define BLOOMFILTER_REBUILD_JOURNAL_HPP

#include "pg.hpp"

#include <span>

#include "bloomfilter/md5.hpp"
#include "filter_table.hpp"
#include "function_ref.hpp"

namespace bloomfilter {

// Writes down what is being added to a filter that is open for adds, where a rebuild runs: also
// items whose bits are all there, since those bits may be others', and leave. What rolls back
// afterwards stays in the journal; it makes a maybe too many.
void write_journal(const OpenFilter &filter, std::span<const Digest> digests);

// Makes a journal for a rebuild of the relation, and takes the lock that says that it runs. The
// file is one of the server's temporary files, out of reach of SQL, and gone after a crash. Returns
// its number, never 0.
uint32 make_journal(Oid relid);

// Removes the file, which need not be there. After unlock_rebuild: an add may be about to write to
// it.
void remove_journal(Oid relid, uint32 journal);

// Calls apply(digest) for each entry from byte *position on, and moves *position to the end.
// Returns how many. Raises where entries may be missing.
int64 read_journal(Oid relid, uint32 journal, int64 *position,
                   FunctionRef<void(const Digest &)> apply);

}  // namespace bloomfilter

#endif
