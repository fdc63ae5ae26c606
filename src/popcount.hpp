#ifndef BLOOMFILTER_POPCOUNT_HPP
#define BLOOMFILTER_POPCOUNT_HPP

#include "pg.hpp"

#include <span>

namespace bloomfilter {

// How many bits are set. The server's pg_popcount goes byte by byte where it starts unaligned, and
// a chunk in a tuple starts 4 mod 8: the bytes before the first aligned word are counted apart (75
// ms a table of 131072 chunks against 103).
inline uint64 popcount(std::span<const uint8> bits) {
  const char *bytes = reinterpret_cast<const char *>(bits.data());
  const int size = static_cast<int>(bits.size());
  const int head =
      Min(static_cast<int>(-reinterpret_cast<uintptr_t>(bytes) % sizeof(uint64)), size);
  return pg_popcount(bytes, head) + pg_popcount(bytes + head, size - head);
}

}  // namespace bloomfilter

#endif
