// Objects that other commands put on a filter table for a while, and leave there if they break off:
// the trigger of pg_repack, and the second index of REINDEX CONCURRENTLY.
#ifndef BLOOMFILTER_FILTER_LEFTOVER_HPP
#define BLOOMFILTER_FILTER_LEFTOVER_HPP

#include "pg.hpp"

#include "filter_shape.hpp"

namespace bloomfilter {

// Raises 55000 if the filter has a trigger other than the guards. Neither adds nor a rebuild's
// exchange of files fire triggers. So pg_repack, which copies changes by its trigger, would replace
// the filter by a copy that lacks them.
void require_no_other_trigger(Relation relation);

// Raises 55000 if the filter has an index other than its primary key. An exchange of files would
// not exchange that one, and adds would fail on its old entries.
void require_one_index(Relation relation, const Shape &shape);

// What bloom_info says about a leftover: the status, the command that removes it, and a note, which
// may be null. All are null if there is no leftover, and on a standby.
struct Leftover {
  const char *status;
  const char *command;
  const char *note;
};
Leftover find_leftover(Relation relation, const Shape &shape);

}  // namespace bloomfilter

#endif
