// What the chunks of a filter tell, all of them or a sample.
#ifndef BLOOMFILTER_FILTER_SAMPLE_HPP
#define BLOOMFILTER_FILTER_SAMPLE_HPP

#include "pg.hpp"

#include "filter_table.hpp"

namespace bloomfilter {

// What was read from chunks, all of them or a sample.
struct Sample {
  int32 chunks_read;
  float8 items;    // of the whole filter
  float8 fill;     // share of bits set
  float8 fp_rate;  // mean of fill^7: what a check of an absent item meets
  int32 worst_chunk;
  float8 worst_fill;
  const char *damage;  // null where all was well
};

// Reads `count` chunks, evenly apart, or all; stops at one that is missing or holds something else.
Sample read_chunks(Relation relation, FilterTable *table, int32 count);

// The items that were added to the filter, by what the sample's bits tell; see excess_items.
float8 items_added(const Sample &sample, const Settings &settings);

}  // namespace bloomfilter

#endif
