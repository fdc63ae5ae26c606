// What the bits of a filter show, read from all chunks or from a sample.
#ifndef BLOOMFILTER_FILTER_SAMPLE_HPP
#define BLOOMFILTER_FILTER_SAMPLE_HPP

#include "pg.hpp"

#include "filter_table.hpp"

namespace bloomfilter {

// The figures from the chunks that were read. Each error is a standard error: of the sample, and of
// items also that of the estimate from bits. It is 0 for what was counted exactly.
struct Sample {
  int32 chunks_read;
  float8 items;  // of the whole filter
  float8 items_error;
  float8 fill;  // share of bits that are set, from 0 to 1
  float8 fill_error;
  float8 fp_rate;  // mean of fill^7: the false-positive rate of a check of an absent item
  float8 fp_rate_error;
  int32 worst_chunk;
  float8 worst_fill;
  bool skewed;         // the worst chunk holds more items than chance gives it
  const char *damage;  // the status of a damaged filter, or null
  bool lacks_bits;     // the damage is that bits are gone; the figures are those of the others
};

// Reads `count` chunks at even distances, or all if there are fewer. Stops at the first that is
// missing or holds anything but 8192 bits. `count` is at least 1.
Sample read_chunks(Relation relation, FilterTable *table, int32 count);

// About how many items were added to the filter, by the bits of the sample; see excess_items.
float8 items_added(const Sample &sample, const Settings &settings);

// About how many items the worst chunk holds. For a full chunk it is what such a chunk holds at
// least.
float8 worst_items(const Sample &sample);

}  // namespace bloomfilter

#endif
