// What another program leaves on a filter table for a while, or for good where it breaks off: the
// trigger of pg_repack, and the second index of REINDEX CONCURRENTLY.
#ifndef BLOOMFILTER_FILTER_LEFTOVER_HPP
#define BLOOMFILTER_FILTER_LEFTOVER_HPP

#include "pg.hpp"

#include "filter_shape.hpp"

namespace bloomfilter {

// Raises 55000 where the filter has a trigger beside the guards. Adds do not fire triggers, and a
// rebuild's exchange of files is none of theirs: pg_repack would put a copy without either in the
// filter's place.
void require_no_other_trigger(Relation relation);

// Raises 55000 where the filter has an index beside its primary key: an exchange of files would
// leave that one behind, and adds would fail on what is in it.
void require_one_index(Relation relation, const Shape &shape);

// What bloom_info says of a leftover: its status, the command that removes it, and what else to
// know of it, or null. All null where there is none, and on a standby.
struct Leftover {
  const char *status;
  const char *command;
  const char *note;
};
Leftover find_leftover(Relation relation, const Shape &shape);

}  // namespace bloomfilter

#endif
