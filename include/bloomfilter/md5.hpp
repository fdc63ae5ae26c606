// MD5 (RFC 1321) of keys of at most 55 bytes, which fit one block: one key at a time, or eight side
// by side. OpenSSL 3 allocates memory for each digest and takes 125 ns a name. This takes 93 ns for
// one key, and 37 ns for each of eight (core_bench). Longer keys are hashed by OpenSSL, see
// hash.hpp. The unit tests compare the two.
#ifndef BLOOMFILTER_MD5_HPP
#define BLOOMFILTER_MD5_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace bloomfilter {

// An MD5 digest as a number of 128 bits. Bits are numbered from 1, the most significant, to 128;
// `hi` has bits 1 to 64.
struct Digest {
  std::uint64_t hi;
  std::uint64_t lo;
  friend bool operator==(const Digest &, const Digest &) = default;
};

// Reads a digest from its 16 bytes, in the order in which MD5 writes them.
constexpr Digest digest_from_bytes(std::span<const unsigned char, 16> bytes) {
  Digest digest{0, 0};
  for (int i = 0; i < 8; ++i) {
    digest.hi = digest.hi << 8 | bytes[i];
    digest.lo = digest.lo << 8 | bytes[i + 8];
  }
  return digest;
}

namespace md5 {

inline constexpr std::size_t kBlockBytes = 64;
// After the key a block has a byte of padding, and at its end eight bytes with the key's length.
inline constexpr std::size_t kMaxKeyBytes = kBlockBytes - 9;

using Block = std::array<unsigned char, kBlockBytes>;

// Eight words side by side, one of each key. A GNU vector is compiled to what the target has: on
// x86-64 without options to two SSE2 registers. So a packaged build needs no -march, and no code of
// its own for each processor, as intrinsics would.
inline constexpr std::size_t kLanes = 8;
using Lanes __attribute__((vector_size(kLanes * sizeof(std::uint32_t)))) = std::uint32_t;

// Constant i is floor(2^32 |sin(i + 1)|).
inline constexpr std::array<std::uint32_t, 64> kSines = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

// By how many bits the steps of each round rotate.
inline constexpr std::array<std::array<int, 4>, 4> kRotations = {
    {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}};

// The state that the first block is mixed into.
inline constexpr std::array<std::uint32_t, 4> kStart = {0x67452301, 0xefcdab89, 0x98badcfe,
                                                        0x10325476};

// Step i of 64. state[0..3] are the RFC's a, b, c, d. They change places from step to step; the
// index does that, so that nothing is moved. The step is a template and always inlined: all indexes
// are constants, and the words stay in registers.
template <std::size_t i, typename Word>
inline __attribute__((always_inline)) void step(Word (&state)[4], const Word (&words)[16]) {
  Word &a = state[(64 - i) % 4];
  const Word &b = state[(65 - i) % 4], &c = state[(66 - i) % 4], &d = state[(67 - i) % 4];
  constexpr std::size_t kRound = i / 16;
  constexpr std::size_t kWord = (kRound == 0   ? i
                                 : kRound == 1 ? 5 * i + 1
                                 : kRound == 2 ? 3 * i + 5
                                               : 7 * i) %
                                16;
  if constexpr (kRound == 0) a += d ^ (b & (c ^ d));
  if constexpr (kRound == 1) a += c ^ (d & (b ^ c));
  if constexpr (kRound == 2) a += b ^ c ^ d;
  if constexpr (kRound == 3) a += c ^ (b | ~d);
  a += words[kWord] + kSines[i];
  constexpr int kRotation = kRotations[kRound][i % 4];
  a = (a << kRotation | a >> (32 - kRotation)) + b;
}

// Computes the digest of one block, given as 16 words, as four words. Word is uint32 for one key,
// and Lanes for eight.
template <typename Word>
inline __attribute__((always_inline)) void compress(const Word (&words)[16], Word (&state)[4]) {
  for (std::size_t i = 0; i < 4; ++i) state[i] = Word{} + kStart[i];
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    (step<i>(state, words), ...);
  }
  (std::make_index_sequence<64>{});
  for (std::size_t i = 0; i < 4; ++i) state[i] += kStart[i];
}

// Word i of a block. MD5 reads the low byte of a word first, on every machine.
inline std::uint32_t load_word(const Block &block, std::size_t i) {
  const unsigned char *bytes = block.data() + 4 * i;
  return static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8 |
         static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
}

// The digest of the four words. MD5 writes the low byte of a word first, and a Digest has the first
// byte on top.
constexpr Digest digest_of_words(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                 std::uint32_t d) {
  const auto pair = [](std::uint32_t high, std::uint32_t low) {
    return static_cast<std::uint64_t>(__builtin_bswap32(high)) << 32 | __builtin_bswap32(low);
  };
  return {pair(a, b), pair(c, d)};
}

// The place for a key's bytes in a block.
inline char *text_of(Block &block) {
  return reinterpret_cast<char *>(block.data());
}

// Completes a block that begins with a key of `length` (at most kMaxKeyBytes) bytes: padding, and
// the length in bits.
inline void pad(Block &block, std::size_t length) {
  block[length] = 0x80;
  std::memset(block.data() + length + 1, 0, kBlockBytes - length - 1);
  block[56] = static_cast<unsigned char>(length << 3);
  block[57] = static_cast<unsigned char>(length >> 5);
}

// md5(key) of the key in a padded block.
inline Digest digest(const Block &block) {
  std::uint32_t words[16], state[4];
  for (std::size_t i = 0; i < 16; ++i) words[i] = load_word(block, i);
  compress(words, state);
  return digest_of_words(state[0], state[1], state[2], state[3]);
}

// md5(key) of each of eight keys in padded blocks.
inline void digest_lanes(const std::array<Block, kLanes> &blocks,
                         std::array<Digest, kLanes> &digests) {
  Lanes words[16], state[4];
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t lane = 0; lane < kLanes; ++lane) words[i][lane] = load_word(blocks[lane], i);
  compress(words, state);
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    digests[lane] = digest_of_words(state[0][lane], state[1][lane], state[2][lane], state[3][lane]);
}

}  // namespace md5
}  // namespace bloomfilter

#endif
