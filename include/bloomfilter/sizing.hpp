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

// How the positions that a check asks for fill up, for chunks of chunk_bits bits and k bits an
// item. Seen from a check of an absent item only those of its positions count that are not set yet:
// of i such positions each further bit hits one with probability i / chunk_bits, and then there are
// i - 1. That is a Markov chain of at most k + 1 states, so the rate is exact, for one chunk as for
// many, and sums of positive terms keep it to ten digits however small it is. It is the mean of
// fill^k over loads and fills; the k-th power of the mean fill is up to a fifth lower in small
// chunks.
class Coverage {
 public:
  Coverage(int chunk_bits, int k) : chunk_bits_(chunk_bits), k_(k) {
    const double share = 1.0 / chunk_bits;
    // How many different positions k draws give; they are drawn with repetition.
    asked_[0] = 1;
    for (int draw = 0; draw < k; ++draw)
      for (int i = draw + 1; i >= 0; --i)
        asked_[i] = asked_[i] * i * share + (i > 0 ? asked_[i - 1] * (1 - (i - 1) * share) : 0);
    // What k bits of one item, each drawn alike, do to i positions.
    for (int i = 0; i <= k; ++i) item_[i][i] = 1;
    for (int i = 0; i <= k; ++i)
      for (int bit = 0; bit < k; ++bit)
        for (int j = 0; j <= i; ++j)
          item_[i][j] =
              item_[i][j] * (1 - j * share) + (j < i ? item_[i][j + 1] * (j + 1) * share : 0);
    for (int i = 0; i <= k; ++i) hit_[i] = -std::expm1(k * std::log1p(-i * share));
  }

  // Whether every chunk has so many items that it is full to the last bit. Beyond that rate() is
  // not to be asked: the number of items need not fit its type.
  bool is_full(double items, double chunks) const {
    return items / chunks * k_ > 50.0 * chunk_bits_;
  }

  // The false-positive rate once `items` items went to `chunks` (>= 1) chunks: the chance that all
  // positions of a check are set. By repeated squaring of what one item does.
  double rate(std::uint64_t items, double chunks) const {
    double step[kStates][kStates];  // from i unset positions to j < i
    double moves[kStates];          // from i to fewer; its complement is kept beside it, both exact
    double stays[kStates];
    double covered[kStates] = {1};  // the chance that none of i is left after all
    for (int i = 0; i <= k_; ++i) {
      for (int j = 0; j < i; ++j) step[i][j] = item_[i][j] / chunks;
      moves[i] = hit_[i] / chunks;
      stays[i] = (1 - 1 / chunks) + item_[i][i] / chunks;
    }
    while (true) {
      if (items % 2 == 1) apply(step, stays, covered);
      items /= 2;
      if (items == 0) break;
      square(step, stays);
      for (int i = 1; i <= k_; ++i) {
        stays[i] = moves[i] < 0.5 ? 1 - moves[i] * (2 - moves[i]) : stays[i] * stays[i];
        moves[i] *= 2 - moves[i];
      }
    }
    double rate = 0;
    for (int i = 0; i <= k_; ++i) rate += asked_[i] * covered[i];
    return std::min(rate, 1.0);
  }

 private:
  static constexpr int kStates = kMaxHashes + 1;

  void apply(const double (&step)[kStates][kStates], const double (&stays)[kStates],
             double (&covered)[kStates]) const {
    for (int i = k_; i > 0; --i) {
      double sum = covered[i] * stays[i];
      for (int j = 0; j < i; ++j) sum += step[i][j] * covered[j];
      covered[i] = sum;
    }
  }

  // Twice as many items. From the last row up, so that the rows that are read are still the old.
  void square(double (&step)[kStates][kStates], const double (&stays)[kStates]) const {
    for (int i = k_; i > 0; --i) {
      double row[kStates];
      for (int j = 0; j < i; ++j) row[j] = step[i][j] * (stays[i] + stays[j]);
      for (int r = 1; r < i; ++r)
        for (int j = 0; j < r; ++j) row[j] += step[i][r] * step[r][j];
      for (int j = 0; j < i; ++j) step[i][j] = row[j];
    }
  }

  int chunk_bits_, k_;
  double asked_[kStates] = {};          // the chance that a check asks for i different positions
  double item_[kStates][kStates] = {};  // that one item of the chunk leaves j of i unset
  double hit_[kStates] = {};            // that it leaves fewer than i
};

// The false-positive rate of `items` (>= 0) in `chunks` (>= 1) chunks, k bits an item: exact, with
// items binomial over chunks, and how many bits of a chunk are set followed bit by bit. Between
// whole numbers of items it is taken as a straight line.
inline double expected_fp_rate(double items, double chunks, int chunk_bits, int k) {
  const Coverage coverage(chunk_bits, k);
  if (coverage.is_full(items, chunks)) return 1;
  const auto whole = static_cast<std::uint64_t>(items);
  const double part = items - static_cast<double>(whole);
  const double rate = coverage.rate(whole, chunks);
  return part > 0 ? rate + part * (coverage.rate(whole + 1, chunks) - rate) : rate;
}

// The search for the fewest chunks of chunk_bits bits that hold `capacity` (a whole number, at
// least 1) items at fp_rate (above 0, below 1) or better.
class ChunkSearch {
 public:
  ChunkSearch(double capacity, double fp_rate, int chunk_bits, int k)
      : capacity_(capacity), fp_rate_(fp_rate), chunk_bits_(chunk_bits), k_(k) {
    // The mean of fill^k is at least the k-th power of the mean fill.
    const double hit = -std::expm1(k * std::log1p(-1.0 / chunk_bits));
    const double fill = std::pow(fp_rate, 1.0 / k);
    at_least_ = hit / -std::expm1(std::log1p(-fill) / capacity) * (1 - kRounding);
  }

  // A number, not whole, that no number of chunks that suffices is below.
  double at_least() const { return at_least_; }

  // The fewest, or 0 if that is more than `most`.
  std::int32_t find(std::int32_t most) {
    if (!(at_least_ <= most)) return 0;
    const Coverage coverage(chunk_bits_, k_);
    Tried enough = attempt(coverage, most);
    if (!enough.enough) return 0;
    Tried few{static_cast<std::int64_t>(std::ceil(at_least_)) - 1, false, 0};
    few.chunks = std::max(few.chunks, std::int64_t{0});
    // The bound is close for large chunks: climb from there.
    double stride = 0.01;
    for (double guess = at_least_; guess < static_cast<double>(enough.chunks) - 1;
         guess *= 1 + stride, stride *= 2) {
      const Tried tried = attempt(coverage, static_cast<std::int64_t>(std::ceil(guess)));
      (tried.enough ? enough : few) = tried;
      if (tried.enough) break;
    }
    for (int round = 0; enough.chunks - few.chunks > 1; ++round) {
      const Tried tried = attempt(coverage, between(few, enough, round % 3));
      (tried.enough ? enough : few) = tried;
    }
    return static_cast<std::int32_t>(enough.chunks);
  }

 private:
  static constexpr double kRounding = 1e-9;

  struct Tried {
    std::int64_t chunks;
    bool enough;
    double excess;  // logarithm of how many times the rate is too high; not known where zero
  };

  Tried attempt(const Coverage &coverage, std::int64_t chunks) {
    const auto count = static_cast<double>(chunks);
    const double rate = coverage.is_full(capacity_, count)
                            ? 1
                            : coverage.rate(static_cast<std::uint64_t>(capacity_), count);
    const Tried tried{chunks, rate <= fp_rate_, std::log(rate / fp_rate_)};
    // The rate falls with the k-th power of the chunks at the most: of the items in a chunk no more
    // than k can be the only one that covers a position of a check, so that of f(l), the rate in a
    // chunk of l items, l (f(l) - f(l - 1)) <= k f(l).
    if (!tried.enough)
      at_least_ = std::max(at_least_, count * std::exp(tried.excess / k_) * (1 - kRounding));
    return tried;
  }

  // Where to try next: where the logarithms lie on a straight line, beside it, and in the middle,
  // in turn.
  static std::int64_t between(const Tried &few, const Tried &enough, int turn) {
    const std::int64_t width = enough.chunks - few.chunks;
    if (turn == 2 || few.chunks == 0 || !(few.excess > 0)) return few.chunks + width / 2;
    const double share = few.excess / (few.excess - enough.excess);
    const auto offset = static_cast<std::int64_t>(share * static_cast<double>(width)) + turn;
    return few.chunks + std::clamp(offset, std::int64_t{1}, width - 1);
  }

  double capacity_, fp_rate_;
  int chunk_bits_, k_;
  double at_least_;
};

// The fewest chunks that hold `capacity` (a whole number, at least 1) items at `fp_rate` (above 0,
// below 1) or better; 0 if that is more than `most`.
inline std::int32_t chunks_for(double capacity, double fp_rate, int chunk_bits, int k,
                               std::int32_t most) {
  return ChunkSearch(capacity, fp_rate, chunk_bits, k).find(most);
}

// The geometry of a filter table: k = 7, full chunks, at least kMinTableChunks.
inline Geometry table_geometry(double capacity, double fp_rate) {
  const std::int32_t chunks = chunks_for(capacity, fp_rate, kChunkBits, kTableHashes, kMaxChunks);
  return {chunks == 0 ? 0 : std::max(chunks, kMinTableChunks), kChunkBits, kTableHashes};
}

// The geometry of a filter value: the k and chunk size that take the fewest bytes, ties to larger
// chunks, then to fewer bits an item.
inline Geometry value_geometry(double capacity, double fp_rate) {
  Geometry best{0, kChunkBits, kTableHashes};
  std::int64_t most_bits = std::int64_t{kMaxValueChunks} * kChunkBits;
  // What is usual first, so that most others are known to be larger without a look.
  const int usual_k = std::clamp(static_cast<int>(std::lround(-std::log2(fp_rate))), 1, kMaxHashes);
  if (const std::int32_t chunks =
          chunks_for(capacity, fp_rate, kChunkBits, usual_k, kMaxValueChunks);
      chunks != 0)
    most_bits = std::int64_t{chunks} * kChunkBits;
  // Small chunks cost bits and only come in finer steps, so that what larger ones of the same k are
  // known to need, in bits, smaller ones need too.
  double at_least_bits[kMaxHashes + 1] = {};
  for (int chunk_bits = kChunkBits; chunk_bits >= kMinChunkBits; chunk_bits /= 2)
    for (int k = 1; k <= kMaxHashes; ++k) {
      if (at_least_bits[k] > static_cast<double>(most_bits)) continue;
      ChunkSearch search(capacity, fp_rate, chunk_bits, k);
      const std::int32_t chunks = search.find(static_cast<std::int32_t>(most_bits / chunk_bits));
      at_least_bits[k] = std::max(at_least_bits[k], search.at_least() * chunk_bits);
      if (chunks == 0) continue;
      best = {chunks, chunk_bits, k};
      most_bits = std::int64_t{chunks} * chunk_bits - 1;
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
