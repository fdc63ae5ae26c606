// The shadow of a rebuild: a table whose files take the place of the filter's. It is made and
// dropped in one transaction, so that nobody else ever sees it.
#ifndef BLOOMFILTER_REBUILD_SHADOW_HPP
#define BLOOMFILTER_REBUILD_SHADOW_HPP

#include "pg.hpp"

namespace bloomfilter {

struct Shadow {
  Oid relid;
  int32 chunks;
};

// Makes an empty shadow of a filter of so many chunks, in the filter's tablespace, locked for this
// transaction. Inside an SPI connection; the caller needs CREATE on the filter's schema.
Shadow make_shadow(Oid filter, int32 chunks);

// Adds its primary key, in the tablespace of the filter's, once the rows are there.
void index_shadow(const Shadow &shadow, Oid filter);

// Adds the journal's entries from *position on to the shadow's rows, and moves *position. Returns
// how many there were.
int64 apply_journal(const Shadow &shadow, Oid filter, uint32 journal, int64 *position);

// Puts the shadow's files in the place of the filter's, for whose AccessExclusiveLock it waits,
// last of all, and drops the shadow. Raises 55000 where one of the two is not, under its lock, what
// the other's files may be taken for: columns, access method, persistence, index, tablespace.
void exchange_with_shadow(const Shadow &shadow, Oid filter);

}  // namespace bloomfilter

#endif
