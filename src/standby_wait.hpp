// Commits that return only after the synchronous standbys have them.
#ifndef BLOOMFILTER_STANDBY_WAIT_HPP
#define BLOOMFILTER_STANDBY_WAIT_HPP

#include "pg.hpp"

namespace bloomfilter {

// Makes the commit of this transaction wait until the synchronous standbys have flushed it and all
// WAL before it. That holds for any value of synchronous_commit, and also if the transaction has
// written nothing. From here on PREPARE TRANSACTION raises 55000: the session that commits a
// prepared transaction might not wait. If no synchronous standby is configured, the commit waits
// only for its own disk. Not to be called in recovery.
void wait_for_standbys();

// Whether the server is configured to wait for any standby.
bool has_synchronous_standbys();

// Registers the callback that makes commits wait. Called once, when the library is loaded.
void watch_transactions();

}  // namespace bloomfilter

#endif
