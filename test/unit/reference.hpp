// The bit layout written out a second time, after the design and not after the core: a digest is a
// string of 128 digits, a slice a substring, a filter a set of bits. Slow, and plain.
#ifndef BLOOMFILTER_TEST_REFERENCE_HPP
#define BLOOMFILTER_TEST_REFERENCE_HPP

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bloomfilter::reference {

using Bytes = std::vector<std::uint8_t>;

// The digits of md5(text), most significant first.
inline std::string md5_digits(const std::string &text) {
  unsigned char bytes[16];
  EXPECT_EQ(EVP_Digest(text.data(), text.size(), bytes, nullptr, EVP_md5(), nullptr), 1);
  std::string digits;
  for (const unsigned char byte : bytes) digits += std::bitset<8>(byte).to_string();
  return digits;
}

// The number that digits `first` to `last` write, the first digit being 1.
inline std::uint64_t number(const std::string &digits, std::size_t first, std::size_t last) {
  return std::stoull(digits.substr(first - 1, last - first + 1), nullptr, 2);
}

// A key's 37 bits for the chunk, and its 32 slices of 13 bits.
struct Item {
  std::uint64_t u;
  std::vector<std::uint64_t> slices;

  explicit Item(const std::string &key) {
    const std::string digest = md5_digits(key);
    u = number(digest.substr(0, 17) + digest.substr(108), 1, 37);
    for (std::size_t first = 18; first <= 96; first += 13)
      slices.push_back(number(digest, first, first + 12));
    for (const char *prefix : {"1:", "2:", "3:"}) {
      const std::string further = md5_digits(prefix + key);
      for (std::size_t first = 1; first <= 105; first += 13)
        slices.push_back(number(further, first, first + 12));
    }
    slices.resize(32);
  }

  // Of at most 2^26 chunks, for which the product fits in 64 bits.
  std::uint64_t chunk(std::uint64_t chunks) const { return u * chunks >> 37; }

  // The i-th position in a chunk of chunk_bits bits: the top bits of the slice.
  std::uint64_t position(std::size_t i, std::uint64_t chunk_bits) const {
    std::uint64_t position = slices[i];
    for (std::uint64_t bits = 8192; bits > chunk_bits; bits /= 2) position /= 2;
    return position;
  }

  // The number of the i-th bit among all bits of the filter.
  std::uint64_t bit(std::size_t i, std::uint64_t chunks, std::uint64_t chunk_bits) const {
    return chunk(chunks) * chunk_bits + position(i, chunk_bits);
  }

  bool is_in(const Bytes &bits, std::size_t k, std::uint64_t chunks,
             std::uint64_t chunk_bits) const {
    for (std::size_t i = 0; i < k; ++i) {
      const std::uint64_t n = bit(i, chunks, chunk_bits);
      if ((bits[n / 8] >> (7 - n % 8)) % 2 == 0) return false;
    }
    return true;
  }

  void add_to(Bytes &bits, std::size_t k, std::uint64_t chunks, std::uint64_t chunk_bits) const {
    for (std::size_t i = 0; i < k; ++i) {
      const std::uint64_t n = bit(i, chunks, chunk_bits);
      bits[n / 8] = static_cast<std::uint8_t>(bits[n / 8] | 1u << (7 - n % 8));
    }
  }
};

// The bits of a filter that holds these items.
inline Bytes filter_of(const std::vector<Item> &items, std::size_t k, std::uint64_t chunks,
                       std::uint64_t chunk_bits) {
  Bytes bits(chunks * chunk_bits / 8);
  for (const Item &item : items) item.add_to(bits, k, chunks, chunk_bits);
  return bits;
}

}  // namespace bloomfilter::reference

#endif
