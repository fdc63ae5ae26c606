// Finds one chunk row of a table of chunks, and reads it in its page, without a copy.
#ifndef BLOOMFILTER_CHUNK_ROW_HPP
#define BLOOMFILTER_CHUNK_ROW_HPP

#include "pg.hpp"

#include "bloomfilter/chunk.hpp"
#include "filter_shape.hpp"

namespace bloomfilter {

// What this backend knows about the places of a table's chunk rows: the table's shape, and guesses.
// A row that is found by a guess counts only if it has the right number. So a wrong guess costs
// only time.
struct RowMap {
  Shape shape;
  int32 chunks;
  int32 rows_per_page;  // as loaded, in order; 0 if rows are not in order
  // The buffer in which each block was found last; null if the table has too many blocks.
  Buffer *buffers;
  int32 buffers_length;
  // Where rows that are not in order were found last, by chunk; null until there is such a row.
  ItemPointerData *locations;
  int32 locations_length;
  uint32 pins;
};

// Finds out how many rows are on a page, if rows are in order, and allocates memory for the buffers
// of those pages. A row that is elsewhere is found through the index, and after that by its
// remembered place: see remember_location.
void map_rows(Relation relation, RowMap *map, int32 chunks);

// Remembers for this backend that a chunk's row, or the root of its HOT chain, is at `location`.
// The next look-up takes that as a guess.
void remember_location(Relation relation, RowMap *map, int32 chunk,
                       const ItemPointerData &location);

// Frees the memory that map_rows and remember_location allocated. For a table that is not in the
// backend's cache.
void forget_rows(RowMap *map);

// A version of a chunk row. Its page is pinned until release().
struct ChunkRow {
  HeapTupleData tuple;
  Buffer buffer;
  void release() { ReleaseBuffer(buffer); }
};

// The purpose of a look-up. kReadOfMany is one of many look-ups of a call, in as many tables.
// kWrite first removes dead versions from the row's page, to make room.
enum class Access { kRead, kReadOfMany, kWrite };

// Finds the newest committed version of the chunk's row, or the transaction's own. It does not use
// the statement's snapshot, which may be older than an add that has committed. False if there is no
// such row. Unless `prefetch` is null, the bits there are fetched from memory while the row is
// still being looked for.
bool find_chunk(Relation relation, RowMap *map, int32 chunk, const Positions *prefetch,
                Access access, ChunkRow *row);

// Where find_chunk will look first. Nothing pins the page, so it may be another one by now.
struct ExpectedRow {
  Buffer buffer;  // invalid if none is remembered
  OffsetNumber item;
};

// For a caller that looks up rows in several filters: the processor fetches from memory what
// find_chunk will read. If it is called for every filter before the first find_chunk, the fetches
// wait for memory side by side. First the pages, then, by their line pointers, the rows. Neither
// changes what find_chunk finds.
ExpectedRow fetch_page_ahead(const RowMap &map, int32 chunk);
void fetch_row_ahead(const ExpectedRow &expected, const Positions &positions);

// For a caller that has other work before find_chunk, and one row to look up. Page and row are
// fetched side by side, the row from where it was loaded. After an update it is often elsewhere in
// its page.
void fetch_ahead_as_loaded(const RowMap &map, int32 chunk, const Positions &positions);

// Whether the column of a row's tuple holds a kilobyte of bits, stored in the tuple itself.
bool holds_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// The kilobyte of bits in a row's tuple. Raises XX001 if the column holds anything else.
ChunkView stored_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// The same bytes, writable, for a tuple in the caller's own memory as heap_copytuple makes it. This
// function and the next are the only ways to writable bytes of a row. They raise what stored_chunk
// raises.
MutableChunkView writable_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// The bytes of a row in a buffer, but in `copy`: a copy of the buffer's page as
// GenericXLogRegisterBuffer makes it, or the page itself.
MutableChunkView writable_chunk(Relation relation, const Shape &shape, const ChunkRow &row,
                                Page copy);

// The chunk number in a row's tuple; -1 if it is null.
int32 chunk_number(Relation relation, const Shape &shape, HeapTuple tuple);

// The highest chunk number in the table; -1 if there are no rows. Takes no predicate lock. Raises
// XX001 if the index has another number than the row.
int32 last_chunk(Relation relation, const Shape &shape);

// Calls visit(tuple) for each row, in the order of the table's pages. It does not use the index. It
// takes a new snapshot, not the statement's.
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
