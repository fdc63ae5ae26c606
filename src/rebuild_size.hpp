// What a rebuild is asked for, and how large the new filter becomes.
#ifndef BLOOMFILTER_REBUILD_SIZE_HPP
#define BLOOMFILTER_REBUILD_SIZE_HPP

#include "pg.hpp"

#include "filter_table.hpp"
#include "source_query.hpp"

namespace bloomfilter {

// One call of bloom_rebuild or bloom_grow: what is asked for, and what came of it so far.
struct Rebuild {
  Oid relid;
  Oid caller;          // the SQL function
  const char *source;  // null: the filter itself, grown
  SourceRows source_rows;
  float8 capacity;  // 0: as it is
  float8 fp_rate;   // 0: as it is
  float8 min_share;
  const char *name;
  Settings old;            // as they were when the rebuild began
  float8 old_items;        // about how many the filter holds
  float8 old_items_shown;  // how many its bits show: more where it has grown
  int32 chunks;            // 0: decided by what the source yields
  int64 journal_read;      // bytes
  int64 rows;              // that the source yielded
};

// Decides on capacity, rate and chunks as far as can be told before the source is read: chunks
// stays 0 where its names are to be counted first. Raises 54000 where the filter would become too
// large, 22023 where a rate is given and no capacity is known.
void decide_size(Rebuild *rebuild);

// Has the filter keep its capacity, unless `items` nearly fill it: then it gets room for twice as
// many, and says so. Never fewer chunks than it has, unless another rate is asked for.
void size_by_items(Rebuild *rebuild, float8 items);

}  // namespace bloomfilter

#endif
