// What a rebuild refuses, with the reason.
#ifndef BLOOMFILTER_REBUILD_CHECK_HPP
#define BLOOMFILTER_REBUILD_CHECK_HPP

#include "pg.hpp"

#include "rebuild_size.hpp"

namespace bloomfilter {

// Raises 25001 unless the procedure may commit: it was called alone, outside a transaction block.
// On a standby 25006.
void require_top_level(FunctionCallInfo fcinfo, const char *function);

// Raises 55000 where the filter is published, or a subscriber's. A subscriber would not learn of
// the exchange, and go on with other rows; and what a publisher sends for the rows of before would
// go into the wrong ones. Inside an SPI connection.
void refuse_replicated(const Rebuild &rebuild);

// Raises 55000 unless the filter's bits are good enough to be all there is of the next one.
void require_growable(const OpenFilter &filter);

// Raises 55000 where the source yielded nothing, or fewer than min_share of the items that the
// filter holds: `items`, about.
void require_enough(const Rebuild &rebuild, float8 items);

}  // namespace bloomfilter

#endif
