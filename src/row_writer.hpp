// The rows of a new filter table: final, in order, and frozen.
#ifndef BLOOMFILTER_ROW_WRITER_HPP
#define BLOOMFILTER_ROW_WRITER_HPP

#include "pg.hpp"

#include <cstring>

#include "bits_memory.hpp"
#include "bloomfilter/add_queue.hpp"

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
// `most` chunks, in order. Returns about how many different items there are.
template <typename Fill>
float8 write_rows_by_range(Relation relation, int32 chunks, int32 most, Fill fill) {
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter rows", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(context);
  most = Min(chunks, most);
  const Size bytes = static_cast<Size>(most) * kChunkBytes;
  ChunkRange range = {static_cast<uint8 *>(allocate_bits(bytes)), 0, 0};
  float8 items = 0;
  while (range.first < chunks) {
    range.count = Min(most, chunks - range.first);
    if (range.first > 0) std::memset(range.bits, 0, bytes);
    fill(range);
    items += items_in(range);
    write_rows(relation, range);
    range.first += range.count;
  }
  MemoryContextSwitchTo(caller);
  MemoryContextDelete(context);
  return items;
}

}  // namespace bloomfilter

#endif
