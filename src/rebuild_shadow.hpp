// The shadow of a rebuild: a table whose files replace those of the filter. One transaction makes
// and drops it, so that nobody else ever sees it.
#ifndef BLOOMFILTER_REBUILD_SHADOW_HPP
#define BLOOMFILTER_REBUILD_SHADOW_HPP

#include "pg.hpp"

namespace bloomfilter {

// The shadow, and how many chunks it has.
struct Shadow {
  Oid relid;
  int32 chunks;
};

// Makes an empty shadow with `chunks` chunks, in the schema and tablespace of the filter. This
// transaction has it locked. Inside an SPI connection. The caller needs CREATE on the filter's
// schema.
Shadow make_shadow(Oid filter, int32 chunks);

// Adds the primary key, in the tablespace of the filter's primary key. Called when the rows are
// written.
void index_shadow(const Shadow &shadow, Oid filter);

// Adds the journal's entries from byte *position on to the rows of the shadow, and moves *position
// to the end. Returns the number of entries.
int64 apply_journal(const Shadow &shadow, Oid filter, uint32 journal, int64 *position);

// Exchanges the files of the filter and of the shadow, and drops the shadow with the old files. The
// caller has AccessExclusiveLock on the filter; this asks for the same lock on its index. Raises
// 55000 if one of the two could not have the other's files: because of columns, access method,
// persistence, index or tablespace.
void exchange_with_shadow(const Shadow &shadow, Oid filter);

}  // namespace bloomfilter

#endif
