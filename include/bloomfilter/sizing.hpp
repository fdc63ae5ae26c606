// Capacity and false-positive rate to geometry, and back. The rates are those of a *blocked*
// filter: items spread unevenly over chunks, and a full chunk costs more than an empty one
// saves, so the textbook formula (one mean load) promises too much.
#ifndef BLOOMFILTER_SIZING_HPP
#define BLOOMFILTER_SIZING_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bloomfilter/layout.hpp"

namespace bloomfilter {

// The fewest chunks of a filter table: with fewer, adds meet on the same row too often.
inline constexpr std::int32_t kMinTableChunks = 128;
inline constexpr std::int32_t kMaxChunks = std::numeric_limits<std::int32_t>::max();
// 256 MiB: a larger value has no text form, and could not be dumped.
inline constexpr std::int32_t kMaxValueChunks = 1 << 18;
inline constexpr int kValueHeaderBytes = 16;

inline constexpr double kMaxCapacity = 1e13;
inline constexpr double kMinFpRate = 1e-9;

// Sizes for which no geometry exists have chunks == 0.
struct Geometry {
  std::int32_t chunks;
  int chunk_bits;
  int k;
};

// The share of bits that are set, on average, in a chunk of chunk_bits bits after `items` items
// of k bits each: 1 - (1 - 1/m)^(k i).
inline double expected_fill(double items, int chunk_bits, int k) {
  return -std::expm1(items * k * std::log1p(-1.0 / chunk_bits));
}

// The false-positive rate of `items` (>= 0) in `chunks` chunks, k bits an item: the mean of
// fill^k over chunk loads, which are Poisson with mean items / chunks. Terms further than 12
// standard deviations out are below 1e-30 and left out.
inline double expected_fp_rate(double items, double chunks, int chunk_bits, int k) {
  const double load = items / chunks;
  if (load <= 0) return 0;
  // Beyond this every chunk is full to the last bit; also keeps the sum short.
  if (load * k > 50.0 * chunk_bits) return 1;
  const double spread = 12 * std::sqrt(load) + 30;
  const double first = std::max(0.0, std::floor(load - spread));
  const double last = std::ceil(load + spread);
  double weight = std::exp(-load + first * std::log(load) - std::lgamma(first + 1));
  double rate = 0;
  for (double i = first; i <= last; ++i) {
    rate += weight * std::pow(expected_fill(i, chunk_bits, k), k);
    weight *= load / (i + 1);
  }
  return std::min(rate, 1.0);
}

// The fewest chunks that hold `capacity` (at least 1) items at `fp_rate` (above 0, below 1) or
// better; 0 if that is more than `most`.
inline std::int32_t chunks_for(double capacity, double fp_rate, int chunk_bits, int k,
                               std::int32_t most) {
  if (expected_fp_rate(capacity, most, chunk_bits, k) > fp_rate) return 0;
  std::int64_t enough = most, too_few = 0;
  // The unblocked size is close, and nearly always a little too small: climb from there, then
  // halve.
  const double unblocked = capacity * -k / std::log1p(-std::pow(fp_rate, 1.0 / k)) / chunk_bits;
  for (double guess = std::max(1.0, std::floor(unblocked)); guess < enough; guess *= 1.1) {
    const auto chunks = static_cast<std::int64_t>(std::ceil(guess));
    if (expected_fp_rate(capacity, static_cast<double>(chunks), chunk_bits, k) <= fp_rate) {
      enough = std::min(enough, chunks);
      break;
    }
    too_few = chunks;
  }
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    if (expected_fp_rate(capacity, static_cast<double>(middle), chunk_bits, k) <= fp_rate)
      enough = middle;
    else
      too_few = middle;
  }
  return static_cast<std::int32_t>(enough);
}

// The geometry of a filter table: k = 7, full chunks, at least kMinTableChunks.
inline Geometry table_geometry(double capacity, double fp_rate) {
  const std::int32_t chunks = chunks_for(capacity, fp_rate, kChunkBits, kTableHashes, kMaxChunks);
  return {chunks == 0 ? 0 : std::max(chunks, kMinTableChunks), kChunkBits, kTableHashes};
}

// The geometry of a filter value: the k and chunk size that take the fewest bytes, ties to
// fewer bits an item and larger chunks.
inline Geometry value_geometry(double capacity, double fp_rate) {
  Geometry best{0, kChunkBits, kTableHashes};
  double best_bits = 0;
  for (int chunk_bits = kChunkBits; chunk_bits >= kMinChunkBits; chunk_bits /= 2) {
    // A smaller chunk pays only where a whole number of large ones is too coarse a step.
    if (best.chunks > 8) break;
    for (int k = 1; k <= kMaxHashes; ++k) {
      const std::int32_t most = kMaxValueChunks;
      const std::int32_t chunks = chunks_for(capacity, fp_rate, chunk_bits, k, most);
      const double bits = static_cast<double>(chunks) * chunk_bits;
      if (chunks != 0 && (best.chunks == 0 || bits < best_bits)) {
        best = {chunks, chunk_bits, k};
        best_bits = bits;
      }
    }
  }
  return best;
}

// How many items a chunk with `set` of chunk_bits bits set holds, most likely:
// ln(1 - set/m) / (k ln(1 - 1/m)) (Swamidass and Baldi 2007). A full chunk tells only that it
// holds very many; it counts as if half a bit were left.
inline double estimated_items(double set, int chunk_bits, int k) {
  const double filled = std::min(set, chunk_bits - 0.5);
  return std::log1p(-filled / chunk_bits) / (k * std::log1p(-1.0 / chunk_bits));
}

}  // namespace bloomfilter

#endif
