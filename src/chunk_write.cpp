#include "pg.hpp"

#include "chunk_write.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// The primary key's entry for a row version that is not HOT.
void insert_index_entry(Relation relation, const Shape &shape, HeapTuple tuple, int32 chunk) {
  Relation index = index_open(shape.index, RowExclusiveLock);
  Datum values[1] = {Int32GetDatum(chunk)};
  bool nulls[1] = {false};
  index_insert(index, values, nulls, &tuple->t_self, relation, UNIQUE_CHECK_YES, true,
               BuildIndexInfo(index));
  index_close(index, RowExclusiveLock);
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
  require_number(filter.relation, filter.table->shape, chunk, last);
  ExecDropSingleTupleTableSlot(slot);
  return last;
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

bool replace_version(const OpenFilter &filter, int32 chunk, HeapTuple *changed) {
  ItemPointerData old = (*changed)->t_self;
  TM_FailureData failure;
  const TM_Result result =
      compat_heap_update(filter.relation, &old, *changed, GetCurrentCommandId(true), &failure);
  if (result == TM_Ok) {
    if (!HeapTupleIsHeapOnly(*changed))
      insert_index_entry(filter.relation, filter.table->shape, *changed, chunk);
    return true;
  }
  heap_freetuple(*changed);
  if (result != TM_Updated) cannot_change(filter, chunk, result);
  // Another add came first: go on from its version, which has its bits.
  *changed = lock_last_version(filter, chunk, &old);
  return false;
}

}  // namespace bloomfilter
