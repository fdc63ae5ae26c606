// A filter over the caller's bytes: look, add, unite, fold; whatever its geometry.
#ifndef BLOOMFILTER_FILTER_HPP
#define BLOOMFILTER_FILTER_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "bloomfilter/chunk.hpp"
#include "bloomfilter/format.hpp"
#include "bloomfilter/hash.hpp"
#include "bloomfilter/layout.hpp"

namespace bloomfilter {

// Where the bits of an item lie in a filter: its chunk, and k positions there.
struct ItemBits {
  std::int32_t chunk;
  std::uint8_t k;
  std::array<std::uint16_t, kMaxHashes> positions;
};

// The item's bits, from its key and that key's md5. False if OpenSSL reports a failure.
inline bool item_bits(const Header &header, Hasher &hasher, std::string_view key,
                      const Digest &digest, ItemBits &bits) {
  bits.chunk = chunk_of(digest, header.chunks);
  bits.k = header.k;
  const std::span<std::uint16_t> positions(bits.positions.data(), header.k);
  if (!positions_of(hasher, key, digest, positions)) return false;
  for (std::uint16_t &position : positions)
    position = narrow_position(position, header.chunk_bits());
  return true;
}

inline bool item_bits(const Header &header, Hasher &hasher, std::string_view key, ItemBits &bits) {
  Digest digest{};
  return hasher.hash(key, digest) && item_bits(header, hasher, key, digest, bits);
}

// Whether all the item's bits are set in its chunk.
constexpr bool chunk_contains(const std::uint8_t *chunk, const ItemBits &item) {
  for (std::uint8_t i = 0; i < item.k; ++i)
    if ((chunk[item.positions[i] / 8] & bit_in_byte(item.positions[i])) == 0) return false;
  return true;
}

constexpr void chunk_add(std::uint8_t *chunk, const ItemBits &item) {
  for (std::uint8_t i = 0; i < item.k; ++i)
    chunk[item.positions[i] / 8] |= bit_in_byte(item.positions[i]);
}

// ORs `bits`, of header.chunks chunks, into target's `chunks` chunks, which divide them: chunk c
// goes to c / (header.chunks / chunks), which is where its items are in a filter of that many.
inline void fold(const Header &header, std::span<const std::uint8_t> bits, std::int32_t chunks,
                 std::uint8_t *target) {
  const std::int32_t group = header.chunks / chunks;
  for (std::int32_t chunk = 0; chunk < header.chunks; ++chunk)
    merge_bits(target + header.chunk_offset(chunk / group),
               bits.subspan(header.chunk_offset(chunk), header.chunk_bytes()));
}

// What a program without PostgreSQL can say of an item.
enum class Answer {
  kDefinitelyNot,
  kMaybe,
  kAskServer,  // its key is not to be known here, or could not be hashed
};

// A value to be read where it lies: in memory, or in a mapped file. Neither copies nor owns.
class FilterView {
 public:
  // Validates the bytes, which must outlive the view.
  FormatError open(std::span<const std::uint8_t> bytes) {
    const FormatError error = read_value(bytes, header_);
    bits_ = error == FormatError::kNone ? bytes.subspan(kValueHeaderBytes)
                                        : std::span<const std::uint8_t>();
    return error;
  }

  // Of an open that succeeded.
  const Header &header() const { return header_; }
  std::span<const std::uint8_t> bits() const { return bits_; }

  // Whether an item, in UTF-8, might be in the filter. Beyond ASCII its key is known only of
  // "none", and only where the value was built in a UTF8 database.
  Answer might_contain(Hasher &hasher, std::string_view item) const {
    if (bits_.empty()) return Answer::kAskServer;
    bool ascii = true;
    for (const char byte : item) ascii = ascii && static_cast<unsigned char>(byte) < 0x80;
    if (header_.normalization == Normalization::kNone)
      return ascii || header_.canary == kUtf8Canary ? look(hasher, item) : Answer::kAskServer;
    std::array<char, kMaxLowered> lowered;
    if (!ascii || item.size() > lowered.size()) return Answer::kAskServer;
    for (std::size_t i = 0; i < item.size(); ++i)
      lowered[i] = static_cast<char>(item[i] >= 'A' && item[i] <= 'Z' ? item[i] | 0x20 : item[i]);
    return look(hasher, {lowered.data(), item.size()});
  }

 private:
  static constexpr std::size_t kMaxLowered = 1024;

  Answer look(Hasher &hasher, std::string_view key) const {
    ItemBits item;
    if (!item_bits(header_, hasher, key, item)) return Answer::kAskServer;
    return chunk_contains(bits_.data() + header_.chunk_offset(item.chunk), item)
               ? Answer::kMaybe
               : Answer::kDefinitelyNot;
  }

  Header header_{};
  std::span<const std::uint8_t> bits_;
};

}  // namespace bloomfilter

#endif
