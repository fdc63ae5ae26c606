// Adding bits to chunk rows: the way in which adds and merges write, beside one another and at
// every isolation level.
#ifndef BLOOMFILTER_CHUNK_UPDATE_HPP
#define BLOOMFILTER_CHUNK_UPDATE_HPP

#include "pg.hpp"

#include <cstring>

#include "filter_table.hpp"

namespace bloomfilter {

// The filter that is argument 0, open to be added to. Raises as open_filter does, and where nothing
// may be written: on a standby, in a read-only transaction, in a parallel worker.
OpenFilter open_for_add(FunctionCallInfo fcinfo, const char *function);

// Makes what was written seen by the rest of the transaction, and has its commit wait for the disk:
// others rely on the bits as prefetch as they see them. Of a filter that trusts failovers the
// commit waits for the synchronous standbys too, also where `added` is 0: what was found there may
// be on this server alone.
void finish_add(const OpenFilter &filter, int64 added);

// Puts `changed`, a copy of a version of the chunk's row with more bits, in that version's place.
// False where another transaction came first; *changed is then that one's version, locked, to be
// changed in its turn. Raises where the row is gone.
bool replace_version(const OpenFilter &filter, int32 chunk, HeapTuple *changed);

// Whether nobody but this transaction can see a version that require_chunk found, and that version
// goes wherever bits that are set now have to go. Raises 27000 where the very command that runs
// made it.
bool is_ours_alone(const OpenFilter &filter, int32 chunk, const ChunkRow &row);

// Sets the bits of a row that nobody else changes to `bits`, where they lie; that is logged.
void write_in_place(Relation relation, const Shape &shape, const ChunkRow &row, ChunkView bits);

// Adds bits to one chunk's row. Looks first, counting only committed bits or the transaction's own,
// and writes only where has_all(ChunkView) says that bits are missing. add_to(MutableChunkView)
// sets them and returns how much was new, 0 for nothing; so does this.
template <typename HasAll, typename AddTo>
int64 change_chunk(const OpenFilter &filter, int32 chunk, const Positions *prefetch, HasAll has_all,
                   AddTo add_to) {
  ChunkRow row = require_chunk(filter, chunk, prefetch, Access::kWrite);
  const ChunkView found = stored_chunk(filter, &row);
  if (has_all(found)) {
    row.release();
    return 0;
  }
  int64 added;
  if (is_ours_alone(filter, chunk, row)) {
    uint8 bits[kChunkBytes];
    std::memcpy(bits, found.data(), kChunkBytes);
    added = add_to(MutableChunkView(bits));
    write_in_place(filter.relation, filter.shape(), row, bits);
    row.release();
    return added;
  }
  HeapTuple changed = heap_copytuple(&row.tuple);
  row.release();
  do {
    added = add_to(writable_chunk(filter.relation, filter.shape(), changed));
  } while (added != 0 && !replace_version(filter, chunk, &changed));
  heap_freetuple(changed);
  return added;
}

}  // namespace bloomfilter

#endif
