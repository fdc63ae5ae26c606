// From a capacity and a false-positive rate to chunks, and back. The rates are those of a blocked
// filter. Items spread unevenly over chunks, and a full chunk costs more than an empty one saves.
// The textbook formula (1 - e^(-kn/m))^k takes every chunk for equally full, and promises too much.
#ifndef BLOOMFILTER_SIZING_HPP
#define BLOOMFILTER_SIZING_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bloomfilter/layout.hpp"

namespace bloomfilter {

// The fewest chunks of a filter table. With fewer, transactions that add several items each lock
// the same rows too often, and deadlocks become likely.
inline constexpr std::int32_t kMinTableChunks = 128;
inline constexpr std::int32_t kMaxChunks = std::numeric_limits<std::int32_t>::max();
// 256 MiB, see kMaxValueBits.
inline constexpr std::int32_t kMaxValueChunks = 1 << 18;
inline constexpr int kValueHeaderBytes = 16;

// What the SQL functions accept.
inline constexpr double kMaxCapacity = 1e13;
inline constexpr double kMinFpRate = 1e-9;

// How many chunks of how many bits, and how many bits an item sets. chunks == 0 means that no
// number of chunks is enough.
struct Geometry {
  std::int32_t chunks;
  int chunk_bits;
  int k;
};

// The mean share of bits that are set in a chunk of m = chunk_bits bits after i = `items` items of
// k bits each: 1 - (1 - 1/m)^(k i).
inline double expected_fill(double items, int chunk_bits, int k) {
  return -std::expm1(items * k * std::log1p(-1.0 / chunk_bits));
}

// How the positions of a check fill up, in chunks of chunk_bits bits with k bits an item.
//
// For a check of an absent item only those of its positions matter that are not set yet. If i of
// them are left, the next bit that is set in the chunk is one of them with probability i /
// chunk_bits, and then i - 1 are left. That is a Markov chain of at most k + 1 states. So the rate
// is exact, for any number of chunks. All terms are positive, so that ten digits are right however
// small the rate is.
//
// The result is the mean of fill^k, over the loads of chunks and over their fills. The k-th power
// of the mean fill would be simpler, but it is up to a fifth too low in small chunks.
class Coverage {
 public:
  Coverage(int chunk_bits, int k) : chunk_bits_(chunk_bits), k_(k) {
    const double share = 1.0 / chunk_bits;
    // The number of different positions in k draws: an item may have the same position twice.
    asked_[0] = 1;
    for (int draw = 0; draw < k; ++draw)
      for (int i = draw + 1; i >= 0; --i)
        asked_[i] = asked_[i] * i * share + (i > 0 ? asked_[i - 1] * (1 - (i - 1) * share) : 0);
    // What the k bits of one item, set one after another, do to i positions.
    for (int i = 0; i <= k; ++i) item_[i][i] = 1;
    for (int i = 0; i <= k; ++i)
      for (int bit = 0; bit < k; ++bit)
        for (int j = 0; j <= i; ++j)
          item_[i][j] =
              item_[i][j] * (1 - j * share) + (j < i ? item_[i][j + 1] * (j + 1) * share : 0);
    for (int i = 0; i <= k; ++i) hit_[i] = -std::expm1(k * std::log1p(-i * share));
  }

  // Whether chunks are so full that the rate is 1. If so, rate() must not be called: the number of
  // items may be too large for its type. Once 50 bits were set for each bit of a chunk, a bit is
  // left with a probability of e^-50.
  bool is_full(double items, double chunks) const {
    return items / chunks * k_ > 50.0 * chunk_bits_;
  }

  // The false-positive rate after `items` items went to `chunks` (>= 1) chunks: the probability
  // that all positions of a check are set. It takes the power of one item's matrix by repeated
  // squaring: at most 64 times, for any number of items.
  double rate(std::uint64_t items, double chunks) const {
    // The probabilities of going from i positions that are not set to j < i, of leaving i, and of
    // staying at i. The last two add up to 1. Both are kept, since 1 minus a number close to 1 has
    // few digits.
    double step[kStates][kStates];
    double moves[kStates];
    double stays[kStates];
    double covered[kStates] = {1};  // that none of i positions is left at the end
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

  // Lets the items of `step` and `stays` come after those that `covered` has.
  void apply(const double (&step)[kStates][kStates], const double (&stays)[kStates],
             double (&covered)[kStates]) const {
    for (int i = k_; i > 0; --i) {
      double sum = covered[i] * stays[i];
      for (int j = 0; j < i; ++j) sum += step[i][j] * covered[j];
      covered[i] = sum;
    }
  }

  // Squares the matrix: twice as many items. It begins with the last row, since each row needs
  // those before it as they were.
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
  // Probabilities: that a check has i different positions; that one item of the chunk leaves j of i
  // positions; that it leaves fewer than i.
  double asked_[kStates] = {};
  double item_[kStates][kStates] = {};
  double hit_[kStates] = {};
};

// The false-positive rate of `items` (>= 0) items in `chunks` (>= 1) chunks with k bits an item. It
// is exact for whole numbers of items, and a straight line between two of them.
inline double expected_fp_rate(double items, double chunks, int chunk_bits, int k) {
  const Coverage coverage(chunk_bits, k);
  if (coverage.is_full(items, chunks)) return 1;
  const auto whole = static_cast<std::uint64_t>(items);
  const double part = items - static_cast<double>(whole);
  const double rate = coverage.rate(whole, chunks);
  return part > 0 ? rate + part * (coverage.rate(whole + 1, chunks) - rate) : rate;
}

// The most items, a whole number, that `chunks` (>= 1) chunks hold at fp_rate (above 0, below 1) or
// better. One more, and the rate is above fp_rate.
inline double items_at_fp_rate(double fp_rate, double chunks, int chunk_bits, int k) {
  const Coverage coverage(chunk_bits, k);
  const auto holds = [&](double items) {
    return !coverage.is_full(items, chunks) &&
           coverage.rate(static_cast<std::uint64_t>(items), chunks) <= fp_rate;
  };
  // The mean of fill^k is at least the k-th power of the mean fill. So the items that give this
  // mean fill are too many, or just the result.
  const double hit = expected_fill(1, chunk_bits, k);
  const double fill = std::pow(fp_rate, 1.0 / k);
  double many = std::ceil(std::log1p(-fill) / std::log1p(-hit / chunks)) + 1;
  // Mostly the result is a few percent below. That saves half of the attempts.
  double few = std::floor(0.9 * many);
  if (!holds(few)) {
    many = few;
    few = 0;
  }
  while (many - few > 1) {
    const double middle = std::floor(few + (many - few) / 2);
    (holds(middle) ? few : many) = middle;
  }
  return few;
}

// Searches for the fewest chunks of chunk_bits bits that hold `capacity` (a whole number, at least
// 1) items at fp_rate (above 0, below 1) or better. There is no closed formula for that. A search
// takes some microseconds (7 for a table of a million names, core_bench), so that it is done at
// each call and no table of sizes is kept.
class ChunkSearch {
 public:
  ChunkSearch(double capacity, double fp_rate, int chunk_bits, int k)
      : capacity_(capacity), fp_rate_(fp_rate), chunk_bits_(chunk_bits), k_(k) {
    // The mean of fill^k is at least the k-th power of the mean fill.
    const double hit = expected_fill(1, chunk_bits, k);
    const double fill = std::pow(fp_rate, 1.0 / k);
    at_least_ = hit / -std::expm1(std::log1p(-fill) / capacity) * (1 - kRounding);
  }

  // A lower bound of the result, not a whole number. It rises with each attempt.
  double at_least() const { return at_least_; }

  // The fewest chunks, or 0 if more than `most` are needed.
  std::int32_t find(std::int32_t most) {
    if (!(at_least_ <= most)) return 0;
    const Coverage coverage(chunk_bits_, k_);
    Tried enough = attempt(coverage, most);
    if (!enough.enough) return 0;
    Tried few{static_cast<std::int64_t>(std::ceil(at_least_)) - 1, false, 0};
    few.chunks = std::max(few.chunks, std::int64_t{0});
    // For large chunks the bound is close to the result. So begin there, and go up in longer and
    // longer steps.
    double guess = at_least_;
    double stride = 0.01;
    while (guess < static_cast<double>(enough.chunks) - 1) {
      const Tried tried = attempt(coverage, static_cast<std::int64_t>(std::ceil(guess)));
      (tried.enough ? enough : few) = tried;
      if (tried.enough) break;
      guess *= 1 + stride;
      stride *= 2;
    }
    for (int round = 0; enough.chunks - few.chunks > 1; ++round) {
      const Tried tried = attempt(coverage, between(few, enough, round % 3));
      (tried.enough ? enough : few) = tried;
    }
    return static_cast<std::int32_t>(enough.chunks);
  }

 private:
  // The bound is lowered by this, so that rounding never makes it too high.
  static constexpr double kRounding = 1e-9;

  struct Tried {
    std::int64_t chunks;
    bool enough;
    double excess;  // ln(rate / fp_rate), or 0 if it was not computed
  };

  // Computes the rate with that many chunks, and raises the bound if they are too few.
  Tried attempt(const Coverage &coverage, std::int64_t chunks) {
    const auto count = static_cast<double>(chunks);
    const double rate = coverage.is_full(capacity_, count)
                            ? 1
                            : coverage.rate(static_cast<std::uint64_t>(capacity_), count);
    const Tried tried{chunks, rate <= fp_rate_, std::log(rate / fp_rate_)};
    // The rate falls at most with the k-th power of the chunks. Let f(l) be the rate in a chunk of
    // l items. At most k of those items are the only one that covers some position of a check, so
    // that l (f(l) - f(l - 1)) <= k f(l).
    if (!tried.enough)
      at_least_ = std::max(at_least_, count * std::exp(tried.excess / k_) * (1 - kRounding));
    return tried;
  }

  // The next number to try: where a straight line through the logarithms of both rates meets
  // fp_rate, one more than that, and the middle, in turn. The line alone may come closer from one
  // side only, and the middle alone halves the range and no more.
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

// The fewest chunks that hold `capacity` (a whole number, at least 1) items at fp_rate (above 0,
// below 1) or better; 0 if more than `most` are needed.
inline std::int32_t chunks_for(double capacity, double fp_rate, int chunk_bits, int k,
                               std::int32_t most) {
  return ChunkSearch(capacity, fp_rate, chunk_bits, k).find(most);
}

// The geometry of a filter table: k = 7, chunks of 8192 bits, at least kMinTableChunks.
inline Geometry table_geometry(double capacity, double fp_rate) {
  const std::int32_t chunks = chunks_for(capacity, fp_rate, kChunkBits, kTableHashes, kMaxChunks);
  return {chunks == 0 ? 0 : std::max(chunks, kMinTableChunks), kChunkBits, kTableHashes};
}

// The geometry of a filter value: the k and the chunk size that take the fewest bytes. If several
// do, the one with the largest chunks, and of those the one with the fewest bits an item.
inline Geometry value_geometry(double capacity, double fp_rate) {
  Geometry best{0, kChunkBits, kTableHashes};
  std::int64_t most_bits = std::int64_t{kMaxValueChunks} * kChunkBits;
  // The usual k is tried first. Most others are then known to be larger without a search.
  const int usual_k = std::clamp(static_cast<int>(std::lround(-std::log2(fp_rate))), 1, kMaxHashes);
  if (const std::int32_t chunks =
          chunks_for(capacity, fp_rate, kChunkBits, usual_k, kMaxValueChunks);
      chunks != 0)
    most_bits = std::int64_t{chunks} * kChunkBits;
  // With the same k, smaller chunks never need fewer bits than larger ones; they only allow sizes
  // in finer steps. So a bound for larger chunks holds for smaller ones.
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

// The most likely number of items in a chunk of m = chunk_bits bits of which `set` are set: ln(1 -
// set/m) / (k ln(1 - 1/m)) (Swamidass and Baldi 2007). For a full chunk that would be infinite; it
// is counted as if half a bit were not set.
inline double estimated_items(double set, int chunk_bits, int k) {
  const double filled = std::min(set, chunk_bits - 0.5);
  return std::log1p(-filled / chunk_bits) / (k * std::log1p(-1.0 / chunk_bits));
}

// The variance of estimated_items for a chunk that holds `items` items: how far the bits, which
// fall where they like, let the estimate miss. Of m bits b = k i throws leave m e^-a unset, where a
// = b / m, with variance m e^-a (1 - (1 + a) e^-a); the estimate's slope by set bits is e^a / k.
inline double estimate_variance(double items, int chunk_bits, int k) {
  const double a = items * k / chunk_bits;
  return chunk_bits * (std::expm1(a) - a) / (static_cast<double>(k) * k);
}

}  // namespace bloomfilter

#endif
