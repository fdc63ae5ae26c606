// Opens filter tables, and keeps what was read of each in a cache of the backend until the server
// says that the relation changed. A check asks no catalog and parses no settings: 26 of its 1,130
// ns go here (bench/profile.sh).
#include "pg.hpp"

#include "chunk_estimate.hpp"
#include "filter_command.hpp"
#include "filter_leftover.hpp"
#include "filter_table.hpp"
#include "timeline.hpp"

namespace bloomfilter {
namespace {

// The cache, by the relation's OID. Entries are never removed: callers keep pointers to them.
constinit HTAB *filters = nullptr;

// How often a last chunk that is not the expected one is looked for again. SnapshotSelf can miss a
// row that moves to another page at that moment.
constexpr int kLastChunkTries = 3;

// A problem if one of the columns was dropped and added again under the same name: the new column
// has another attribute number, and none of the bits. After a dump and restore other numbers are
// normal; such a filter is suspended, and bloom_resume stores the new numbers.
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

// A problem if the table has another last chunk than the settings say. A schema-only dump, for one,
// leaves settings without rows. Only the last chunk is looked up here. A missing one in between
// raises an error when a name needs it.
Problem chunks_problem(Relation relation, const FilterTable &table) {
  const int32 expected = table.settings.chunks - 1;
  int32 last = -1;
  for (int tries = 0; tries < kLastChunkTries && last != expected; ++tries)
    last = last_chunk(relation, table.rows.shape);
  if (last == expected) return {};
  Problem problem = damaged(psprintf("Its settings say %d chunks, but its last chunk is %d.",
                                     table.settings.chunks, last));
  problem.command = rebuild_command(table.relid);
  return problem;
}

// Reads everything that does not depend on the table's rows, for open_to_replace as well. Citus
// comes first: of a table that it manages, nothing else is where it was. Then guards: a table
// without them is not a filter, and its shape does not matter.
Problem read_settings(Relation relation, FilterTable *table) {
  if (const Problem problem = citus_problem(relation)) return problem;
  const TriggerDesc *triggers = CopyTriggerDesc(relation->trigdesc);
  if (const Problem problem = guard_problem(relation, triggers)) return problem;
  if (const Problem problem = shape_problem(relation, true, &table->rows.shape)) return problem;
  const Trigger &guard = *find_guard(triggers, kGuardTrigger);
  if (const char *detail = parse_settings(guard, &table->settings)) return damaged_settings(detail);
  table->agreement = agreement_with_server(table->settings);
  return {};
}

// Reads all that the cache holds about a filter, and where its rows are.
Problem read_filter(Relation relation, FilterTable *table) {
  if (const Problem problem = read_settings(relation, table)) return problem;
  if (const Problem problem = replaced_column_problem(*table)) return problem;
  if (const Problem problem = chunks_problem(relation, *table)) return problem;
  map_rows(relation, &table->rows, table->settings.chunks);
  return {};
}

// Where the entry for a relation is, if it was asked for not long ago; else null, or another entry.
// Nearly every call asks for a filter that was asked for before, and entries of a hash table of the
// server never move.
FilterTable *&recent_entry(Oid relid) {
  static constinit FilterTable *recent[1024] = {};
  return recent[relid % lengthof(recent)];
}

// The cache entry for a relation, a new one if there is none. Also for a relation that turns out
// not to be a filter; that entry stays invalid.
FilterTable *entry_of(Oid relid) {
  FilterTable *&recent = recent_entry(relid);
  if (likely(recent != nullptr && recent->relid == relid)) return recent;
  bool found;
  auto *table = static_cast<FilterTable *>(hash_search(filters, &relid, HASH_ENTER, &found));
  if (!found) {
    *table = {};
    table->relid = relid;
  }
  return recent = table;
}

// The cache entry, read again if the relation changed since. If the relation is not a usable
// filter, sets *problem. The entry is invalid then, and the next call reads it again.
FilterTable *cached_filter(Relation relation, Problem *problem) {
  FilterTable *table = entry_of(RelationGetRelid(relation));
  if (likely(table->valid)) return table;
  // The entry becomes valid only after everything is read, since an error or a cancel may end this
  // half-way. If a change arrives meanwhile, this call goes on with what it read, which is right
  // for the moment when it took its lock, and the next call reads again.
  const uint64 changes = table->changes;
  *problem = read_filter(relation, table);
  table->valid = !*problem && table->changes == changes;
  return table;
}

// The memory of the row map stays: its guesses are verified each time, and mostly they are still
// right.
void forget(FilterTable *table) {
  table->valid = false;
  table->permitted_role = InvalidOid;
  ++table->changes;
}

// The server calls this for each invalidation of a relation, at any catalog access and also inside
// read_filter. An invalid OID stands for all relations. It must not raise an error.
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

// The server calls this if a role's attributes or memberships changed, or a database's owner. It
// does not say which role, so the privileges on all filters are checked again.
void forget_privileges(Datum, CompatSyscacheId, uint32) {
  forget_filter(Datum{0}, InvalidOid);
}

// Opens a relation that is locked already, and whose committed changes were taken in since. Null if
// it is gone.
Relation open_locked(Oid relid) {
  // As try_relation_open does, but without its extra look-up in the catalog.
  Relation relation = RelationIdGetRelation(relid);
  if (RelationIsValid(relation)) pgstat_init_relation(relation);
  return relation;
}

// Opens a relation that is locked and whose changes were taken in. Raises 42P01 if it is gone.
Relation require_locked(Oid relid) {
  Relation relation = open_locked(relid);
  if (relation == nullptr)
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("Bloom filter with OID %u does not exist", relid)));
  return relation;
}

// Locks and opens a relation. Raises 42P01 if it is gone. The lock comes before everything else:
// what is read without it may change before it is used.
Relation require_relation(Oid relid, LOCKMODE lock) {
  LockRelationOid(relid, lock);
  // LockRelationOid leaves this out if the transaction holds the lock already, and bloom_suspend
  // waits for no such lock. A suspension since then would stay unnoticed.
  AcceptInvalidationMessages();
  return require_locked(relid);
}

// Takes, without waiting, every lock that reading the relation and its size will take: on its
// indexes, its TOAST table and the indexes of that. False if one is not free. REINDEX of an index,
// for example, locks the index against readers, but not the table.
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

// Raises 42501 unless the current role has all of `privileges` on the table. Asks the catalog once
// per role and change, not at every check. Grants on columns do not count. Only the last role is
// remembered: a session that alternates between two asks each time.
void require_privileges(Oid relid, AclMode privileges) {
  FilterTable *table = entry_of(relid);
  const Oid role = GetUserId();
  if (likely(table->permitted_role == role && (table->permitted & privileges) == privileges))
    return;
  // If a change arrives while the catalog is asked, the answer is used once and not remembered.
  const uint64 changes = table->changes;
  if (pg_class_aclmask(relid, role, privileges, ACLMASK_ALL) != privileges)
    aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, get_rel_name(relid));
  if (table->changes != changes) return;
  table->permitted_role = role;
  table->permitted = privileges;
}

}  // namespace

// close_filter keeps the lock to the end of the transaction. If adds released it at once, a rebuild
// could begin beside an add that is neither in its journal nor committed. Checks keep it since that
// is faster: 2.3-2.5 us per check through the index instead of 2.6-3.0.
OpenFilter open_filter(Oid relid, LOCKMODE lock, AclMode privileges) {
  Relation relation = require_relation(relid, lock);
  require_privileges(relid, privileges);
  const OpenFilter filter = {relation, require_filter(relation)};
  if (lock > AccessShareLock) require_no_other_trigger(relation);
  return filter;
}

// One look at what other sessions have changed is enough, since it comes after the last lock.
void open_filters(std::span<const Oid> relids, AclMode privileges, std::span<OpenFilter> filters) {
  for (const Oid relid : relids) {
    CHECK_FOR_INTERRUPTS();
    LockRelationOid(relid, AccessShareLock);
  }
  AcceptInvalidationMessages();
  for (size_t i = 0; i < relids.size(); ++i) {
    // The server's list of open relations takes quadratic time if a relation is in it many times.
    CHECK_FOR_INTERRUPTS();
    Relation relation = require_locked(relids[i]);
    require_privileges(relids[i], privileges);
    filters[i] = {relation, require_filter(relation)};
  }
}

// Does not make the entry valid: it has read neither the last chunk nor the place of the rows.
OpenFilter open_to_replace(Oid relid, LOCKMODE lock) {
  Relation relation = require_relation(relid, lock);
  FilterTable *table = entry_of(relid);
  if (!table->valid)
    if (const Problem problem = read_settings(relation, table)) raise_problem(relation, problem);
  if (lock > AccessShareLock) require_no_other_trigger(relation);
  return {relation, table};
}

const FilterTable *peek_filter(Oid relid) {
  const FilterTable *recent = recent_entry(relid);
  return recent != nullptr && recent->relid == relid && recent->valid ? recent : nullptr;
}

// bloom_guard calls it directly: there the executor has opened and locked the relation.
FilterTable *require_filter(Relation relation) {
  Assert(CheckRelationLockedByMe(relation, AccessShareLock, true));
  Problem problem;
  FilterTable *table = cached_filter(relation, &problem);
  if (problem) raise_problem(relation, problem);
  return table;
}

bool may_monitor() {
  return has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
}

// The privilege needs only the OID, but comes after the relation's lock, as in open_filter.
FilterTable *try_open_filter(Oid relid, Relation *relation, Obstacle *obstacle) {
  *relation = nullptr;
  if (!ConditionalLockRelationOid(relid, AccessShareLock)) {
    *obstacle = {"locked", show_lock_holders_command(relid)};
    return nullptr;
  }
  *obstacle = {};
  AcceptInvalidationMessages();
  *relation = open_locked(relid);
  if (*relation == nullptr) return nullptr;
  if (pg_class_aclmask(relid, GetUserId(), ACL_SELECT, ACLMASK_ALL) == 0 && !may_monitor()) {
    *obstacle = {"not readable: permission denied", grant_command(relid)};
    return nullptr;
  }
  if (!try_lock_parts(*relation)) {
    *obstacle = {"locked", show_lock_holders_command(relid)};
    return nullptr;
  }
  Problem problem;
  FilterTable *table = cached_filter(*relation, &problem);
  if (!problem) return table;
  *obstacle = {psprintf("unusable: %s", problem.detail),
               problem.command != nullptr ? problem.command : replacement_command(relid)};
  return nullptr;
}

// A missing row is an error and not an empty chunk: that would deny all its names.
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

// By a scan and not by number: it also reads a filter whose index is damaged.
float8 scan_items(const OpenFilter &filter) {
  float8 items = 0;
  scan_chunk_rows(filter.relation, [&](HeapTuple tuple) {
    if (!holds_chunk(filter.relation, filter.shape(), tuple)) return;
    items += ChunkEstimate(stored_chunk(filter.relation, filter.shape(), tuple)).items();
  });
  return items;
}

// Every check asks this, so the cheap comparisons come first. came_by_failover reads a file once
// per pair of timelines and backend.
const char *suspension_reason(const FilterTable &table) {
  const Settings &settings = table.settings;
  if (settings.state == State::kLoading) return "not ready: never loaded";
  if (settings.state == State::kSuspended)
    return settings.canary_lost ? "suspended: its normalization has changed" : "suspended";
  const Origin &made = settings.origin, here = origin_here(table.relid);
  if (made.system != here.system) return "suspended: restored on another server";
  if (made.database != here.database || made.relation != here.relation)
    return "suspended: a copy of the filter that names were added to";
  if (likely(made.timeline == here.timeline)) return nullptr;
  if (!settings.trust_failover) return "suspended: the server failed over or was restored";
  if (!came_by_failover(made.timeline, here.timeline)) return "suspended: restored from a backup";
  return nullptr;
}

void watch_relations() {
  HASHCTL control{};
  control.keysize = sizeof(Oid);
  control.entrysize = sizeof(FilterTable);
  control.hcxt = TopMemoryContext;
  filters = hash_create("bloomfilter tables", 16, &control, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
  CacheRegisterRelcacheCallback(forget_filter, Datum{0});
  CacheRegisterSyscacheCallback(AUTHOID, forget_privileges, Datum{0});
  CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, forget_privileges, Datum{0});
  // The owner of the database is the member of the role pg_database_owner.
  CacheRegisterSyscacheCallback(DATABASEOID, forget_privileges, Datum{0});
}

}  // namespace bloomfilter
