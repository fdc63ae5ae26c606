// The query that a filter is loaded from.
#ifndef BLOOMFILTER_SOURCE_QUERY_HPP
#define BLOOMFILTER_SOURCE_QUERY_HPP

#include "pg.hpp"

#include "source_spool.hpp"

namespace bloomfilter {

// What the rows of a source are.
enum class SourceRows { kNames, kValues };

// Raises 22023 unless the source is one query that only reads, and 42804 unless it yields one
// column of text or bloomfilter. `caller` is any function of the extension. Like read_source, it
// runs inside an SPI connection.
SourceRows require_source(const char *source, Oid caller);

// Runs the source once, under one snapshot, and spools everything that it yields, for the filter of
// that name. Returns the number of rows. Raises 42804 if the rows are not what require_source said.
// Null names are skipped. A null value is an error. Rows that row-level security hides are an error
// too: their names would be missing. Functions that the source calls cannot write (25006): what
// they delete would be lost if a later step fails.
int64 read_source(const char *source, Oid caller, SourceRows rows, const char *filter,
                  SourceSpool *spool);

}  // namespace bloomfilter

#endif
