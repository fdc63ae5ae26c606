// The snapshots that a source reads on other servers.
#ifndef BLOOMFILTER_SOURCE_SNAPSHOTS_HPP
#define BLOOMFILTER_SOURCE_SNAPSHOTS_HPP

#include "pg.hpp"

namespace bloomfilter {

// Takes the snapshot of every remote transaction that the plan reads in by postgres_fdw, before any
// row of it is read. postgres_fdw itself takes each snapshot when it first reads from that server,
// which may be an hour after the first one. Of a row that moves meanwhile from a server that is
// still to be read to one that was read before, neither scan sees anything.
//
// The snapshots are taken one after the other, and the connections are made before: the time
// between the first and the last snapshot is that of one short query a server. It does not reach
// foreign tables inside functions, nor those of other wrappers. A plan without such tables costs
// nothing. `parameters` may be null. There is an active snapshot.
void open_remote_snapshots(PlannedStmt *plan, const char *source, ParamListInfo parameters);

}  // namespace bloomfilter

#endif
