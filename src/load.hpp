// Filling a new filter table: names of a query, or whatever else there is, into bits in memory, one
// range of chunks at a time, and from there to final rows in order.
#ifndef BLOOMFILTER_LOAD_HPP
#define BLOOMFILTER_LOAD_HPP

#include "pg.hpp"

#include <cstring>

#include "bits_memory.hpp"
#include "bloomfilter/add_queue.hpp"
#include "normalize.hpp"

namespace bloomfilter {

// Raises unless the source is one query that yields one column of text or bloomfilter. `caller` is
// any function of the extension. Inside an SPI connection, as read_source.
void require_source(const char *source, Oid caller);

// Runs the source, and ORs the bits of all that it yields and that lie in the range into it: those
// of names, or of values that can be folded into the filter of that name. Null names are skipped; a
// null value is an error, and so are rows that row-level security hides: they would be missing
// names.
void read_source(const char *source, Oid caller, const char *filter, const Header &header,
                 const ChunkRange &range);

// A filter table as a value's header would say it; its canary is not set.
Header table_header(int32 chunks, Normalization normalization);

// Writes all rows of a table that was made in this transaction, without names.
void write_empty_rows(Relation relation, int32 chunks);

// Appends the rows of a range of chunks, or of empty ones where it has no bits. Frozen, so that a
// snapshot that is older than the table sees them too: an empty filter would deny everybody. The
// table must be of this transaction.
void write_rows(Relation relation, const ChunkRange &range, BulkInsertState bulk);

// About how many items the range holds.
float8 items_in(const ChunkRange &range);

// Writes all rows of a table that was made in this transaction: has fill(range) OR bits into each
// range of as many chunks as maintenance_work_mem holds, in order. Returns about how many different
// items there are.
template <typename Fill>
float8 load_rows(Relation relation, const Header &header, Fill fill) {
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter load", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(context);
  // One chunk is one kilobyte, the unit of maintenance_work_mem.
  const int32 most = Min(header.chunks, maintenance_work_mem);
  const Size bytes = static_cast<Size>(most) * kChunkBytes;
  ChunkRange range = {static_cast<uint8 *>(allocate_bits(bytes)), 0, 0};
  BulkInsertState bulk = GetBulkInsertState();
  float8 items = 0;
  for (; range.first < header.chunks; range.first += range.count) {
    range.count = Min(most, header.chunks - range.first);
    if (range.first > 0) std::memset(range.bits, 0, bytes);
    fill(range);
    items += items_in(range);
    write_rows(relation, range, bulk);
  }
  FreeBulkInsertState(bulk);
  MemoryContextSwitchTo(caller);
  MemoryContextDelete(context);
  CommandCounterIncrement();
  return items;
}

}  // namespace bloomfilter

#endif
