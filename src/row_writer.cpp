#include "pg.hpp"

#include <cstring>

#include "bloomfilter/sizing.hpp"
#include "chunk_value.hpp"
#include "filter_table.hpp"
#include "popcount.hpp"
#include "row_writer.hpp"

namespace bloomfilter {

Header table_header(int32 chunks, Normalization normalization) {
  return {kTableHashes, log2_of_chunk_bits(kChunkBits), normalization, chunks, 0};
}

void write_rows(Relation relation, const ChunkRange &range) {
  require_plain_columns(relation);
  BulkInsertState bulk = GetBulkInsertState();
  Datum values[2];
  bool nulls[2] = {false, false};
  VarBit *bits = new_chunk_value();
  values[1] = VarBitPGetDatum(bits);
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    values[0] = Int32GetDatum(range.first + i);
    if (range.bits != nullptr)
      std::memcpy(VARBITS(bits), range.bits + static_cast<Size>(i) * kChunkBytes, kChunkBytes);
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
    heap_insert(relation, tuple, GetCurrentCommandId(true),
                HEAP_INSERT_SKIP_FSM | HEAP_INSERT_FROZEN, bulk);
    heap_freetuple(tuple);
  }
  pfree(bits);
  FreeBulkInsertState(bulk);
  CommandCounterIncrement();
}

float8 items_in(const ChunkRange &range) {
  float8 items = 0;
  for (int32 i = 0; i < range.count; ++i) {
    const ChunkView chunk(range.bits + static_cast<Size>(i) * kChunkBytes, kChunkBytes);
    items += estimated_items(static_cast<float8>(popcount(chunk)), kChunkBits, kTableHashes);
  }
  return items;
}

}  // namespace bloomfilter
