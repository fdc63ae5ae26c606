// What a rebuild is asked for, and how large the new filter becomes.
#ifndef BLOOMFILTER_REBUILD_SIZE_HPP
#define BLOOMFILTER_REBUILD_SIZE_HPP

#include "pg.hpp"

#include "filter_table.hpp"
#include "source_query.hpp"

namespace bloomfilter {

// One call of bloom_rebuild or bloom_grow: what it is asked for, and what it knows so far.
struct Rebuild {
  Oid relid;
  Oid caller;          // the SQL function
  const char *source;  // null: bloom_grow, from the filter itself
  SourceForm form;
  float8 capacity;  // 0: as it is
  float8 fp_rate;   // 0: as it is
  float8 min_share;
  const char *name;
  Settings old;            // as they were when the rebuild began
  float8 old_items;        // about how many were added to the filter
  float8 old_items_shown;  // how many its bits show: more after bloom_grow
  int32 chunks;            // 0: decided by what the source yields
  int64 journal_read;      // in bytes
  int64 rows;              // that the source yielded
};

// Decides on capacity, rate and chunks, as far as possible before the source is read. `chunks`
// stays 0 if the names have to be counted first. Raises 54000 if the filter would become too large,
// and 22023 if a rate is given and no capacity is known.
void decide_size(Rebuild *rebuild);

// Keeps the capacity of the filter, unless `items` nearly fill it. Then the filter gets room for
// twice as many, and a notice says so. It never gets fewer chunks than it has, unless another rate
// was asked for.
void size_by_items(Rebuild *rebuild, float8 items);

// Warns if the new filter, which holds about `items`, is nearly full, and its size was decided for
// a source that is told the number of chunks. With any other source of names the size would have
// followed from what was read.
void warn_if_nearly_full(const Rebuild &rebuild, float8 items);

}  // namespace bloomfilter

#endif
