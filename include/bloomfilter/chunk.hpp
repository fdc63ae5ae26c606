// Set, test and merge on the bytes of one chunk. Position p is byte p / 8, mask 0x80 >> p % 8:
// the order in which PostgreSQL numbers the bits of a bit string.
#ifndef BLOOMFILTER_CHUNK_HPP
#define BLOOMFILTER_CHUNK_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "bloomfilter/layout.hpp"

namespace bloomfilter {

using ChunkView = std::span<const std::uint8_t, kChunkBytes>;
using MutableChunkView = std::span<std::uint8_t, kChunkBytes>;

constexpr std::uint8_t bit_in_byte(std::uint16_t position) {
  return static_cast<std::uint8_t>(0x80 >> (position % 8));
}

// Whether every one of the item's bits is set.
constexpr bool chunk_contains(ChunkView chunk, const Positions &positions) {
  for (std::uint16_t position : positions)
    if ((chunk[position / 8] & bit_in_byte(position)) == 0) return false;
  return true;
}

// Sets the item's bits. True if one of them was not set before: the item was definitely new.
constexpr bool chunk_add(MutableChunkView chunk, const Positions &positions) {
  std::uint8_t missing = 0;
  for (std::uint16_t position : positions) {
    std::uint8_t &byte = chunk[position / 8];
    missing |= bit_in_byte(position) & ~byte;
    byte |= bit_in_byte(position);
  }
  return missing != 0;
}

// Whether every bit of `part` is set in `whole`. Reads unaligned words: a chunk in a tuple
// starts at any multiple of four.
inline bool chunk_covers(ChunkView whole, ChunkView part) {
  std::uint64_t missing = 0;
  for (std::size_t i = 0; i < kChunkBytes; i += sizeof missing) {
    std::uint64_t a, b;
    std::memcpy(&a, &whole[i], sizeof a);
    std::memcpy(&b, &part[i], sizeof b);
    missing |= b & ~a;
  }
  return missing == 0;
}

// target |= source, over as many bytes as source has: a chunk, or many.
inline void merge_bits(std::uint8_t *target, std::span<const std::uint8_t> source) {
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= source.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t a, b;
    std::memcpy(&a, target + i, sizeof a);
    std::memcpy(&b, source.data() + i, sizeof b);
    a |= b;
    std::memcpy(target + i, &a, sizeof a);
  }
  for (; i < source.size(); ++i) target[i] |= source[i];
}

}  // namespace bloomfilter

#endif
