// What must hold of the layout for every item: chunks and positions in range, exact, even, and
// such that filters fold and grow. Where single items lie is in layout_golden_test.cpp.
#include "bloomfilter/layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bitset>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace bloomfilter {
namespace {

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr int kBitsOfU = 37;
constexpr std::uint64_t kEveryU = std::uint64_t{1} << kBitsOfU;

// floor(u * n / 2^37), bit by bit from the last one: a half that is dropped on the way changes
// nothing, since all that follows are whole numbers. The core multiplies halves instead.
std::int32_t exact_chunk(std::uint64_t u, std::int32_t n) {
  std::uint64_t sum = 0;
  for (int bit = 0; bit < kBitsOfU; ++bit)
    sum = (sum + (u >> bit & 1) * static_cast<std::uint64_t>(n)) >> 1;
  return static_cast<std::int32_t>(sum);
}

// The first u of a chunk, ceil(chunk * 2^37 / n), by long division.
std::uint64_t first_of(std::int32_t chunk, std::int32_t n) {
  const auto divisor = static_cast<std::uint64_t>(n);
  auto rest = static_cast<std::uint64_t>(chunk);
  std::uint64_t quotient = 0;
  for (int bit = 0; bit < kBitsOfU; ++bit) {
    rest *= 2;
    quotient = quotient * 2 + (rest >= divisor ? 1 : 0);
    rest %= divisor;
  }
  return quotient + (rest > 0 ? 1 : 0);
}

constexpr Digest kAllZeros{0, 0};
constexpr Digest kAllOnes{~std::uint64_t{0}, ~std::uint64_t{0}};

// md5("ada"), 8c8d357b5e872bbacd45197626bd5759.
constexpr Digest kAda{0x8c8d357b5e872bba, 0xcd45197626bd5759};

// A fixed seed: a test that fails fails again.
class LayoutTest : public testing::Test {
 protected:
  Digest random_digest() { return {random_(), random_()}; }

  // 1 to kMost, small numbers as likely as large ones.
  std::int32_t random_chunks() {
    const std::uint64_t limit = (std::uint64_t{1} << (random_() % 31 + 1)) - 1;
    return static_cast<std::int32_t>(1 + random_() % limit);
  }

  // A digest whose 37 bits for the chunk are u, the other bits random.
  Digest digest_with(std::uint64_t u) {
    constexpr std::uint64_t kLow47 = (std::uint64_t{1} << 47) - 1;
    return {u >> 20 << 47 | (random_() & kLow47), random_() << 20 | (u & 0xFFFFF)};
  }

  std::mt19937_64 random_{20240229};
};

// The top quarter is where a scale error shows: too few bits of u, or a remainder taken instead
// of a product, leave the last chunks empty or thin.
//
// Pearson's chi-square of cells that each hold on average `mean` of very many items. Its own mean
// is the number of cells, its variance 2 cells + cells / mean. Six standard deviations either way
// are passed by chance less than once in 10^8 layouts.
void expect_even(const std::vector<std::uint32_t> &cells, double mean) {
  double chi_square = 0;
  for (std::uint32_t count : cells) chi_square += (count - mean) * (count - mean) / mean;
  const double expected = static_cast<double>(cells.size());
  const double deviation = std::sqrt(2 * expected + expected / mean);
  EXPECT_NEAR(chi_square, expected, 6 * deviation);
}

TEST_F(LayoutTest, ConstantsOfVersionOne) {
  EXPECT_EQ(kLayoutVersion, 1);
  EXPECT_EQ(kChunkBits, 8192);
  EXPECT_EQ(kChunkBytes, 1024);
  EXPECT_EQ(kMinChunkBits, 64);
  EXPECT_EQ(kTableHashes, 7);
}

// What the design states of one item, worked out at compile time.
TEST_F(LayoutTest, AdaLiesWhereDesignSays) {
  constexpr std::int32_t kChunk = chunk_of(kAda, 131072);
  constexpr Positions kPositions = positions_of(kAda);
  EXPECT_EQ(kChunk, 71962);
  EXPECT_EQ(kPositions, (Positions{3422, 6900, 1835, 5977, 5396, 3259, 619}));
  Hasher hasher;
  Digest digest{};
  ASSERT_TRUE(hasher.open());
  ASSERT_TRUE(hasher.hash(std::string("ada"), digest));
  hasher.close();
  EXPECT_EQ(digest, kAda);
}

// Each bit of the digest belongs to the chunk or to one bit of one position, as the design
// numbers them: 1-17 and 109-128 to the chunk, 18-108 to seven slices.
TEST_F(LayoutTest, EveryBitOfDigestHasItsPlace) {
  for (int bit = 1; bit <= 128; ++bit) {
    const Digest digest = bit <= 64 ? Digest{std::uint64_t{1} << (64 - bit), 0}
                                    : Digest{0, std::uint64_t{1} << (128 - bit)};
    std::uint64_t u = 0;
    if (bit <= 17) u = std::uint64_t{1} << (37 - bit);
    if (bit >= 109) u = std::uint64_t{1} << (128 - bit);
    EXPECT_EQ(chunk_of(digest, kMost), exact_chunk(u, kMost)) << "bit " << bit;
    const Positions positions = positions_of(digest);
    for (int i = 0; i < kTableHashes; ++i) {
      const int last = 30 + 13 * i;
      const bool here = last - 12 <= bit && bit <= last;
      EXPECT_EQ(positions[i], here ? 1 << (last - bit) : 0) << "bit " << bit << " slice " << i;
    }
  }
}

// A slice anywhere, also across the two halves, is thirteen single bits.
TEST_F(LayoutTest, SliceIsThirteenBits) {
  for (int round = 0; round < 100; ++round) {
    const Digest digest = random_digest();
    const std::string bits =
        std::bitset<64>(digest.hi).to_string() + std::bitset<64>(digest.lo).to_string();
    for (int first = 1; first <= 116; ++first)
      ASSERT_EQ(slice(digest, first), std::stoi(bits.substr(first - 1, 13), nullptr, 2))
          << "from bit " << first;
  }
}

TEST_F(LayoutTest, ExtremeDigestsGiveFirstAndLastChunk) {
  for (std::int32_t n :
       {1, 2, 3, 127, 128, 1000, 131071, 131072, 131073, 1 << 30, kMost - 1, kMost}) {
    EXPECT_EQ(chunk_of(kAllZeros, n), 0) << "of " << n;
    EXPECT_EQ(chunk_of(kAllOnes, n), n - 1) << "of " << n;
  }
  EXPECT_EQ(positions_of(kAllZeros), (Positions{0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(positions_of(kAllOnes), (Positions{8191, 8191, 8191, 8191, 8191, 8191, 8191}));
}

TEST_F(LayoutTest, ChunkIsFirstSeventeenBitsOf131072) {
  for (int round = 0; round < 10000; ++round) {
    const Digest digest = random_digest();
    ASSERT_EQ(chunk_of(digest, 131072), static_cast<std::int32_t>(digest.hi >> 47));
  }
}

TEST_F(LayoutTest, ChunkIsExactForRandomUAndN) {
  for (int round = 0; round < 1000000; ++round) {
    const std::uint64_t u = random_() % kEveryU;
    const std::int32_t n = random_chunks();
    ASSERT_EQ(chunk_of(digest_with(u), n), exact_chunk(u, n)) << "u " << u << " of " << n;
  }
}

// Where a rounding error would show: the first u of a chunk, and the one before it.
TEST_F(LayoutTest, ChunkIsExactAtItsBounds) {
  for (int round = 0; round < 200000; ++round) {
    const std::int32_t n = random_chunks();
    const std::int32_t chunk = static_cast<std::int32_t>(random_() % n);
    const auto first = first_of(chunk, n);
    ASSERT_EQ(chunk_of(digest_with(first), n), chunk) << "of " << n;
    if (chunk > 0) {
      ASSERT_EQ(chunk_of(digest_with(first - 1), n), chunk - 1) << "of " << n;
    }
  }
}

// Products a hair's breadth from a whole chunk, which 64 bits or a double round the wrong way:
// for odd n the u with u * n = r modulo 2^37 is r times the inverse of n.
TEST_F(LayoutTest, ChunkIsExactNextToWholeNumbers) {
  for (int round = 0; round < 100000; ++round) {
    const std::int32_t n = random_chunks() | 1;
    std::uint64_t inverse = n;  // right in the last three bits; each step doubles them
    for (int step = 0; step < 5; ++step) inverse *= 2 - static_cast<std::uint64_t>(n) * inverse;
    for (int remainder : {-2, -1, 1, 2}) {
      const std::uint64_t u = inverse * static_cast<std::uint64_t>(remainder) % kEveryU;
      ASSERT_EQ(chunk_of(digest_with(u), n), exact_chunk(u, n))
          << "u " << u << " of " << n << ", remainder " << remainder;
    }
  }
}

TEST_F(LayoutTest, FoldingTakesGroupsOfChunks) {
  for (int round = 0; round < 300000; ++round) {
    const std::int32_t n = random_chunks();
    const auto group = static_cast<std::int32_t>(1 + random_() % (kMost / n));
    for (const Digest &digest : {random_digest(), kAllZeros, kAllOnes})
      ASSERT_EQ(chunk_of(digest, n * group) / group, chunk_of(digest, n))
          << n << " chunks, groups of " << group;
  }
}

TEST_F(LayoutTest, GrowingSplitsEachChunkInTwo) {
  int lower = 0, upper = 0;
  for (int round = 0; round < 300000; ++round) {
    const Digest digest = random_digest();
    const std::int32_t n = random_chunks() / 2 + 1;
    if (n > kMost / 2) continue;
    const std::int32_t half = chunk_of(digest, 2 * n) - 2 * chunk_of(digest, n);
    ASSERT_TRUE(half == 0 || half == 1) << half << " for " << n;
    ++(half == 0 ? lower : upper);
  }
  EXPECT_GT(lower, 100000);
  EXPECT_GT(upper, 100000);
}

// The same as a whole: a filter of 12 chunks, OR-ed in groups, is bit for bit the filter of 6, 4,
// 3, 2 and 1 that the items themselves make. Masks may not depend on the number of chunks.
TEST_F(LayoutTest, FoldedFilterIsThatOfFewerChunks) {
  using Chunk = std::bitset<kChunkBits>;
  std::vector<Digest> items;
  for (int i = 0; i < 3000; ++i) items.push_back(random_digest());
  const auto filter_of = [&](std::int32_t n) {
    std::vector<Chunk> filter(n);
    for (const Digest &item : items)
      for (std::uint16_t position : positions_of(item)) filter[chunk_of(item, n)].set(position);
    return filter;
  };
  const std::vector<Chunk> large = filter_of(12);
  for (std::int32_t group : {2, 3, 4, 6, 12}) {
    std::vector<Chunk> folded(12 / group);
    for (std::int32_t chunk = 0; chunk < 12; ++chunk) folded[chunk / group] |= large[chunk];
    EXPECT_EQ(folded, filter_of(12 / group)) << "groups of " << group;
  }
}

// Two million keys over 2^20 + 7 chunks, which no number of bits alone can address.
TEST_F(LayoutTest, ItemsSpreadEvenlyOverChunksAndPositions) {
  constexpr std::int32_t kChunks = (1 << 20) + 7;
  constexpr std::int32_t kFirstChunk = kChunks / 4 * 3;
  constexpr int kFirstPosition = kChunkBits / 4 * 3;
  constexpr int kItems = 1 << 21;
  std::vector<std::uint32_t> chunks(kChunks - kFirstChunk);
  std::array<std::vector<std::uint32_t>, kTableHashes> positions;
  for (auto &of_slice : positions) of_slice.resize(kChunkBits - kFirstPosition);
  std::uint32_t items_there = 0;

  Hasher hasher;
  ASSERT_TRUE(hasher.open());
  for (int i = 0; i < kItems; ++i) {
    const std::string key = "user" + std::to_string(i);
    Digest digest{};
    ASSERT_TRUE(hasher.hash(key, digest));
    const std::int32_t chunk = chunk_of(digest, kChunks);
    if (chunk < kFirstChunk) continue;
    ++chunks[chunk - kFirstChunk];
    ++items_there;
    // Of these items only: positions that shared bits with the chunk would crowd here.
    const Positions of_item = positions_of(digest);
    for (int nth = 0; nth < kTableHashes; ++nth)
      if (of_item[nth] >= kFirstPosition) ++positions[nth][of_item[nth] - kFirstPosition];
  }
  hasher.close();

  expect_even(chunks, static_cast<double>(kItems) / kChunks);
  for (const auto &of_slice : positions)
    expect_even(of_slice, static_cast<double>(items_there) / kChunkBits);
}

TEST_F(LayoutTest, NarrowPositionIsTopBits) {
  for (int log2 = 6; log2 <= 13; ++log2)
    for (int position = 0; position < kChunkBits; ++position)
      ASSERT_EQ(narrow_position(static_cast<std::uint16_t>(position), 1 << log2),
                position >> (13 - log2))
          << "position " << position << " in a chunk of " << (1 << log2);
}

// k <= 7 must not cost, or need, a second digest.
TEST_F(LayoutTest, SevenPositionsNeedNoFurtherDigest) {
  Hasher closed;
  std::array<std::uint16_t, kTableHashes> positions{};
  ASSERT_TRUE(positions_of(closed, std::string("ada"), kAda, positions));
  EXPECT_EQ(positions, positions_of(kAda));
}

TEST_F(LayoutTest, FurtherPositionsAreSpreadEvenly) {
  constexpr int kItems = 1 << 16;
  std::array<std::vector<std::uint32_t>, kMaxHashes> counts;
  for (auto &of_position : counts) of_position.resize(kChunkBits);
  Hasher hasher;
  ASSERT_TRUE(hasher.open());
  for (int i = 0; i < kItems; ++i) {
    const std::string key = "user" + std::to_string(i);
    Digest digest{};
    std::array<std::uint16_t, kMaxHashes> positions;
    ASSERT_TRUE(hasher.hash(key, digest));
    ASSERT_TRUE(positions_of(hasher, key, digest, positions));
    for (int nth = 0; nth < kMaxHashes; ++nth) ++counts[nth][positions[nth]];
  }
  hasher.close();
  for (const auto &of_position : counts)
    expect_even(of_position, static_cast<double>(kItems) / kChunkBits);
}

}  // namespace
}  // namespace bloomfilter
