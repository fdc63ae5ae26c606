#include "pg.hpp"

extern "C" {
#include "common/shortest_dec.h"
}

#include <charconv>
#include <cstring>
#include <utility>

#include "bloomfilter/chunk.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_row.hpp"
#include "filter_table.hpp"
#include "timeline.hpp"

extern "C" PGDLLEXPORT Datum bloom_guard(PG_FUNCTION_ARGS);

namespace bloomfilter {
namespace {

constinit HTAB *filters = nullptr;

// How often a last chunk that is too low is looked for again: a row that moves to another page
// at that moment can be missed.
constexpr int kLastChunkLooks = 3;

// Why a relation cannot be used as a filter; no detail means that it can.
struct Problem {
  int sqlstate = 0;
  const char *detail = nullptr;
  const char *hint = nullptr;
  explicit operator bool() const { return detail != nullptr; }
};

Problem unusable(const char *detail, const char *hint = nullptr) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, detail, hint};
}

Problem damaged(const char *detail) {
  return {ERRCODE_DATA_CORRUPTED, detail,
          "Take the answer as \"maybe\", and make the filter anew from its source."};
}

[[noreturn]] void raise(Relation relation, const Problem &problem) {
  const char *name = RelationGetRelationName(relation);
  ereport(ERROR, (errcode(problem.sqlstate),
                  problem.sqlstate == ERRCODE_DATA_CORRUPTED
                      ? errmsg("Bloom filter \"%s\" is damaged", name)
                      : errmsg("\"%s\" cannot be used as a Bloom filter", name),
                  errdetail("%s", problem.detail),
                  problem.hint == nullptr ? 0 : errhint("%s", problem.hint)));
  pg_unreachable();
}

bool is_guard_name(const char *name) {
  return std::strcmp(name, kGuardTrigger) == 0 || std::strcmp(name, kTruncateTrigger) == 0;
}

// Whether a trigger is somebody's own, not a foreign key's, and fires after the event.
bool fires_after(const Trigger &trigger) {
  return !trigger.tgisinternal && TRIGGER_FOR_AFTER(trigger.tgtype);
}

// The trigger of that name that runs bloom_guard, or null; among a copy of the relation's
// triggers, since every look into a catalogue may bring news on which the server builds the
// relation's own ones anew.
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

// Whether a guard fires for every row, or statement, that it was made for, and sees it whole.
bool fires_as_made(const Trigger &guard, int16 type) {
  return guard.tgtype == type && guard.tgqual == nullptr && guard.tgnattr == 0 &&
         guard.tgoldtable == nullptr && guard.tgnewtable == nullptr;
}

// Both guards, as they were made and always on, or why not.
Problem guard_problem(const TriggerDesc *triggers) {
  constexpr std::pair<const char *, int16> kGuards[] = {
      {kGuardTrigger,
       TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE},
      {kTruncateTrigger, TRIGGER_TYPE_STATEMENT | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE},
  };
  for (const auto &[name, type] : kGuards) {
    const Trigger *guard = find_guard(triggers, name);
    if (guard == nullptr)
      return unusable(psprintf("It has no guard trigger \"%s\".", name),
                      "bloom_create makes a filter, bloom_register adopts a table.");
    if (guard->tgenabled != TRIGGER_FIRES_ALWAYS)
      return unusable(psprintf("Its guard trigger \"%s\" does not always fire.", name),
                      psprintf("Use ALTER TABLE ... ENABLE ALWAYS TRIGGER %s.", name));
    if (!fires_as_made(*guard, type))
      return unusable(
          psprintf("Its guard trigger \"%s\" does not fire whenever it was made to.", name),
          "Names may be missing: make the filter anew from its source.");
  }
  return {};
}

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
      return unusable(
          psprintf("Its column \"%s\" was added with a default that its rows do not hold.", name),
          "VACUUM FULL writes it into every row.");
    if (std::strcmp(name, "chunk") == 0 && column->atttypid == INT4OID && column->attnotnull) {
      shape->chunk_attribute = column->attnum;
    } else if (std::strcmp(name, "bits") == 0 && column->atttypid == BITOID) {
      if (column->atttypmod != kChunkBits)
        return unusable("Its column \"bits\" is not of type bit(8192).",
                        "Use ALTER TABLE ... ALTER bits TYPE bit(8192).");
      if (!column->attnotnull)
        return unusable("Its column \"bits\" is not declared NOT NULL.",
                        "Use ALTER TABLE ... ALTER bits SET NOT NULL.");
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
    return unusable("It has other triggers, or a foreign key refers to it.");
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
    return unusable("It is temporary or unlogged, and would forget names.");
  if (form->relam != HEAP_TABLE_AM_OID) return unusable("Its access method is not heap.");
  if (form->relispartition || has_superclass(relid) ||
      find_inheritance_children(relid, NoLock) != NIL)
    return unusable("It is a partition, or inherits or is inherited.");
  if (form->relrowsecurity) return unusable("It has row-level security.");
  if (relation->rd_rules != nullptr) return unusable("It has rules.");
  return trigger_problem(relation->trigdesc, guarded);
}

Problem shape_problem(Relation relation, bool guarded, Shape *shape) {
  Problem problem = kind_problem(relation, guarded);
  if (!problem) problem = columns_problem(relation, shape);
  if (!problem) problem = index_problem(relation, guarded, shape);
  return problem;
}

// The settings' names, in the order in which they are written.
enum Key {
  kLayout,
  kChunks,
  kNormalization,
  kState,
  kCanary,
  kCanaryAscii,
  kStamp,
  kCapacity,
  kFpRate,
  kItems,
  kBuiltAt,
  kSystem,
  kTimeline,
  kDatabase,
  kRelation,
  kFailover,
  kExcess,
  kJournal,
  kUpdates,
  kColumns,
  kKeys
};
constexpr const char *kKeyNames[] = {
    "layout",   "chunks",   "normalization", "state",    "canary",  "canary_ascii", "stamp",
    "capacity", "fp_rate",  "items",         "built_at", "system",  "timeline",     "database",
    "relation", "failover", "excess",        "journal",  "updates", "columns"};
static_assert(lengthof(kKeyNames) == kKeys);
constexpr const char *kStateNames[] = {"loading", "ready", "suspended"};
constexpr const char *kFailoverNames[] = {"suspend", "trust"};
constexpr const char *kUpdatesNames[] = {"allowed", "refused"};
constexpr std::string_view kCanaryLost = "lost";

template <typename Number>
bool parse_number(std::string_view text, Number *number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_number(std::string_view text, float8 *number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0;
}

template <size_t N, typename Value>
bool parse_name(std::string_view text, const char *const (&names)[N], Value *value) {
  for (size_t i = 0; i < N; ++i)
    if (text == names[i]) {
      *value = static_cast<Value>(i);
      return true;
    }
  return false;
}

bool parse_setting(Key key, std::string_view text, Settings *settings) {
  switch (key) {
    case kLayout: {
      int layout;
      return parse_number(text, &layout) && layout == kLayoutVersion;
    }
    case kChunks:
      return parse_number(text, &settings->chunks) && settings->chunks >= kMinTableChunks;
    case kNormalization:
      for (Normalization one : {Normalization::kNone, Normalization::kLower})
        if (text == normalization_name(one)) {
          settings->normalization = one;
          return true;
        }
      return false;
    case kState:
      return parse_name(text, kStateNames, &settings->state);
    case kCanary:
      settings->canary_lost = text == kCanaryLost;
      return settings->canary_lost || parse_number(text, &settings->canary, 16);
    case kCanaryAscii:
      return parse_number(text, &settings->canary_ascii, 16);
    case kStamp:
      if (text.size() >= kStampBytes) return false;
      std::memcpy(settings->stamp, text.data(), text.size());
      settings->stamp[text.size()] = '\0';
      return true;
    case kCapacity:
      return parse_number(text, &settings->capacity);
    case kFpRate:
      return parse_number(text, &settings->fp_rate);
    case kItems:
      return parse_number(text, &settings->items_at_build);
    case kBuiltAt:
      return parse_number(text, &settings->built_at);
    case kSystem:
      return parse_number(text, &settings->origin.system);
    case kTimeline:
      return parse_number(text, &settings->origin.timeline);
    case kDatabase:
      return parse_number(text, &settings->origin.database);
    case kRelation:
      return parse_number(text, &settings->origin.relation);
    case kFailover:
      return parse_name(text, kFailoverNames, &settings->trust_failover);
    case kExcess:
      return parse_number(text, &settings->excess_items);
    case kJournal:
      return parse_number(text, &settings->journal);
    case kUpdates:
      return parse_name(text, kUpdatesNames, &settings->updates_refused);
    case kColumns: {
      const size_t colon = text.find(':');
      return colon != std::string_view::npos &&
             parse_number(text.substr(0, colon), &settings->columns.chunk) &&
             parse_number(text.substr(colon + 1), &settings->columns.bits);
    }
    case kKeys:
      break;
  }
  return false;
}

// A setting that is unknown, twice, missing or out of range may come from a newer version of the
// extension: then this one cannot tell what the bits mean.
Problem parse_settings(const Trigger &guard, Settings *settings) {
  bool seen[kKeys] = {};
  for (int i = 0; i < guard.tgnargs; ++i) {
    const std::string_view argument = guard.tgargs[i];
    const size_t equals = argument.find('=');
    int key;
    if (equals == std::string_view::npos ||
        !parse_name(argument.substr(0, equals), kKeyNames, &key) || seen[key] ||
        !parse_setting(static_cast<Key>(key), argument.substr(equals + 1), settings))
      return damaged(
          psprintf("Its setting \"%s\" is malformed, or of another version.", guard.tgargs[i]));
    seen[key] = true;
  }
  for (int key = 0; key < kKeys; ++key)
    if (!seen[key]) return damaged(psprintf("Its setting \"%s\" is missing.", kKeyNames[key]));
  return {};
}

// Whether this is the very table that the settings were written for, on whatever timeline.
bool is_original(const Origin &made, const Origin &here) {
  return made.system == here.system && made.database == here.database &&
         made.relation == here.relation;
}

// A column that was put in the place of another has none of its bits. In a table that was dumped
// and restored, numbers are given anew; it is suspended, and bloom_resume writes them.
Problem replaced_column_problem(const FilterTable &table) {
  const Columns &made = table.settings.columns;
  if (!is_original(table.settings.origin, origin_here(table.relid))) return {};
  const char *name = made.bits != table.shape.bits_attribute     ? "bits"
                     : made.chunk != table.shape.chunk_attribute ? "chunk"
                                                                 : nullptr;
  if (name == nullptr) return {};
  return unusable(psprintf("Its column \"%s\" is not the one that names were added to.", name),
                  "Make the filter anew from its source.");
}

Agreement agreement_with_server(const Settings &settings) {
  const Normalization normalization = settings.normalization;
  if (settings.canary_ascii != server_canary(normalization, CanaryPart::kAscii))
    return Agreement::kNone;
  if (std::strcmp(settings.stamp, server_stamp(normalization)) == 0 ||
      settings.canary == server_canary(normalization, CanaryPart::kAll))
    return Agreement::kFull;
  return Agreement::kAsciiOnly;
}

Problem chunks_problem(Relation relation, const FilterTable &table) {
  const int32 expected = table.settings.chunks - 1;
  int32 last = -1;
  for (int look = 0; look < kLastChunkLooks && last != expected; ++look)
    last = last_chunk(relation, table.shape);
  if (last == expected) return {};
  return damaged(psprintf("Its settings say %d chunks, but its last chunk is %d.",
                          table.settings.chunks, last));
}

// Reads what does not depend on the table's rows.
Problem read_settings(Relation relation, FilterTable *table) {
  const TriggerDesc *triggers = CopyTriggerDesc(relation->trigdesc);
  if (const Problem problem = guard_problem(triggers)) return problem;
  if (const Problem problem = shape_problem(relation, true, &table->shape)) return problem;
  if (const Problem problem =
          parse_settings(*find_guard(triggers, kGuardTrigger), &table->settings))
    return problem;
  table->agreement = agreement_with_server(table->settings);
  return {};
}

Problem read_filter(Relation relation, FilterTable *table) {
  if (const Problem problem = read_settings(relation, table)) return problem;
  if (const Problem problem = replaced_column_problem(*table)) return problem;
  if (const Problem problem = chunks_problem(relation, *table)) return problem;
  find_row_order(relation, table);
  return {};
}

// Calls write(text) with each setting, key=value, in order.
template <typename Write>
void write_settings(const Settings &settings, Write write) {
  char fp_rate[DOUBLE_SHORTEST_DECIMAL_LEN];
  double_to_shortest_decimal_buf(settings.fp_rate, fp_rate);
  const char *const values[] = {
      psprintf("%d", kLayoutVersion),
      psprintf("%d", settings.chunks),
      normalization_name(settings.normalization),
      kStateNames[static_cast<int>(settings.state)],
      settings.canary_lost ? kCanaryLost.data() : psprintf("%08x", settings.canary),
      psprintf("%08x", settings.canary_ascii),
      settings.stamp,
      psprintf("%.0f", settings.capacity),
      fp_rate,
      psprintf("%.0f", settings.items_at_build),
      psprintf(INT64_FORMAT, settings.built_at),
      psprintf(UINT64_FORMAT, settings.origin.system),
      psprintf("%u", settings.origin.timeline),
      psprintf("%u", settings.origin.database),
      psprintf("%u", settings.origin.relation),
      kFailoverNames[settings.trust_failover],
      psprintf("%.0f", settings.excess_items),
      psprintf("%u", settings.journal),
      kUpdatesNames[settings.updates_refused],
      psprintf("%d:%d", settings.columns.chunk, settings.columns.bits),
  };
  static_assert(lengthof(values) == kKeys);
  for (int key = 0; key < kKeys; ++key) write(psprintf("%s=%s", kKeyNames[key], values[key]));
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

void forget(FilterTable *table) {
  table->valid = false;
  table->permitted_role = InvalidOid;
  ++table->changes;
}

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
  // As try_relation_open, but for its second look into the catalogue.
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
                    errmsg("there is no Bloom filter with OID %u", relid)));
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

// Asks the catalogue once a role and change, not at every check.
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

// Adds do not fire triggers, and a rebuild's exchange of files is none of theirs: pg_repack would
// put a copy without either in the filter's place.
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

OpenFilter open_filter(Oid relid, LOCKMODE lock, AclMode privileges) {
  Relation relation = require_relation(relid, lock);
  require_privileges(relid, privileges);
  const OpenFilter filter = {relation, require_filter(relation)};
  if (lock > AccessShareLock) require_no_other_trigger(relation);
  return filter;
}

void require_one_index(const OpenFilter &filter) {
  const char *name = unfinished_index(filter.relation, filter.table->shape);
  if (name == nullptr) return;
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("Bloom filter \"%s\" has the unfinished index \"%s\"", filter.name(), name),
           errdetail("REINDEX CONCURRENTLY is making or removing it, or broke off."),
           errhint("If it broke off: %s", drop_index_command(filter.relation, name))));
}

const char *leftover_advice(Relation relation, const FilterTable &table) {
  if (RecoveryInProgress()) return nullptr;
  if (const char *trigger = other_trigger(relation))
    return psprintf("no adds while %s has that trigger: %s, unless pg_repack runs",
                    RelationGetRelationName(relation), drop_trigger_command(relation, trigger));
  const char *index = unfinished_index(relation, table.shape);
  if (index == nullptr || is_maintained(table.relid)) return nullptr;
  return psprintf("a reindex broke off: %s", drop_index_command(relation, index));
}

OpenFilter open_to_replace(Oid relid, LOCKMODE lock) {
  Relation relation = require_relation(relid, lock);
  FilterTable *table = entry_of(relid);
  if (!table->valid)
    if (const Problem problem = read_settings(relation, table)) raise(relation, problem);
  if (lock > AccessShareLock) require_no_other_trigger(relation);
  return {relation, table};
}

FilterTable *require_filter(Relation relation) {
  Problem problem;
  FilterTable *table = cached_filter(relation, &problem);
  if (problem) raise(relation, problem);
  return table;
}

FilterTable *try_open_filter(Oid relid, Relation *relation, Obstacle *obstacle) {
  constexpr Obstacle kLocked = {"locked", "see pg_locks for who holds the lock"};
  *relation = nullptr;
  *obstacle = kLocked;
  if (!ConditionalLockRelationOid(relid, AccessShareLock)) return nullptr;
  *obstacle = {};
  *relation = open_locked(relid);
  if (*relation == nullptr) return nullptr;
  *obstacle = {"not readable: permission denied", nullptr};
  if (pg_class_aclmask(relid, GetUserId(), ACL_SELECT, ACLMASK_ALL) == 0) return nullptr;
  *obstacle = kLocked;
  if (!try_lock_parts(*relation)) return nullptr;
  Problem problem;
  FilterTable *table = cached_filter(*relation, &problem);
  if (!problem) return table;
  *obstacle = {psprintf("unusable: %s", problem.detail), kMakeAnew};
  return nullptr;
}

void null_filter() {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("Bloom filter is NULL"),
                  errhint("Take the answer as \"maybe\".")));
  pg_unreachable();
}

Origin origin_here(Oid relid) {
  TimeLineID timeline;
  if (RecoveryInProgress())
    GetXLogReplayRecPtr(&timeline);
  else
    timeline = GetWALInsertionTimeLine();
  return {GetSystemIdentifier(), timeline, MyDatabaseId, relid};
}

Columns columns_of(Oid relid) {
  return {get_attnum(relid, "chunk"), get_attnum(relid, "bits")};
}

const char *suspension_reason(const FilterTable &table) {
  const Settings &settings = table.settings;
  if (settings.state == State::kLoading) return "not ready: never loaded";
  if (settings.canary_lost) return "suspended: its normalisation has changed";
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

void require_filter_shape(Relation relation, Shape *shape) {
  Problem problem = shape_problem(relation, false, shape);
  if (!problem) return;
  problem.sqlstate = ERRCODE_WRONG_OBJECT_TYPE;
  raise(relation, problem);
}

void require_plain_columns(Relation relation) {
  Shape shape;
  if (RelationGetDescr(relation)->natts == 2 && !columns_problem(relation, &shape) &&
      shape.chunk_attribute == 1)
    return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot write the rows of \"%s\"", RelationGetRelationName(relation)),
                  errdetail("Its columns are not (chunk, bits) in this order from the first on."),
                  errhint("Make another filter with bloom_create.")));
}

bool has_guard(Relation relation) {
  return find_guard(CopyTriggerDesc(relation->trigdesc), kGuardTrigger) != nullptr;
}

char *settings_arguments(const Settings &settings) {
  StringInfoData arguments;
  initStringInfo(&arguments);
  write_settings(settings, [&](const char *text) {
    appendStringInfo(&arguments, "%s%s", arguments.len == 0 ? "" : ", ", quote_literal_cstr(text));
  });
  return arguments.data;
}

bytea *settings_stored(const Settings &settings, int16 *count) {
  StringInfoData stored;
  initStringInfo(&stored);
  *count = 0;
  write_settings(settings, [&](const char *text) {
    appendBinaryStringInfo(&stored, text, static_cast<int>(std::strlen(text)) + 1);
    ++*count;
  });
  const Size size = VARHDRSZ + static_cast<Size>(stored.len);
  auto *bytes = static_cast<bytea *>(palloc(size));
  SET_VARSIZE(bytes, size);
  std::memcpy(VARDATA(bytes), stored.data, static_cast<Size>(stored.len));
  return bytes;
}

Settings new_settings(Oid relid, int32 chunks, Normalization normalization, float8 capacity,
                      float8 fp_rate) {
  Settings settings{};
  settings.chunks = chunks;
  settings.normalization = normalization;
  settings.state = State::kReady;
  settings.canary = server_canary(normalization, CanaryPart::kAll);
  settings.canary_ascii = server_canary(normalization, CanaryPart::kAscii);
  strlcpy(settings.stamp, server_stamp(normalization), kStampBytes);
  settings.capacity = capacity;
  settings.fp_rate = fp_rate;
  settings.built_at = timestamptz_to_time_t(GetCurrentTimestamp());
  settings.origin = origin_here(relid);
  settings.columns = columns_of(relid);
  return settings;
}

const char *extension_schema(Oid function) {
  return quote_identifier(get_namespace_name(get_func_namespace(function)));
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
  // Its owner is the member of pg_database_owner.
  CacheRegisterSyscacheCallback(DATABASEOID, forget_privileges, Datum{0});
}

}  // namespace bloomfilter
