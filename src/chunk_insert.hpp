// Writes the rows of a new filter table: each once with its final bits, in order, and frozen.
#ifndef BLOOMFILTER_CHUNK_INSERT_HPP
#define BLOOMFILTER_CHUNK_INSERT_HPP

#include "pg.hpp"

#include "bloomfilter/add_queue.hpp"
#include "function_ref.hpp"

namespace bloomfilter {

// A filter table in the form of a value's header. The canary is not set.
Header table_header(int32 chunks, Normalization normalization);

// Appends the rows of a range of chunks; if range.bits is null, of empty chunks. The rows are
// frozen, so that a snapshot that is older than the table sees them too. Without rows every name
// would be denied. The table must have been made in this transaction. Raises 55000 unless its
// columns are (chunk, bits).
void write_rows(Relation relation, const ChunkRange &range);

// About how many different items the bits of the range show.
float8 items_in(const ChunkRange &range);

// Writes all rows of a table of `chunks` chunks. It calls fill(range) for one range of at most
// `max_chunks` chunks after another, and fill ORs bits into it. Uses a kilobyte of memory per chunk
// of a range. Returns about how many different items there are.
float8 write_rows_by_range(Relation relation, int32 chunks, int32 max_chunks,
                           FunctionRef<void(const ChunkRange &)> fill);

}  // namespace bloomfilter

#endif
