// Decides whether a relation can be a filter table, and says why not. Checks read pages and adds
// write rows without the executor, so whatever the executor would do in addition is refused here.
#include "pg.hpp"

#include <cstring>
#include <utility>

#include "citus.hpp"
#include "filter_command.hpp"
#include "filter_shape.hpp"

// Defined in filter_guard.cpp, several floors up. A trigger of ours is recognized by the address of
// its function.
extern "C" PGDLLEXPORT Datum bloom_guard(PG_FUNCTION_ARGS);

namespace bloomfilter {
namespace {

// Whether a trigger was created by a user, not by a foreign key, and fires after the event.
bool fires_after(const Trigger &trigger) {
  return !trigger.tgisinternal && TRIGGER_FOR_AFTER(trigger.tgtype);
}

// Whether a role other than the owner may create triggers on the table.
bool others_may_create_triggers(Relation relation) {
  HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(RelationGetRelid(relation)));
  if (!HeapTupleIsValid(tuple)) return false;
  bool is_null, found = false;
  const Datum grants = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &is_null);
  if (!is_null) {
    const Acl *acl = DatumGetAclPCopy(grants);
    const AclItem *items = ACL_DAT(acl);
    for (int i = 0; i < ACL_NUM(acl); ++i)
      found = found || (items[i].ai_grantee != relation->rd_rel->relowner &&
                        (ACLITEM_GET_PRIVS(items[i]) & ACL_TRIGGER) != 0);
  }
  ReleaseSysCache(tuple);
  return found;
}

// The problem of a guard that does not always fire. CREATE OR REPLACE TRIGGER leaves that behind,
// and needs no ownership: whoever may create triggers may have put another function in the place of
// the guard, cleared bits, and put the guard back with settings of his. Then nothing is mended by
// making it fire.
Problem silent_guard_problem(Relation relation, const char *name) {
  const char *detail = psprintf("Its guard trigger \"%s\" does not always fire.", name);
  if (others_may_create_triggers(relation))
    return unusable(detail,
                    "Roles other than its owner have the TRIGGER privilege, and may have replaced "
                    "the guard.  Make another filter with bloom_create.");
  return mendable(detail, alter_command(relation, psprintf("enable always trigger %s",
                                                           quote_identifier(name))));
}

// Whether a guard fires for every event that it was made for. A WHEN condition or a list of columns
// would let updates pass unseen. Transition tables are not part of a guard either.
bool fires_as_made(const Trigger &guard, int16 type) {
  return guard.tgtype == type && guard.tgqual == nullptr && guard.tgnattr == 0 &&
         guard.tgoldtable == nullptr && guard.tgnewtable == nullptr;
}

// Whether the server may run expressions of the table's owner when a column is altered: those of
// check constraints also to prove that a column has no nulls.
bool has_expressions(Relation relation) {
  const TupleConstr *constraints = RelationGetDescr(relation)->constr;
  if (constraints == nullptr) return false;
  if (constraints->num_check > 0) return true;
  for (int i = 0; i < RelationGetDescr(relation)->natts; ++i)
    if (TupleDescAttr(RelationGetDescr(relation), i)->attgenerated != '\0') return true;
  return false;
}

// A problem that `change` of a column solves. If the change may run code of the table's owner, it
// is no advice, which a superuser may run, but only a hint for the owner.
Problem alterable(Relation relation, const char *detail, const char *change) {
  const char *command = alter_command(relation, change);
  if (!has_expressions(relation)) return mendable(detail, command);
  return unusable(
      detail, psprintf("It has check constraints or generated columns, whose functions would run "
                       "with the rights of whoever runs this.  Let its owner run: %s",
                       command));
}

// Finds the two columns, by name and type. Their order and dropped columns do not matter for checks
// and adds; see require_plain_columns for who needs more. A column of any other name is a problem:
// adds and rebuilds write rows without the executor, so nothing would give it its default.
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
    // Rows from before the column was added take their value from the catalog. That value is in
    // no page and is shared by all these rows, so it cannot be changed in place. VACUUM FULL helps
    // a table that is to become a filter. In a filter, the names of the old column are lost.
    if (column->atthasmissing)
      return unusable(
          psprintf("Its column \"%s\" was added with a default that its rows do not hold.", name),
          psprintf("Run: vacuum full %s", qualified_name(RelationGetRelid(relation))));
    if (std::strcmp(name, "chunk") == 0 && column->atttypid == INT4OID && column->attnotnull) {
      shape->chunk_attribute = column->attnum;
    } else if (std::strcmp(name, "bits") == 0 && column->atttypid == BITOID) {
      // create table ... as select bit_or(...) makes a column of type bit without a length.
      if (column->atttypmod != kChunkBits)
        return alterable(relation, "Its column \"bits\" is not of type bit(8192).",
                         "alter bits type bit(8192)");
      if (!column->attnotnull)
        return alterable(relation, "Its column \"bits\" is not declared NOT NULL.",
                         "alter bits set not null");
      shape->bits_attribute = column->attnum;
    } else {
      return unusable(kExpected);
    }
  }
  if (shape->chunk_attribute == 0 || shape->bits_attribute == 0) return unusable(kExpected);
  return {};
}

// What an index means for a filter.
enum class IndexRole {
  kPrimaryKey,
  kUnfinished,  // a copy of it that REINDEX CONCURRENTLY is making or removing, or left behind
  kOther,
};

// A partial index on "chunk" may lack a row, and a deferrable one may have a chunk twice for a
// while. Both are kOther.
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

// Finds the primary key. A filter may have unfinished copies of it as well: checks and adds go on
// beside REINDEX CONCURRENTLY, and after one that broke off. A table that is to become a filter may
// not.
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

// Looks for triggers other than the guards. A table that is to become a filter has none. A filter
// may have triggers that fire after the event, as pg_repack makes one: such a trigger cannot change
// a row after the guard has seen it, and checks do not care. Adds would not fire it, so they refuse
// it themselves, by require_no_other_trigger.
Problem trigger_problem(const TriggerDesc *triggers, bool guarded) {
  for (int i = 0; triggers != nullptr && i < triggers->numtriggers; ++i) {
    const Trigger &trigger = triggers->triggers[i];
    if (guarded && (is_guard_name(trigger.tgname) || fires_after(trigger))) continue;
    return unusable("It has other triggers, or a foreign key references it.");
  }
  return {};
}

// Whether it is an ordinary, permanent heap table without row-level security, rules, inheritance
// and other triggers. A policy, for example, would be ignored by a check that reads the page
// itself. An unlogged table is empty after a crash, and an inherited one may have rows in another
// table.
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

// For problems of the table's definition. The hint, if there is one, says what to do.
Problem unusable(const char *detail, const char *hint) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, detail, hint, nullptr};
}

// The command is shown twice: in the error's hint, and as the advice of bloom_filters.
Problem mendable(const char *detail, const char *command) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, detail, psprintf("Run: %s", command), command};
}

// For contents that cannot be right. There is no command: the names have to come from the source
// again.
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

// The triggers and rows of such a table do not say what happened to it, so this is asked before
// they are looked at. The function of Citus is in pg_catalog.
Problem citus_problem(Relation relation) {
  const Oid relid = RelationGetRelid(relation);
  const char *kind = citus_kind(relid);
  if (kind == nullptr) return {};
  const char *command =
      psprintf("select undistribute_table(%s)", quote_literal_cstr(qualified_name(relid)));
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
          psprintf("It is %s, and its rows are in shards.", kind),
          psprintf("A filter is a plain table on the coordinator.  To make it one again, run: %s",
                   command),
          command};
}

bool is_guard_name(const char *name) {
  return std::strcmp(name, kGuardTrigger) == 0 || std::strcmp(name, kTruncateTrigger) == 0;
}

// By the function's address, and not by its OID or name: the extension may be in any schema, and a
// function of the same name elsewhere guards nothing. fmgr_info loads the library if it has to.
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

// Every call that opens a filter asks this after each change of the relation. A guard that did not
// fire may have let a bit be cleared, so that a check could deny a name that was added.
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
    if (guard->tgenabled != TRIGGER_FIRES_ALWAYS) return silent_guard_problem(relation, name);
    if (!fires_as_made(*guard, type))
      return unusable(
          psprintf("Its guard trigger \"%s\" was changed and does not fire for every event.", name),
          "Names may be missing.  Make another filter with bloom_create.");
  }
  return {};
}

// The kind comes first: only an ordinary table surely has columns and indexes of the usual form.
Problem shape_problem(Relation relation, bool guarded, Shape *shape) {
  Problem problem = kind_problem(relation, guarded);
  if (!problem) problem = columns_problem(relation, shape);
  if (!problem) problem = index_problem(relation, guarded, shape);
  return problem;
}

// The same problems have another errcode here: no filter is in a wrong state, the argument is a
// wrong table.
void require_filter_shape(Relation relation, Shape *shape) {
  Problem problem = citus_problem(relation);
  if (!problem) problem = shape_problem(relation, false, shape);
  if (!problem) return;
  problem.sqlstate = ERRCODE_WRONG_OBJECT_TYPE;
  raise_problem(relation, problem);
}

// write_rows and the exchange of files need this: a new table has exactly these two attributes,
// with the numbers 1 and 2, and the old table's descriptor describes its rows from the swap on.
bool has_plain_columns(Relation relation) {
  Shape shape;
  return RelationGetDescr(relation)->natts == 2 && !columns_problem(relation, &shape) &&
         shape.chunk_attribute == 1;
}

void require_plain_columns(Relation relation) {
  if (has_plain_columns(relation)) return;
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
