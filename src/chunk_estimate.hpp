// What can be read from the bits of a chunk: how many are set, and by how many items.
#ifndef BLOOMFILTER_CHUNK_ESTIMATE_HPP
#define BLOOMFILTER_CHUNK_ESTIMATE_HPP

#include "pg.hpp"

#include <span>

#include "bloomfilter/layout.hpp"
#include "bloomfilter/sizing.hpp"

namespace bloomfilter {

// How many bits are set. The server's pg_popcount counts byte by byte if it starts at an unaligned
// address, and in a tuple the address of a chunk is 4 modulo 8. So the bytes before the first
// aligned word are counted apart. A table of 131072 chunks then takes 75 ms instead of 103.
inline uint64 popcount(std::span<const uint8> bits) {
  const char *bytes = reinterpret_cast<const char *>(bits.data());
  const int size = static_cast<int>(bits.size());
  const int head =
      Min(static_cast<int>(-reinterpret_cast<uintptr_t>(bytes) % sizeof(uint64)), size);
  return pg_popcount(bytes, head) + pg_popcount(bytes + head, size - head);
}

// Estimates from the bits of one chunk. For a whole filter, items are added up over the chunks, and
// fill and rate are averaged.
class ChunkEstimate {
 public:
  // Counts the bits of a chunk of any size, whose items set k bits each.
  explicit ChunkEstimate(std::span<const uint8> bits, int k = kTableHashes)
      : set_(static_cast<float8>(popcount(bits))),
        size_(static_cast<int>(bits.size()) * 8),
        k_(k) {}

  // How many bits are set.
  int set() const { return static_cast<int>(set_); }

  // The share of bits that are set, 0 to 1.
  float8 fill() const { return set_ / size_; }

  // About how many items were added; see estimated_items.
  float8 items() const { return estimated_items(set_, size_, k_); }

  // The probability that an item that was not added finds all its bits set: fill^k. It is computed
  // by multiplication, since std::pow takes twice as long for k = 7.
  float8 fp_rate() const {
    float8 rate = fill();
    for (int i = 1; i < k_; ++i) rate *= fill();
    return rate;
  }

 private:
  float8 set_;
  int size_;
  int k_;
};

}  // namespace bloomfilter

#endif
