// One chunk row of a filter table: found, and read where it lies.
#ifndef BLOOMFILTER_CHUNK_ROW_HPP
#define BLOOMFILTER_CHUNK_ROW_HPP

#include "pg.hpp"

#include "bloomfilter/chunk.hpp"
#include "filter_table.hpp"

namespace bloomfilter {

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
// such row.
bool find_chunk(Relation relation, FilterTable *table, int32 chunk, const Positions *soon,
                Access access, ChunkRow *row);

// As find_chunk; raises XX001 where the row is missing. The bits at `soon`, unless that is null,
// are fetched from memory while the row is still being found.
ChunkRow require_chunk(const OpenFilter &filter, int32 chunk, const Positions *soon, Access access);

// Whether a row's tuple holds its kilobyte of bits, and nothing else in that column.
bool holds_chunk(Relation relation, const Shape &shape, HeapTuple tuple);

// The kilobyte of bits in a row's tuple. Raises XX001 where the column holds anything else.
ChunkView chunk_bits(Relation relation, const Shape &shape, HeapTuple tuple);

// The same bytes to set bits in: of a tuple in memory that is the caller's own, as heap_copytuple
// makes it. The only ways to bytes of a row that may be written; raise as chunk_bits.
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

// Works out how many rows lie on a page, if they lie in order, and makes room to remember where
// those pages are. A row that is not where order says is found through the index, and from then on
// where it was found: see remember_place.
void find_row_order(Relation relation, FilterTable *table);

// Remembers for the backend that a chunk's row, or its HOT chain's root, is at `place`. No more
// than a guess for the next look-up.
void remember_place(Relation relation, FilterTable *table, int32 chunk,
                    const ItemPointerData &place);

// Gives back the memory that find_row_order and remember_place took, for a table that is not in the
// backend's cache.
void forget_row_order(FilterTable *table);

}  // namespace bloomfilter

#endif
