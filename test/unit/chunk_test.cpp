// The bytes of one chunk against std::bitset, at every alignment a chunk can have.
#include "bloomfilter/chunk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <random>
#include <string>

namespace bloomfilter {
namespace {

using Reference = std::bitset<kChunkBits>;

// A chunk `offset` bytes past an aligned address, between bytes that must not change, and that
// differ between two chunks whose offsets are not both even or both odd.
class PlacedChunk {
 public:
  explicit PlacedChunk(std::size_t offset) : offset_(offset), guard_(offset % 2 ? 0xA5 : 0x5A) {
    buffer_.fill(guard_);
    std::ranges::fill(bytes(), 0);
  }

  PlacedChunk(std::size_t offset, const Reference &bits) : PlacedChunk(offset) {
    for (std::size_t p = 0; p < kChunkBits; ++p)
      if (bits[p]) bytes()[p / 8] = static_cast<std::uint8_t>(bytes()[p / 8] | 128u >> p % 8);
  }

  MutableChunkView bytes() {
    return MutableChunkView(buffer_.data() + offset_, static_cast<std::size_t>(kChunkBytes));
  }

  Reference bits() {
    Reference bits;
    for (std::size_t p = 0; p < kChunkBits; ++p) bits[p] = (bytes()[p / 8] >> (7 - p % 8) & 1) != 0;
    return bits;
  }

  bool surroundings_unchanged() const {
    const auto is_guard = [this](std::uint8_t byte) { return byte == guard_; };
    return std::all_of(buffer_.begin(), buffer_.begin() + offset_, is_guard) &&
           std::all_of(buffer_.begin() + offset_ + kChunkBytes, buffer_.end(), is_guard);
  }

 private:
  std::size_t offset_;
  std::uint8_t guard_;
  alignas(8) std::array<std::uint8_t, kChunkBytes + 8> buffer_;
};

Reference reference_of(const Positions &positions) {
  Reference bits;
  for (std::uint16_t position : positions) bits.set(position);
  return bits;
}

class ChunkTest : public testing::TestWithParam<std::size_t> {
 protected:
  Positions random_positions() {
    Positions positions;
    for (std::uint16_t &position : positions)
      position = static_cast<std::uint16_t>(random_() % kChunkBits);
    return positions;
  }

  // About `share` of the bits set.
  Reference random_bits(double share) {
    std::bernoulli_distribution is_set(share);
    Reference bits;
    for (std::size_t p = 0; p < kChunkBits; ++p) bits[p] = is_set(random_);
    return bits;
  }

  // Where a second chunk stands: each of the eight in turn, and never like the first.
  static std::size_t other_offset() { return (GetParam() * 3 + 1) % 8; }

  std::mt19937_64 random_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Offset, ChunkTest, testing::Range<std::size_t>(0, 8));

// PostgreSQL writes bit 0 first: in set_bit(zeros, 0, 1) and B'1000...' it is the first byte's
// highest bit.
TEST(ChunkBitOrderTest, IsThatOfPostgresBitStrings) {
  std::array<std::uint8_t, kChunkBytes> bytes{};
  chunk_add(bytes, {0, 9, 18, 27, 8190, 8191, 8191});
  EXPECT_EQ(bytes[0], 0x80);
  EXPECT_EQ(bytes[1], 0x40);
  EXPECT_EQ(bytes[2], 0x20);
  EXPECT_EQ(bytes[3], 0x10);
  EXPECT_EQ(bytes[1023], 0x03);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), kChunkBytes - 5);
}

// The mask that the article's SQL makes of md5('ada').
TEST(ChunkBitOrderTest, MaskOfAda) {
  std::array<std::uint8_t, kChunkBytes> bytes{};
  chunk_add(bytes, {3422, 6900, 1835, 5977, 5396, 3259, 619});
  std::array<std::uint8_t, kChunkBytes> expected{};
  expected[77] = 0x10;   // 619 = 8 * 77 + 3
  expected[229] = 0x10;  // 1835 = 8 * 229 + 3
  expected[407] = 0x10;  // 3259 = 8 * 407 + 3
  expected[427] = 0x02;  // 3422 = 8 * 427 + 6
  expected[674] = 0x08;  // 5396 = 8 * 674 + 4
  expected[747] = 0x40;  // 5977 = 8 * 747 + 1
  expected[862] = 0x08;  // 6900 = 8 * 862 + 4
  EXPECT_EQ(bytes, expected);
}

TEST(ChunkBitOrderTest, EachPositionHasItsOwnBit) {
  for (int position = 0; position < kChunkBits; ++position) {
    const auto p = static_cast<std::uint16_t>(position);
    std::array<std::uint8_t, kChunkBytes> bytes{};
    chunk_add(bytes, {p, p, p, p, p, p, p});
    ASSERT_EQ(bytes[position / 8], bit_in_byte(p));
    ASSERT_EQ(bit_in_byte(p), 128 >> position % 8);
    ASSERT_EQ(std::count(bytes.begin(), bytes.end(), 0), kChunkBytes - 1) << position;
  }
}

constexpr bool works_at_compile_time() {
  std::array<std::uint8_t, kChunkBytes> bytes{};
  const Positions positions = {3422, 6900, 1835, 5977, 5396, 3259, 619};
  return !chunk_contains(bytes, positions) && chunk_add(bytes, positions) &&
         chunk_contains(bytes, positions) && !chunk_add(bytes, positions);
}

TEST(ChunkBitOrderTest, WorksAtCompileTime) {
  constexpr bool kWorks = works_at_compile_time();
  EXPECT_TRUE(kWorks);
}

TEST_P(ChunkTest, AddSetsItemsBitsAndNoOther) {
  PlacedChunk chunk(GetParam());
  Reference reference;
  for (int i = 0; i < 1500; ++i) {
    const Positions positions = random_positions();
    const Reference mask = reference_of(positions);
    const bool expected_new = (mask & ~reference).any();
    ASSERT_EQ(chunk_contains(chunk.bytes(), positions), !expected_new);
    ASSERT_EQ(chunk_add(chunk.bytes(), positions), expected_new);
    ASSERT_TRUE(chunk_contains(chunk.bytes(), positions));
    reference |= mask;
  }
  EXPECT_EQ(chunk.bits(), reference);
  EXPECT_TRUE(chunk.surroundings_unchanged());
}

// One bit that is missing must be enough, whichever of the seven it is.
TEST_P(ChunkTest, ContainsAndAddLookAtEveryBit) {
  const Positions positions = {0, 7, 8, 3422, 4097, 8184, 8191};
  const Positions bystanders = {1, 6, 9, 3423, 4096, 8185, 8190};
  for (unsigned present = 0; present < 1u << kTableHashes; ++present) {
    Reference before = reference_of(bystanders);
    for (int i = 0; i < kTableHashes; ++i)
      if (present >> i & 1) before.set(positions[i]);
    const bool all = present == (1u << kTableHashes) - 1;
    PlacedChunk chunk(GetParam(), before);
    EXPECT_EQ(chunk_contains(chunk.bytes(), positions), all) << present;
    EXPECT_EQ(chunk_add(chunk.bytes(), positions), !all) << present;
    EXPECT_EQ(chunk.bits(), before | reference_of(positions)) << present;
  }
}

TEST_P(ChunkTest, AddIsNewOnceWhereItsPositionsCoincide) {
  PlacedChunk chunk(GetParam());
  EXPECT_TRUE(chunk_add(chunk.bytes(), {5, 5, 5, 5, 5, 5, 5}));
  EXPECT_FALSE(chunk_add(chunk.bytes(), {5, 5, 5, 5, 5, 5, 5}));
  EXPECT_EQ(chunk.bits().count(), 1u);
}

TEST_P(ChunkTest, MergeIsOr) {
  for (double share : {0.0, 0.01, 0.5, 1.0}) {
    const Reference a = random_bits(0.5), b = random_bits(share);
    PlacedChunk target(GetParam(), a), source(other_offset(), b);
    merge_bits(target.bytes().data(), source.bytes());
    EXPECT_EQ(target.bits(), a | b);
    EXPECT_EQ(source.bits(), b);
    EXPECT_TRUE(target.surroundings_unchanged());
    EXPECT_TRUE(source.surroundings_unchanged());
  }
}

TEST_P(ChunkTest, MergeReachesEveryBit) {
  for (std::size_t p = 0; p < kChunkBits; p += 13) {
    Reference one;
    one.set(p);
    PlacedChunk target(GetParam()), source(other_offset(), one);
    merge_bits(target.bytes().data(), source.bytes());
    ASSERT_EQ(target.bits(), one) << p;
  }
}

TEST_P(ChunkTest, MergeWithItselfChangesNothing) {
  const Reference bits = random_bits(0.5);
  PlacedChunk chunk(GetParam(), bits);
  merge_bits(chunk.bytes().data(), chunk.bytes());
  EXPECT_EQ(chunk.bits(), bits);
}

TEST_P(ChunkTest, CoversIsSubset) {
  const Reference none, all = ~none;
  const auto covers = [&](const Reference &whole, const Reference &part) {
    PlacedChunk a(GetParam(), whole), b(other_offset(), part);
    return chunk_covers(a.bytes(), b.bytes());
  };
  EXPECT_TRUE(covers(none, none));
  EXPECT_TRUE(covers(all, none));
  EXPECT_TRUE(covers(all, all));
  EXPECT_FALSE(covers(none, all));
  for (int i = 0; i < 100; ++i) {
    const Reference whole = random_bits(0.5), part = whole & random_bits(0.5);
    EXPECT_TRUE(covers(whole, part));
    EXPECT_FALSE(covers(part, whole));
    EXPECT_TRUE(covers(whole, whole));
  }
}

// One bit too many anywhere must be seen, and one bit too few must not.
TEST_P(ChunkTest, CoversLooksAtEveryBit) {
  PlacedChunk whole(GetParam(), random_bits(0.5));
  PlacedChunk part(other_offset(), whole.bits());
  for (std::size_t p = 0; p < kChunkBits; ++p) {
    const auto bit = static_cast<std::uint8_t>(128 >> p % 8);
    const std::uint8_t kept = part.bytes()[p / 8];
    const bool in_whole = (whole.bytes()[p / 8] & bit) != 0;
    part.bytes()[p / 8] = static_cast<std::uint8_t>(kept ^ bit);
    ASSERT_EQ(chunk_covers(whole.bytes(), part.bytes()), in_whole) << p;
    part.bytes()[p / 8] = kept;
  }
}

}  // namespace
}  // namespace bloomfilter
