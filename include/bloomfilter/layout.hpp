// From digests to a chunk and positions in it: bit layout, version 1. Frozen; a change here
// makes every stored filter deny its members.
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
inline constexpr int kChunkBits = 8192;
inline constexpr int kChunkBytes = kChunkBits / 8;
inline constexpr int kMinChunkBits = 64;

// Where a chunk of a filter table begins in bits that hold chunks one after the other, in bytes;
// of as many chunks, how many bytes they take.
constexpr std::size_t chunk_offset(std::int32_t chunk) {
  return static_cast<std::size_t>(chunk) * kChunkBytes;
}

// Bits an item sets in a filter table.
inline constexpr int kTableHashes = 7;
inline constexpr int kMaxHashes = 32;

inline constexpr int kSliceBits = 13;
inline constexpr int kSlicesFirstDigest = 7;
inline constexpr int kSlicesFurtherDigest = 9;

// Positions of an item's bits in its chunk, each below kChunkBits.
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
  return static_cast<std::uint16_t>(bits & ((1u << kSliceBits) - 1));
}

// The item's chunk of `chunks` (1 to 2^31 - 1): floor(u * chunks / 2^37), u being bits 1-17
// followed by bits 109-128. Computed in halves, exactly, since u * chunks needs 68 bits.
constexpr std::int32_t chunk_of(const Digest &digest, std::int32_t chunks) {
  const std::uint64_t u = digest.hi >> 47 << 20 | (digest.lo & 0xFFFFF);
  const std::uint64_t n = static_cast<std::uint64_t>(chunks);
  return static_cast<std::int32_t>(((u >> 32) * n + ((u & 0xFFFFFFFF) * n >> 32)) >> 5);
}

// The first seven positions: bits 18-30, 31-43, ... 96-108 of md5(key). They do not depend on
// the number of chunks, so a filter can be folded and grown without its items.
constexpr Positions positions_of(const Digest &digest) {
  Positions positions{};
  for (int i = 0; i < kTableHashes; ++i) positions[i] = slice(digest, 18 + i * kSliceBits);
  return positions;
}

// All positions.size() (at most kMaxHashes) positions of a key whose md5 is `first`: the seven
// of positions_of, then nine slices from bit 1 on of each further digest. False if OpenSSL
// reports a failure.
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

// A position in a chunk of fewer bits (a power of two from kMinChunkBits): its top bits.
constexpr std::uint16_t narrow_position(std::uint16_t position, int chunk_bits) {
  return static_cast<std::uint16_t>(position * chunk_bits / kChunkBits);
}

}  // namespace bloomfilter

#endif
