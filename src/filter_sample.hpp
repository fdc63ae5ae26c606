// What the bits of a filter show, read from all chunks or from a sample.
#ifndef BLOOMFILTER_FILTER_SAMPLE_HPP
#define BLOOMFILTER_FILTER_SAMPLE_HPP

#include "pg.hpp"

#include "filter_table.hpp"

namespace bloomfilter {

// The figures from the chunks that were read.
struct Sample {
  int32 chunks_read;
  float8 items;    // of the whole filter
  float8 fill;     // share of bits that are set, from 0 to 1
  float8 fp_rate;  // mean of fill^7: the false-positive rate of a check of an absent item
  int32 worst_chunk;
  float8 worst_fill;
  const char *damage;  // the status of a damaged filter, or null
};

// Reads `count` chunks at even distances, or all if there are fewer. Stops at the first that is
// missing or holds anything but 8192 bits. `count` is at least 1.
Sample read_chunks(Relation relation, FilterTable *table, int32 count);

// About how many items were added to the filter, by the bits of the sample; see excess_items.
float8 items_added(const Sample &sample, const Settings &settings);

}  // namespace bloomfilter

#endif
