// Makes the tables of filters and writes their settings: by SQL statements, so that the server's
// own checks, dependencies and event triggers apply, or where that would lock too much, in the
// catalog.
#include "pg.hpp"

#include "bloomfilter/layout.hpp"
#include "filter_command.hpp"
#include "filter_ddl.hpp"
#include "filter_shape.hpp"

namespace bloomfilter {
namespace {

// In percent. Leaves room for a seventh row on a page of six, so that updates of single rows are
// HOT (99.97 % of 437,592 measured; at 100 none fit).
constexpr int kFillFactor = 80;

// The lock of a relation's settings: an object of pg_class with a subobject number that no column
// has, and no lock of a rebuild. Not an advisory lock: applications choose the keys of those, and
// any role could take ours and hold it.
constexpr uint16 kSettingsLock = 0x7A00;

LOCKTAG settings_tag(Oid relid) {
  LOCKTAG tag;
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid, kSettingsLock);
  return tag;
}

// The comment on the table. Read by people, not by the extension.
constexpr const char *kTableComment =
    "Bloom filter of the extension bloomfilter. Use bloom_might_contain and bloom_add, not its "
    "rows. "
    "Keep it and its triggers out of schema migrations.";

}  // namespace

void execute_sql(const char *command) {
  const int result = SPI_execute(command, false, 0);
  if (result < 0) elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
}

// Every function of ours is called with its schema in front: the search_path of the session may
// lead to another function of the same name.
const char *extension_schema(Oid function) {
  return quote_identifier(get_namespace_name(get_func_namespace(function)));
}

// The lock on the table is not enough: bloom_suspend takes AccessShareLock only, so that two
// changes at a time would be possible, and the second would undo the first.
void lock_settings(Oid relid) {
  const LOCKTAG tag = settings_tag(relid);
  LockAcquire(&tag, ExclusiveLock, false, false);
  AcceptInvalidationMessages();
}

// create or replace trigger takes ShareRowExclusiveLock, which waits for adds. It also resets
// "enable always", so that is set again, in the same transaction: nobody ever sees the guards
// without it.
void store_settings(Oid relid, const Settings &settings, Oid caller) {
  lock_settings(relid);
  const char *name = qualified_name(relid);
  execute_sql(
      psprintf("create or replace trigger %s before update or delete on %s for each row "
               "execute function %s.bloom_guard(%s)",
               kGuardTrigger, name, extension_schema(caller), settings_arguments(settings)));
  execute_sql(
      psprintf("create or replace trigger %s before truncate on %s for each statement execute "
               "function %s.bloom_guard()",
               kTruncateTrigger, name, extension_schema(caller)));
  execute_sql(psprintf("alter table %s enable always trigger %s, enable always trigger %s", name,
                       kGuardTrigger, kTruncateTrigger));
  // Adds and checks rely on these settings after the commit, so it waits for the disk.
  ForceSyncCommit();
}

void store_settings_alone(Oid relid, const Settings &settings, Oid caller) {
  SPI_connect();
  store_settings(relid, settings, caller);
  SPI_finish();
}

// Changes the row of pg_trigger itself, since create or replace trigger would wait for every add
// under way, and later adds behind it. bloom_suspend must take effect at once. Only the arguments
// change: the trigger keeps its OID, its function and "enable always", and no dependency changes.
void overwrite_settings(Oid relid, const Settings &settings) {
  Assert(compat_lock_held_by_me(settings_tag(relid), ExclusiveLock));
  Relation catalog = table_open(TriggerRelationId, RowExclusiveLock);
  ScanKeyData keys[2];
  ScanKeyInit(&keys[0], Anum_pg_trigger_tgrelid, BTEqualStrategyNumber, F_OIDEQ,
              ObjectIdGetDatum(relid));
  ScanKeyInit(&keys[1], Anum_pg_trigger_tgname, BTEqualStrategyNumber, F_NAMEEQ,
              CStringGetDatum(kGuardTrigger));
  SysScanDesc scan =
      systable_beginscan(catalog, TriggerRelidNameIndexId, true, nullptr, lengthof(keys), keys);
  HeapTuple guard = systable_getnext(scan);
  if (!HeapTupleIsValid(guard)) elog(ERROR, "relation %u has no trigger %s", relid, kGuardTrigger);
  int16 count;
  Datum values[Natts_pg_trigger] = {};
  bool nulls[Natts_pg_trigger] = {}, replaces[Natts_pg_trigger] = {};
  values[Anum_pg_trigger_tgargs - 1] = PointerGetDatum(settings_stored(settings, &count));
  values[Anum_pg_trigger_tgnargs - 1] = Int16GetDatum(count);
  replaces[Anum_pg_trigger_tgargs - 1] = replaces[Anum_pg_trigger_tgnargs - 1] = true;
  HeapTuple changed = heap_modify_tuple(guard, RelationGetDescr(catalog), values, nulls, replaces);
  CatalogTupleUpdate(catalog, &guard->t_self, changed);
  systable_endscan(scan);
  table_close(catalog, RowExclusiveLock);
  // An update of pg_trigger alone does not make sessions build the relation's triggers again.
  CacheInvalidateRelcacheByRelid(relid);
  CommandCounterIncrement();
  ForceSyncCommit();
}

// ChooseRelationName, as the server names indexes: another table of that name is no obstacle.
const char *work_table_name(Oid relid, const char *purpose) {
  return ChooseRelationName("bloom", psprintf("%u", relid), purpose, get_rel_namespace(relid),
                            false);
}

void comment_on_filter(Oid relid) {
  if (GetComment(relid, RelationRelationId, 0) == nullptr)
    CreateComments(relid, RelationRelationId, 0, kTableComment);
}

void require_owner(Oid relid) {
  if (!compat_owns_relation(relid))
    aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

// Whether the subscription is enabled does not matter.
bool is_subscribed(Oid relid) {
  Relation catalog = table_open(SubscriptionRelRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
              ObjectIdGetDatum(relid));
  SysScanDesc scan =
      systable_beginscan(catalog, SubscriptionRelSrrelidSrsubidIndexId, true, nullptr, 1, &key);
  const bool subscribed = HeapTupleIsValid(systable_getnext(scan));
  systable_endscan(scan);
  table_close(catalog, AccessShareLock);
  return subscribed;
}

// A warning and no error: a subscriber whose publisher is alike works.
void warn_if_subscribed(Oid relid, const Settings &settings) {
  if (!is_subscribed(relid)) return;
  ereport(WARNING, (errmsg("a subscription writes to Bloom filter \"%s\"", get_rel_name(relid)),
                    errdetail("If the publisher's filter does not have %d chunks and normalization "
                              "\"%s\" at all times, this filter denies names that were added.",
                              settings.chunks, normalization_name(settings.normalization)),
                    errhint("Compare bloom_info on both servers.  Or replicate the names, and add "
                            "them by a trigger.")));
}

// The heap access method is named, whatever default_table_access_method says. The statement goes by
// the name of the schema. If its owner renames the schema at that moment, the statement makes the
// table in another one, and the name may find a table of his in this one: no rows for that.
Oid make_chunk_table(Oid schema, const char *name, const char *options) {
  const char *quoted_name = quote_qualified_identifier(get_namespace_name(schema), name);
  execute_sql(
      psprintf("create table %s (chunk pg_catalog.int4 not null, bits pg_catalog.bit(%d) not null) "
               "using heap with (fillfactor = %d)%s",
               quoted_name, kChunkBits, kFillFactor, options));
  // No plan uses statistics of random bits. While ANALYZE gathers them, its snapshot keeps dead
  // versions in the pages, and adds are not HOT. With autovacuum every four seconds, a million adds
  // made the table grow by 6.9 %; without statistics by 0.1 %.
  execute_sql(psprintf("alter table %s alter chunk set statistics 0, alter bits set statistics 0",
                       quoted_name));
  const Oid relid = get_relname_relid(name, schema);
  Relation relation = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : nullptr;
  if (relation == nullptr || relation->rd_createSubid == InvalidSubTransactionId)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("schema \"%s\" was renamed while table \"%s\" was created in it",
                           get_namespace_name(schema), name),
                    errhint("Run the command again.")));
  relation_close(relation, NoLock);
  return relid;
}

}  // namespace bloomfilter
