// Opens a filter table for a call: locks, privileges, the settings and the backend's cache of them,
// and whether a check may deny.
#ifndef BLOOMFILTER_FILTER_TABLE_HPP
#define BLOOMFILTER_FILTER_TABLE_HPP

#include "pg.hpp"

#include <span>
#include <type_traits>

#include "chunk_row.hpp"
#include "filter_counters.hpp"
#include "filter_settings.hpp"

namespace bloomfilter {

// The entry for a relation in the backend's cache.
struct FilterTable {
  Oid relid;       // the cache's key
  bool valid;      // rows, settings and agreement are those of the relation
  uint64 changes;  // how many invalidations of the relation the backend received
  // The role whose privileges were checked last, and those that it was found to have.
  Oid permitted_role;
  AclMode permitted;
  bool told_suspended;  // these four: the session was told already
  bool told_new_names;
  bool told_normalization;
  bool told_comparison;
  Agreement agreement;
  RowMap rows;
  Settings settings;
  PendingCounts pending;
};

static_assert(std::is_trivially_destructible_v<FilterTable>);

// A filter that is open for one call. close_filter closes it and keeps the lock to the end of the
// transaction.
struct OpenFilter {
  Relation relation;
  FilterTable *table;
  const Settings &settings() const { return table->settings; }
  const Shape &shape() const { return table->rows.shape; }
  const char *name() const { return RelationGetRelationName(relation); }
  // What this call adds to the counters. Each call begins so once it is open, and ends by
  // end_checks or end_adds.
  PendingCounts *begin_counted() const {
    begin_call(&table->pending, table->relid);
    return &table->pending;
  }
};

// Locks, checks that the current role has all of `privileges`, and reads the settings, in this
// order. Raises 42P01 if there is no such relation, 42501 without the privileges, 55000 if it is
// not a filter, and XX001 if it is a damaged one. With a lock stronger than AccessShareLock it also
// raises 55000 if the filter has a trigger other than the guards.
OpenFilter open_filter(Oid relid, LOCKMODE lock, AclMode privileges);

// The same for several filters, in the order given, with AccessShareLock. It locks all of them
// before it opens the first.
void open_filters(std::span<const Oid> relids, AclMode privileges, std::span<OpenFilter> filters);

inline void close_filter(const OpenFilter &filter) {
  table_close(filter.relation, NoLock);
}

// The same for a filter whose rows are about to be replaced. It does not care what the rows hold or
// whether some are missing, so the caller must not look up rows by number. Checks no privileges.
OpenFilter open_to_replace(Oid relid, LOCKMODE lock);

// What the cache has of a filter that is not locked yet; null if nothing is known. It may have
// changed by the time it is locked. So only guesses may come from it.
const FilterTable *peek_filter(Oid relid);

// The cache entry of an open and locked relation. Raises what open_filter raises if the relation is
// not a filter or is damaged.
FilterTable *require_filter(Relation relation);

// Why a filter cannot be read, as a status for bloom_filters, and the command to run, or null.
struct Obstacle {
  const char *status;
  const char *advice;
};

// Whether the current role may see the figures of every filter: it has the privileges of
// pg_monitor. A figure is a sum over many chunks, or the fill of one chunk. No name can be asked
// for.
bool may_monitor();

// Opens a filter for reading, for a status page of many filters. It waits for no lock. If the
// relation is locked, may not be read or is not a usable filter, it does not raise an error, but
// returns null and sets *obstacle. The obstacle's status is null if the relation is gone. The
// caller closes *relation unless it is null.
FilterTable *try_open_filter(Oid relid, Relation *relation, Obstacle *obstacle);

// As find_chunk, but raises XX001 if the row is missing.
ChunkRow require_chunk(const OpenFilter &filter, int32 chunk, const Positions *prefetch,
                       Access access);

// The bits of a row that require_chunk found. Raises XX001 if the row does not hold them.
inline ChunkView stored_chunk(const OpenFilter &filter, ChunkRow *row) {
  return stored_chunk(filter.relation, filter.shape(), &row->tuple);
}

// About how many items the filter's bits show, from a scan of the table without the index. A row
// that is damaged or missing counts as empty, since a rebuild must be able to read a damaged
// filter.
float8 scan_items(const OpenFilter &filter);

// Why no check of this filter may deny, as a status for bloom_info; null if checks may. Agreement
// on normalization is checked elsewhere, since it depends on the item.
const char *suspension_reason(const FilterTable &table);

// Makes the backend notice changes of a filter's relation and of privileges. Called once, at load.
void watch_relations();

}  // namespace bloomfilter

#endif
