// Writes the rows of a new filter table, for bloom_create and for the new table of a rebuild.
#include "pg.hpp"

#include <cstring>

#include "chunk_estimate.hpp"
#include "chunk_insert.hpp"
#include "chunk_varbit.hpp"
#include "filter_shape.hpp"
#include "huge_pages.hpp"
#include "progress.hpp"

namespace bloomfilter {

// For code that fills a range of a table as if it were a filter value in memory.
Header table_header(int32 chunks, Normalization normalization) {
  return {kTableHashes, log2_of_chunk_bits(kChunkBits), normalization, chunks, 0};
}

// Calls heap_insert row by row instead of SQL: an INSERT cannot freeze, and COPY with FREEZE would
// take every row through the text or the binary form of its bits. The rows stay in the order of
// chunk numbers, from which checks compute their places: SKIP_FSM keeps a row from filling a gap in
// an earlier page. There is no index yet, since building it afterwards is cheaper than an entry per
// row.
void write_rows(Relation relation, const ChunkRange &range) {
  Assert(range.first >= 0 && range.count > 0);
  require_plain_columns(relation);
  BulkInsertState bulk = GetBulkInsertState();
  Datum values[2];
  bool nulls[2] = {false, false};
  VarBit *bits = new_chunk_value();
  values[1] = VarBitPGetDatum(bits);
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    values[0] = Int32GetDatum(range.first + i);
    // heap_form_tuple copies the bits, so that one value serves for all rows.
    if (range.bits != nullptr)
      std::memcpy(VARBITS(bits), range.bits + chunk_offset(i), kChunkBytes);
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
    heap_insert(relation, tuple, GetCurrentCommandId(true),
                HEAP_INSERT_SKIP_FSM | HEAP_INSERT_FROZEN, bulk);
    heap_freetuple(tuple);
    count_progress();
  }
  // An error leaves them to the memory context and to the transaction's abort. See the rules for
  // memory and errors in docs/architecture.md: no RAII over an ereport.
  pfree(bits);
  FreeBulkInsertState(bulk);
  CommandCounterIncrement();
}

// From the bits, chunk by chunk. An item that was added twice sets the same bits, and counts once.
float8 items_in(const ChunkRange &range) {
  float8 items = 0;
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    items += ChunkEstimate({range.bits + chunk_offset(i), kChunkBytes}).items();
  }
  return items;
}

float8 write_rows_by_range(Relation relation, int32 chunks, int32 max_chunks,
                           FunctionRef<void(const ChunkRange &)> fill) {
  // The memory of a range may be aligned for huge pages: it cannot be freed by itself, but only
  // with its context.
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter rows", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(context);
  max_chunks = Min(chunks, max_chunks);
  const Size bytes = chunk_offset(max_chunks);
  ChunkRange range = {static_cast<uint8 *>(allocate_zeroed(bytes)), 0, 0};
  float8 items = 0;
  while (range.first < chunks) {
    range.count = Min(max_chunks, chunks - range.first);
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
