// Triggers and indexes that another program has left on a filter table, or is using right now.
#include "pg.hpp"

#include "filter_command.hpp"
#include "filter_leftover.hpp"

namespace bloomfilter {
namespace {

// The first trigger that is no guard, or null.
const char *other_trigger(Relation relation) {
  const TriggerDesc *triggers = relation->trigdesc;
  for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i)
    if (!is_guard_name(triggers->triggers[i].tgname)) return triggers->triggers[i].tgname;
  return nullptr;
}

// The name of an index that is not the primary key, or null.
const char *unfinished_index(Relation relation, const Shape &shape) {
  const List *indexes = RelationGetIndexList(relation);
  for (int i = 0; i < list_length(indexes); ++i)
    if (list_nth_oid(indexes, i) != shape.index) return get_rel_name(list_nth_oid(indexes, i));
  return nullptr;
}

// Whether somebody holds the table as REINDEX CONCURRENTLY does all the while, or vacuum.
bool is_maintained(Oid relid) {
  LOCKTAG tag;
  SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
  int count;
  GetLockConflicts(&tag, ShareUpdateExclusiveLock, &count);
  return count > 0;
}

}  // namespace

// Raised for whoever writes. Checks only read, and go on.
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

// An unfinished index is no obstacle to adds, which put their entries into it as soon as it takes
// them.
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

// The trigger first: it stops adds, an unfinished index stops only a rebuild. While REINDEX
// CONCURRENTLY runs, its index is no leftover.
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
