// Keeps what a source yields from its one run until the chunks are written. That is bits, if all
// chunks fit in memory; otherwise digests, and chunks of values, in temporary files.
#ifndef BLOOMFILTER_SOURCE_SPOOL_HPP
#define BLOOMFILTER_SOURCE_SPOOL_HPP

#include "pg.hpp"

#include <string_view>

#include "value.hpp"

namespace bloomfilter {

struct SourceSpool;

// An empty spool for a filter of `chunks` chunks. 0 means that the names of the source will decide
// the number. It uses at most maintenance_work_mem, and beyond that 16 bytes of temporary file for
// each name. A spool that `outlives_transaction` has to be closed by its owner, also after an
// error. Any other spool is freed with the transaction. close_spool raises nothing.
SourceSpool *open_spool(Normalization normalization, int32 chunks, bool outlives_transaction);
void close_spool(SourceSpool *spool);

// Each of these adds to the spool: a name; the digest of a name; the members of a value. The number
// of chunks of the filter is known before a value is added, and the chunks of the value are a
// multiple of it. Any other value raises 55000, with the name of the filter.
void spool_name(SourceSpool *spool, std::string_view name);
void spool_digest(SourceSpool *spool, const Digest &digest);
void spool_value(SourceSpool *spool, const ValueView &value, const char *filter);

// About how many different names were added to a spool whose number of chunks is not known
// (standard error 0.8 %). After more than 2^30 names, it is how many there were, different or not.
float8 spooled_names(SourceSpool *spool);

// Writes all rows of a table with `chunks` chunks, which was made in this transaction. If the spool
// was opened for a number of chunks, it is this one. Returns about how many different items there
// are.
float8 write_spooled_rows(Relation relation, SourceSpool *spool, int32 chunks);

}  // namespace bloomfilter

#endif
