// Finds the row of a chunk: where it was last, or where it must be if rows are in order, or through
// the primary key. No other code knows where the bits are in a row.
#include "pg.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "chunk_row.hpp"

namespace bloomfilter {
namespace {

// How often the index is searched under SnapshotSelf before find_chunk asks an MVCC snapshot.
constexpr int kSnapshotSelfTries = 3;

// Buffers are remembered only for filters of at most so many blocks: 8 GB. They take 4 MB then, in
// each backend that uses the filter.
constexpr int32 kMaxRemembered = 1 << 20;

// At most so many places are remembered, 6 MB. In a filter of more chunks several share one.
constexpr int32 kMaxLocations = 1 << 20;

// One of so many pins of a remembered buffer is done by ReadBuffer. Only that raises the usage
// count of the buffer, so that the server does not evict a page that is in use. It takes as long as
// several other pins. Where a call reads a page of each of its filters, fewer will do.
constexpr uint32 kPinsPerUsageBump = 8;
constexpr uint32 kPinsOfManyPerUsageBump = 64;

// Where the bits are in a row of (chunk, bits): after the header, the number and the two lengths.
// Only prefetching uses it. Whoever reads the bits asks find_bits.
constexpr int kBitsOffset =
    MAXALIGN(SizeofHeapTupleHeader) + sizeof(int32) + VARHDRSZ + VARBITHDRSZ;

// How many of an item's bits fetch_row_ahead fetches. Of a row that lacks the item, mostly the
// first or the second is not set, and memory delivers about a dozen lines at a time.
constexpr size_t kBitsAhead = 3;

// Pins a block. Returns InvalidBuffer if the heap is shorter. If the remembered buffer still holds
// the block, neither the length of the file nor the buffer mapping table is asked: 1.6 us per check
// instead of 2.0. ReadRecentBuffer compares the buffer's tag, so a file that was exchanged
// meanwhile is not mistaken for the table's.
Buffer pin_block(Relation relation, RowMap *map, BlockNumber block, Access access) {
  Buffer *remembered =
      static_cast<int64>(block) < map->buffers_length ? &map->buffers[block] : nullptr;
  if (remembered != nullptr && BufferIsValid(*remembered)) {
    // The page's first cache line and the buffer's descriptor are both far away in memory. Fetched
    // together they take 0.91 us per check, one after the other 1.02.
    __builtin_prefetch(BufferGetPage(*remembered));
    const uint32 bump = access == Access::kReadOfMany ? kPinsOfManyPerUsageBump : kPinsPerUsageBump;
    if (++map->pins % bump != 0 &&
        ReadRecentBuffer(compat_locator(relation), MAIN_FORKNUM, block, *remembered))
      return *remembered;
  }
  if (block >= RelationGetNumberOfBlocks(relation)) return InvalidBuffer;
  const Buffer buffer = ReadBuffer(relation, block);
  if (remembered != nullptr) *remembered = buffer;
  return buffer;
}

// Starts to fetch the cache lines with an item's bits, which arrive while the row's visibility is
// checked. It reads line pointers without a lock on the page. If they change meanwhile, it fetches
// the wrong lines, which is harmless. Inlined always: gcc drops calls that only prefetch.
pg_attribute_always_inline void fetch_ahead(Page page, OffsetNumber item,
                                            std::span<const uint16> prefetch) {
  if (item > PageGetMaxOffsetNumber(page)) return;
  ItemId pointer = PageGetItemId(page, item);
  if (ItemIdIsRedirected(pointer)) {
    if (ItemIdGetRedirect(pointer) > MaxHeapTuplesPerPage) return;
    pointer = PageGetItemId(page, ItemIdGetRedirect(pointer));
  }
  const char *tuple = static_cast<const char *>(page) + ItemIdGetOffset(pointer);
  // The row's header and that of the bits, which may be in two lines.
  __builtin_prefetch(tuple);
  __builtin_prefetch(tuple + kBitsOffset - 1);
  for (const uint16 position : prefetch) __builtin_prefetch(tuple + kBitsOffset + position / 8);
}

// Reads the visible row whose line pointer, or the root of whose HOT chain, is `item` of a pinned
// block. If there is none, it releases the pin and returns false. `item` may be any number:
// heap_hot_search_buffer refuses one that is not in the page.
//
// It uses SnapshotSelf, which sees everything committed so far and what this transaction did. The
// statement's snapshot would be wrong: a repeatable-read session that was opened before a filter
// was filled denied 2,000 of 2,000 members. A dirty snapshot would be wrong too: it sees bits that
// may be rolled back.
bool read_line_pointer(Relation relation, BlockNumber block, OffsetNumber item, ChunkRow *row) {
  ItemPointerData tid;
  ItemPointerSet(&tid, block, item);
  LockBuffer(row->buffer, BUFFER_LOCK_SHARE);
  const bool found =
      heap_hot_search_buffer(&tid, relation, row->buffer, SnapshotSelf, &row->tuple, nullptr, true);
  LockBuffer(row->buffer, BUFFER_LOCK_UNLOCK);
  if (!found) row->release();
  return found;
}

// Where a row may be. The item is 0 if there is no guess.
struct Place {
  BlockNumber block;
  OffsetNumber item;
};

// Computes the place of the row. Rows were inserted in order, and a HOT update does not move the
// root of its chain. A look-up takes 0.7-1.0 us, and 2.3-3.0 through the index.
Place place_by_order(const RowMap &map, int32 chunk) {
  const int32 rows = map.rows_per_page;
  if (rows == 0) return {};
  return {static_cast<BlockNumber>(chunk / rows), static_cast<OffsetNumber>(chunk % rows + 1)};
}

// Where the row was when it was last found through the index. So rows that are not in order, or
// have moved, are found as fast as the others from the second time on.
Place place_by_memory(const RowMap &map, int32 chunk) {
  if (likely(map.locations == nullptr)) return {};
  const ItemPointerData &location = map.locations[chunk % map.locations_length];
  if (!ItemPointerIsValid(&location)) return {};
  return {ItemPointerGetBlockNumber(&location), ItemPointerGetOffsetNumber(&location)};
}

// Finds the chunk's row, if it is at `place`. That is a guess: the row that is found there counts
// only if it has the right number.
bool find_at(Relation relation, RowMap *map, const Place &place, int32 chunk,
             const Positions *prefetch, Access access, ChunkRow *row) {
  if (place.item == 0) return false;
  row->buffer = pin_block(relation, map, place.block, access);
  if (!BufferIsValid(row->buffer)) return false;
  // An index scan would prune the page on its way, this look-up has to do it itself. Otherwise dead
  // versions stay until vacuum comes, and the next update finds no room in the page.
  if (access == Access::kWrite) compat_prune(relation, row->buffer);
  if (prefetch != nullptr) fetch_ahead(BufferGetPage(row->buffer), place.item, *prefetch);
  if (!read_line_pointer(relation, place.block, place.item, row)) return false;
  if (chunk_number(relation, map->shape, &row->tuple) == chunk) return true;
  row->release();
  return false;
}

// Finds the first row in the order of the primary key, from the end that `direction` says, and only
// among those equal to `key` if that is given. Sets *location to the place in the index's entry,
// and *chunk, unless that is null, to the number in the entry: both may differ from the row if the
// index is damaged, so callers compare the row's own number. The row's page stays pinned.
bool find_by_index(Relation relation, const Shape &shape, ScanKey key, ScanDirection direction,
                   Snapshot snapshot, ItemPointerData *location, int32 *chunk, ChunkRow *row) {
  Relation index = index_open(shape.index, AccessShareLock);
  TupleTableSlot *slot = table_slot_create(relation, nullptr);
  const int keys = key == nullptr ? 0 : 1;
  IndexScanDesc scan = compat_index_beginscan(relation, index, snapshot, keys);
  // Before index_rescan, which allocates the memory for index tuples.
  scan->xs_want_itup = chunk != nullptr;
  index_rescan(scan, key, keys, nullptr, 0);
  bool found = false;
  while (!found) {
    // The root of a HOT chain. Copied, since index_fetch_heap overwrites it with the place of the
    // row within the chain, which changes at each update.
    const ItemPointerData *root = index_getnext_tid(scan, direction);
    if (root == nullptr) break;
    *location = *root;
    found = index_fetch_heap(scan, slot);
  }
  if (found) {
    bool is_null;
    if (chunk != nullptr)
      *chunk = DatumGetInt32(index_getattr(scan->xs_itup, 1, RelationGetDescr(index), &is_null));
    auto *heap_slot = reinterpret_cast<BufferHeapTupleTableSlot *>(slot);
    // The tuple points into the page. A pin of our own keeps the page when scan and slot go.
    row->tuple = *heap_slot->base.tuple;
    row->buffer = heap_slot->buffer;
    IncrBufferRefCount(row->buffer);
  }
  index_endscan(scan);
  ExecDropSingleTupleTableSlot(slot);
  index_close(index, AccessShareLock);
  return found;
}

// Raises XX001 unless a row that was found through the index has the number that was looked for:
// the bits of another chunk would deny every name of this one.
void require_number(Relation relation, const Shape &shape, int32 chunk, HeapTuple tuple) {
  const int32 number = chunk_number(relation, shape, tuple);
  if (likely(number == chunk)) return;
  ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                  errmsg("index \"%s\" of Bloom filter \"%s\" has a wrong row for chunk %d",
                         get_rel_name(shape.index), RelationGetRelationName(relation), chunk),
                  errdetail("The index entry leads to the row of chunk %d.", number),
                  errhint("Treat the answer as \"maybe\".  Run REINDEX.  If the table itself is "
                          "damaged, rebuild the filter with bloom_rebuild.")));
}

// Finds the row through the index, and remembers its place.
bool find_by_number(Relation relation, RowMap *map, int32 chunk, Snapshot snapshot, ChunkRow *row) {
  ScanKeyData key;
  ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(chunk));
  ItemPointerData location;
  if (!find_by_index(relation, map->shape, &key, ForwardScanDirection, snapshot, &location, nullptr,
                     row))
    return false;
  require_number(relation, map->shape, chunk, &row->tuple);
  remember_location(relation, map, chunk, location);
  return true;
}

// The number of places depends on the number of chunks, so they cannot be kept over a resize.
void forget_locations(RowMap *map) {
  if (map->locations != nullptr) pfree(map->locations);
  map->locations = nullptr;
  map->locations_length = 0;
}

// Allocates memory for the buffers of the relation's pages, unless there are too many. Buffers that
// are already remembered stay. The old memory is freed last, so that an error leaves it valid.
void make_room_for_buffers(Relation relation, RowMap *map) {
  const BlockNumber blocks = RelationGetNumberOfBlocks(relation);
  const auto length = static_cast<Size>(map->buffers_length);
  if (blocks <= length || blocks > kMaxRemembered) return;
  auto *buffers = static_cast<Buffer *>(
      MemoryContextAllocZero(TopMemoryContext, sizeof(Buffer) * static_cast<Size>(blocks)));
  if (length > 0) {
    std::memcpy(buffers, map->buffers, sizeof(Buffer) * length);
    pfree(map->buffers);
  }
  map->buffers = buffers;
  map->buffers_length = static_cast<int32>(blocks);
}

// Sets *offset to where the kilobyte of bits is in a tuple, from its header on. False if the tuple
// does not contain it: the value is null, or compressed, or out of line, or of another length, or
// it is the default of a column that was added later. That default is in the relation cache, shared
// by all rows: bits that were set there would be lost, or would be in every chunk.
bool find_bits(Relation relation, const Shape &shape, HeapTuple tuple, Size *offset) {
  bool is_null;
  const Datum datum =
      heap_getattr(tuple, shape.bits_attribute, RelationGetDescr(relation), &is_null);
  const auto *bits = reinterpret_cast<const VarBit *>(DatumGetPointer(datum));
  // How far the value is from the tuple. This is checked before any byte of the value is read. If
  // it is before the tuple, the unsigned difference is huge.
  const Size begin = reinterpret_cast<uintptr_t>(bits) - reinterpret_cast<uintptr_t>(tuple->t_data);
  constexpr Size kLength = VARBITTOTALLEN(kChunkBits);
  *offset = begin + VARHDRSZ + VARBITHDRSZ;
  return likely(!is_null && begin < tuple->t_len && tuple->t_len - begin >= kLength &&
                VARATT_IS_4B_U(bits) && VARSIZE(bits) == kLength && VARBITLEN(bits) == kChunkBits);
}

// The same, but raises XX001 if the tuple does not contain the bits.
Size offset_of_bits(Relation relation, const Shape &shape, HeapTuple tuple) {
  Size offset;
  if (unlikely(!find_bits(relation, shape, tuple, &offset)))
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                    errmsg("chunk %d of Bloom filter \"%s\" does not hold %d bits",
                           chunk_number(relation, shape, tuple), RelationGetRelationName(relation),
                           kChunkBits)));
  return offset;
}

}  // namespace

void map_rows(Relation relation, RowMap *map, int32 chunks) {
  map->chunks = chunks;
  int32 rows = 0;
  // The first row of block b is chunk b * rows. Updates may have moved it away: up to eight blocks
  // are tried.
  const BlockNumber blocks = std::min<BlockNumber>(RelationGetNumberOfBlocks(relation), 9);
  for (BlockNumber block = 1; block < blocks && rows == 0; ++block) {
    ChunkRow row;
    row.buffer = ReadBuffer(relation, block);
    if (!read_line_pointer(relation, block, FirstOffsetNumber, &row)) continue;
    const int32 first = chunk_number(relation, map->shape, &row.tuple);
    row.release();
    const int32 each = first / static_cast<int32>(block);
    if (each > 0 && each <= MaxHeapTuplesPerPage && first % static_cast<int32>(block) == 0)
      rows = each;
  }
  map->rows_per_page = rows;
  make_room_for_buffers(relation, map);
  if (map->locations_length != Min(map->chunks, kMaxLocations)) forget_locations(map);
}

void remember_location(Relation relation, RowMap *map, int32 chunk,
                       const ItemPointerData &location) {
  Assert(chunk >= 0 && chunk < map->chunks);
  if (map->locations == nullptr) {
    // In TopMemoryContext, as it is needed for as long as the backend has the filter in its cache.
    const int32 length = Min(map->chunks, kMaxLocations);
    map->locations = static_cast<ItemPointerData *>(MemoryContextAllocZero(
        TopMemoryContext, sizeof(ItemPointerData) * static_cast<Size>(length)));
    map->locations_length = length;
  }
  map->locations[chunk % map->locations_length] = location;
  if (static_cast<int64>(ItemPointerGetBlockNumber(&location)) >= map->buffers_length)
    make_room_for_buffers(relation, map);
}

void forget_rows(RowMap *map) {
  map->rows_per_page = 0;
  forget_locations(map);
  if (map->buffers_length > 0) pfree(map->buffers);
  map->buffers = nullptr;
  map->buffers_length = 0;
}

bool find_chunk(Relation relation, RowMap *map, int32 chunk, const Positions *prefetch,
                Access access, ChunkRow *row) {
  Assert(chunk >= 0 && chunk < map->chunks);
  Assert(CheckRelationLockedByMe(relation, AccessShareLock, true));
  if (find_at(relation, map, place_by_memory(*map, chunk), chunk, prefetch, access, row))
    return true;
  if (find_at(relation, map, place_by_order(*map, chunk), chunk, prefetch, access, row))
    return true;
  // SnapshotSelf can miss a row if its update, to another page, commits after the scan saw the old
  // version and before it would see the new one: 2 of 370,000 look-ups beside such updates. So it
  // is tried again, and at last under an MVCC snapshot, which cannot miss. That one is not used
  // from the start, since it takes predicate locks in a serializable transaction, and adds would
  // fail with 40001. The catalog's: GetLatestSnapshot raises an error in a parallel query.
  for (int tries = 0; tries < kSnapshotSelfTries; ++tries)
    if (find_by_number(relation, map, chunk, SnapshotSelf, row)) return true;
  Snapshot snapshot = RegisterSnapshot(GetCatalogSnapshot(RelationGetRelid(relation)));
  const bool found = find_by_number(relation, map, chunk, snapshot, row);
  UnregisterSnapshot(snapshot);
  return found;
}

ExpectedRow fetch_page_ahead(const RowMap &map, int32 chunk) {
  Place place = place_by_memory(map, chunk);
  if (place.item == 0) place = place_by_order(map, chunk);
  if (place.item == 0 || static_cast<int64>(place.block) >= map.buffers_length) return {};
  const Buffer buffer = map.buffers[place.block];
  if (!BufferIsValid(buffer)) return {};
  __builtin_prefetch(BufferGetPage(buffer));
  if (!BufferIsLocal(buffer)) __builtin_prefetch(GetBufferDescriptor(buffer - 1));
  return {buffer, place.item};
}

void fetch_row_ahead(const ExpectedRow &expected, const Positions &positions) {
  if (BufferIsValid(expected.buffer))
    fetch_ahead(BufferGetPage(expected.buffer), expected.item, {positions.data(), kBitsAhead});
}

// Rows are inserted from the end of a page on: 0.74 us per check with it, and 1.04 without.
void fetch_ahead_as_loaded(const RowMap &map, int32 chunk, const Positions &positions) {
  const ExpectedRow expected = fetch_page_ahead(map, chunk);
  constexpr Size kRowBytes = MAXALIGN(kBitsOffset + kChunkBytes);
  if (!BufferIsValid(expected.buffer) || expected.item > BLCKSZ / kRowBytes) return;
  const char *end = static_cast<const char *>(BufferGetPage(expected.buffer)) + BLCKSZ;
  const char *tuple = end - expected.item * kRowBytes;
  __builtin_prefetch(tuple);
  for (const uint16 position : positions) __builtin_prefetch(tuple + kBitsOffset + position / 8);
}

// For a status page, which reports a damaged row and goes on.
bool holds_chunk(Relation relation, const Shape &shape, HeapTuple tuple) {
  Size offset;
  return find_bits(relation, shape, tuple, &offset);
}

// A view into the page or the copied tuple. It is valid as long as the pin, or the tuple, is.
ChunkView stored_chunk(Relation relation, const Shape &shape, HeapTuple tuple) {
  return ChunkView(
      reinterpret_cast<const uint8 *>(tuple->t_data) + offset_of_bits(relation, shape, tuple),
      kChunkBytes);
}

MutableChunkView writable_chunk(Relation relation, const Shape &shape, HeapTuple tuple) {
  return MutableChunkView(
      reinterpret_cast<uint8 *>(tuple->t_data) + offset_of_bits(relation, shape, tuple),
      kChunkBytes);
}

MutableChunkView writable_chunk(Relation relation, const Shape &shape, const ChunkRow &row,
                                Page copy) {
  HeapTupleData tuple = row.tuple;
  const auto offset = static_cast<Size>(reinterpret_cast<const char *>(tuple.t_data) -
                                        static_cast<const char *>(BufferGetPage(row.buffer)));
  if (offset >= BLCKSZ || tuple.t_len > BLCKSZ - offset)
    elog(ERROR, "chunk row of \"%s\" does not lie in its page", RelationGetRelationName(relation));
  return MutableChunkView(
      reinterpret_cast<uint8 *>(copy) + offset + offset_of_bits(relation, shape, &tuple),
      kChunkBytes);
}

// No row has the chunk -1, so a null number never passes for the one that was looked for.
int32 chunk_number(Relation relation, const Shape &shape, HeapTuple tuple) {
  bool is_null;
  const Datum datum =
      heap_getattr(tuple, shape.chunk_attribute, RelationGetDescr(relation), &is_null);
  return is_null ? -1 : DatumGetInt32(datum);
}

// Asks the index for its last entry: enough to find a table that lost its last rows or got more.
int32 last_chunk(Relation relation, const Shape &shape) {
  ChunkRow row;
  ItemPointerData location;
  int32 last;
  if (!find_by_index(relation, shape, nullptr, BackwardScanDirection, SnapshotSelf, &location,
                     &last, &row))
    return -1;
  require_number(relation, shape, last, &row.tuple);
  row.release();
  return last;
}

}  // namespace bloomfilter
