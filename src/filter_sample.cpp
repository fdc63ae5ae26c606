// Reads all chunks of a filter, or a sample, and sums up what their bits show: for bloom_info,
// bloom_filters and bloom_resume.
#include "pg.hpp"

#include <cmath>

#include "chunk_estimate.hpp"
#include "filter_sample.hpp"

namespace bloomfilter {
namespace {

// Eight standard deviations, as the exponent of a probability: 8^2 / 2. Chance alone puts a chunk
// out of place with a probability of at most e^-32, about 1 in 8e13.
constexpr float8 kDeviations = 8;
constexpr float8 kOutOfPlace = kDeviations * kDeviations / 2;

// Sums of one figure of the chunks that were read.
struct Sums {
  float8 sum;
  float8 squares;

  void add(float8 value) {
    sum += value;
    squares += value * value;
  }

  // The variance between chunks.
  float8 variance(float8 read) const {
    return read > 1 ? Max((squares - sum * sum / read) / (read - 1), 0.0) : 0.0;
  }
};

// The part of the variance of a mean that comes from chunks that were not read. 0 if all were read.
float8 unread_share(float8 read, float8 chunks) {
  return (1 - read / chunks) / read;
}

// Counts chunks by the number of their set bits, for the median, and keeps the emptiest.
struct Counts {
  uint32 *by_set;  // kChunkBits + 1 counts
  int32 emptiest_chunk;
  int emptiest_set;

  void add(int32 chunk, int set) {
    ++by_set[set];
    if (emptiest_chunk >= 0 && set >= emptiest_set) return;
    emptiest_chunk = chunk;
    emptiest_set = set;
  }

  // The number of set bits that half of the `read` chunks do not exceed.
  int median(int32 read) const {
    int set = 0;
    for (uint32 seen = by_set[0]; seen < (static_cast<uint32>(read) + 1) / 2; seen += by_set[set])
      ++set;
    return set;
  }
};

// Whether a chunk holds `items` items, although chunks hold `mean`, and not by chance. Items are
// spread by a hash, so their number in a chunk has a Poisson distribution, and by Chernoff's bound
// it is as far from the mean as this with a probability of at most e^-surprise. For large means
// that is mean - 8 sqrt(mean) and mean + 8 sqrt(mean). For small ones those would be wrong: with a
// mean of 0.01, one item is more than mean + 8 sqrt(mean). The estimate of a chunk varies too, so
// the surprise has to be larger by its share in the variance.
bool out_of_place(float8 items, float8 mean) {
  if (!(mean > 0)) return false;
  const float8 surprise = (items > 0 ? items * std::log(items / mean) : 0.0) - items + mean;
  return surprise > kOutOfPlace * (1 + estimate_variance(mean, kChunkBits, kTableHashes) / mean);
}

// Judges whether the fullest chunk holds too many items, or the emptiest too few. Each is compared
// with the mean and the median, and must be out of place by both. A few chunks that were filled on
// purpose raise the mean, and all others would seem to lack bits.
void judge_spread(Sample *sample, const Settings &settings, const Counts &counts) {
  const float8 mean = sample->items / settings.chunks;
  const float8 median =
      estimated_items(counts.median(sample->chunks_read), kChunkBits, kTableHashes);
  const float8 least = estimated_items(counts.emptiest_set, kChunkBits, kTableHashes);
  const float8 most = worst_items(*sample), low = Min(mean, median), high = Max(mean, median);
  sample->skewed = most > high && out_of_place(most, high);
  if (least < low && out_of_place(least, low))
    sample->damage = psprintf("damaged: chunk %d lacks bits", counts.emptiest_chunk);
  // Nothing ever clears a bit, so items can only become more. This finds what the comparison with
  // other chunks cannot: most of the bits are gone, or chunks hold too few items to be compared.
  else if (items_added(*sample, settings) + 1 + kDeviations * sample->items_error <
           settings.items_at_build)
    sample->damage = "damaged: it lacks bits that it was built with";
  sample->lacks_bits = sample->damage != nullptr;
}

// At even distances and not at random: two reads of an unchanged filter give the same figures, and
// pages are read in order. Chunks are filled by a hash, so no distance favors some of them. A
// sample of 256 chunks takes about a millisecond (bench/run.sh).
Sample read_once(Relation relation, FilterTable *table, int32 count) {
  const int32 chunks = table->settings.chunks;
  Sample sample{};
  Sums items{}, fill{}, fp_rate{};
  Counts counts{static_cast<uint32 *>(palloc0((kChunkBits + 1) * sizeof(uint32))), -1, 0};
  sample.chunks_read = Min(count, chunks);
  sample.worst_chunk = -1;
  for (int32 i = 0; i < sample.chunks_read; ++i) {
    CHECK_FOR_INTERRUPTS();
    // In 64 bits, since the product may exceed 32.
    const auto chunk = static_cast<int32>(static_cast<int64>(i) * chunks / sample.chunks_read);
    ChunkRow row;
    if (!find_chunk(relation, &table->rows, chunk, nullptr, Access::kRead, &row)) {
      // A result and no error: a status page shows it. There are no figures, and bloom_info shows
      // none for such a filter.
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
    items.add(estimate.items());
    fill.add(estimate.fill());
    fp_rate.add(estimate.fp_rate());
    counts.add(chunk, estimate.set());
    if (sample.worst_chunk < 0 || estimate.fill() > sample.worst_fill) {
      sample.worst_chunk = chunk;
      sample.worst_fill = estimate.fill();
    }
  }
  const float8 read = sample.chunks_read, all = chunks;
  const float8 mean = items.sum / read, unread = unread_share(read, all);
  sample.items = items.sum * (all / read);
  // Chunks differ at least as much as chance makes them, whatever a small sample shows.
  const float8 blur = estimate_variance(mean, kChunkBits, kTableHashes);
  sample.items_error =
      std::sqrt(all * all * unread * Max(items.variance(read), mean + blur) + all * blur);
  sample.fill = fill.sum / read;
  sample.fill_error = std::sqrt(unread * fill.variance(read));
  sample.fp_rate = fp_rate.sum / read;
  sample.fp_rate_error = std::sqrt(unread * fp_rate.variance(read));
  judge_spread(&sample, table->settings, counts);
  pfree(counts.by_set);
  return sample;
}

}  // namespace

// A large bulk that commits during the read is in the chunks that are read behind that moment, and
// not in those before: these seem to lack bits. The second read has it in all of them.
Sample read_chunks(Relation relation, FilterTable *table, int32 count) {
  const Sample sample = read_once(relation, table, count);
  return sample.skewed || sample.lacks_bits ? read_once(relation, table, count) : sample;
}

// After bloom_grow the bits show more items than were added, so the excess is subtracted. It is not
// subtracted from the saturation: that says how full the filter is.
float8 items_added(const Sample &sample, const Settings &settings) {
  return Max(std::round(sample.items - settings.excess_items), 0.0);
}

float8 worst_items(const Sample &sample) {
  return estimated_items(sample.worst_fill * kChunkBits, kChunkBits, kTableHashes);
}

}  // namespace bloomfilter
