// Whether a server's timeline came from another by failovers alone.
#ifndef BLOOMFILTER_TIMELINE_HPP
#define BLOOMFILTER_TIMELINE_HPP

#include "pg.hpp"

namespace bloomfilter {

// Whether the history of timeline `here` leads from `made` to it by promotions only: true where
// each recovery between them went on to the end of the WAL it had, and none of them left another
// timeline aside. False where one stopped at a target, and where that cannot be told. Raises
// nothing; reads a file once a pair and backend.
bool came_by_failover(TimeLineID made, TimeLineID here);

}  // namespace bloomfilter

#endif
