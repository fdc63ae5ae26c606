// Counts what is done with each filter. A backend counts in its own memory, and adds its counts to
// those in shared memory when a transaction ends, so that a check costs no atomic operation. Where
// there is no shared memory for them, nothing is counted. Counting never raises an error.
#ifndef BLOOMFILTER_FILTER_COUNTERS_HPP
#define BLOOMFILTER_FILTER_COUNTERS_HPP

#include "pg.hpp"

#include <array>
#include <optional>
#include <type_traits>

namespace bloomfilter {

enum Counter {
  kLookups,         // items that checks answered
  kMaybes,          // those that were answered "maybe"
  kAdds,            // items that adds took
  kNewItems,        // those that were definitely new
  kBulkCalls,       // calls with more than one item
  kErrors,          // calls that raised an error after the filter was opened
  kFalsePositives,  // as reported by the application
  kCounters
};

// What a backend has counted for one filter since its last transaction ended.
struct PendingCounts {
  std::array<uint64, kCounters> counts;
  uint32 open_calls;    // calls that have begun and not ended: an error ends a call without a word
  bool listed;          // it will be added to shared memory; otherwise `counts` are worthless
  int32 slot;           // where its counts are in shared memory; verified before each use
  uint64 key;           // whose counts these are
  PendingCounts *next;  // the next one to add
};

static_assert(std::is_trivially_destructible_v<PendingCounts>);

// The counts of all backends for one filter.
struct FilterCounts {
  std::array<uint64, kCounters> counts;
  TimestampTz since;
};

// Makes the server add the counts at the end of this transaction. Does nothing if there is no
// shared memory for them, or if track_counts is off.
void list_pending(PendingCounts *pending, Oid relid);

// A call on an open filter begins. Every call that ends without an error calls end_checks or
// end_adds.
inline void begin_call(PendingCounts *pending, Oid relid) {
  if (unlikely(!pending->listed)) list_pending(pending, relid);
  ++pending->open_calls;
}

// A call that checked `lookups` items ends.
inline void end_checks(PendingCounts *pending, uint64 lookups, uint64 maybes) {
  --pending->open_calls;
  pending->counts[kLookups] += lookups;
  pending->counts[kMaybes] += maybes;
  pending->counts[kBulkCalls] += lookups > 1;
}

// A call that added `adds` items ends.
inline void end_adds(PendingCounts *pending, uint64 adds, uint64 new_items) {
  --pending->open_calls;
  pending->counts[kAdds] += adds;
  pending->counts[kNewItems] += new_items;
  pending->counts[kBulkCalls] += adds > 1;
}

// The application says that so many answers "maybe" were false.
inline void count_false_positives(PendingCounts *pending, Oid relid, uint64 count) {
  if (!pending->listed) list_pending(pending, relid);
  pending->counts[kFalsePositives] += count;
}

// What transactions that have ended did with a filter. Nothing where there is no shared memory, or
// where it has no room for this filter.
std::optional<FilterCounts> counts_of(Oid relid);

// Sets the counts of one filter to zero, or those of all filters of this database.
void reset_counts(Oid relid);
void reset_all_counts();

// Asks for shared memory if the server preloads the library, and watches transactions. Called once,
// at load.
void start_counting();

}  // namespace bloomfilter

#endif
