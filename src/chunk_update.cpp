// How adds and merges write to a chunk's row: a new version by heap_update, or in place in a
// version that this transaction made. Two adds to one chunk queue, and neither is lost.
#include "pg.hpp"

#include <algorithm>
#include <cstring>

#include "arguments.hpp"
#include "chunk_update.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// Inserts the index entries of a row version that is not HOT, also into a copy of the primary key
// that REINDEX CONCURRENTLY is making or removing.
void insert_index_entries(Relation relation, HeapTuple tuple, int32 chunk) {
  const List *indexes = RelationGetIndexList(relation);
  for (int i = 0; i < list_length(indexes); ++i) {
    Relation index = index_open(list_nth_oid(indexes, i), RowExclusiveLock);
    if (index->rd_index->indisready) {
      Datum values[1] = {Int32GetDatum(chunk)};
      bool nulls[1] = {false};
      index_insert(index, values, nulls, &tuple->t_self, relation, UNIQUE_CHECK_YES, true,
                   BuildIndexInfo(index));
    }
    index_close(index, RowExclusiveLock);
  }
}

// Raises XX001 if the row was deleted, 27000 if the command that runs changed it already.
[[noreturn]] void cannot_change(const OpenFilter &filter, int32 chunk, TM_Result result) {
  if (result == TM_Deleted)
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                    errmsg("chunk %d of Bloom filter \"%s\" is missing", chunk, filter.name()),
                    errdetail("Another transaction deleted the row."),
                    errhint("Rebuild the filter with bloom_rebuild.")));
  ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                  errmsg("chunk %d of Bloom filter \"%s\" is being changed by the same command",
                         chunk, filter.name()),
                  errhint("Add names in a separate statement.")));
  pg_unreachable();
}

// Waits for the transaction that is changing the chunk's row, of which `old` is a version, locks
// the last version and returns a copy of it. After that, an update of the row cannot lose again.
HeapTuple lock_last_version(const OpenFilter &filter, int32 chunk, ItemPointer old) {
  TupleTableSlot *slot = table_slot_create(filter.relation, nullptr);
  TM_FailureData failure;
  const TM_Result result = table_tuple_lock(
      filter.relation, old, SnapshotSelf, slot, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
      LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
  if (result != TM_Ok) cannot_change(filter, chunk, result);
  HeapTuple last = ExecCopySlotHeapTuple(slot);
  // The server follows versions by their places, and a place may belong to another row by now.
  if (chunk_number(filter.relation, filter.shape(), last) != chunk)
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                    errmsg("chunk %d of Bloom filter \"%s\" has a version that is another row",
                           chunk, filter.name()),
                    errhint("Rebuild the filter with bloom_rebuild.")));
  ExecDropSingleTupleTableSlot(slot);
  return last;
}

// Writes the 8-byte words of `bits` that differ from `old` as fragments of a generic WAL record:
// each a place in the page and a length of two bytes, then the bytes. The chunk begins at `place`
// in the page. Returns the end of the fragments, which take at most 1,028 bytes.
char *write_fragments(ChunkView old, ChunkView bits, Size place, char *fragments) {
  const auto differs = [&](Size at) {
    return std::memcmp(&old[at], &bits[at], sizeof(uint64)) != 0;
  };
  for (Size first = 0; first < kChunkBytes; first += sizeof(uint64)) {
    if (!differs(first)) continue;
    Size last = first + sizeof(uint64);
    while (last < kChunkBytes && differs(last)) last += sizeof(uint64);
    const uint16 header[2] = {static_cast<uint16>(place + first),
                              static_cast<uint16>(last - first)};
    std::memcpy(fragments, header, sizeof header);
    std::memcpy(fragments + sizeof header, &bits[first], last - first);
    fragments += sizeof header + (last - first);
    first = last;
  }
  return fragments;
}

}  // namespace

OpenFilter open_for_add(Oid relid, const char *function) {
  PreventCommandIfReadOnly(function);
  PreventCommandIfParallelMode(function);
  PreventCommandDuringRecovery(function);
  // The lock comes first: a rebuild that begins waits for it, even if nothing will be written. No
  // UPDATE privilege is needed: a role that can add should not be able to clear bits by SQL.
  OpenFilter filter = open_filter(relid, RowExclusiveLock, ACL_SELECT | ACL_INSERT);
  CheckCmdReplicaIdentity(filter.relation, CMD_UPDATE);
  return filter;
}

OpenFilter open_for_add(FunctionCallInfo fcinfo, const char *function) {
  return open_for_add(filter_argument(fcinfo), function);
}

// ForceSyncCommit overrides synchronous_commit = off: without it, 2 of 14,331 adds that had
// returned were denied after a kill of the server.
void finish_add(const OpenFilter &filter, int64 added) {
  if (filter.settings().trust_failover) wait_for_standbys();
  if (added == 0) return;
  ForceSyncCommit();
  CommandCounterIncrement();
}

// With a new version for each command that adds, each look-up would walk along the earlier ones:
// the time for the names of one statement grew with the square of their number.
//
// Writing in place is safe: nobody else reads, locks for update or replaces a version whose maker
// has not committed, and the look-up showed that this transaction has not replaced it. A lock on
// the key does not matter for the bits. The maker may be a subtransaction that has ended inside
// this one, but not a parent: a rollback of this one would leave the bits in the parent's version,
// and a name that was taken back would no longer count as new. Logical decoding does not see a
// write in place.
bool is_ours_alone(const OpenFilter &filter, int32 chunk, const ChunkRow &row) {
  const TransactionId maker = HeapTupleHeaderGetXmin(row.tuple.t_data);
  if (!TransactionIdIsCurrentTransactionId(maker)) return false;
  // heap_update would raise an error without a hint for a version that this command made.
  if (HeapTupleHeaderGetCmin(row.tuple.t_data) >= GetCurrentCommandId(false))
    cannot_change(filter, chunk, TM_SelfModified);
  const TransactionId current = GetCurrentTransactionIdIfAny();
  return TransactionIdIsValid(current) && TransactionIdFollowsOrEquals(maker, current) &&
         !RelationIsLogicallyLogged(filter.relation);
}

// Writes a generic WAL record by hand, in the form that the server's redo applies.
// GenericXLogFinish itself copies and compares the whole page: 4.4 us per add instead of 2.5.
void write_in_place(Relation relation, const Shape &shape, const ChunkRow &row, ChunkView bits) {
  Page page = BufferGetPage(row.buffer);
  const MutableChunkView target = writable_chunk(relation, shape, row, page);
  char fragments[2 * kChunkBytes];
  Assert(BufferIsValid(row.buffer) && CheckRelationLockedByMe(relation, RowExclusiveLock, true));
  const char *end = write_fragments(
      target, bits, static_cast<Size>(reinterpret_cast<char *>(target.data()) - page), fragments);
  Assert(end > fragments && end <= fragments + sizeof fragments);
  LockBuffer(row.buffer, BUFFER_LOCK_EXCLUSIVE);
  start_critical_section();
  std::ranges::copy(bits, target.begin());
  MarkBufferDirty(row.buffer);
  if (RelationNeedsWAL(relation)) {
    XLogBeginInsert();
    XLogRegisterBuffer(0, row.buffer, REGBUF_STANDARD);
    XLogRegisterBufData(0, fragments, static_cast<int>(end - fragments));
    // PageSetLSN is a macro on PostgreSQL 15 and evaluates its argument twice.
    const XLogRecPtr end_of_record = XLogInsert(RM_GENERIC_ID, 0);
    PageSetLSN(page, end_of_record);
  }
  end_critical_section();
  LockBuffer(row.buffer, BUFFER_LOCK_UNLOCK);
}

// It updates at once and locks the row only if it lost to another add: 11.1 to 12.5 thousand adds
// per second. Locking first gave 11.0; the executor's way for logical replication gave 10.0
// to 10.7, and missed rows beside updates that were not HOT (3 of 52,038). heap_update checks no
// snapshot here, so it never raises 40001.
bool replace_version(const OpenFilter &filter, int32 chunk, HeapTuple *changed) {
  Assert(CheckRelationLockedByMe(filter.relation, RowExclusiveLock, true));
  ItemPointerData old = (*changed)->t_self;
  TM_FailureData failure;
  const TM_Result result =
      compat_heap_update(filter.relation, &old, *changed, GetCurrentCommandId(true), &failure);
  if (result == TM_Ok) {
    if (!HeapTupleIsHeapOnly(*changed)) {
      insert_index_entries(filter.relation, *changed, chunk);
      // Otherwise a look-up through the index would try each such version of this transaction.
      remember_location(filter.relation, &filter.table->rows, chunk, (*changed)->t_self);
    }
    return true;
  }
  heap_freetuple(*changed);
  if (result != TM_Updated) cannot_change(filter, chunk, result);
  // Another add came first. Its version has bits that ours lacks, so the caller starts from it.
  *changed = lock_last_version(filter, chunk, &old);
  return false;
}

}  // namespace bloomfilter
