// Reads all chunks of a filter, or a sample, and sums up what their bits show: for bloom_info,
// bloom_filters and bloom_resume.
#include "pg.hpp"

#include "chunk_estimate.hpp"
#include "filter_sample.hpp"

namespace bloomfilter {

// At even distances and not at random: two reads of an unchanged filter give the same figures, and
// pages are read in order. Chunks are filled by a hash, so no distance favors some of them. A
// sample of 256 chunks takes about a millisecond (bench/run.sh).
Sample read_chunks(Relation relation, FilterTable *table, int32 count) {
  const int32 chunks = table->settings.chunks;
  Sample sample{};
  sample.chunks_read = Min(count, chunks);
  sample.worst_chunk = -1;
  for (int32 i = 0; i < sample.chunks_read; ++i) {
    CHECK_FOR_INTERRUPTS();
    // In 64 bits, since the product may exceed 32.
    const auto chunk = static_cast<int32>(static_cast<int64>(i) * chunks / sample.chunks_read);
    ChunkRow row;
    if (!find_chunk(relation, &table->rows, chunk, nullptr, Access::kRead, &row)) {
      // A result and no error: a status page shows it. The sums stay as they are, bloom_info shows
      // none of them for a damaged filter.
      sample.chunks_read = i;
      sample.damage = psprintf("damaged: chunk %d is missing", chunk);
      return sample;
    }
    if (!holds_chunk(relation, table->rows.shape, &row.tuple)) {
      row.release();
      sample.chunks_read = i;
      sample.damage = psprintf("damaged: chunk %d does not hold %d bits", chunk, kChunkBits);
      return sample;
    }
    const ChunkEstimate estimate(stored_chunk(relation, table->rows.shape, &row.tuple));
    row.release();
    sample.items += estimate.items();
    sample.fill += estimate.fill();
    sample.fp_rate += estimate.fp_rate();
    if (sample.worst_chunk < 0 || estimate.fill() > sample.worst_fill) {
      sample.worst_chunk = chunk;
      sample.worst_fill = estimate.fill();
    }
  }
  const float8 read = sample.chunks_read;
  sample.items *= chunks / read;
  sample.fill /= read;
  sample.fp_rate /= read;
  return sample;
}

// After bloom_grow the bits show more items than were added, so the excess is subtracted. It is not
// subtracted from the saturation: that says how full the filter is.
float8 items_added(const Sample &sample, const Settings &settings) {
  return Max(std::round(sample.items - settings.excess_items), 0.0);
}

}  // namespace bloomfilter
