// One chunk row of a table of chunks: found, and read where it lies.
#ifndef BLOOMFILTER_CHUNK_ROW_HPP
#define BLOOMFILTER_CHUNK_ROW_HPP

#include "pg.hpp"

#include "bloomfilter/chunk.hpp"
#include "filter_shape.hpp"

namespace bloomfilter {

// What this backend knows of where a table's chunk rows are: its shape, and guesses. A guess is
// followed only to a row that bears the right number, so that a wrong one costs time alone.
struct RowMap {
  Shape shape;
  int32 chunks;
  int32 rows_per_page;  // as loaded, in order; 0 where rows are not in order
  // The buffers that pages were found in last, one a block; null where there are too many.
  Buffer *buffers;
  int32 buffers_length;
  // Where rows that are not in order were found last, by chunk; null until there is one.
  ItemPointerData *locations;
  int32 locations_length;
  uint32 pins;
};

// Works out how many rows lie on a page, if they lie in order, and makes room to remember where
// those pages are. A row that is not where order says is found through the index, and from then on
// where it was found: see remember_location.
void map_rows(Relation relation, RowMap *map, int32 chunks);

// Remembers for the backend that a chunk's row, or its HOT chain's root, is at `location`. No more
// than a guess for the next look-up.
void remember_location(Relation relation, RowMap *map, int32 chunk,
                       const ItemPointerData &location);

// Gives back the memory that map_rows and remember_location took, for a table that is not in the
// backend's cache.
void forget_rows(RowMap *map);

// A version of a chunk row, its page pinned until release().
struct ChunkRow {
  HeapTupleData tuple;
  Buffer buffer;
  void release() { ReleaseBuffer(buffer); }
};

// What a row is looked up for. Who is going to write it makes room in its page first.
enum class Access { kRead, kWrite };

// Finds the newest committed version of the chunk's row, or the transaction's own: never the
// statement's snapshot, which may be older than an add that has committed. False if there is no
// such row. The bits at `prefetch`, unless that is null, are fetched from memory while the row is
// still being found.
bool find_chunk(Relation relation, RowMap *map, int32 chunk, const Positions *prefetch,
                Access access, ChunkRow *row);

// Whether a row's tuple holds its kilobyte of bits, and nothing else in that column.
bool holds_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// The kilobyte of bits in a row's tuple. Raises XX001 where the column holds anything else.
ChunkView stored_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// The same bytes to set bits in: of a tuple in memory that is the caller's own, as heap_copytuple
// makes it. The only ways to bytes of a row that may be written; raise as stored_chunk.
MutableChunkView writable_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// Of a row that lies in its buffer, where they lie in a copy of that buffer's page, as
// GenericXLogRegisterBuffer makes it.
MutableChunkView writable_chunk(Relation relation, const Shape &shape, const ChunkRow &row,
                                Page copy);

// The chunk number in a row's tuple.
int32 chunk_number(Relation relation, const Shape &shape, HeapTuple tuple);

// Raises XX001, and names the index, unless a row that was found by its number or by way of it
// bears that number: bits of another chunk would deny every name of this one.
void require_number(Relation relation, const Shape &shape, int32 chunk, HeapTuple tuple);

// The highest chunk number there is, -1 where there are no rows. Takes no predicate lock. Raises
// XX001 where the index has another number than the row.
int32 last_chunk(Relation relation, const Shape &shape);

// Calls visit(tuple) for each row in the order of the table's pages, without the index, under a
// snapshot taken now.
template <typename Visit>
void scan_chunk_rows(Relation relation, Visit visit) {
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = compat_table_beginscan(relation, snapshot);
  TupleTableSlot *slot = table_slot_create(relation, nullptr);
  while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    CHECK_FOR_INTERRUPTS();
    visit(ExecFetchSlotHeapTuple(slot, false, nullptr));
  }
  ExecDropSingleTupleTableSlot(slot);
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
}

}  // namespace bloomfilter

#endif
