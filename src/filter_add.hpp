// Adds names that do not come as arguments of a call.
#ifndef BLOOMFILTER_FILTER_ADD_HPP
#define BLOOMFILTER_FILTER_ADD_HPP

#include "pg.hpp"

#include <span>
#include <string_view>

#include "bloomfilter/md5.hpp"
#include "filter_table.hpp"

namespace bloomfilter {

// The digest of an item that is to be added. Raises 55000 if the item has another key today than
// when the filter was built.
Digest digest_to_add(const OpenFilter &filter, std::string_view item);

// Adds items, as bloom_add_many does: in ascending order of chunks, so that two calls cannot
// deadlock, with an entry in the journal of a rebuild, and a commit that waits for the disk. The
// filter was opened by open_for_add. Takes 48 bytes an item.
void add_digests(const OpenFilter &filter, std::span<const Digest> digests);

}  // namespace bloomfilter

#endif
