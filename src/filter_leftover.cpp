// Finds the triggers and indexes that pg_repack and REINDEX CONCURRENTLY put on a filter, refuses
// what would lose names beside them, and reports those that were left behind.
#include "pg.hpp"

#include "filter_command.hpp"
#include "filter_leftover.hpp"

namespace bloomfilter {
namespace {

// The name of the first trigger that is not a guard, or null. The name alone decides: whether the
// guards are intact was checked when the filter was opened.
const char *other_trigger(Relation relation) {
  const TriggerDesc *triggers = relation->trigdesc;
  for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i)
    if (!is_guard_name(triggers->triggers[i].tgname)) return triggers->triggers[i].tgname;
  return nullptr;
}

// The name of an index that is not the primary key, or null. Opening the filter allows no others
// than unfinished copies of the key.
const char *unfinished_index(Relation relation, const Shape &shape) {
  const List *indexes = RelationGetIndexList(relation);
  for (int i = 0; i < list_length(indexes); ++i)
    if (list_nth_oid(indexes, i) != shape.index) return get_rel_name(list_nth_oid(indexes, i));
  return nullptr;
}

// Whether another session holds a lock on the table as strong as REINDEX CONCURRENTLY does from
// start to end. A vacuum holds the same lock, so a leftover is not reported while it runs. Without
// this test a reindex that still runs would be reported as broken off.
bool is_maintained(Oid relid) {
  LOCKTAG tag;
  SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
  int count;
  GetLockConflicts(&tag, ShareUpdateExclusiveLock, &count);
  return count > 0;
}

}  // namespace

// open_filter calls it for every lock beyond a reader's, and so for each add.
void require_no_other_trigger(Relation relation) {
  const char *name = other_trigger(relation);
  if (likely(name == nullptr)) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot change Bloom filter \"%s\" while it has the trigger \"%s\"",
                         RelationGetRelationName(relation), name),
                  errdetail("Adds do not fire triggers."),
                  errhint("Wait until the program that made it ends, for example pg_repack.  If "
                          "that program has failed, run: %s",
                          drop_trigger_command(relation, name))));
}

void require_one_index(Relation relation, const Shape &shape) {
  const char *name = unfinished_index(relation, shape);
  if (name == nullptr) return;
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("Bloom filter \"%s\" has the unfinished index \"%s\"",
                  RelationGetRelationName(relation), name),
           errdetail("REINDEX CONCURRENTLY is creating or dropping the index, or has failed."),
           errhint("If it has failed, run: %s", drop_index_command(relation, name))));
}

// The trigger comes first: it stops adds, an unfinished index stops only a rebuild. Nothing on a
// standby: its lock table does not show who works on the table on the primary, and no command that
// removes something can run there.
Leftover find_leftover(Relation relation, const Shape &shape) {
  if (RecoveryInProgress()) return {};
  if (const char *trigger = other_trigger(relation))
    return {psprintf("blocked: no adds while it has trigger \"%s\"", trigger),
            drop_trigger_command(relation, trigger),
            "pg_repack drops its trigger itself when it ends"};
  const char *index = unfinished_index(relation, shape);
  if (index == nullptr || is_maintained(RelationGetRelid(relation))) return {};
  return {psprintf("ready: unfinished index \"%s\"", index), drop_index_command(relation, index),
          nullptr};
}

}  // namespace bloomfilter
