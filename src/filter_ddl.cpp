#include "pg.hpp"

#include "bloomfilter/layout.hpp"
#include "filter_ddl.hpp"

namespace bloomfilter {
namespace {

// Room for six rows a page and a seventh, so that updates of single rows are HOT (99.97 % of
// 437,592 measured; at 100 none fit).
constexpr int kFillFactor = 80;

}  // namespace

void execute(const char *command) {
  const int result = SPI_execute(command, false, 0);
  if (result < 0) elog(ERROR, "SPI_execute failed: %s", SPI_result_code_string(result));
}

const char *qualified_name(Oid relid) {
  return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                    get_rel_name(relid));
}

void store_settings(Oid relid, const Settings &settings, Oid caller) {
  const char *name = qualified_name(relid);
  execute(
      psprintf("create or replace trigger %s before update or delete on %s for each row "
               "execute function %s.bloom_guard(%s)",
               kGuardTrigger, name, extension_schema(caller), settings_arguments(settings)));
  execute(
      psprintf("create or replace trigger %s before truncate on %s for each statement execute "
               "function %s.bloom_guard()",
               kTruncateTrigger, name, extension_schema(caller)));
  execute(psprintf("alter table %s enable always trigger %s, enable always trigger %s", name,
                   kGuardTrigger, kTruncateTrigger));
  // What adds rely on from now on is durable with this transaction.
  ForceSyncCommit();
}

const char *work_table_name(Oid relid, const char *purpose) {
  return ChooseRelationName("bloom", psprintf("%u", relid), purpose, get_rel_namespace(relid),
                            false);
}

void require_owner(Oid relid) {
  if (!compat_owns_relation(relid))
    aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
}

bool is_subscribed(Oid relid) {
  Relation catalog = table_open(SubscriptionRelRelationId, AccessShareLock);
  ScanKeyData key;
  ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid, BTEqualStrategyNumber, F_OIDEQ,
              ObjectIdGetDatum(relid));
  SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, nullptr, 1, &key);
  const bool subscribed = HeapTupleIsValid(systable_getnext(scan));
  systable_endscan(scan);
  table_close(catalog, AccessShareLock);
  return subscribed;
}

void make_chunk_table(const char *quoted_name, const char *options) {
  execute(
      psprintf("create table %s (chunk pg_catalog.int4 not null, bits pg_catalog.bit(%d) not null) "
               "using heap with (fillfactor = %d)%s",
               quoted_name, kChunkBits, kFillFactor, options));
  // Nobody plans by statistics of random bits, and while analyze gathers them its snapshot keeps
  // adds from being HOT: a million of them, with autovacuum every four seconds, made the table grow
  // by 6.9 %, and now by 0.1.
  execute(psprintf("alter table %s alter chunk set statistics 0, alter bits set statistics 0",
                   quoted_name));
}

}  // namespace bloomfilter
