// The query that a filter is loaded from.
#ifndef BLOOMFILTER_SOURCE_QUERY_HPP
#define BLOOMFILTER_SOURCE_QUERY_HPP

#include "pg.hpp"

#include "source_spool.hpp"

namespace bloomfilter {

// What the rows of a source are.
enum class SourceRows { kNames, kValues };

// What is known of a source before it is read.
struct SourceForm {
  SourceRows rows;
  bool takes_chunks;    // it uses $1, so the number of chunks has to be known before it is read
  Oid type, collation;  // of its column
};

// Raises 22023 unless the source is one query that only reads, 42804 unless it yields one column of
// text or bloomfilter, and 42P02 if it has another parameter than $1. `caller` is any function of
// the extension. Like read_source, it runs inside an SPI connection.
SourceForm require_source(const char *source, Oid caller);

// Connects to each server that the source reads by postgres_fdw, and asks it for one row. A server
// that is down then fails a rebuild at once. Where it was reached once, the snapshot of read_source
// takes a fraction of the time: the connection stays, and the server knows the table. The remote
// transactions last as long as this one.
void reach_servers(const char *source);

// Runs the source once, and spools everything that it yields, for the filter of that name. It runs
// under one snapshot of this server and one of each server that it reads by postgres_fdw, all of
// them taken before the first row. `chunks` is the number of chunks that the filter gets, the value
// of $1; 0 only if the source does not use it. Returns the number of rows. Raises 42804 if the rows
// are not what require_source said. Null names are skipped. A null value is an error. Rows that
// row-level security hides are an error too: their names would be missing. Functions that the
// source calls cannot write (25006): what they delete would be lost if a later step fails.
int64 read_source(const char *source, Oid caller, SourceRows rows, int32 chunks, const char *filter,
                  SourceSpool *spool);

}  // namespace bloomfilter

#endif
