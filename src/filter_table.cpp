// Opening a filter: the lock, the privileges, and the settings from the backend's cache. A cache
// entry is valid until the server invalidates the relation.
#include "pg.hpp"

#include "chunk_estimate.hpp"
#include "filter_command.hpp"
#include "filter_leftover.hpp"
#include "filter_table.hpp"
#include "timeline.hpp"

namespace bloomfilter {
namespace {

constinit HTAB *filters = nullptr;

// How often a last chunk that is too low is looked for again: a row that moves to another page
// at that moment can be missed.
constexpr int kLastChunkTries = 3;

// A column that was put in the place of another has none of its bits. In a table that was dumped
// and restored, numbers are given anew; it is suspended, and bloom_resume writes them.
Problem replaced_column_problem(const FilterTable &table) {
  const Columns &made = table.settings.columns;
  if (!is_original(table.settings.origin, origin_here(table.relid))) return {};
  const char *name = made.bits != table.rows.shape.bits_attribute     ? "bits"
                     : made.chunk != table.rows.shape.chunk_attribute ? "chunk"
                                                                      : nullptr;
  if (name == nullptr) return {};
  return unusable(psprintf("Its column \"%s\" is not the one that names were added to.", name),
                  "Make another filter with bloom_create.");
}

// One look into the index instead of a count: bloom_create wrote all rows, or bloom_register
// counted them, and the guards refuse a DELETE.
Problem chunks_problem(Relation relation, const FilterTable &table) {
  const int32 expected = table.settings.chunks - 1;
  int32 last = -1;
  for (int tries = 0; tries < kLastChunkTries && last != expected; ++tries)
    last = last_chunk(relation, table.rows.shape);
  if (last == expected) return {};
  return damaged(psprintf("Its settings say %d chunks, but its last chunk is %d.",
                          table.settings.chunks, last));
}

// Reads what does not depend on the table's rows.
Problem read_settings(Relation relation, FilterTable *table) {
  const TriggerDesc *triggers = CopyTriggerDesc(relation->trigdesc);
  if (const Problem problem = guard_problem(relation, triggers)) return problem;
  if (const Problem problem = shape_problem(relation, true, &table->rows.shape)) return problem;
  const Trigger &guard = *find_guard(triggers, kGuardTrigger);
  if (const char *detail = parse_settings(guard, &table->settings)) return damaged_settings(detail);
  table->agreement = agreement_with_server(table->settings);
  return {};
}

// From the cheapest check to the dearest. Only a filter that passes all of them is cached.
Problem read_filter(Relation relation, FilterTable *table) {
  if (const Problem problem = read_settings(relation, table)) return problem;
  if (const Problem problem = replaced_column_problem(*table)) return problem;
  if (const Problem problem = chunks_problem(relation, *table)) return problem;
  map_rows(relation, &table->rows, table->settings.chunks);
  return {};
}

// The backend's entry for a relation, made where there is none.
FilterTable *entry_of(Oid relid) {
  static constinit FilterTable *last = nullptr;
  if (likely(last != nullptr && last->relid == relid)) return last;
  bool found;
  last = static_cast<FilterTable *>(hash_search(filters, &relid, HASH_ENTER, &found));
  if (!found) {
    *last = {};
    last->relid = relid;
  }
  return last;
}

// The filter's settings, read again only where its relation has changed.
FilterTable *cached_filter(Relation relation, Problem *problem) {
  FilterTable *table = entry_of(RelationGetRelid(relation));
  if (likely(table->valid)) return table;
  // Valid only once all is read: an error on the way, a cancel even, must not leave half of it
  // behind. A change that arrives meanwhile has this call go on with what stood when it took its
  // lock, and the next read again.
  const uint64 changes = table->changes;
  *problem = read_filter(relation, table);
  table->valid = !*problem && table->changes == changes;
  return table;
}

// The settings stay where they are, for a call that is still using them under its lock.
void forget(FilterTable *table) {
  table->valid = false;
  table->permitted_role = InvalidOid;
  ++table->changes;
}

// Called by the server at any time that it reads invalidation messages. InvalidOid means every
// relation.
void forget_filter(Datum, Oid relid) {
  if (OidIsValid(relid)) {
    auto *table = static_cast<FilterTable *>(hash_search(filters, &relid, HASH_FIND, nullptr));
    if (table != nullptr) forget(table);
    return;
  }
  HASH_SEQ_STATUS all;
  hash_seq_init(&all, filters);
  while (auto *table = static_cast<FilterTable *>(hash_seq_search(&all))) forget(table);
}

// A role's attributes or memberships changed, or who owns the database: nobody's privileges are
// known any more.
void forget_privileges(Datum, CompatSyscacheId, uint32) {
  forget_filter(Datum{0}, InvalidOid);
}

// Opens a relation that is locked, with every change of it that has committed known; null if it is
// gone.
Relation open_locked(Oid relid) {
  // A lock that the transaction holds already would let a suspension since go by unnoticed.
  AcceptInvalidationMessages();
  // As try_relation_open, but for its second look into the catalog.
  Relation relation = RelationIdGetRelation(relid);
  if (RelationIsValid(relation)) pgstat_init_relation(relation);
  return relation;
}

// The same; raises 42P01 where it is gone.
Relation require_relation(Oid relid, LOCKMODE lock) {
  LockRelationOid(relid, lock);
  Relation relation = open_locked(relid);
  if (relation == nullptr)
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("Bloom filter with OID %u does not exist", relid)));
  return relation;
}

// Locks all that reading the relation and its size locks: false where that would have to wait.
// Reindexing, for one, locks indexes alone.
bool try_lock_parts(Relation relation) {
  ListCell *cell;
  foreach (cell, RelationGetIndexList(relation))
    if (!ConditionalLockRelationOid(lfirst_oid(cell), AccessShareLock)) return false;
  const Oid toast_relid = relation->rd_rel->reltoastrelid;
  if (!OidIsValid(toast_relid)) return true;
  if (!ConditionalLockRelationOid(toast_relid, AccessShareLock)) return false;
  Relation toast = relation_open(toast_relid, NoLock);
  const bool locked = try_lock_parts(toast);
  relation_close(toast, NoLock);
  return locked;
}

// Asks the catalog once a role and change, not at every check.
void require_privileges(Oid relid, AclMode privileges) {
  FilterTable *table = entry_of(relid);
  const Oid role = GetUserId();
  if (likely(table->permitted_role == role && (table->permitted & privileges) == privileges))
    return;
  const uint64 changes = table->changes;
  if (pg_class_aclmask(relid, role, privileges, ACLMASK_ALL) != privileges)
    aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(relid));
  if (table->changes != changes) return;
  table->permitted_role = role;
  table->permitted = privileges;
}

}  // namespace

// The lock comes before the privileges and the settings, so that both are those of the relation
// that is read.
OpenFilter open_filter(Oid relid, LOCKMODE lock, AclMode privileges) {
  Relation relation = require_relation(relid, lock);
  require_privileges(relid, privileges);
  const OpenFilter filter = {relation, require_filter(relation)};
  if (lock > AccessShareLock) require_no_other_trigger(relation);
  return filter;
}

// Without the checks of rows and columns: a damaged filter is what a rebuild is for.
OpenFilter open_to_replace(Oid relid, LOCKMODE lock) {
  Relation relation = require_relation(relid, lock);
  FilterTable *table = entry_of(relid);
  if (!table->valid)
    if (const Problem problem = read_settings(relation, table)) raise_problem(relation, problem);
  if (lock > AccessShareLock) require_no_other_trigger(relation);
  return {relation, table};
}

FilterTable *require_filter(Relation relation) {
  Assert(CheckRelationLockedByMe(relation, AccessShareLock, true));
  Problem problem;
  FilterTable *table = cached_filter(relation, &problem);
  if (problem) raise_problem(relation, problem);
  return table;
}

// Each step says what would be in the way before it tries, so that the caller always has a status
// to show.
FilterTable *try_open_filter(Oid relid, Relation *relation, Obstacle *obstacle) {
  *relation = nullptr;
  *obstacle = {"locked", show_lock_holders_command(relid)};
  if (!ConditionalLockRelationOid(relid, AccessShareLock)) return nullptr;
  *obstacle = {};
  *relation = open_locked(relid);
  if (*relation == nullptr) return nullptr;
  *obstacle = {"not readable: permission denied", grant_command(relid)};
  if (pg_class_aclmask(relid, GetUserId(), ACL_SELECT, ACLMASK_ALL) == 0) return nullptr;
  *obstacle = {"locked", show_lock_holders_command(relid)};
  if (!try_lock_parts(*relation)) return nullptr;
  Problem problem;
  FilterTable *table = cached_filter(*relation, &problem);
  if (!problem) return table;
  *obstacle = {psprintf("unusable: %s", problem.detail),
               problem.command != nullptr ? problem.command : replacement_command(relid)};
  return nullptr;
}

ChunkRow require_chunk(const OpenFilter &filter, int32 chunk, const Positions *prefetch,
                       Access access) {
  ChunkRow row;
  if (unlikely(!find_chunk(filter.relation, &filter.table->rows, chunk, prefetch, access, &row)))
    ereport(ERROR,
            (errcode(ERRCODE_DATA_CORRUPTED),
             errmsg("chunk %d of Bloom filter \"%s\" is missing", chunk, filter.name()),
             errhint("Treat the answer as \"maybe\" and rebuild the filter with bloom_rebuild.")));
  return row;
}

// By a sequential scan: it also works where the primary key is broken.
float8 scan_items(const OpenFilter &filter) {
  float8 items = 0;
  scan_chunk_rows(filter.relation, [&](HeapTuple tuple) {
    if (!holds_chunk(filter.relation, filter.shape(), tuple)) return;
    items += ChunkEstimate(stored_chunk(filter.relation, filter.shape(), tuple)).items();
  });
  return items;
}

// The order matters: what the owner said comes before what is worked out from the origin. On a
// standby the origin is the primary's, with the standby's timeline.
const char *suspension_reason(const FilterTable &table) {
  const Settings &settings = table.settings;
  if (settings.state == State::kLoading) return "not ready: never loaded";
  if (settings.canary_lost) return "suspended: its normalization has changed";
  if (settings.state == State::kSuspended) return "suspended";
  const Origin &made = settings.origin, here = origin_here(table.relid);
  if (made.system != here.system) return "suspended: restored on another server";
  if (made.database != here.database || made.relation != here.relation)
    return "suspended: a copy of the filter that names were added to";
  if (likely(made.timeline == here.timeline)) return nullptr;
  if (!settings.trust_failover) return "suspended: the server failed over or was restored";
  if (!came_by_failover(made.timeline, here.timeline)) return "suspended: restored from a backup";
  return nullptr;
}

// Privileges depend on roles, memberships and the owner of the database too, so their caches are
// watched as well.
void watch_relations() {
  HASHCTL control{};
  control.keysize = sizeof(Oid);
  control.entrysize = sizeof(FilterTable);
  control.hcxt = TopMemoryContext;
  filters = hash_create("bloomfilter tables", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  CacheRegisterRelcacheCallback(forget_filter, Datum{0});
  CacheRegisterSyscacheCallback(AUTHOID, forget_privileges, Datum{0});
  CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_privileges, Datum{0});
  // Its owner is the member of pg_database_owner.
  CacheRegisterSyscacheCallback(DATABASEOID, forget_privileges, Datum{0});
}

}  // namespace bloomfilter
