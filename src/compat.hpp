// All differences between PostgreSQL 15, 17, 18 and 19 that matter to this extension. No other file
// tests PG_VERSION_NUM.
#ifndef BLOOMFILTER_COMPAT_HPP
#define BLOOMFILTER_COMPAT_HPP

#if PG_VERSION_NUM < 150000
#error "bloomfilter needs PostgreSQL 15 or newer"
#endif

extern "C" {
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#if PG_VERSION_NUM < 170000
#include "storage/sinvaladt.h"
#else
#include "storage/dsm_registry.h"
#endif
}

#include <cstring>

namespace bloomfilter {

// Before PostgreSQL 16 there are no soft errors: an input function always raises its error.
#if PG_VERSION_NUM < 160000
#define ereturn(context, value, ...) ereport(ERROR, __VA_ARGS__)
#endif

// These do the same as HOLD_INTERRUPTS, START_CRIT_SECTION and the macros that end them. The macros
// increment a volatile variable. C++20 deprecates that, and clang warns about it.
inline void hold_interrupts() {
  InterruptHoldoffCount = InterruptHoldoffCount + 1;
}
inline void resume_interrupts() {
  Assert(InterruptHoldoffCount > 0);
  InterruptHoldoffCount = InterruptHoldoffCount - 1;
}
inline void start_critical_section() {
  CritSectionCount = CritSectionCount + 1;
}
inline void end_critical_section() {
  Assert(CritSectionCount > 0);
  CritSectionCount = CritSectionCount - 1;
}

// Calls byteain. Returns false if `context` took a soft error.
inline bool compat_byteain(char *text, [[maybe_unused]] struct Node *context, Datum *bytes) {
#if PG_VERSION_NUM >= 160000
  return DirectInputFunctionCallSafe(byteain, text, InvalidOid, -1, context, bytes);
#else
  *bytes = DirectFunctionCall1(byteain, CStringGetDatum(text));
  return true;
#endif
}

inline bool compat_lock_held_by_me(const LOCKTAG &tag, LOCKMODE mode) {
#if PG_VERSION_NUM >= 170000
  return LockHeldByMe(&tag, mode, false);
#else
  return LockHeldByMe(&tag, mode);
#endif
}

// The process of a virtual transaction. Null if it has none, because the transaction is prepared or
// over.
inline const PGPROC *compat_process_of(const VirtualTransactionId &transaction) {
#if PG_VERSION_NUM >= 170000
  return ProcNumberGetProc(transaction.procNumber);
#else
  return BackendIdGetProc(transaction.backendId);
#endif
}

// Before 18, lower() of a libc database goes by the locale of the process, which a function in an
// untrusted language may change. The second tells whether the server took that locale for C when it
// first looked, which it remembers.
#if PG_VERSION_NUM >= 180000
inline constexpr bool kLowersByProcess = false;
inline bool compat_lowers_as_c() {
  return false;
}
#else
inline constexpr bool kLowersByProcess = true;
inline bool compat_lowers_as_c() {
  return lc_ctype_is_c(DEFAULT_COLLATION_OID);
}
#endif

// Exchanges relallfrozen, the number of all-frozen pages, between two rows of pg_class.
inline void compat_swap_all_frozen([[maybe_unused]] Form_pg_class one,
                                   [[maybe_unused]] Form_pg_class other) {
#if PG_VERSION_NUM >= 180000
  const int32 pages = one->relallfrozen;
  one->relallfrozen = other->relallfrozen;
  other->relallfrozen = pages;
#endif
}

// Called after two relations have exchanged their files. It tells the relation cache that the file
// of `one` is new in this subtransaction, and that `other` now has the file that `one` had.
inline void compat_tell_exchanged(Relation one, Relation other) {
  other->rd_createSubid = one->rd_createSubid;
#if PG_VERSION_NUM >= 160000
  other->rd_newRelfilelocatorSubid = one->rd_newRelfilelocatorSubid;
  other->rd_firstRelfilelocatorSubid = one->rd_firstRelfilelocatorSubid;
  RelationAssumeNewRelfilelocator(one);
#else
  other->rd_newRelfilenodeSubid = one->rd_newRelfilenodeSubid;
  other->rd_firstRelfilenodeSubid = one->rd_firstRelfilenodeSubid;
  RelationAssumeNewRelfilenode(one);
#endif
}

inline Oid compat_primary_key(Relation relation) {
#if PG_VERSION_NUM >= 180000
  return RelationGetPrimaryKeyIndex(relation, false);
#else
  return RelationGetPrimaryKeyIndex(relation);
#endif
}

inline TM_Result compat_heap_update(Relation relation, ItemPointer old, HeapTuple updated,
                                    CommandId cid, TM_FailureData *failure) {
  LockTupleMode lock;
#if PG_VERSION_NUM >= 190000
  TU_UpdateIndexes indexes;
  return heap_update(relation, old, updated, cid, 0, InvalidSnapshot, true, failure, &lock,
                     &indexes);
#elif PG_VERSION_NUM >= 160000
  TU_UpdateIndexes indexes;
  return heap_update(relation, old, updated, cid, InvalidSnapshot, true, failure, &lock, &indexes);
#else
  return heap_update(relation, old, updated, cid, InvalidSnapshot, true, failure, &lock);
#endif
}

inline IndexScanDesc compat_index_beginscan(Relation heap, Relation index, Snapshot snapshot,
                                            int keys) {
#if PG_VERSION_NUM >= 190000
  return index_beginscan(heap, index, snapshot, nullptr, keys, 0, 0);
#elif PG_VERSION_NUM >= 180000
  return index_beginscan(heap, index, snapshot, nullptr, keys, 0);
#else
  return index_beginscan(heap, index, snapshot, keys, 0);
#endif
}

inline TableScanDesc compat_table_beginscan(Relation relation, Snapshot snapshot) {
#if PG_VERSION_NUM >= 190000
  return table_beginscan(relation, snapshot, 0, nullptr, 0);
#else
  return table_beginscan(relation, snapshot, 0, nullptr);
#endif
}

// Deletes a row that the active snapshot sees. Waits for nobody: any result but TM_Ok means that
// another transaction, or this command, has locked, changed or deleted the row.
inline TM_Result compat_try_delete(Relation relation, ItemPointer row, CommandId cid) {
  TM_FailureData failure;
#if PG_VERSION_NUM >= 190000
  return table_tuple_delete(relation, row, cid, 0, GetActiveSnapshot(), InvalidSnapshot, false,
                            &failure);
#else
  return table_tuple_delete(relation, row, cid, GetActiveSnapshot(), InvalidSnapshot, false,
                            &failure, false);
#endif
}

#if PG_VERSION_NUM >= 160000
inline RelFileLocator compat_locator(Relation relation) {
  return relation->rd_locator;
}
#else
inline RelFileNode compat_locator(Relation relation) {
  return relation->rd_node;
}
#endif

// Removes dead row versions from a pinned page, if that is worth the work and nobody else has a
// pin.
inline void compat_prune(Relation relation, Buffer buffer) {
#if PG_VERSION_NUM >= 190000
  Buffer visibility_map = InvalidBuffer;
  heap_page_prune_opt(relation, buffer, &visibility_map, false);
  if (BufferIsValid(visibility_map)) ReleaseBuffer(visibility_map);
#else
  heap_page_prune_opt(relation, buffer);
#endif
}

#if PG_VERSION_NUM >= 190000
using CompatSyscacheId = SysCacheIdentifier;
#else
using CompatSyscacheId = int;
#endif

inline List *compat_qualified_name_list(const char *name) {
#if PG_VERSION_NUM >= 160000
  return stringToQualifiedNameList(name, nullptr);
#else
  return stringToQualifiedNameList(name);
#endif
}

inline bool compat_owns_relation(Oid relid) {
#if PG_VERSION_NUM >= 160000
  return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
  return pg_class_ownercheck(relid, GetUserId());
#endif
}

// Calls the walker for every node below one of a plan that the executor has started.
inline bool compat_walk_plan(PlanState *node, bool (*walker)(PlanState *, void *), void *context) {
#if PG_VERSION_NUM >= 160000
  return planstate_tree_walker(node, walker, context);
#else
  // The walker is declared there without parameters. gcc warns about that cast unless it goes by
  // way of this type.
  const auto any_function = reinterpret_cast<void (*)()>(walker);
  return planstate_tree_walker(node, reinterpret_cast<bool (*)()>(any_function), context);
#endif
}

// The relations that a foreign scan reads, as indexes of the range table.
inline const Bitmapset *compat_base_relids(const ForeignScan *scan) {
#if PG_VERSION_NUM >= 160000
  return scan->fs_base_relids;
#else
  return scan->fs_relids;
#endif
}

// The user whose user mapping a foreign scan uses. 0 is the current user. `entry` is of any
// relation that the scan reads.
inline Oid compat_checked_as([[maybe_unused]] const ForeignScan *scan,
                             [[maybe_unused]] const RangeTblEntry *entry) {
#if PG_VERSION_NUM >= 160000
  return scan->checkAsUser;
#else
  return entry->checkAsUser;
#endif
}

// Lets a query read the relation of the entry as that user.
inline void compat_read_as([[maybe_unused]] Query *query, RangeTblEntry *entry, Oid user) {
#if PG_VERSION_NUM >= 160000
  addRTEPermissionInfo(&query->rteperminfos, entry)->checkAsUser = user;
#else
  entry->checkAsUser = user;
#endif
}

// Lets the executor check no privileges. Without these lists it has none to check.
inline void compat_require_nothing([[maybe_unused]] PlannedStmt *plan) {
#if PG_VERSION_NUM >= 160000
  plan->permInfos = NIL;
  ListCell *cell;
  foreach (cell, plan->rtable) static_cast<RangeTblEntry *>(lfirst(cell))->perminfoindex = 0;
#endif
}

inline PlannedStmt *compat_plan_query(Query *query) {
#if PG_VERSION_NUM >= 190000
  return pg_plan_query(query, "", 0, nullptr, nullptr);
#else
  return pg_plan_query(query, "", 0, nullptr);
#endif
}

// Runs a query that the executor has started, for at most so many rows.
inline void compat_run(QueryDesc *query, uint64 rows) {
#if PG_VERSION_NUM >= 180000
  ExecutorRun(query, ForwardScanDirection, rows);
#else
  ExecutorRun(query, ForwardScanDirection, rows, true);
#endif
}

// A new kind of LWLocks. Its name is told by compat_register_tranche, in each backend.
inline int compat_new_tranche([[maybe_unused]] const char *name) {
#if PG_VERSION_NUM >= 190000
  return LWLockNewTrancheId(name);
#else
  return LWLockNewTrancheId();
#endif
}

inline void compat_register_tranche([[maybe_unused]] int tranche,
                                    [[maybe_unused]] const char *name) {
#if PG_VERSION_NUM < 190000
  LWLockRegisterTranche(tranche, name);
#endif
}

// Whether a backend can make shared memory that the server was not asked for when it started.
inline constexpr bool kHasNamedSegments = PG_VERSION_NUM >= 170000;

// Maps the segment of that name for as long as the backend lives. Makes it if there is none. May
// raise any error. Null before PostgreSQL 17.
inline void *compat_named_segment([[maybe_unused]] const char *name, [[maybe_unused]] Size size,
                                  [[maybe_unused]] void (*make)(void *)) {
#if PG_VERSION_NUM >= 190000
  bool found;
  return GetNamedDSMSegment(
      name, size,
      [](void *memory, void *maker) { reinterpret_cast<void (*)(void *)>(maker)(memory); }, &found,
      reinterpret_cast<void *>(make));
#elif PG_VERSION_NUM >= 170000
  bool found;
  return GetNamedDSMSegment(name, size, make, &found);
#else
  return nullptr;
#endif
}

// What the server keeps of the progress of a session's command has the number of the command. This
// one is ours: no command of the server has it, nor is likely to get it. Views of the server show
// only rows with the number of their own command. The server's enum is one of C, and holds any int.
inline constexpr int kCompatProgressCommand = 0x626C6F;

// The number of the command that a session shows; PROGRESS_COMMAND_INVALID if it shows none. Its
// bytes are copied: C++ may not read an enum that holds a number beyond its own.
inline int compat_progress_command(const PgBackendStatus &session) {
  int command;
  static_assert(sizeof command == sizeof session.st_progress_command);
  std::memcpy(&command, &session.st_progress_command, sizeof command);
  return command;
}

// Begins to show our command, with numbers that are all 0.
inline void compat_start_progress(Oid relid) {
  pgstat_progress_start_command(static_cast<ProgressCommandType>(kCompatProgressCommand), relid);
}

// The entry of a session, from 1 to pgstat_fetch_stat_numbackends(), as it was when this
// transaction looked first. Null if there is none.
inline const PgBackendStatus *compat_backend_status(int index) {
#if PG_VERSION_NUM >= 160000
  const LocalPgBackendStatus *local = pgstat_get_local_beentry_by_index(index);
#else
  const LocalPgBackendStatus *local = pgstat_fetch_stat_local_beentry(index);
#endif
  return local == nullptr ? nullptr : &local->backendStatus;
}

// The column of pg_database that names the locale if the provider is not libc.
#if PG_VERSION_NUM >= 170000
inline constexpr AttrNumber kDatabaseLocaleAttribute = Anum_pg_database_datlocale;
#else
inline constexpr AttrNumber kDatabaseLocaleAttribute = Anum_pg_database_daticulocale;
#endif

}  // namespace bloomfilter

#endif
