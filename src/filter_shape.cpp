// What a table must look like to be a filter, and whether its guards are as they were made. Reads
// the relation cache and the catalogs, never a row of the table.
#include "pg.hpp"

#include <cstring>
#include <utility>

#include "filter_command.hpp"
#include "filter_shape.hpp"

// In filter_guard.cpp, several floors up; a trigger is known by the address of its function.
extern "C" PGDLLEXPORT Datum bloom_guard(PG_FUNCTION_ARGS);

namespace bloomfilter {
namespace {

// Whether a trigger is somebody's own, not a foreign key's, and fires after the event.
bool fires_after(const Trigger &trigger) {
  return !trigger.tgisinternal && TRIGGER_FOR_AFTER(trigger.tgtype);
}

// Whether a guard fires for every row, or statement, that it was made for, and sees it whole.
bool fires_as_made(const Trigger &guard, int16 type) {
  return guard.tgtype == type && guard.tgqual == nullptr && guard.tgnattr == 0 &&
         guard.tgoldtable == nullptr && guard.tgnewtable == nullptr;
}

// The two columns may come in any order, and columns may have been dropped. A generated column or
// one with a missing value has its bits somewhere else than in the row, so both are refused.
Problem columns_problem(Relation relation, Shape *shape) {
  constexpr const char *kExpected =
      "Its columns are not (chunk int primary key, bits bit(8192) not null).";
  const TupleDesc descriptor = RelationGetDescr(relation);
  *shape = {};
  for (int i = 0; i < descriptor->natts; ++i) {
    const FormData_pg_attribute *column = TupleDescAttr(descriptor, i);
    if (column->attisdropped) continue;
    const char *name = NameStr(column->attname);
    if (column->attgenerated != '\0')
      return unusable(psprintf("Its column \"%s\" is generated.", name));
    // Such rows have their value from the catalog: it lies in no page, and is every row's.
    if (column->atthasmissing)
      return mendable(
          psprintf("Its column \"%s\" was added with a default that its rows do not hold.", name),
          psprintf("vacuum full %s", qualified_name(RelationGetRelid(relation))));
    if (std::strcmp(name, "chunk") == 0 && column->atttypid == INT4OID && column->attnotnull) {
      shape->chunk_attribute = column->attnum;
    } else if (std::strcmp(name, "bits") == 0 && column->atttypid == BITOID) {
      if (column->atttypmod != kChunkBits)
        return mendable("Its column \"bits\" is not of type bit(8192).",
                        alter_command(relation, "alter bits type bit(8192)"));
      if (!column->attnotnull)
        return mendable("Its column \"bits\" is not declared NOT NULL.",
                        alter_command(relation, "alter bits set not null"));
      shape->bits_attribute = column->attnum;
    } else {
      return unusable(kExpected);
    }
  }
  if (shape->chunk_attribute == 0 || shape->bits_attribute == 0) return unusable(kExpected);
  return {};
}

// What an index is to a filter.
enum class IndexRole {
  kPrimaryKey,
  kUnfinished,  // a copy of it that REINDEX CONCURRENTLY is making, or removing, or has left behind
  kOther,
};

// A primary key that is not valid or not ready counts as another index: nobody can find a row by
// it.
IndexRole role_of(Oid relid, AttrNumber chunk_attribute) {
  Relation index = index_open(relid, AccessShareLock);
  const FormData_pg_index *form = index->rd_index;
  const bool same_key = form->indisunique && form->indnatts == 1 &&
                        form->indkey.values[0] == chunk_attribute &&
                        index->rd_rel->relam == BTREE_AM_OID && form->indimmediate &&
                        heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, nullptr);
  const IndexRole role = !same_key                                ? IndexRole::kOther
                         : !form->indisvalid                      ? IndexRole::kUnfinished
                         : form->indisprimary && form->indisready ? IndexRole::kPrimaryKey
                                                                  : IndexRole::kOther;
  index_close(index, AccessShareLock);
  return role;
}

// Finds the primary key. Beside it a filter, but not a table that is to become one, may have
// unfinished copies of it.
Problem index_problem(Relation relation, bool guarded, Shape *shape) {
  constexpr const char *kExpected =
      "It must have one index, its primary key on \"chunk\", and no other.";
  const List *indexes = RelationGetIndexList(relation);
  for (int i = 0; i < list_length(indexes); ++i) {
    const Oid index = list_nth_oid(indexes, i);
    switch (role_of(index, shape->chunk_attribute)) {
      case IndexRole::kPrimaryKey:
        shape->index = index;
        break;
      case IndexRole::kUnfinished:
        if (guarded) break;
        [[fallthrough]];
      case IndexRole::kOther:
        return unusable(kExpected);
    }
  }
  return OidIsValid(shape->index) ? Problem{} : unusable(kExpected);
}

// Triggers beside the guards, of which there are none on a table that is to become a filter. One
// that fires after the event cannot change a row behind the guard's back, and is no matter to
// checks: pg_repack works by one. Adds would not fire it.
Problem trigger_problem(const TriggerDesc *triggers, bool guarded) {
  for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
    const Trigger &trigger = triggers->triggers[i];
    if (guarded && (is_guard_name(trigger.tgname) || fires_after(trigger))) continue;
    return unusable("It has other triggers, or a foreign key references it.");
  }
  return {};
}

// Checks read heap pages and adds write them without the executor: what the executor would do
// beyond that must not be there.
Problem kind_problem(Relation relation, bool guarded) {
  const FormData_pg_class *form = relation->rd_rel;
  const Oid relid = RelationGetRelid(relation);
  if (form->relkind != RELKIND_RELATION) return unusable("It is not an ordinary table.");
  if (form->relpersistence != RELPERSISTENCE_PERMANENT)
    return unusable("It is temporary or unlogged, and would lose names.");
  if (form->relam != HEAP_TABLE_AM_OID) return unusable("Its access method is not heap.");
  if (form->relispartition || has_superclass(relid) ||
      find_inheritance_children(relid, NoLock) != NIL)
    return unusable("It is a partition, or it takes part in inheritance.");
  if (form->relrowsecurity) return unusable("It has row-level security.");
  if (relation->rd_rules != nullptr) return unusable("It has rules.");
  return trigger_problem(relation->trigdesc, guarded);
}

}  // namespace

// For what the owner has to decide about.
Problem unusable(const char *detail, const char *hint) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, detail, hint, nullptr};
}

// The hint of the error and the advice of bloom_info are the same command.
Problem mendable(const char *detail, const char *command) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, detail, psprintf("Run: %s", command), command};
}

// For rows that are missing. bloom_rebuild makes them again without reading the old ones by number.
Problem damaged(const char *detail) {
  return {ERRCODE_DATA_CORRUPTED, detail,
          "Treat the answer as \"maybe\" and rebuild the filter with bloom_rebuild.", nullptr};
}

// bloom_rebuild needs the settings, so the way out is another filter.
Problem damaged_settings(const char *detail) {
  return {ERRCODE_DATA_CORRUPTED, detail,
          "Treat the answer as \"maybe\" and make another filter with bloom_create.", nullptr};
}

// The two messages differ by the SQLSTATE: damage is told from a table that was never, or is no
// longer, a filter.
void raise_problem(Relation relation, const Problem &problem) {
  const char *name = RelationGetRelationName(relation);
  ereport(ERROR, (errcode(problem.sqlstate),
                  problem.sqlstate == ERRCODE_DATA_CORRUPTED
                      ? errmsg("Bloom filter \"%s\" is damaged", name)
                      : errmsg("relation \"%s\" cannot be used as a Bloom filter", name),
                  errdetail("%s", problem.detail),
                  problem.hint == nullptr ? 0 : errhint("%s", problem.hint)));
  pg_unreachable();
}

bool is_guard_name(const char *name) {
  return std::strcmp(name, kGuardTrigger) == 0 || std::strcmp(name, kTruncateTrigger) == 0;
}

// By the address of its function and not by its name: a function of that name may be in any schema.
const Trigger *find_guard(const TriggerDesc *triggers, const char *name) {
  for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
    const Trigger &trigger = triggers->triggers[i];
    if (std::strcmp(trigger.tgname, name) != 0) continue;
    FmgrInfo function;
    fmgr_info(trigger.tgfoid, &function);
    return function.fn_addr == bloom_guard ? &trigger : nullptr;
  }
  return nullptr;
}

// A guard that fires less often than it was made to may have let an UPDATE clear bits. Then names
// may be missing, and the filter must not deny.
Problem guard_problem(Relation relation, const TriggerDesc *triggers) {
  constexpr std::pair<const char *, int16> kGuards[] = {
      {kGuardTrigger,
       TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE},
      {kTruncateTrigger, TRIGGER_TYPE_STATEMENT | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE},
  };
  for (const auto &[name, type] : kGuards) {
    const Trigger *guard = find_guard(triggers, name);
    if (guard == nullptr)
      return unusable(psprintf("It has no guard trigger \"%s\".", name),
                      "Use bloom_create to make a filter, or bloom_register to adopt a table.");
    if (guard->tgenabled != TRIGGER_FIRES_ALWAYS)
      return mendable(
          psprintf("Its guard trigger \"%s\" does not always fire.", name),
          alter_command(relation, psprintf("enable always trigger %s", quote_identifier(name))));
    if (!fires_as_made(*guard, type))
      return unusable(
          psprintf("Its guard trigger \"%s\" was changed and does not fire for every event.", name),
          "Names may be missing.  Make another filter with bloom_create.");
  }
  return {};
}

// Kind, columns and index, in this order, since the index check needs the column numbers.
Problem shape_problem(Relation relation, bool guarded, Shape *shape) {
  Problem problem = kind_problem(relation, guarded);
  if (!problem) problem = columns_problem(relation, shape);
  if (!problem) problem = index_problem(relation, guarded, shape);
  return problem;
}

// Error 42809 instead of 55000: the caller gave a wrong object, no state can change that.
void require_filter_shape(Relation relation, Shape *shape) {
  Problem problem = shape_problem(relation, false, shape);
  if (!problem) return;
  problem.sqlstate = ERRCODE_WRONG_OBJECT_TYPE;
  raise_problem(relation, problem);
}

// heap_form_tuple fills columns by number, dropped ones included.
void require_plain_columns(Relation relation) {
  Shape shape;
  if (RelationGetDescr(relation)->natts == 2 && !columns_problem(relation, &shape) &&
      shape.chunk_attribute == 1)
    return;
  ereport(
      ERROR,
      (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
       errmsg("cannot write the rows of table \"%s\"", RelationGetRelationName(relation)),
       errdetail(
           "Its first two columns are not \"chunk\" and \"bits\", or it had other columns before."),
       errhint("Make another filter with bloom_create.")));
}

bool has_guard(Relation relation) {
  return find_guard(CopyTriggerDesc(relation->trigdesc), kGuardTrigger) != nullptr;
}

}  // namespace bloomfilter
