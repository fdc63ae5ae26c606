// The reasons why a rebuild is refused.
#ifndef BLOOMFILTER_REBUILD_CHECK_HPP
#define BLOOMFILTER_REBUILD_CHECK_HPP

#include "pg.hpp"

#include "rebuild_size.hpp"

namespace bloomfilter {

// Raises 25001 unless the procedure may commit, that is, unless it was called alone and outside a
// transaction block. Raises 25006 on a standby.
void require_top_level(FunctionCallInfo fcinfo, const char *function);

// Raises 55000 if the filter is published, or belongs to a subscriber. The subscribers of a
// published filter would not learn of the exchange, and would keep the old rows. A publisher goes
// on to send changes of the old rows, which would go into wrong chunks. Inside an SPI connection.
void refuse_replicated(const Rebuild &rebuild);

// Raises 55000 unless the filter's bits are good enough to be the only source of the next filter.
void require_growable(const OpenFilter &filter);

// Raises 55000 if the source yielded nothing, or if `items`, about how many the new filter holds,
// are fewer than min_share of the items of the old one.
void require_enough(const Rebuild &rebuild, float8 items);

}  // namespace bloomfilter

#endif
