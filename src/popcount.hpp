#ifndef BLOOMFILTER_POPCOUNT_HPP
#define BLOOMFILTER_POPCOUNT_HPP

#include "pg.hpp"

#include "bloomfilter/chunk.hpp"

namespace bloomfilter {

// How many bits of a chunk are set. The server's pg_popcount goes byte by byte where it starts
// unaligned, and a chunk in a tuple starts 4 mod 8: the four bytes before the first aligned word
// are counted apart (75 ms a table of 131072 chunks against 103).
inline uint64 popcount(ChunkView chunk) {
  const char *bytes = reinterpret_cast<const char *>(chunk.data());
  const int head = static_cast<int>(-reinterpret_cast<uintptr_t>(bytes) % sizeof(uint64));
  return pg_popcount(bytes, head) + pg_popcount(bytes + head, kChunkBytes - head);
}

}  // namespace bloomfilter

#endif
