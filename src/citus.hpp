// Whether Citus keeps the rows of a table somewhere else. Nothing of Citus is needed to build this
// or to run it.
#ifndef BLOOMFILTER_CITUS_HPP
#define BLOOMFILTER_CITUS_HPP

#include "pg.hpp"

namespace bloomfilter {

// What the table is to Citus: "a distributed table of Citus", "a reference table of Citus" or "a
// local table that Citus manages". Null if Citus does not know the table, or is not in this
// database.
const char *citus_kind(Oid relid);

}  // namespace bloomfilter

#endif
