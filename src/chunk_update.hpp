// Adds bits to chunk rows. Adds and merges write in this way, concurrently and at every isolation
// level.
#ifndef BLOOMFILTER_CHUNK_UPDATE_HPP
#define BLOOMFILTER_CHUNK_UPDATE_HPP

#include "pg.hpp"

#include <cstring>

#include "filter_table.hpp"

namespace bloomfilter {

// Opens a filter for adding. Raises what open_filter raises, and an error if nothing may be
// written: on a standby, in a read-only transaction, in parallel mode. `function` is for the
// message.
OpenFilter open_for_add(Oid relid, const char *function);
// The same for the filter in argument 0.
OpenFilter open_for_add(FunctionCallInfo fcinfo, const char *function);

// Makes what was written visible to later commands of the transaction, and makes the commit wait
// for the disk: other sessions rely on the bits once they see them. If the filter trusts failovers,
// the commit also waits for the synchronous standbys, even if `added` is 0: the bits that were
// found may be on this server only.
void finish_add(const OpenFilter &filter, int64 added);

// Replaces a version of the chunk's row by `changed`, a copy of it with more bits. If another
// transaction came first, returns false and sets *changed to a copy of that one's version, whose
// row is locked; the caller adds its bits to it and tries again. Raises XX001 if the row is gone,
// and 27000 if the command that runs has changed it already.
bool replace_version(const OpenFilter &filter, int32 chunk, HeapTuple *changed);

// Whether bits may be set in place in a version that require_chunk found: only this transaction can
// see the version, and if the bits have to be rolled back, the version is rolled back too. Raises
// 27000 if the command that runs made the version.
bool is_ours_alone(const OpenFilter &filter, int32 chunk, const ChunkRow &row);

// Overwrites the bits of a row in its page by `bits`, and logs that. is_ours_alone must have said
// yes, so that nobody else changes the row. At least one bit differs.
void write_in_place(Relation relation, const Shape &shape, const ChunkRow &row, ChunkView bits);

// Adds bits to the row of one chunk. It first reads the row, where bits count only if they are
// committed or the transaction's own. It writes only if has_all(ChunkView) says that bits are
// missing. add_to(MutableChunkView) sets them and returns how much was new, or 0. This returns the
// same.
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
