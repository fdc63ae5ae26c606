// From a digest to a chunk, and to positions in that chunk: the bit layout, version 1. The layout
// is that of the article "Bloom Filters in Postgres" (April 2026), with any number of chunks. It is
// frozen: after a change here every stored filter would deny its members.
#ifndef BLOOMFILTER_LAYOUT_HPP
#define BLOOMFILTER_LAYOUT_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bloomfilter/hash.hpp"

namespace bloomfilter {

inline constexpr int kLayoutVersion = 1;
// A chunk is a row of one kilobyte. All bits of an item are in one chunk, so that a check reads one
// row and an add writes one. For a rate of 1 % that takes 9.62 bits an item; a filter that is not
// divided takes 9.59, and chunks of 512 bits (a cache line, as RocksDB has) take 9.92.
inline constexpr int kChunkBits = 8192;
inline constexpr int kChunkBytes = kChunkBits / 8;
inline constexpr int kMinChunkBits = 64;

// Where a chunk begins, counted in bytes, if full chunks lie one after another; so also how many
// bytes that many chunks take.
constexpr std::size_t chunk_offset(std::int32_t chunk) {
  return static_cast<std::size_t>(chunk) * kChunkBytes;
}

// Bits that an item sets in a filter table. It is the same for every table, so that no two callers
// can disagree about it. The best k costs no less space at a rate of 1 %, 4 % less at 0.1 % (k =
// 10) and 14 % less at 0.01 % (k = 13).
inline constexpr int kTableHashes = 7;
// Bits that an item may set in a filter value: enough for a rate of 1e-9 (k = 30).
inline constexpr int kMaxHashes = 32;

// A position is a slice of 13 bits, since 2^13 = kChunkBits. Of md5(key) seven are used, the other
// 37 bits give the chunk; a further digest gives nine.
inline constexpr int kSliceBits = 13;
inline constexpr int kSlicesFirstDigest = 7;
inline constexpr int kSlicesFurtherDigest = 9;

// The positions of an item's bits in its chunk, each below kChunkBits.
using Positions = std::array<std::uint16_t, kTableHashes>;

// The 13 bits of a digest that begin with bit `first`, 1 to 116.
constexpr std::uint16_t slice(const Digest &digest, int first) {
  const int last = first + kSliceBits - 1;
  std::uint64_t bits;
  if (last <= 64)
    bits = digest.hi >> (64 - last);
  else if (first > 64)
    bits = digest.lo >> (128 - last);
  else
    bits = digest.hi << (last - 64) | digest.lo >> (128 - last);
  return static_cast<std::uint16_t>(bits & ((1U << kSliceBits) - 1));
}

// The item's chunk, of `chunks` (1 to 2^31 - 1) chunks: floor(u * chunks / 2^37), where u is bits
// 1-17 followed by bits 109-128. The product has up to 68 bits. It is computed in two halves,
// exactly, and not with __int128, which 32-bit machines lack.
//
// A product and not u % chunks: for 131072 chunks it is bits 1-17, as in the article, and for half
// as many chunks the number of the chunk is halved, which bloom_fold and bloom_grow rely on.
constexpr std::int32_t chunk_of(const Digest &digest, std::int32_t chunks) {
  const std::uint64_t u = digest.hi >> 47 << 20 | (digest.lo & 0xFFFFF);
  const auto n = static_cast<std::uint64_t>(chunks);
  return static_cast<std::int32_t>(((u >> 32) * n + ((u & 0xFFFFFFFF) * n >> 32)) >> 5);
}

// The first seven positions: bits 18-30, 31-43, ... 96-108 of md5(key). They do not depend on the
// number of chunks. So a filter can be folded and doubled without its items.
constexpr Positions positions_of(const Digest &digest) {
  Positions positions{};
  for (int i = 0; i < kTableHashes; ++i) positions[i] = slice(digest, 18 + i * kSliceBits);
  return positions;
}

// All positions.size() (at most kMaxHashes) positions of a key whose md5 is `first`: the seven from
// above, then nine from bit 1 on of each further digest. Returns false if OpenSSL reports a
// failure.
//
// Every position is cut from a digest. Double hashing (position i is a + i * b) would spare the
// further digest, 100 ns a name for k = 16. But in a block as small as a chunk its positions are
// not independent, and rates would be above those promised.
inline bool positions_of(Hasher &hasher, std::string_view key, const Digest &first,
                         std::span<std::uint16_t> positions) {
  const std::size_t k = positions.size();
  for (std::size_t i = 0; i < k && i < kSlicesFirstDigest; ++i)
    positions[i] = slice(first, 18 + static_cast<int>(i) * kSliceBits);
  Digest digest{};
  for (std::size_t i = kSlicesFirstDigest; i < k; ++i) {
    const int nth = static_cast<int>(i) - kSlicesFirstDigest;
    if (nth % kSlicesFurtherDigest == 0 &&
        !hasher.hash_further(nth / kSlicesFurtherDigest + 1, key, digest))
      return false;
    positions[i] = slice(digest, 1 + nth % kSlicesFurtherDigest * kSliceBits);
  }
  return true;
}

// A position in a chunk of fewer bits (a power of two from kMinChunkBits on): the top bits of the
// position in a full chunk.
constexpr std::uint16_t narrow_position(std::uint16_t position, int chunk_bits) {
  return static_cast<std::uint16_t>(position * chunk_bits / kChunkBits);
}

}  // namespace bloomfilter

#endif
