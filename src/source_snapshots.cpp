// Opens the remote transactions of a source, with their snapshots, before its first row is read.
#include "pg.hpp"

#include <cstring>

#include "source_snapshots.hpp"

namespace bloomfilter {
namespace {

// One remote transaction: postgres_fdw keeps one connection for each user mapping, and runs one
// transaction at REPEATABLE READ in it. So one foreign table of each is enough.
struct Remote {
  Oid server;
  Oid user;  // whose user mapping the scan uses: the owner of a view, for example
  Oid relid;
  QueryDesc *opener;
};

// The remote transactions of a plan. A list of pointers, in the current context.
struct Remotes {
  EState *executor_state;
  List *list;
};

// Whether the server's wrapper is postgres_fdw. The handler says it: the wrapper may have any name.
bool is_postgres_fdw(Oid server) {
  const ForeignDataWrapper *wrapper = GetForeignDataWrapper(GetForeignServer(server)->fdwid);
  const char *handler =
      OidIsValid(wrapper->fdwhandler) ? get_func_name(wrapper->fdwhandler) : nullptr;
  return handler != nullptr && std::strcmp(handler, "postgres_fdw_handler") == 0;
}

// The range table entry of a foreign table that the scan reads; null if there is none. A join or an
// aggregate that runs on the server reads several, which all have the same server and user.
const RangeTblEntry *foreign_table_of(const ForeignScan *scan, EState *executor_state) {
  if (scan->scan.scanrelid > 0) return exec_rt_fetch(scan->scan.scanrelid, executor_state);
  for (int index = -1; (index = bms_next_member(compat_base_relids(scan), index)) >= 0;) {
    const RangeTblEntry *entry = exec_rt_fetch(static_cast<Index>(index), executor_state);
    if (entry->rtekind == RTE_RELATION && entry->relkind == RELKIND_FOREIGN_TABLE) return entry;
  }
  return nullptr;
}

// Adds the remote transaction of a scan, unless the list has it.
void add_remote(Remotes *remotes, const ForeignScan *scan) {
  const RangeTblEntry *entry = foreign_table_of(scan, remotes->executor_state);
  if (entry == nullptr || !OidIsValid(scan->fs_server) || !is_postgres_fdw(scan->fs_server)) return;
  const Oid given = compat_checked_as(scan, entry);
  const Oid user = OidIsValid(given) ? given : GetUserId();
  const ListCell *cell;
  foreach (cell, remotes->list) {
    const auto *known = static_cast<const Remote *>(lfirst(cell));
    if (known->server == scan->fs_server && known->user == user) return;
  }
  auto *remote = static_cast<Remote *>(palloc0(sizeof(Remote)));
  *remote = {scan->fs_server, user, entry->relid, nullptr};
  remotes->list = lappend(remotes->list, remote);
}

// Visits a node of the plan and what is below it. Returns false, which asks for the next node.
bool visit_node(PlanState *node, void *remotes) {
  if (IsA(node, ForeignScanState))
    add_remote(static_cast<Remotes *>(remotes), reinterpret_cast<const ForeignScan *>(node->plan));
  return compat_walk_plan(node, visit_node, remotes);
}

// The remote transactions that the plan will open. The executor builds its nodes as for EXPLAIN,
// without a word to any server. That checks the privileges of the source, and tells for each scan
// what postgres_fdw goes by. The hooks of other extensions are left out: they would count a run.
List *remotes_of(PlannedStmt *plan, const char *source, ParamListInfo parameters) {
  QueryDesc *query = CreateQueryDesc(plan, source, GetActiveSnapshot(), InvalidSnapshot,
                                     None_Receiver, parameters, nullptr, 0);
  standard_ExecutorStart(query, EXEC_FLAG_EXPLAIN_ONLY);
  Remotes remotes = {query->estate, NIL};
  visit_node(query->planstate, &remotes);
  standard_ExecutorEnd(query);
  FreeQueryDesc(query);
  return remotes.list;
}

// The plan of `select from only <the foreign table> limit 1`, as the scan's user. It asks for no
// privileges: the executor has checked those of the source, and a role that reads a view or a
// partitioned table need not have any on its parts. The query is made of nodes and not of text,
// since the name of a table in a text asks for USAGE on its schema.
PlannedStmt *plan_opener(const Remote &remote) {
  auto *entry = makeNode(RangeTblEntry);
  entry->rtekind = RTE_RELATION;
  entry->relid = remote.relid;
  entry->relkind = RELKIND_FOREIGN_TABLE;
  entry->rellockmode = AccessShareLock;
  entry->inFromCl = true;
  entry->eref = makeAlias("shard", NIL);
  auto *reference = makeNode(RangeTblRef);
  reference->rtindex = 1;
  auto *query = makeNode(Query);
  query->commandType = CMD_SELECT;
  query->canSetTag = true;
  query->rtable = list_make1(entry);
  query->jointree = makeFromExpr(list_make1(reference), nullptr);
  query->limitOption = LIMIT_OPTION_COUNT;
  // Of type bigint. One row and not none: without a row, the limit would be served here, and
  // nothing would be sent.
  query->limitCount = reinterpret_cast<Node *>(
      makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(1), false, FLOAT8PASSBYVAL));
  compat_read_as(query, entry, remote.user);
  PlannedStmt *plan = compat_plan_query(query);
  compat_require_nothing(plan);
  return plan;
}

// Whether the plan names a foreign table at all.
bool names_foreign_table(const PlannedStmt *plan) {
  const ListCell *cell;
  foreach (cell, plan->rtable) {
    const auto *entry = static_cast<const RangeTblEntry *>(lfirst(cell));
    if (entry->rtekind == RTE_RELATION && entry->relkind == RELKIND_FOREIGN_TABLE) return true;
  }
  return false;
}

}  // namespace

void open_remote_snapshots(PlannedStmt *plan, const char *source, ParamListInfo parameters) {
  if (!names_foreign_table(plan)) return;
  List *remotes = remotes_of(plan, source, parameters);
  const ListCell *cell;
  // First the connections, which take longest. postgres_fdw connects, and begins the transaction,
  // when the executor starts.
  foreach (cell, remotes) {
    auto *remote = static_cast<Remote *>(lfirst(cell));
    remote->opener = CreateQueryDesc(plan_opener(*remote), "select", GetActiveSnapshot(),
                                     InvalidSnapshot, None_Receiver, nullptr, nullptr, 0);
    ExecutorStart(remote->opener, 0);
  }
  // Then the snapshots, which a transaction takes at its first query.
  foreach (cell, remotes) {
    CHECK_FOR_INTERRUPTS();
    compat_run(static_cast<const Remote *>(lfirst(cell))->opener, 1);
  }
  foreach (cell, remotes) {
    QueryDesc *opener = static_cast<const Remote *>(lfirst(cell))->opener;
    ExecutorFinish(opener);
    ExecutorEnd(opener);
    FreeQueryDesc(opener);
  }
}

}  // namespace bloomfilter
