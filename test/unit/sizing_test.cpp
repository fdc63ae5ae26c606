// Sizes and rates: against figures computed elsewhere, against a plain second formula, and
// against filters that are really filled.
#include "bloomfilter/sizing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bloomfilter/chunk.hpp"

namespace bloomfilter {
namespace {

// The mean over Poisson loads, written out: every term from its own logarithm, in long double,
// none left out that could count.
double plain_rate(double items, double chunks, int chunk_bits, int k) {
  const long double load = static_cast<long double>(items) / chunks;
  const long double empty_after_one = 1 - 1.0L / chunk_bits;
  long double rate = 0;
  for (long double i = 0; i < load + 40 * std::sqrt(load) + 100; ++i) {
    const long double probability = std::exp(i * std::log(load) - load - std::lgamma(i + 1));
    rate += probability * std::pow(1 - std::pow(empty_after_one, k * i), k);
  }
  return static_cast<double>(rate);
}

// The rate of a filter of few items with nothing approximated: loads are binomial, and how many
// bits of a chunk are set is followed bit by bit instead of taken as its mean.
double exact_rate(int items, const Geometry &geometry) {
  const int m = geometry.chunk_bits, k = geometry.k;
  const double c = geometry.chunks;
  std::vector<double> probability_of(m + 1);  // that so many bits are set
  probability_of[0] = 1;
  double rate = 0;
  for (int load = 0; load <= items; ++load) {
    double hit = 0;
    for (int set = 0; set <= m; ++set)
      hit += probability_of[set] * std::pow(static_cast<double>(set) / m, k);
    double weight = load == items ? 1 : 0;
    if (geometry.chunks > 1)
      weight = std::exp(std::lgamma(items + 1.0) - std::lgamma(load + 1.0) -
                        std::lgamma(items - load + 1.0) - load * std::log(c) +
                        (items - load) * std::log1p(-1 / c));
    rate += weight * hit;
    for (int bit = 0; bit < k; ++bit)
      for (int set = m; set >= 0; --set)
        probability_of[set] = probability_of[set] * set / m +
                              (set > 0 ? probability_of[set - 1] * (m - set + 1) / m : 0);
  }
  return rate;
}

struct Measured {
  double rate;
  double error;  // standard error of the rate
};

// Fills `filters` filters with `items` names each, through the hash and the layout, and measures
// the rate from the bits set. Chunks count as independent; those of one filter are a little less
// spread than that, so the error is if anything too large.
Measured measure(int filters, int items, const Geometry &geometry) {
  Hasher hasher;
  EXPECT_TRUE(hasher.open());
  double sum = 0, squares = 0;
  for (int filter = 0; filter < filters; ++filter) {
    std::vector<std::uint8_t> bits(static_cast<std::size_t>(geometry.chunks) * geometry.chunk_bits);
    std::vector<int> set(geometry.chunks);
    for (int item = 0; item < items; ++item) {
      const std::string name = "user" + std::to_string(item) + "@" + std::to_string(filter);
      std::array<std::uint16_t, kMaxHashes> buffer;
      const auto positions = std::span(buffer).first(geometry.k);
      Digest digest{};
      EXPECT_TRUE(hasher.hash(name, digest));
      EXPECT_TRUE(positions_of(hasher, name, digest, positions));
      const std::int32_t chunk = chunk_of(digest, geometry.chunks);
      for (std::uint16_t position : positions) {
        std::uint8_t &bit = bits[static_cast<std::size_t>(chunk) * geometry.chunk_bits +
                                 narrow_position(position, geometry.chunk_bits)];
        if (bit == 0) ++set[chunk];
        bit = 1;
      }
    }
    for (int of_chunk : set) {
      const double rate = std::pow(static_cast<double>(of_chunk) / geometry.chunk_bits, geometry.k);
      sum += rate;
      squares += rate * rate;
    }
  }
  hasher.close();
  const double n = static_cast<double>(filters) * geometry.chunks;
  const double mean = sum / n;
  return {mean, std::sqrt((squares / n - mean * mean) / (n - 1))};
}

TEST(ExpectedFillTest, FirstItems) {
  EXPECT_EQ(expected_fill(0, 8192, 7), 0);
  EXPECT_DOUBLE_EQ(expected_fill(1, 8192, 1), 1.0 / 8192);
  EXPECT_DOUBLE_EQ(expected_fill(1, 64, 2), 1.0 / 64 + 1.0 / 64 - 1.0 / 4096);
  EXPECT_DOUBLE_EQ(expected_fill(2, 64, 1), expected_fill(1, 64, 2));
}

TEST(ExpectedFillTest, GrowsTowardsOne) {
  double before = 0;
  for (double items = 1; items < 1e6; items *= 1.5) {
    const double fill = expected_fill(items, 8192, 7);
    EXPECT_TRUE(fill > before || fill == 1) << items;
    EXPECT_LE(fill, 1);
    before = fill;
  }
  EXPECT_EQ(expected_fill(1e6, 8192, 7), 1);
}

// By mpmath with 40 digits: sum over i of e^-L L^i / i! (1 - (1 - 1/m)^(k i))^k, L = items /
// chunks.
TEST(ExpectedRateTest, HasValuesOfArbitraryPrecision) {
  struct Known {
    double items;
    double chunks;
    int chunk_bits;
    int k;
    double rate;
  };
  constexpr Known kKnown[] = {
      {1, 1, 64, 1, 0.0155035629945916},
      {3, 1, 64, 3, 0.00416224850751242},
      {1, 1, 256, 9, 7.6880067806142e-10},
      {100, 1, 1024, 5, 0.00905744178156461},
      {1000, 5, 2048, 5, 0.00883099530174571},
      {1000, 128, 8192, 7, 3.86161052975434e-15},
      {50000, 64, 8192, 7, 0.00657599771226701},
      {100e6, 131072, 8192, 7, 0.00585169401325754},
      {150e6, 131072, 8192, 7, 0.0369734537647141},
      {200e6, 131072, 8192, 7, 0.109129314527813},
      {2e6, 2347, 8192, 7, 0.00999516676050064},
      {2e6, 3528, 8192, 10, 0.00099888993922688},
      {2e6, 4724, 8192, 13, 9.98896902288125e-5},
      {1e6, 7000, 8192, 30, 9.06195039048765e-12},
      {1e6, 1000, 8192, 1, 0.114913866304065},
      {1e6, 1000, 512, 32, 1.0},
      {4e5, 10, 8192, 7, 0.99999999999999},
      {1e9, 2147483647, 8192, 7, 2.11551634759537e-20},
      {1e12, 2147483647, 8192, 7, 0.00042230295860988},
  };
  for (const Known &known : kKnown)
    EXPECT_NEAR(expected_fp_rate(known.items, known.chunks, known.chunk_bits, known.k) / known.rate,
                1, 1e-10)
        << known.items << " items in " << known.chunks << " chunks, k " << known.k;
}

TEST(ExpectedRateTest, IsMeanOverPoissonLoads) {
  for (int chunk_bits : {64, 512, 8192})
    for (int k : {1, 2, 7, 13, 32})
      for (double bits_an_item : {2.0, 5.0, 9.6, 14.4, 30.0, 200.0, 8192.0}) {
        const double items = 1000.0 * chunk_bits / bits_an_item;
        const double rate = expected_fp_rate(items, 1000, chunk_bits, k);
        const double plain = plain_rate(items, 1000, chunk_bits, k);
        if (plain < 1e-30) continue;  // the terms that are left out are of this size
        EXPECT_NEAR(rate / plain, 1, 1e-9)
            << chunk_bits << " bits a chunk, k " << k << ", " << bits_an_item << " bits an item";
      }
}

// The same mean has a closed form, by the binomial theorem and the Poisson law's generating
// function: sum over j of (-1)^j C(k, j) exp(-L (1 - (1 - 1/m)^(k j))). It loses digits at small
// rates, so it serves only as a check at large ones.
TEST(ExpectedRateTest, AgreesWithClosedForm) {
  for (int chunk_bits : {64, 512, 8192})
    for (int k : {1, 2, 7})
      for (double load : {0.3 * chunk_bits, 3.0 * chunk_bits, 30.0 * chunk_bits}) {
        double closed = 0, binomial = 1;
        for (int j = 0; j <= k; ++j) {
          closed += (j % 2 == 0 ? 1 : -1) * binomial *
                    std::exp(load * std::expm1(k * j * std::log1p(-1.0 / chunk_bits)));
          binomial *= static_cast<double>(k - j) / (j + 1);
        }
        EXPECT_NEAR(expected_fp_rate(load * 1000, 1000, chunk_bits, k), closed, 2e-9)
            << chunk_bits << " bits a chunk, k " << k << ", load " << load;
      }
}

TEST(ExpectedRateTest, FiguresOfDesignFor131072Chunks) {
  const auto rate = [](double items) { return expected_fp_rate(items, 131072, kChunkBits, 7); };
  EXPECT_NEAR(rate(100e6), 0.00585, 0.000005);
  EXPECT_NEAR(rate(150e6), 0.0370, 0.00005);
  EXPECT_NEAR(rate(200e6), 0.109, 0.0005);
  EXPECT_LT(rate(111.7e6), 0.01);
  EXPECT_GT(rate(111.8e6), 0.01);
  EXPECT_LT(rate(129.9e6), 0.02);
  EXPECT_GT(rate(130.0e6), 0.02);
}

TEST(ExpectedRateTest, IsZeroForNoItemsAndOneForFarTooMany) {
  EXPECT_EQ(expected_fp_rate(0, 131072, 8192, 7), 0);
  for (double items : {1e10, 1e11, 1e13, 1e18, 1e300}) {
    EXPECT_GT(expected_fp_rate(items, 131072, 8192, 7), 1 - 1e-9) << items;
    EXPECT_LE(expected_fp_rate(items, 131072, 8192, 7), 1) << items;
  }
  EXPECT_GT(expected_fp_rate(1, 2147483647.0, 8192, 32), 0);
}

// To nine digits, which is what the sum keeps of the heaviest loads. Both sides of the point
// where it is cut short are included.
TEST(ExpectedRateTest, GrowsWithItemsAndFallsWithChunks) {
  for (int k : {1, 7, 32}) {
    double before = 0;
    for (double items = 1; items < 1e9; items *= 1.07) {
      const double rate = expected_fp_rate(items, 128, 8192, k);
      EXPECT_GE(rate, before * (1 - 1e-9)) << items << " items, k " << k;
      EXPECT_LE(rate, 1) << items;
      before = rate;
    }
    EXPECT_GT(before, 1 - 1e-9);
    for (double chunks = 1; chunks < 1e9; chunks *= 1.07) {
      const double rate = expected_fp_rate(1e6, chunks, 8192, k);
      EXPECT_LE(rate, before * (1 + 1e-9)) << chunks << " chunks, k " << k;
      before = rate;
    }
  }
}

// Four standard errors, and two parts in a hundred for fill^k, which takes the bits of a chunk as
// independent: that is exact for large chunks and a little too low for small ones.
TEST(ExpectedRateTest, IsMeasuredInFilledFilters) {
  struct Case {
    int items;
    Geometry geometry;
    double tolerance;
  };
  for (const Case &c :
       {Case{763 * 512, {512, 8192, 7}, 0}, Case{1526 * 128, {128, 8192, 7}, 0},
        Case{400 * 512, {512, 8192, 13}, 0}, Case{100 * 2048, {2048, 1024, 5}, 0.02},
        Case{25 * 4096, {4096, 256, 5}, 0.02}}) {
    const Measured measured = measure(1, c.items, c.geometry);
    const double expected =
        expected_fp_rate(c.items, c.geometry.chunks, c.geometry.chunk_bits, c.geometry.k);
    EXPECT_NEAR(measured.rate, expected, 4 * measured.error + c.tolerance * expected)
        << c.geometry.chunks << " chunks of " << c.geometry.chunk_bits << " bits, k "
        << c.geometry.k;
    EXPECT_LT(measured.error, 0.03 * expected) << "too rough to tell anything";
  }
}

// Why the formula is not the textbook's: in small chunks that one promises far too much.
TEST(ExpectedRateTest, TextbookRateIsTooLowForBlockedFilter) {
  constexpr Geometry kGeometry{4096, 256, 5};
  constexpr double kLoad = 25;
  const double textbook = std::pow(expected_fill(kLoad, 256, 5), 5);
  const Measured measured = measure(1, static_cast<int>(kLoad * kGeometry.chunks), kGeometry);
  EXPECT_GT(measured.rate, textbook + 10 * measured.error);
  EXPECT_GT(expected_fp_rate(kLoad * kGeometry.chunks, kGeometry.chunks, 256, 5), 1.2 * textbook);
}

// A filter table as it is used: add, then ask for names that were never added. The bound is four
// standard deviations: those of the count of maybes, and those of the filter itself, whose chunks
// are full to different degrees (0.55 % of its rate at 1024 chunks; taken as 1 %).
TEST(ExpectedRateTest, IsShareOfMaybesAmongNamesNeverAdded) {
  constexpr std::int32_t kChunks = 1024;
  constexpr int kItems = 763 * kChunks, kAsked = 1000000;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kChunks) * kChunkBytes);
  const auto chunk = [&](const Digest &digest) {
    return MutableChunkView(
        &bytes[static_cast<std::size_t>(chunk_of(digest, kChunks)) * kChunkBytes],
        static_cast<std::size_t>(kChunkBytes));
  };
  std::mt19937_64 random(7);
  std::vector<Digest> added(kItems);
  for (Digest &digest : added) {
    digest = {random(), random()};
    chunk_add(chunk(digest), positions_of(digest));
  }
  for (const Digest &digest : added)
    ASSERT_TRUE(chunk_contains(chunk(digest), positions_of(digest)));
  int maybes = 0;
  for (int i = 0; i < kAsked; ++i) {
    const Digest digest{random(), random()};
    maybes += chunk_contains(chunk(digest), positions_of(digest));
  }
  const double expected = kAsked * expected_fp_rate(kItems, kChunks, kChunkBits, kTableHashes);
  const double deviation = std::sqrt(expected + std::pow(0.01 * expected, 2));
  EXPECT_NEAR(maybes, expected, 4 * deviation);
}

// Both sides by the core's own rate and, to nine digits, by the plain one.
TEST(ChunksForTest, IsFewestThatKeepsRate) {
  for (int chunk_bits : {64, 1024, 8192})
    for (int k : {1, 7, 20})
      for (double capacity : {1.0, 2.0, 3.0, 1000.0, 123456.0, 2e6, 1e8})
        for (double fp_rate : {0.99, 0.5, 0.1, 0.01, 1e-4, 1e-9}) {
          const std::int32_t chunks = chunks_for(capacity, fp_rate, chunk_bits, k, kMaxChunks);
          SCOPED_TRACE(testing::Message() << capacity << " items at " << fp_rate << ", k " << k
                                          << ": " << chunks << " of " << chunk_bits << " bits");
          if (chunks == 0) {
            EXPECT_GT(expected_fp_rate(capacity, kMaxChunks, chunk_bits, k), fp_rate);
            continue;
          }
          ASSERT_GE(chunks, 1);
          EXPECT_LE(expected_fp_rate(capacity, chunks, chunk_bits, k), fp_rate);
          EXPECT_LE(plain_rate(capacity, chunks, chunk_bits, k), fp_rate * (1 + 1e-9));
          if (chunks > 1) {
            EXPECT_GT(expected_fp_rate(capacity, chunks - 1.0, chunk_bits, k), fp_rate);
            EXPECT_GE(plain_rate(capacity, chunks - 1.0, chunk_bits, k), fp_rate * (1 - 1e-9));
          }
        }
}

TEST(ChunksForTest, IsZeroOnlyWhereMostIsTooFew) {
  const std::int32_t chunks = chunks_for(2e6, 0.01, 8192, 7, kMaxChunks);
  EXPECT_EQ(chunks, 2347);
  EXPECT_EQ(chunks_for(2e6, 0.01, 8192, 7, chunks + 1), chunks);
  EXPECT_EQ(chunks_for(2e6, 0.01, 8192, 7, chunks), chunks);
  EXPECT_EQ(chunks_for(2e6, 0.01, 8192, 7, chunks - 1), 0);
  EXPECT_EQ(chunks_for(1, 0.5, 8192, 7, 1), 1);
}

TEST(ChunksForTest, GrowsWithCapacityAndWithStrictness) {
  for (int k : {1, 7, 20}) {
    std::int32_t before = 0;
    for (double capacity = 1; capacity < 1e9; capacity *= 1.3) {
      const std::int32_t chunks = chunks_for(capacity, 0.01, 8192, k, kMaxChunks);
      EXPECT_GE(chunks, before) << capacity;
      before = chunks;
    }
    before = 0;
    for (double fp_rate = 1; fp_rate >= 1e-6; fp_rate *= 0.8) {
      const std::int32_t chunks = chunks_for(1e6, fp_rate, 8192, k, kMaxChunks);
      EXPECT_GE(chunks, before) << fp_rate;
      before = chunks;
    }
  }
}

TEST(TableGeometryTest, FiguresOfDesign) {
  EXPECT_EQ(table_geometry(2e6, 0.01).chunks, 2347);
  // What k = 7 costs against the best k: nothing, 4 % and 17 %.
  EXPECT_EQ(table_geometry(2e6, 0.001).chunks, 3679);
  EXPECT_EQ(table_geometry(2e6, 0.0001).chunks, 5508);
  EXPECT_EQ(table_geometry(1e8, 0.01).chunks, 117339);
  EXPECT_EQ(table_geometry(1e8, 0.01).k, 7);
  EXPECT_EQ(table_geometry(1e8, 0.01).chunk_bits, 8192);
}

TEST(TableGeometryTest, HasAtLeast128Chunks) {
  EXPECT_EQ(kMinTableChunks, 128);
  for (double capacity : {1.0, 2.0, 3.0, 100.0, 100000.0})
    for (double fp_rate : {0.01, 0.99, 1.0}) {
      EXPECT_EQ(table_geometry(capacity, fp_rate).chunks, 128) << capacity << " at " << fp_rate;
    }
  // The first capacity that needs more.
  EXPECT_EQ(table_geometry(109086, 0.01).chunks, 128);
  EXPECT_EQ(table_geometry(109087, 0.01).chunks, 129);
}

TEST(TableGeometryTest, StrictestRateAndLargestCapacity) {
  EXPECT_EQ(table_geometry(1, kMinFpRate).chunks, 128);
  EXPECT_EQ(table_geometry(1e6, kMinFpRate).chunks, 16823);
  EXPECT_EQ(table_geometry(1.83e12, 0.01).chunks, 2147285897);
  EXPECT_EQ(table_geometry(1.84e12, 0.01).chunks, 0);
  EXPECT_EQ(table_geometry(kMaxCapacity, 0.01).chunks, 0);
  EXPECT_EQ(table_geometry(1e12, kMinFpRate).chunks, 0);
  EXPECT_GT(table_geometry(1e12, 0.999999).chunks, 0);
}

TEST(ValueGeometryTest, FiguresOfDesign) {
  struct Known {
    double fp_rate;
    std::int32_t chunks;
    int k;
  };
  for (const Known &known :
       {Known{0.01, 2347, 7}, Known{0.001, 3528, 10}, Known{0.0001, 4724, 13}}) {
    const Geometry geometry = value_geometry(2e6, known.fp_rate);
    EXPECT_EQ(geometry.chunks, known.chunks) << known.fp_rate;
    EXPECT_EQ(geometry.chunk_bits, 8192) << known.fp_rate;
    EXPECT_EQ(geometry.k, known.k) << known.fp_rate;
  }
}

TEST(ValueGeometryTest, HundredItemsTakeAtMost160Bytes) {
  const Geometry geometry = value_geometry(100, 0.01);
  ASSERT_GT(geometry.chunks, 0);
  EXPECT_EQ(kValueHeaderBytes, 16);
  EXPECT_LE(kValueHeaderBytes + geometry.chunks * geometry.chunk_bits / 8, 160);
}

TEST(ValueGeometryTest, IsWithinLimitsOfLayout) {
  for (double capacity : {1.0, 2.0, 3.0, 17.0, 100.0, 1000.0, 20000.0, 1e6})
    for (double fp_rate : {0.999, 0.5, 0.01, 1e-5, kMinFpRate}) {
      const Geometry geometry = value_geometry(capacity, fp_rate);
      SCOPED_TRACE(testing::Message() << capacity << " items at " << fp_rate);
      EXPECT_GE(geometry.chunks, 1);
      EXPECT_LE(geometry.chunks, kMaxValueChunks);
      EXPECT_GE(geometry.chunk_bits, kMinChunkBits);
      EXPECT_LE(geometry.chunk_bits, kChunkBits);
      EXPECT_EQ(geometry.chunk_bits & (geometry.chunk_bits - 1), 0) << "not a power of two";
      EXPECT_GE(geometry.k, 1);
      EXPECT_LE(geometry.k, kMaxHashes);
      EXPECT_LE(plain_rate(capacity, geometry.chunks, geometry.chunk_bits, geometry.k),
                fp_rate * (1 + 1e-9));
    }
}

TEST(ValueGeometryTest, LooseRateTakesSmallestChunk) {
  for (double capacity : {1.0, 2.0, 3.0}) {
    const Geometry geometry = value_geometry(capacity, 0.99);
    EXPECT_EQ(geometry.chunks, 1);
    EXPECT_EQ(geometry.chunk_bits, 64);
    EXPECT_EQ(geometry.k, 1);
  }
}

// No choice of k and chunk size takes noticeably fewer bytes: chunks of fewer than 8192 bits are
// tried only where nine of the larger ones would not do, which gives away less than one in eight.
TEST(ValueGeometryTest, TakesFewestBytes) {
  for (double capacity : {1.0, 3.0, 30.0, 100.0, 777.0, 4862.0, 30000.0})
    for (double fp_rate : {0.5, 0.01, 1e-4, 1e-9}) {
      double fewest = std::numeric_limits<double>::infinity();
      for (int chunk_bits = kMinChunkBits; chunk_bits <= kChunkBits; chunk_bits *= 2)
        for (int k = 1; k <= kMaxHashes; ++k) {
          const double chunks = chunks_for(capacity, fp_rate, chunk_bits, k, kMaxValueChunks);
          if (chunks > 0) fewest = std::min(fewest, chunks * chunk_bits);
        }
      const Geometry geometry = value_geometry(capacity, fp_rate);
      const double bits = static_cast<double>(geometry.chunks) * geometry.chunk_bits;
      EXPECT_GE(bits, fewest) << capacity << " at " << fp_rate;
      EXPECT_LE(bits, geometry.chunks <= 8 ? fewest : fewest * 1.125)
          << capacity << " at " << fp_rate;
    }
}

TEST(ValueGeometryTest, IsZeroBeyond256MiB) {
  EXPECT_EQ(value_geometry(223409244, 0.01).chunks, kMaxValueChunks);
  EXPECT_EQ(value_geometry(223409245, 0.01).chunks, 0);
  EXPECT_EQ(value_geometry(1e9, 0.01).chunks, 0);
  EXPECT_EQ(value_geometry(kMaxCapacity, kMinFpRate).chunks, 0);
}

TEST(ValueGeometryTest, BytesGrowWithCapacity) {
  double before = 0;
  for (double capacity = 1; capacity < 30000; capacity = std::ceil(capacity * 1.3)) {
    const Geometry geometry = value_geometry(capacity, 0.01);
    const double bits = static_cast<double>(geometry.chunks) * geometry.chunk_bits;
    EXPECT_GE(bits, before) << capacity;
    before = bits;
  }
}

// Small chunks are where Poisson loads and fill^k only approximate. The first cases are the worst
// found among all capacities to 700: one part in a hundred above the rate asked for.
TEST(ValueGeometryTest, SmallFiltersKeepTheirRateToOnePartInFifty) {
  const auto excess = [](int capacity, double fp_rate) {
    return exact_rate(capacity, value_geometry(capacity, fp_rate)) / fp_rate;
  };
  EXPECT_LE(excess(133, 0.5), 1.02);
  EXPECT_LE(excess(192, 0.1), 1.02);
  EXPECT_LE(excess(104, 0.05), 1.02);
  EXPECT_LE(excess(444, 0.03), 1.02);
  for (int capacity : {1, 2, 3, 5, 8, 13, 21, 34, 55, 100})
    for (double fp_rate : {0.1, 0.01, 1e-3, 1e-6, 1e-9})
      EXPECT_LE(excess(capacity, fp_rate), 1) << capacity << " at " << fp_rate;
}

TEST(ValueGeometryTest, FilledFiltersKeepTheirRate) {
  struct Case {
    int filters;
    int capacity;
    double fp_rate;
  };
  for (const Case &c : {Case{5000, 3, 0.01}, Case{3000, 20, 0.01}, Case{1000, 100, 0.01},
                        Case{1000, 50, 0.1}, Case{100, 1000, 0.001}, Case{1, 200000, 0.01}}) {
    const Measured measured = measure(c.filters, c.capacity, value_geometry(c.capacity, c.fp_rate));
    EXPECT_LE(measured.rate, c.fp_rate + 4 * measured.error) << c.capacity << " at " << c.fp_rate;
  }
}

TEST(EstimatedItemsTest, InvertsExpectedFill) {
  for (int chunk_bits : {64, 1024, 8192})
    for (int k : {1, 7, 32})
      // Beyond this fill is too near one for a double to tell it apart.
      for (double items = 1; items * k < 15.0 * chunk_bits; items *= 1.5) {
        const double set = expected_fill(items, chunk_bits, k) * chunk_bits;
        if (set > chunk_bits - 0.5) continue;
        EXPECT_NEAR(estimated_items(set, chunk_bits, k) / items, 1, 1e-8)
            << items << " items in " << chunk_bits << " bits, k " << k;
      }
}

TEST(EstimatedItemsTest, IsZeroForEmptyAndFiniteForFullChunk) {
  for (int chunk_bits : {64, 8192})
    for (int k : {1, 7}) {
      EXPECT_EQ(estimated_items(0, chunk_bits, k), 0);
      double before = 0;
      for (int set = 1; set <= chunk_bits; ++set) {
        const double items = estimated_items(set, chunk_bits, k);
        EXPECT_GT(items, before) << set << " of " << chunk_bits;
        before = items;
      }
      EXPECT_TRUE(std::isfinite(before));
    }
  // Half a bit left of m: ln(2 m) m / k, near enough.
  EXPECT_NEAR(estimated_items(8192, 8192, 7), std::log(16384) * 8192 / 7, 1);
}

// The count of set bits varies by m e^-t (1 - (1 + t) e^-t) for t = k i / m, which makes the
// estimate vary by m (e^t - t - 1) / k^2 (Whang et al. 1990).
TEST(EstimatedItemsTest, IsMeasuredInFilledChunks) {
  std::mt19937_64 random(11);
  constexpr int kRounds = 200;
  for (int items : {10, 100, 763, 1500, 3000}) {
    double sum = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::array<std::uint8_t, kChunkBytes> chunk{};
      for (int i = 0; i < items; ++i) chunk_add(chunk, positions_of(Digest{random(), random()}));
      int set = 0;
      for (std::uint8_t byte : chunk) set += std::popcount(byte);
      sum += estimated_items(set, kChunkBits, kTableHashes);
    }
    const double t = 7.0 * items / kChunkBits;
    const double deviation = std::sqrt(kChunkBits * (std::exp(t) - t - 1)) / 7;
    EXPECT_NEAR(sum / kRounds, items, 4 * deviation / std::sqrt(kRounds) + 0.002 * items) << items;
  }
}

}  // namespace
}  // namespace bloomfilter
