// Commits that return only when a synchronous standby has them.
#ifndef BLOOMFILTER_STANDBY_WAIT_HPP
#define BLOOMFILTER_STANDBY_WAIT_HPP

#include "pg.hpp"

namespace bloomfilter {

// Has the commit of this transaction wait until the synchronous standbys have flushed it and all
// that came before it, whatever synchronous_commit says then, and also where the transaction has
// written nothing. The transaction cannot be prepared any more: the session that commits it may not
// wait. Where no synchronous standby is configured nothing is waited for.
void wait_for_standbys();

// Whether the server is told to wait for any standby.
bool has_synchronous_standbys();

// Has the backend's transactions look whether they were told to wait. Called once, at load.
void watch_transactions();

}  // namespace bloomfilter

#endif
