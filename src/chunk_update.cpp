
#include "pg.hpp"

#include <algorithm>
#include <cstring>

#include "arguments.hpp"
#include "chunk_update.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// The entries of a row version that is not HOT: of the primary key, and of a copy that REINDEX
// CONCURRENTLY is making or removing, as soon and as long as that takes them. It waits for whoever
// has the table locked before it counts on them.
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

[[noreturn]] void cannot_change(const OpenFilter &filter, int32 chunk, TM_Result result) {
  if (result == TM_Deleted)
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED),
                    errmsg("chunk %d of Bloom filter \"%s\" is missing", chunk, filter.name()),
                    errdetail("Its row was deleted at this moment.")));
  ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                  errmsg("chunk %d of Bloom filter \"%s\" is being changed by the same command",
                         chunk, filter.name()),
                  errhint("Add names in a statement of its own.")));
  pg_unreachable();
}

// Waits for whoever is changing the row of `old`, the chunk's, and locks its last version.
HeapTuple lock_last_version(const OpenFilter &filter, int32 chunk, ItemPointer old) {
  TupleTableSlot *slot = table_slot_create(filter.relation, nullptr);
  TM_FailureData failure;
  const TM_Result result = table_tuple_lock(
      filter.relation, old, SnapshotSelf, slot, GetCurrentCommandId(true), LockTupleNoKeyExclusive,
      LockWaitBlock, TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
  if (result != TM_Ok) cannot_change(filter, chunk, result);
  HeapTuple last = ExecCopySlotHeapTuple(slot);
  // Versions are followed by their places, and a place may have been given to another row.
  require_number(filter.relation, filter.shape(), chunk, last);
  ExecDropSingleTupleTableSlot(slot);
  return last;
}

// Writes the words of `bits` that are not those of `old`, which begins at `place` in its page, as
// the fragments of a generic WAL record, and returns their end: place and length, two bytes each,
// then the bytes.
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

OpenFilter open_for_add(FunctionCallInfo fcinfo, const char *function) {
  PreventCommandIfReadOnly(function);
  PreventCommandIfParallelMode(function);
  PreventCommandDuringRecovery(function);
  if (PG_ARGISNULL(0)) null_filter();
  // The lock first: a rebuild that begins waits for it, also where nothing will be written.
  OpenFilter filter = open_filter(PG_GETARG_OID(0), RowExclusiveLock, ACL_SELECT | ACL_INSERT);
  CheckCmdReplicaIdentity(filter.relation, CMD_UPDATE);
  return filter;
}

void finish_add(const OpenFilter &filter, int64 added) {
  if (filter.settings().trust_failover) wait_for_standbys();
  if (added == 0) return;
  ForceSyncCommit();
  CommandCounterIncrement();
}

// Each command that adds would else leave a version, and each look walk along those before: names
// of one statement took time by the square of their number, and a kilobyte each.
//
// Nobody else reads, locks for update or replaces a version whose maker has not committed, and the
// look saw that this transaction has not replaced it; for their bits a lock on the key is no
// matter. The maker may be a child that has ended, but no parent: if this subtransaction is rolled
// back the parent's version would keep its bits, and, though they would make nothing but maybes, a
// name that was taken back would no longer be new. A version of a child that was rolled back is not
// found. Logical decoding knows of no write in place.
bool is_ours_alone(const OpenFilter &filter, int32 chunk, const ChunkRow &row) {
  const TransactionId maker = HeapTupleHeaderGetXmin(row.tuple.t_data);
  if (!TransactionIdIsCurrentTransactionId(maker)) return false;
  // The server would raise an error of its own for a version that it does not see yet.
  if (HeapTupleHeaderGetCmin(row.tuple.t_data) >= GetCurrentCommandId(false))
    cannot_change(filter, chunk, TM_SelfModified);
  const TransactionId current = GetCurrentTransactionIdIfAny();
  return TransactionIdIsValid(current) && TransactionIdFollowsOrEquals(maker, current) &&
         !RelationIsLogicallyLogged(filter.relation);
}

// A generic WAL record as GenericXLogFinish writes it, which redo takes as any other: but of the
// bytes that changed alone, where that one compares, and copies, the whole page (4.4 us an add
// against 2.5).
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
    // On PostgreSQL 15 a macro, which takes its argument twice.
    const XLogRecPtr end_of_record = XLogInsert(RM_GENERIC_ID, 0);
    PageSetLSN(page, end_of_record);
  }
  end_critical_section();
  LockBuffer(row.buffer, BUFFER_LOCK_UNLOCK);
}

bool replace_version(const OpenFilter &filter, int32 chunk, HeapTuple *changed) {
  Assert(CheckRelationLockedByMe(filter.relation, RowExclusiveLock, true));
  ItemPointerData old = (*changed)->t_self;
  TM_FailureData failure;
  const TM_Result result =
      compat_heap_update(filter.relation, &old, *changed, GetCurrentCommandId(true), &failure);
  if (result == TM_Ok) {
    if (!HeapTupleIsHeapOnly(*changed)) {
      insert_index_entries(filter.relation, *changed, chunk);
      // The index knows of each version that this transaction makes, and would be asked for all.
      remember_location(filter.relation, &filter.table->rows, chunk, (*changed)->t_self);
    }
    return true;
  }
  heap_freetuple(*changed);
  if (result != TM_Updated) cannot_change(filter, chunk, result);
  // Another add came first: go on from its version, which has its bits.
  *changed = lock_last_version(filter, chunk, &old);
  return false;
}

}  // namespace bloomfilter
