// What a source yielded, kept from its one run until the chunks are written: as bits where all of
// them fit in memory, else as digests, and chunks of values, in temporary files.
#ifndef BLOOMFILTER_SOURCE_SPOOL_HPP
#define BLOOMFILTER_SOURCE_SPOOL_HPP

#include "pg.hpp"

#include <string_view>

#include "value.hpp"

namespace bloomfilter {

struct SourceSpool;

// An empty spool for a filter of `chunks` chunks; 0 where their number is to be decided by what the
// source yields. It uses maintenance_work_mem at most, and beyond it 16 bytes of temporary file a
// name. One that `outlives_transaction` has to be closed by whoever opened it, after an error too
// (which raises none); any other goes with the transaction.
SourceSpool *open_spool(Normalization normalization, int32 chunks, bool outlives_transaction);
void close_spool(SourceSpool *spool);

// Each adds to the spool: a name; the digest of one; the members of a value, whose chunks are a
// multiple of the filter's, which are known. Raises 55000, naming the filter, for any other value.
void spool_name(SourceSpool *spool, std::string_view name);
void spool_digest(SourceSpool *spool, const Digest &digest);
void spool_value(SourceSpool *spool, const ValueView &value, const char *filter);

// About how many different names were added to a spool whose chunks are not known (standard error
// 0.8 %). Of more than 10^9 names as many as there were, different or not.
float8 spooled_names(SourceSpool *spool);

// Writes all rows of a table of `chunks` chunks that was made in this transaction: those the spool
// was opened for, where they were known. Returns about how many different items there are.
float8 write_spooled_rows(Relation relation, SourceSpool *spool, int32 chunks);

}  // namespace bloomfilter

#endif
