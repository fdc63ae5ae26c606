// A filter table, open for a call: its settings and the backend's cache of them, who may do what,
// and whether a check may deny.
#ifndef BLOOMFILTER_FILTER_TABLE_HPP
#define BLOOMFILTER_FILTER_TABLE_HPP

#include "pg.hpp"

#include <type_traits>

#include "chunk_row.hpp"
#include "filter_settings.hpp"

namespace bloomfilter {

// The backend's entry for a relation.
struct FilterTable {
  Oid relid;  // the cache's key
  bool valid;
  uint64 changes;  // of the relation, that the backend was told of
  // Who was last seen to have which privileges on the relation.
  Oid permitted_role;
  AclMode permitted;
  bool told_suspended;  // what the session was told already
  bool told_new_names;
  bool told_normalization;
  Agreement agreement;
  RowMap rows;
  Settings settings;
};

static_assert(std::is_trivially_destructible_v<FilterTable>);

// A filter that is open for one call; close with close_filter. The lock stays to the end of the
// transaction.
struct OpenFilter {
  Relation relation;
  FilterTable *table;
  const Settings &settings() const { return table->settings; }
  const Shape &shape() const { return table->rows.shape; }
  const char *name() const { return RelationGetRelationName(relation); }
};

// Locks, checks privileges (all of `privileges`) and reads the settings, in that order. Raises
// 42P01 where there is no such relation, 42501 without the privilege, 55000 where it is not a
// filter, XX001 where it is a damaged one; under a lock beyond a reader's also 55000 where it has
// somebody else's trigger.
OpenFilter open_filter(Oid relid, LOCKMODE lock, AclMode privileges);
inline void close_filter(const OpenFilter &filter) {
  table_close(filter.relation, NoLock);
}

// The same of a filter whose rows are about to be made anew: what they hold now does not matter,
// nor which of them are missing. Not for reading them by number. Checks no privileges.
OpenFilter open_to_replace(Oid relid, LOCKMODE lock);

// The filter that an open and locked relation is; raises as open_filter.
FilterTable *require_filter(Relation relation);

// Why a filter cannot be read, as a status page shows it, and the command to run, or null.
struct Obstacle {
  const char *status;
  const char *advice;
};

// As open_filter for reading, for a status page of many filters: waits for nobody's lock, and
// raises nothing where the relation is locked, may not be read or is no usable filter, but returns
// null and fills in the obstacle; its status is null where the relation is gone. *relation is to be
// closed unless it is null.
FilterTable *try_open_filter(Oid relid, Relation *relation, Obstacle *obstacle);

// As find_chunk; raises XX001 where the row is missing.
ChunkRow require_chunk(const OpenFilter &filter, int32 chunk, const Positions *prefetch,
                       Access access);

// The bits of a row that require_chunk found. Raises as stored_chunk.
inline ChunkView stored_chunk(const OpenFilter &filter, ChunkRow *row) {
  return stored_chunk(filter.relation, filter.shape(), &row->tuple);
}

// About how many items the filter's bits show, from a scan of the table: a row that is damaged or
// missing, or an index that is, counts for nothing.
float8 scan_items(const OpenFilter &filter);

// Why no check of this filter may deny, as bloom_info shows it, or null where they may.
// Agreement on normalization is apart, since it depends on the item.
const char *suspension_reason(const FilterTable &table);

// Has the backend notice when a filter's relation changes. Called once, at load.
void watch_relations();

}  // namespace bloomfilter

#endif
