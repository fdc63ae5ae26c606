// A filter of any geometry in the caller's memory: find an item's bits, test and set them, merge
// and fold. FilterView reads a filter value without PostgreSQL.
#ifndef BLOOMFILTER_FILTER_HPP
#define BLOOMFILTER_FILTER_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "bloomfilter/ascii_key.hpp"
#include "bloomfilter/chunk.hpp"
#include "bloomfilter/format.hpp"
#include "bloomfilter/hash.hpp"
#include "bloomfilter/layout.hpp"

namespace bloomfilter {

// The bits of an item in a filter: its chunk, and k positions in that chunk.
struct ItemBits {
  std::int32_t chunk;
  std::uint8_t k;
  std::array<std::uint16_t, kMaxHashes> positions;
};

// Computes the item's bits from its key and the key's md5. Returns false if OpenSSL reports a
// failure. For k up to 7 the digest is enough, and the key is not hashed again.
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

// The same, from the key alone.
inline bool item_bits(const Header &header, Hasher &hasher, std::string_view key, ItemBits &bits) {
  Digest digest{};
  return hasher.hash(key, digest) && item_bits(header, hasher, key, digest, bits);
}

// Whether all bits of the item are set in its chunk, which begins at `chunk`.
constexpr bool chunk_contains(const std::uint8_t *chunk, const ItemBits &item) {
  for (std::uint8_t i = 0; i < item.k; ++i)
    if ((chunk[item.positions[i] / 8] & bit_in_byte(item.positions[i])) == 0) return false;
  return true;
}

// Sets the item's bits in its chunk.
constexpr void chunk_add(std::uint8_t *chunk, const ItemBits &item) {
  for (std::uint8_t i = 0; i < item.k; ++i)
    chunk[item.positions[i] / 8] |= bit_in_byte(item.positions[i]);
}

// Sets every bit of a filter of header.chunks chunks in a smaller filter of `chunks` chunks.
// `chunks` must divide header.chunks. Chunk c goes to chunk c / (header.chunks / chunks), where
// chunk_of() looks for its items in a filter of that size. So the smaller filter has the same
// members, without their names.
inline void fold(const Header &header, std::span<const std::uint8_t> bits, std::int32_t chunks,
                 std::uint8_t *target) {
  const std::int32_t group = header.chunks / chunks;
  for (std::int32_t chunk = 0; chunk < header.chunks; ++chunk)
    merge_bits(target + header.chunk_offset(chunk / group),
               bits.subspan(header.chunk_offset(chunk), header.chunk_bytes()));
}

// What a program without PostgreSQL can say about an item.
enum class Answer {
  kDefinitelyNot,
  kMaybe,
  kAskServer,  // only the server knows the item's key, or the key could not be hashed
};

// Reads a filter value where it is, in memory or in a mapped file. It does not copy the bytes and
// does not own them.
class FilterView {
 public:
  // Validates the bytes, which must outlive the view. After an error every answer is kAskServer.
  FormatError open(std::span<const std::uint8_t> bytes) {
    const FormatError error = read_value(bytes, header_);
    bits_ = error == FormatError::kNone ? bytes.subspan(kValueHeaderBytes)
                                        : std::span<const std::uint8_t>();
    return error;
  }

  // The header and the bits of a value that open() accepted.
  const Header &header() const { return header_; }
  std::span<const std::uint8_t> bits() const { return bits_; }

  // Whether an item, in UTF-8, might be in the filter. The key of an item beyond ASCII is known
  // here only under normalization "none", and only if the value was built in a UTF8 database: what
  // the others make of it depends on the server's locale or ICU, and a wrong key would deny a
  // member.
  Answer might_contain(Hasher &hasher, std::string_view item) const {
    if (bits_.empty()) return Answer::kAskServer;
    if (header_.normalization == Normalization::kNone) {
      bool ascii = true;
      for (const char byte : item) ascii = ascii && static_cast<unsigned char>(byte) < 0x80;
      return ascii || header_.canary == kUtf8Canary ? look(hasher, item) : Answer::kAskServer;
    }
    std::array<char, kMaxKey> key;
    const std::size_t length = ascii_key(header_.normalization, item, key);
    return length == kNoAsciiKey ? Answer::kAskServer : look(hasher, {key.data(), length});
  }

 private:
  // The server makes the longer keys: this has no memory of its own but the stack.
  static constexpr std::size_t kMaxKey = 1024;

  // Tests the bits of a key.
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
