// A filter table: its settings, which live in its guard trigger's arguments, and the backend's
// cache of them.
#ifndef BLOOMFILTER_FILTER_TABLE_HPP
#define BLOOMFILTER_FILTER_TABLE_HPP

#include "pg.hpp"

#include <string_view>
#include <type_traits>

#include "normalize.hpp"

namespace bloomfilter {

// The row trigger whose arguments are the settings, and its companion against TRUNCATE, for which
// PostgreSQL has statement triggers only.
inline constexpr const char *kGuardTrigger = "bloom_filter";
inline constexpr const char *kTruncateTrigger = "bloom_filter_truncate";

enum class State : uint8 {
  kLoading,    // never loaded: checks answer maybe
  kReady,      // checks may deny
  kSuspended,  // may lack adds: checks answer maybe
};

// The one table, on the one server, that every add reached. A dump that is restored has another
// relation, a copied database another database, a standby that is promoted or a backup that is
// recovered another timeline.
struct Origin {
  uint64 system;
  TimeLineID timeline;
  Oid database;
  Oid relation;
};

Origin origin_here(Oid relid);

// The numbers of a filter table's columns.
struct Columns {
  AttrNumber chunk;
  AttrNumber bits;
};

Columns columns_of(Oid relid);

// What the guard's arguments say. Written by settings_arguments, read by parse_settings.
struct Settings {
  int32 chunks;
  Normalization normalization;
  State state;
  // Names were added under another normalisation than the canary's: no state but suspended may
  // follow.
  bool canary_lost;
  bool trust_failover;  // a new timeline of the same system does not suspend
  uint32 canary;
  uint32 canary_ascii;
  char stamp[kStampBytes];
  float8 capacity;  // 0 where the filter was registered without one
  float8 fp_rate;
  float8 items_at_build;
  TimestampTz built_at;
  Origin origin;
  // How many items the bits tell of that are not there: where a filter has grown, each old item's
  // bits are there twice.
  float8 excess_items;
  uint32 journal;  // of the rebuild that runs, or that broke off; 0 where there is none
  // Whether the number of chunks is another than it was made with: then no statement that brings
  // its own can be trusted, for good.
  bool updates_refused;
  Columns columns;  // in the table of `origin`
};

// Where a filter table keeps what; found once a relcache entry.
struct Shape {
  AttrNumber chunk_attribute;
  AttrNumber bits_attribute;
  Oid index;          // the primary key
  int32 rows_a_page;  // as loaded, in order; 0 where rows are not in order
};

// How far the server's normalisation today is the filter's.
enum class Agreement : uint8 { kNone, kAsciiOnly, kFull };

struct FilterTable {
  Oid relid;  // the cache's key
  bool valid;
  uint64 changes;  // of the relation, that the backend was told of
  // Who was last seen to have which privileges on the relation.
  Oid permitted_role;
  AclMode permitted;
  bool told_suspended;  // what the session was told already
  bool told_normalization;
  Agreement agreement;
  Shape shape;
  Settings settings;
  // The buffers that pages were found in last, one a block; null where there are too many.
  Buffer *buffers;
  int32 buffers_length;
  // Where rows that are not in order were found last, by chunk; null until there is one.
  ItemPointerData *places;
  int32 places_length;
  uint32 pins;
};

static_assert(std::is_trivially_destructible_v<FilterTable>);

// A filter that is open for one call; close with close_filter. The lock stays to the end of the
// transaction.
struct OpenFilter {
  Relation relation;
  FilterTable *table;
  const Settings &settings() const { return table->settings; }
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

// Raises 55000 where the filter has an index beside its primary key: an exchange of files would
// leave that one behind, and adds would fail on what is in it.
void require_one_index(const OpenFilter &filter);

// What to do about what pg_repack or REINDEX CONCURRENTLY has left behind, or null.
const char *leftover_advice(Relation relation, const FilterTable &table);

// The filter that an open and locked relation is; raises as open_filter.
FilterTable *require_filter(Relation relation);

// Why a filter cannot be read, as a status page shows it, and what to do about it, or null.
struct Obstacle {
  const char *status;
  const char *advice;
};

inline constexpr const char *kMakeAnew = "make the filter anew from its source";

// As open_filter for reading, for a status page of many filters: waits for nobody's lock, and
// raises nothing where the relation is locked, may not be read or is no usable filter, but returns
// null and fills in the obstacle; its status is null where the relation is gone. *relation is to be
// closed unless it is null.
FilterTable *try_open_filter(Oid relid, Relation *relation, Obstacle *obstacle);

// Raises 55000: a filter argument that is NULL is a missing filter, not an unknown answer.
[[noreturn]] void null_filter();

// Why no check of this filter may deny, as bloom_info shows it, or null where they may.
// Agreement on normalisation is apart, since it depends on the item.
const char *suspension_reason(const FilterTable &table);

// Raises 42809 unless the relation, which has no guard yet, can be a filter table. Fills in all
// of the shape but rows_a_page.
void require_filter_shape(Relation relation, Shape *shape);

// Raises 55000 unless the relation's columns are (chunk, bits), and never were others: what is
// written to it row by row, without the executor, has just these.
void require_plain_columns(Relation relation);

// Whether the relation has the guard trigger, whatever its state.
bool has_guard(Relation relation);

// The settings as the guard's arguments, quoted, comma separated.
char *settings_arguments(const Settings &settings);

// The same as pg_trigger stores them: each with a zero behind it, *count of them.
bytea *settings_stored(const Settings &settings, int16 *count);

// The settings of a filter that is built now, on this server.
Settings new_settings(Oid relid, int32 chunks, Normalization normalization, float8 capacity,
                      float8 fp_rate);

// The extension's schema, quoted; `function` is any function of the extension.
const char *extension_schema(Oid function);

// Has the backend notice when a filter's relation changes. Called once, at load.
void watch_relations();

}  // namespace bloomfilter

#endif
