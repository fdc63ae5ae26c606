// The rows of a new filter table: final, in order, and frozen.
#ifndef BLOOMFILTER_CHUNK_INSERT_HPP
#define BLOOMFILTER_CHUNK_INSERT_HPP

#include "pg.hpp"

#include <cstring>

#include "bloomfilter/add_queue.hpp"
#include "function_ref.hpp"

namespace bloomfilter {

// A filter table as a value's header would say it; its canary is not set.
Header table_header(int32 chunks, Normalization normalization);

// Appends the rows of a range of chunks, or of empty ones where it has no bits. Frozen, so that a
// snapshot that is older than the table sees them too: an empty filter would deny everybody. The
// table must be of this transaction; raises unless its columns are (chunk, bits).
void write_rows(Relation relation, const ChunkRange &range);

// About how many items the range holds.
float8 items_in(const ChunkRange &range);

// Writes all rows of a table of `chunks` chunks: has fill(range) OR bits into each range of at most
// `max_chunks` chunks, in order. Returns about how many different items there are.
float8 write_rows_by_range(Relation relation, int32 chunks, int32 max_chunks,
                           FunctionRef<void(const ChunkRange &)> fill);

}  // namespace bloomfilter

#endif
