// Whether the timeline of a server descends from another one by failovers alone.
#ifndef BLOOMFILTER_TIMELINE_HPP
#define BLOOMFILTER_TIMELINE_HPP

#include "pg.hpp"

namespace bloomfilter {

// Whether the history of timeline `here` leads from `made` to it by promotions only. True if each
// recovery between them read all the WAL that it had, and none skipped another timeline. False if
// one stopped at a recovery target, or if the history file is missing or not readable: that raises
// no error. The two must differ; the callers compare them first. Each backend keeps eight answers.
bool came_by_failover(TimeLineID made, TimeLineID here);

}  // namespace bloomfilter

#endif
