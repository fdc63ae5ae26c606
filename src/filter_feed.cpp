// Adds the names of rows: bloom_add_trigger adds those that a table gets, bloom_drain those that
// wait in a queue.
#include "pg.hpp"

#include <algorithm>
#include <span>

#include "arguments.hpp"
#include "chunk_update.hpp"
#include "comparison.hpp"
#include "filter_add.hpp"
#include "item_key.hpp"
#include "text_cast.hpp"

namespace bloomfilter {
namespace {

// Names that are read from rows and will be added in one ordered call. Only their digests are kept,
// 16 bytes a name.
struct Names {
  AttrNumber attribute;  // the column of the rows
  TextCast cast;
  MemoryContext row_context;  // for what one row needs
  Digest *digests;
  size_t count, capacity;
};

static_assert(std::is_trivially_destructible_v<Names>);

// The names of a column, none yet. Raises 42804 if the column is not text, and 0A000 if its values
// are not in the rows: a virtual generated column reads as null here, and a null is skipped. Warns
// once in a session if equal names of the column may be different ones of the filter.
Names names_of(const OpenFilter &filter, Relation relation, AttrNumber attribute) {
  const FormData_pg_attribute *column = TupleDescAttr(RelationGetDescr(relation), attribute - 1);
  if (column->attgenerated != '\0' && column->attgenerated != ATTRIBUTE_GENERATED_STORED)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("cannot add the names of virtual generated column \"%s\" of table \"%s\"",
                    NameStr(column->attname), RelationGetRelationName(relation)),
             errhint("Make the column stored.")));
  Names names{};
  names.attribute = attribute;
  if (!find_text_cast(column->atttypid, &names.cast))
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("column \"%s\" of table \"%s\" is of type %s, not text",
                           NameStr(column->attname), RelationGetRelationName(relation),
                           format_type_be(column->atttypid))));
  if (!filter.table->told_comparison)
    filter.table->told_comparison = warn_of_column(column->atttypid, column->attcollation,
                                                   filter.settings().normalization, filter.name());
  names.row_context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter row", ALLOCSET_SMALL_SIZES);
  return names;
}

// Makes room for one more digest.
void reserve(Names *names) {
  if (names->count < names->capacity) return;
  constexpr size_t kFirst = 64;
  names->capacity = Max(kFirst, 2 * names->capacity);
  const Size bytes = sizeof(Digest) * names->capacity;
  names->digests = static_cast<Digest *>(
      names->digests == nullptr ? palloc(bytes) : repalloc_huge(names->digests, bytes));
}

// Takes in the name of one row; null is nobody's name. Raises 55000 for a name that the filter
// cannot take, because its normalization has changed.
void take_name(const OpenFilter &filter, TupleTableSlot *row, Names *names) {
  bool is_null;
  const Datum value = slot_getattr(row, names->attribute, &is_null);
  if (is_null) return;
  reserve(names);
  MemoryContext caller = MemoryContextSwitchTo(names->row_context);
  const text *name = DatumGetTextPP(cast_to_text(&names->cast, value));
  names->digests[names->count++] = digest_to_add(filter, text_view(name));
  MemoryContextSwitchTo(caller);
  MemoryContextReset(names->row_context);
}

void add_names(const OpenFilter &filter, const Names &names) {
  if (names.count > 0) add_digests(filter, {names.digests, names.count});
}

constexpr const char *kTriggerExample =
    "For example: create trigger add_name after insert or update on users for each row execute "
    "function bloom_add_trigger('public.username_filter', 'username')";

// Raises 39P01 for a trigger that is made in a way in which names could be missed.
[[noreturn]] void refuse_trigger(const TriggerData &data, const char *detail, const char *hint) {
  ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                  errmsg("trigger \"%s\" of table \"%s\" cannot add names to a Bloom filter",
                         data.tg_trigger->tgname, RelationGetRelationName(data.tg_relation)),
                  errdetail_internal("%s", detail), errhint("%s", hint)));
  pg_unreachable();
}

// Whether the row that fired, or one of the statement's rows, may be on another server. A row fires
// the trigger of the partition that it goes to, a statement that of the parent. Newer minor
// versions of the server refuse the statement themselves.
bool has_foreign_rows(const TriggerData &data) {
  const FormData_pg_class *form = RelationGetForm(data.tg_relation);
  if (form->relkind == RELKIND_FOREIGN_TABLE) return true;
  if (TRIGGER_FIRED_FOR_ROW(data.tg_event) || !form->relhassubclass) return false;
  const List *tables = find_all_inheritors(RelationGetRelid(data.tg_relation), NoLock, nullptr);
  for (int i = 0; i < list_length(tables); ++i)
    if (get_rel_relkind(list_nth_oid(tables, i)) == RELKIND_FOREIGN_TABLE) return true;
  return false;
}

// The definition is checked, not only the event that fired: a mistake should show at the first row.
void require_definition(const TriggerData &data) {
  const Trigger &trigger = *data.tg_trigger;
  if (trigger.tgnargs != 2)
    refuse_trigger(
        data,
        psprintf("It has %d arguments instead of two, the filter and the column.", trigger.tgnargs),
        kTriggerExample);
  if (!TRIGGER_FOR_AFTER(trigger.tgtype))
    refuse_trigger(data,
                   "It does not fire after the row is stored, and a later trigger may change the "
                   "name.",
                   kTriggerExample);
  if (TRIGGER_FOR_DELETE(trigger.tgtype) || TRIGGER_FOR_TRUNCATE(trigger.tgtype))
    refuse_trigger(data, "It fires for names that leave.  They leave a filter by bloom_rebuild.",
                   kTriggerExample);
  if (has_foreign_rows(data))
    refuse_trigger(data,
                   "Its table has rows on another server, which commits them before this server "
                   "commits the names.",
                   "Call bloom_add and commit, and only then insert the row.");
  if (TRIGGER_FOR_ROW(trigger.tgtype)) return;
  if (IsLogicalWorker())
    refuse_trigger(data,
                   "Logical replication fires statement triggers when it copies a table, but not "
                   "for the changes after that.",
                   "Use a trigger for each row.");
  if (has_superclass(RelationGetRelid(data.tg_relation)))
    refuse_trigger(data,
                   "It is a statement trigger of a partition or child, and a statement on the "
                   "parent does not fire it.",
                   "Use a trigger for each row.");
  if (data.tg_newtable == nullptr)
    refuse_trigger(data, "It is a statement trigger without a table of the new rows.",
                   "For example: create trigger add_names after insert on users referencing new "
                   "table as added for each statement execute function "
                   "bloom_add_trigger('public.username_filter', 'username')");
}

// The column that the second argument names. Raises 42703 if there is none, and 39P01 if the
// trigger fires for updates of other columns only.
AttrNumber column_of(const TriggerData &data) {
  const Trigger &trigger = *data.tg_trigger;
  const char *name = trigger.tgargs[1];
  const int attribute = SPI_fnumber(RelationGetDescr(data.tg_relation), name);
  if (attribute <= 0)
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_COLUMN),
             errmsg("column \"%s\" of table \"%s\" does not exist", name,
                    RelationGetRelationName(data.tg_relation)),
             errhint("If the column was renamed, make trigger \"%s\" again with its new name.",
                     trigger.tgname)));
  const std::span<const int16> listed(trigger.tgattr, static_cast<size_t>(trigger.tgnattr));
  if (!listed.empty() && std::ranges::find(listed, attribute) == listed.end())
    refuse_trigger(data, psprintf("It does not fire for updates of column \"%s\".", name),
                   kTriggerExample);
  return static_cast<AttrNumber>(attribute);
}

// The filter that the first argument names, locked for adds. The lock and the look-up are one step,
// so that of two filters that are exchanged by renaming, the present bearer of the name is taken.
// The name must have its schema: sessions differ in their search path, and a worker of logical
// replication has none. Raises 22023 without a schema, and 42P01 if there is no such relation.
Oid filter_of(const TriggerData &data) {
  const Trigger &trigger = *data.tg_trigger;
  const RangeVar *parsed = makeRangeVarFromNameList(compat_qualified_name_list(trigger.tgargs[0]));
  if (parsed->schemaname == nullptr)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("Bloom filter \"%s\" of trigger \"%s\" has no schema", parsed->relname,
                    trigger.tgname),
             errdetail("Without a schema the search path of the session would choose the filter."),
             errhint("Write the name with its schema, for example %s.",
                     quote_literal_cstr(quote_qualified_identifier(
                         get_namespace_name(RelationGetNamespace(data.tg_relation)),
                         parsed->relname)))));
  const Oid relid = RangeVarGetRelid(parsed, RowExclusiveLock, true);
  if (!OidIsValid(relid))
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_TABLE),
             errmsg("Bloom filter \"%s.%s\" of trigger \"%s\" does not exist", parsed->schemaname,
                    parsed->relname, trigger.tgname),
             errhint("If the filter was renamed, make the trigger again with its new name.  To "
                     "write rows that no filter learns of, drop the trigger.")));
  return relid;
}

// Takes in the names of all new rows of a statement.
void take_new_rows(const OpenFilter &filter, const TriggerData &data, Names *names) {
  Tuplestorestate *rows = data.tg_newtable;
  // Other triggers of the statement read the same rows, each at a place of its own.
  const int place = tuplestore_alloc_read_pointer(rows, EXEC_FLAG_REWIND);
  tuplestore_select_read_pointer(rows, place);
  tuplestore_rescan(rows);
  TupleTableSlot *slot =
      MakeSingleTupleTableSlot(RelationGetDescr(data.tg_relation), &TTSOpsMinimalTuple);
  while (tuplestore_gettupleslot(rows, true, false, slot)) {
    CHECK_FOR_INTERRUPTS();
    take_name(filter, slot, names);
  }
  ExecDropSingleTupleTableSlot(slot);
}

// Names the trigger in the context of every error. An insert that fails for lack of a privilege on
// the filter would otherwise not say why it needs one.
void add_trigger_context(void *trigger) {
  const auto *data = static_cast<const TriggerData *>(trigger);
  errcontext(R"(trigger "%s" of table "%s")", data->tg_trigger->tgname,
             RelationGetRelationName(data->tg_relation));
}

// Adds the names of the row, or of the rows, that fired the trigger.
void add_fired(const TriggerData &data) {
  require_definition(data);
  const AttrNumber attribute = column_of(data);
  const OpenFilter filter = open_for_add(filter_of(data), "bloom_add_trigger()");
  Names names = names_of(filter, data.tg_relation, attribute);
  if (!TRIGGER_FIRED_FOR_ROW(data.tg_event))
    take_new_rows(filter, data, &names);
  else if (TRIGGER_FIRED_BY_UPDATE(data.tg_event))
    take_name(filter, data.tg_newslot, &names);
  else
    take_name(filter, data.tg_trigslot, &names);
  add_names(filter, names);
  close_filter(filter);
}

// Raises 42809. Names would wait in such a queue for ever, or be lost in it.
[[noreturn]] void refuse_queue(Relation queue, const char *detail, const char *hint) {
  ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                  errmsg("relation \"%s\" cannot be used as a queue of names",
                         RelationGetRelationName(queue)),
                  errdetail("%s", detail), errhint("%s", hint)));
  pg_unreachable();
}

// bloom_drain deletes rows without the executor, so whatever the executor would do in addition is
// refused here. So is what would lose names in a crash, or hide them.
void require_queue(Relation queue) {
  constexpr const char *kPlain =
      "Use a plain table, for example: create table username_feed (username text)";
  const FormData_pg_class *form = RelationGetForm(queue);
  if (form->relkind != RELKIND_RELATION)
    refuse_queue(queue, "It is not an ordinary table.", kPlain);
  if (form->relpersistence != RELPERSISTENCE_PERMANENT)
    refuse_queue(queue, "It is not logged, so a crash would lose the names in it.", kPlain);
  if (form->relhassubclass && find_inheritance_children(RelationGetRelid(queue), NoLock) != NIL)
    refuse_queue(queue, "Other tables inherit from it.", kPlain);
  if (form->relrowsecurity)
    refuse_queue(queue, "It has row-level security.  Names in hidden rows would never be added.",
                 kPlain);
  if (queue->trigdesc != nullptr) refuse_queue(queue, "It has triggers or foreign keys.", kPlain);
  if (queue->rd_rules != nullptr) refuse_queue(queue, "It has rules.", kPlain);
}

// The only column of a queue. With two, it would not be clear which one holds the names.
AttrNumber only_column(Relation queue) {
  const TupleDesc descriptor = RelationGetDescr(queue);
  AttrNumber found = InvalidAttrNumber;
  int columns = 0;
  for (int i = 0; i < descriptor->natts; ++i) {
    if (TupleDescAttr(descriptor, i)->attisdropped) continue;
    found = static_cast<AttrNumber>(i + 1);
    ++columns;
  }
  if (columns != 1)
    refuse_queue(queue, psprintf("It has %d columns instead of one.", columns),
                 "Publish the column of the names only.");
  return found;
}

// Locks the queue, and checks that the current role may read and empty it. The lock stays until the
// transaction ends. Raises 42P01, 42501 or 42809.
Relation open_queue(Oid relid) {
  Relation queue = try_relation_open(relid, RowExclusiveLock);
  if (queue == nullptr)
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("queue with OID %u does not exist", relid)));
  constexpr AclMode kNeeded = ACL_SELECT | ACL_DELETE;
  if (pg_class_aclmask(relid, GetUserId(), kNeeded, ACLMASK_ALL) != kNeeded)
    aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, RelationGetRelationName(queue));
  require_queue(queue);
  CheckCmdReplicaIdentity(queue, CMD_DELETE);
  return queue;
}

// Deletes up to `limit` rows of the queue, and takes in their names. Returns how many rows. A row
// that another transaction holds is left to it: if that one is a drain too, it adds the name. The
// rows come back if this transaction rolls back.
int64 take_rows(const OpenFilter &filter, Relation queue, int32 limit, Names *names) {
  // The snapshot of the statement would still see rows that an earlier call in it has deleted.
  PushActiveSnapshot(GetTransactionSnapshot());
  TableScanDesc scan = compat_table_beginscan(queue, GetActiveSnapshot());
  TupleTableSlot *row = table_slot_create(queue, nullptr);
  const CommandId command = GetCurrentCommandId(true);
  int64 taken = 0;
  while (taken < limit && table_scan_getnextslot(scan, ForwardScanDirection, row)) {
    CHECK_FOR_INTERRUPTS();
    if (compat_try_delete(queue, &row->tts_tid, command) != TM_Ok) continue;
    take_name(filter, row, names);
    ++taken;
  }
  ExecDropSingleTupleTableSlot(row);
  table_endscan(scan);
  PopActiveSnapshot();
  return taken;
}

}  // namespace

extern "C" {

// bloom_add_trigger() -> trigger, with the arguments 'schema.filter' and 'column': adds the
// column's value of each new row to the filter, in the transaction that writes the row. After
// insert or update, for each row, or for each statement with a table of the new rows. It runs with
// the rights of whoever writes: SELECT and INSERT on the filter.
PG_FUNCTION_INFO_V1(bloom_add_trigger);
PGDLLEXPORT Datum bloom_add_trigger(PG_FUNCTION_ARGS) {
  if (!CALLED_AS_TRIGGER(fcinfo))
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("function \"bloom_add_trigger\" was not called by trigger manager")));
  auto *data = reinterpret_cast<TriggerData *>(fcinfo->context);
  ErrorContextCallback context = {error_context_stack, add_trigger_context, data};
  error_context_stack = &context;
  add_fired(*data);
  error_context_stack = context.previous;
  // The result of a trigger that fires after the event is ignored.
  return Datum{0};
}

// bloom_drain(filter regclass, queue regclass, max_rows int) -> bigint: deletes up to max_rows rows
// of the queue and adds their names, in one transaction. Returns how many rows; 0 means that the
// queue is empty, or that another drain has its rows.
PG_FUNCTION_INFO_V1(bloom_drain);
PGDLLEXPORT Datum bloom_drain(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_for_add(fcinfo, "bloom_drain()");
  if (PG_ARGISNULL(1)) null_argument("queue");
  if (PG_ARGISNULL(2)) null_argument("max_rows");
  const int32 limit = PG_GETARG_INT32(2);
  if (limit < 1)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("max_rows must be at least 1, not %d", limit)));
  Relation queue = open_queue(PG_GETARG_OID(1));
  Names names = names_of(filter, queue, only_column(queue));
  const int64 taken = take_rows(filter, queue, limit, &names);
  add_names(filter, names);
  // Later commands of the transaction do not see the rows any more.
  if (taken > 0) CommandCounterIncrement();
  relation_close(queue, NoLock);
  close_filter(filter);
  PG_RETURN_INT64(taken);
}

}  // extern "C"

}  // namespace bloomfilter
