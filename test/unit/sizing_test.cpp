// Sizes and rates: against figures computed elsewhere, against a plain second formula, and
// against filters that are really filled.
#include "bloomfilter/sizing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
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

// The rate with nothing approximated, another way than the core's: how many bits of a chunk are set
// is followed bit by bit, and loads are binomial. Loads are left out once less than 1e-18 is left.
double exact_rate(int items, const Geometry &geometry) {
  const int m = geometry.chunk_bits, k = geometry.k;
  const double c = geometry.chunks;
  std::vector<double> probability_of(m + 1);  // that so many bits are set
  probability_of[0] = 1;
  std::vector<double> hit_if(m + 1);
  for (int set = 0; set <= m; ++set) hit_if[set] = std::pow(static_cast<double>(set) / m, k);
  double rate = 0;
  int most = 0;  // bits that can be set so far
  for (int load = 0; load <= items; ++load) {
    double weight = load == items ? 1 : 0;
    if (geometry.chunks > 1)
      weight = std::exp(std::lgamma(items + 1.0) - std::lgamma(load + 1.0) -
                        std::lgamma(items - load + 1.0) - load * std::log(c) +
                        (items - load) * std::log1p(-1 / c));
    if (load > items / c && geometry.chunks > 1 && weight < 1e-20 * rate) break;
    double hit = 0;
    for (int set = 0; set <= most; ++set) hit += probability_of[set] * hit_if[set];
    rate += weight * hit;
    for (int bit = 0; bit < k; ++bit) {
      most = std::min(most + 1, m);
      for (int set = most; set >= 0; --set)
        probability_of[set] = probability_of[set] * set / m +
                              (set > 0 ? probability_of[set - 1] * (m - set + 1) / m : 0);
    }
  }
  return rate;
}

// The same by inclusion and exclusion over the d different positions that a check asks for:
// sum over d of P(d) sum over j of (-1)^j C(d, j) (1 - (1 - (1 - j/m)^k) / c)^n, where P(d) is
// S(k, d) m! / (m - d)! / m^k, S being Stirling's number. It loses digits at small rates.
double closed_rate(double items, double chunks, int chunk_bits, int k) {
  const long double m = chunk_bits;
  std::vector<long double> stirling(k + 1);
  stirling[0] = 1;
  for (int n = 1; n <= k; ++n)
    for (int d = n; d >= 0; --d) stirling[d] = d * stirling[d] + (d > 0 ? stirling[d - 1] : 0);
  long double rate = 0;
  for (int d = 1; d <= k; ++d) {
    long double chance = stirling[d];
    for (int i = 0; i < d; ++i) chance *= (m - i) / m;
    for (int i = d; i < k; ++i) chance /= m;
    long double all_set = 0, binomial = 1;
    for (int j = 0; j <= d; ++j) {
      const long double touched = -std::expm1(k * std::log1p(-j / m));
      all_set += (j % 2 == 0 ? 1 : -1) * binomial * std::exp(items * std::log1p(-touched / chunks));
      binomial *= static_cast<long double>(d - j) / (j + 1);
    }
    rate += chance * all_set;
  }
  return static_cast<double>(rate);
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

// By mpmath with 120 digits, after closed_rate's formula.
TEST(ExpectedRateTest, HasValuesOfArbitraryPrecision) {
  struct Known {
    double items;
    double chunks;
    int chunk_bits;
    int k;
    double rate;
  };
  constexpr Known kKnown[] = {
      {1, 1, 64, 1, 0.015625},
      {3, 1, 64, 3, 0.00235111012591533},
      {1, 1, 256, 9, 7.47990204077644e-14},
      {20, 1, 64, 32, 0.998937573489385},
      {100, 1, 1024, 5, 0.00865096475486688},
      {1000, 5, 2048, 5, 0.00880251931646229},
      {1000, 128, 8192, 7, 3.8166387899611e-15},
      {50000, 64, 8192, 7, 0.00658011514734775},
      {100e6, 131072, 8192, 7, 0.00585642502043565},
      {150e6, 131072, 8192, 7, 0.0369968505121445},
      {200e6, 131072, 8192, 7, 0.109182804159587},
      {2e6, 2347, 8192, 7, 0.0100027663523477},
      {2e6, 2348, 8192, 7, 0.00998259702259626},
      {2e6, 3528, 8192, 10, 0.00100055616784385},
      {2e6, 4724, 8192, 13, 0.000100181686668581},
      {1e6, 7000, 8192, 30, 9.2196247832861e-12},
      {1e6, 1000, 8192, 1, 0.114913872898471},
      {1e6, 1000, 512, 32, 1.0},
      {4e5, 10, 8192, 7, 0.99999999999999},
      {1e9, 2147483647, 8192, 7, 2.11792692583363e-20},
      {1e12, 2147483647, 8192, 7, 0.000422713090179394},
      {3e6, 47000, 64, 11, 0.999603575534528},
  };
  for (const Known &known : kKnown)
    EXPECT_NEAR(expected_fp_rate(known.items, known.chunks, known.chunk_bits, known.k) / known.rate,
                1, 1e-10)
        << known.items << " items in " << known.chunks << " chunks, k " << known.k;
}

TEST(ExpectedRateTest, IsThatOfAnExactChain) {
  for (int chunk_bits = kMinChunkBits; chunk_bits <= kChunkBits; chunk_bits *= 2)
    for (int k : {1, 2, 3, 5, 7, 8, 11, 16, 23, 32})
      for (std::int32_t chunks : {1, 2, 3, 7, 40})
        for (double bits_an_item : {3.0, 9.6, 20.0, 45.0, 200.0}) {
          const int items = static_cast<int>(std::ceil(chunks * chunk_bits / bits_an_item));
          // what an exact chain takes long for
          if (1.0 * items / chunks * k * chunk_bits > 3e6) continue;
          const double exact = exact_rate(items, {chunks, chunk_bits, k});
          EXPECT_NEAR(expected_fp_rate(items, chunks, chunk_bits, k) / exact, 1, 1e-9)
              << items << " items in " << chunks << " of " << chunk_bits << " bits, k " << k;
        }
}

// For as many items as one likes, down to where that formula has lost too many digits.
TEST(ExpectedRateTest, AgreesWithClosedForm) {
  for (int chunk_bits : {64, 512, 8192})
    for (int k : {1, 2, 7, 12})
      for (double chunks : {1.0, 128.0, 131072.0, 2147483647.0})
        for (double load : {0.1 * chunk_bits, 0.3 * chunk_bits, 3.0 * chunk_bits}) {
          const double items = std::ceil(load * chunks);
          EXPECT_NEAR(expected_fp_rate(items, chunks, chunk_bits, k),
                      closed_rate(items, chunks, chunk_bits, k), 1e-11)
              << chunk_bits << " bits a chunk, k " << k << ", " << items << " in " << chunks;
        }
}

// What it was taken for: E[fill]^k for E[fill^k] makes little of small chunks, and Poisson loads
// much of few.
TEST(ExpectedRateTest, IsNotThatOfMeanFillsOrOfPoissonLoads) {
  double poisson = 0, chance = std::exp(-64 / 20.0);
  for (int load = 0; load < 64; ++load) {
    poisson += chance * std::pow(expected_fill(load, 64, 11), 11);
    chance *= 64 / 20.0 / (load + 1);
  }
  EXPECT_NEAR(poisson, 0.002458, 0.0000005);
  EXPECT_NEAR(expected_fp_rate(3.2e6, 1e6, 64, 11), 0.002914, 0.0000005);
  EXPECT_LT(expected_fp_rate(1, 1, 256, 9), 1e-13);
}

TEST(ExpectedRateTest, IsALineBetweenWholeNumbersOfItems) {
  const double one = expected_fp_rate(1, 1, 64, 2), two = expected_fp_rate(2, 1, 64, 2);
  EXPECT_DOUBLE_EQ(expected_fp_rate(1.25, 1, 64, 2), one + 0.25 * (two - one));
  EXPECT_DOUBLE_EQ(expected_fp_rate(0.5, 1, 64, 2), 0.5 * one);
}

TEST(ExpectedRateTest, FiguresOfDesignFor131072Chunks) {
  const auto rate = [](double items) { return expected_fp_rate(items, 131072, kChunkBits, 7); };
  EXPECT_NEAR(rate(100e6), 0.00586, 0.000005);
  EXPECT_NEAR(rate(150e6), 0.0370, 0.00005);
  EXPECT_NEAR(rate(200e6), 0.109, 0.0005);
  EXPECT_LT(rate(111.6e6), 0.01);
  EXPECT_GT(rate(111.7e6), 0.01);
  EXPECT_LT(rate(129.9e6), 0.02);
  EXPECT_GT(rate(130.0e6), 0.02);
}

// Where the processor rounds a second time, as that of i386 does, one item of a billion is lost.
TEST(ItemsAtRateTest, AreTheMostThatHoldTheRate) {
  constexpr double kLost = FLT_EVAL_METHOD == 0 ? 0 : 1e-9;
  for (int chunk_bits : {64, 512, 8192})
    for (int k : {1, 2, 7, 12, 32})
      for (double chunks : {1.0, 3.0, 128.0, 131072.0, 2147483647.0})
        for (double rate : {1e-9, 0.001, 0.01, 0.5, 0.999999}) {
          const double items = items_at_fp_rate(rate, chunks, chunk_bits, k);
          EXPECT_LE(expected_fp_rate(items, chunks, chunk_bits, k), rate);
          EXPECT_GT(expected_fp_rate(items + 1 + items * kLost, chunks, chunk_bits, k), rate)
              << items << " items in " << chunks << " of " << chunk_bits << " bits, k " << k;
        }
}

// Beside that of the loads, which is the mean. Simulated chunks had 902 in all for 852 items, and
// 4,619 for 3,000.
TEST(EstimateVarianceTest, IsThatOfASimulation) {
  EXPECT_NEAR(estimate_variance(852, kChunkBits, 7), 57.3, 0.1);
  EXPECT_NEAR(estimate_variance(3000, kChunkBits, 7), 1574, 1);
  EXPECT_EQ(estimate_variance(0, kChunkBits, 7), 0);
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

// Within four standard errors.
TEST(ExpectedRateTest, IsMeasuredInFilledFilters) {
  struct Case {
    int items;
    Geometry geometry;
  };
  for (const Case &c : {Case{763 * 512, {512, 8192, 7}}, Case{1526 * 128, {128, 8192, 7}},
                        Case{400 * 512, {512, 8192, 13}}, Case{100 * 2048, {2048, 1024, 5}},
                        Case{25 * 4096, {4096, 256, 5}}, Case{3 * 65536, {65536, 64, 11}}}) {
    const Measured measured = measure(1, c.items, c.geometry);
    const double expected =
        expected_fp_rate(c.items, c.geometry.chunks, c.geometry.chunk_bits, c.geometry.k);
    EXPECT_NEAR(measured.rate, expected, 4 * measured.error)
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
          if (chunks > 1) {
            EXPECT_GT(expected_fp_rate(capacity, chunks - 1.0, chunk_bits, k), fp_rate);
          }
        }
}

TEST(ChunksForTest, IsZeroOnlyWhereMostIsTooFew) {
  const std::int32_t chunks = chunks_for(2e6, 0.01, 8192, 7, kMaxChunks);
  EXPECT_EQ(chunks, 2348);
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
  EXPECT_EQ(table_geometry(2e6, 0.01).chunks, 2348);
  // What k = 7 costs against the best k: nothing, 4 % and 17 %.
  EXPECT_EQ(table_geometry(2e6, 0.001).chunks, 3680);
  EXPECT_EQ(table_geometry(2e6, 0.0001).chunks, 5509);
  EXPECT_EQ(table_geometry(1e8, 0.01).chunks, 117357);
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
  EXPECT_EQ(table_geometry(109070, 0.01).chunks, 128);
  EXPECT_EQ(table_geometry(109071, 0.01).chunks, 129);
}

TEST(TableGeometryTest, StrictestRateAndLargestCapacity) {
  EXPECT_EQ(table_geometry(1, kMinFpRate).chunks, 128);
  EXPECT_EQ(table_geometry(1e6, kMinFpRate).chunks, 16826);
  EXPECT_EQ(table_geometry(1.82e12, 0.01).chunks, 2135896471);
  EXPECT_EQ(table_geometry(1.83e12, 0.01).chunks, 0);
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
       {Known{0.01, 2348, 7}, Known{0.001, 3529, 10}, Known{0.0001, 4725, 13}}) {
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
      EXPECT_LE(expected_fp_rate(capacity, geometry.chunks, geometry.chunk_bits, geometry.k),
                fp_rate);
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

// What the tests of promised rates and of sizes go over: 220 sizes.
constexpr int kGridCapacities[] = {1,  2,   3,   5,   8,   13,  21,  34,  50,   55,
                                   89, 100, 104, 133, 192, 260, 444, 490, 1000, 2530};
constexpr double kGridRates[] = {0.99, 0.5, 0.2, 0.1, 0.05, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9};

// No size of the grid breaks the rate that it promises.
TEST(ValueGeometryTest, KeepsItsRateExactly) {
  for (int capacity : kGridCapacities)
    for (double fp_rate : kGridRates) {
      const double exact = exact_rate(capacity, value_geometry(capacity, fp_rate));
      EXPECT_LE(exact, fp_rate * (1 + 1e-9)) << capacity << " at " << fp_rate;
    }
}

// No other k and chunk size takes fewer bytes, and none as many in larger chunks, or with fewer
// bits an item. So what value_geometry leaves out without a look was rightly left out.
TEST(ValueGeometryTest, TakesFewestBytes) {
  for (double capacity : {1.0, 2.0, 3.0, 5.0, 13.0, 30.0, 50.0, 100.0, 133.0, 490.0, 777.0, 2530.0,
                          4862.0, 30000.0, 123456.0, 2e6})
    for (double fp_rate : kGridRates) {
      Geometry fewest{0, 0, 0};
      std::int64_t fewest_bits = std::numeric_limits<std::int64_t>::max();
      for (int chunk_bits = kChunkBits; chunk_bits >= kMinChunkBits; chunk_bits /= 2)
        for (int k = 1; k <= kMaxHashes; ++k) {
          const std::int32_t chunks =
              chunks_for(capacity, fp_rate, chunk_bits, k, kMaxChunks / 8192);
          if (chunks == 0 || std::int64_t{chunks} * chunk_bits >= fewest_bits) continue;
          fewest_bits = std::int64_t{chunks} * chunk_bits;
          fewest = {chunks, chunk_bits, k};
        }
      const Geometry geometry = value_geometry(capacity, fp_rate);
      EXPECT_TRUE(geometry.chunks == fewest.chunks && geometry.chunk_bits == fewest.chunk_bits &&
                  geometry.k == fewest.k)
          << capacity << " at " << fp_rate << ": " << geometry.chunks << " of "
          << geometry.chunk_bits << ", k " << geometry.k << "; fewest are " << fewest.chunks
          << " of " << fewest.chunk_bits << ", k " << fewest.k;
    }
}

// By another program, from the chain of exact_rate alone: bytes with the header.
TEST(ValueGeometryTest, KnownSizes) {
  const auto bytes = [](double capacity, double fp_rate) {
    const Geometry geometry = value_geometry(capacity, fp_rate);
    return kValueHeaderBytes + geometry.chunks * geometry.chunk_bits / 8;
  };
  EXPECT_EQ(bytes(5, 1e-4), 32);
  EXPECT_EQ(bytes(50, 1e-4), 144);
  EXPECT_EQ(bytes(100, 1e-3), 208);
}

TEST(ValueGeometryTest, IsZeroBeyond256MiB) {
  EXPECT_EQ(value_geometry(223373225, 0.01).chunks, kMaxValueChunks);
  EXPECT_EQ(value_geometry(223373226, 0.01).chunks, 0);
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
