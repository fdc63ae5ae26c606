// The query that a filter is loaded from.
#ifndef BLOOMFILTER_SOURCE_QUERY_HPP
#define BLOOMFILTER_SOURCE_QUERY_HPP

#include "pg.hpp"

#include "source_spool.hpp"

namespace bloomfilter {

// What the rows of a source are.
enum class SourceRows { kNames, kValues };

// Raises 22023 unless the source is one query that only reads, 42804 unless it yields one column of
// text or bloomfilter. `caller` is any function of the extension. Inside an SPI connection, as
// read_source.
SourceRows require_source(const char *source, Oid caller);

// Runs the source once, under one snapshot, and spools all that it yields, for the filter of that
// name. Raises 42804 where its rows are not what require_source said. Returns the number of rows.
// Null names are skipped; a null value is an error, and so are rows that row-level security hides:
// they would be missing names. Functions that the source calls cannot write (25006): what they took
// away would be lost if what follows fails.
int64 read_source(const char *source, Oid caller, SourceRows rows, const char *filter,
                  SourceSpool *spool);

}  // namespace bloomfilter

#endif
