
#include "pg.hpp"

#include "filter_leftover.hpp"

namespace bloomfilter {
namespace {

// What to type to be rid of a trigger of the relation.
const char *drop_trigger_command(Relation relation, const char *name) {
  return psprintf("drop trigger %s on %s", quote_identifier(name),
                  quote_qualified_identifier(get_namespace_name(RelationGetNamespace(relation)),
                                             RelationGetRelationName(relation)));
}

// And of an index.
const char *drop_index_command(Relation relation, const char *name) {
  return psprintf("drop index %s", quote_qualified_identifier(
                                       get_namespace_name(RelationGetNamespace(relation)), name));
}

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

void require_no_other_trigger(Relation relation) {
  const char *name = other_trigger(relation);
  if (likely(name == nullptr)) return;
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("cannot change Bloom filter \"%s\" while it has the trigger \"%s\"",
                  RelationGetRelationName(relation), name),
           errdetail("The trigger would not fire."),
           errhint("Wait until what made it, pg_repack perhaps, has done. If that broke off: %s",
                   drop_trigger_command(relation, name))));
}

void require_one_index(Relation relation, const Shape &shape) {
  const char *name = unfinished_index(relation, shape);
  if (name == nullptr) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("Bloom filter \"%s\" has the unfinished index \"%s\"",
                         RelationGetRelationName(relation), name),
                  errdetail("REINDEX CONCURRENTLY is making or removing it, or broke off."),
                  errhint("If it broke off: %s", drop_index_command(relation, name))));
}

const char *leftover_advice(Relation relation, const Shape &shape) {
  if (RecoveryInProgress()) return nullptr;
  if (const char *trigger = other_trigger(relation))
    return psprintf("no adds while %s has that trigger: %s, unless pg_repack runs",
                    RelationGetRelationName(relation), drop_trigger_command(relation, trigger));
  const char *index = unfinished_index(relation, shape);
  if (index == nullptr || is_maintained(RelationGetRelid(relation))) return nullptr;
  return psprintf("a reindex broke off: %s", drop_index_command(relation, index));
}

}  // namespace bloomfilter
