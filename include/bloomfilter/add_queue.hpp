// Many adds to a filter in memory. Keys are hashed eight at a time, and the cache lines of their
// bits are on their way while the next eight are hashed: a name that goes to one of 131072 chunks
// otherwise waits for seven lines of memory.
#ifndef BLOOMFILTER_ADD_QUEUE_HPP
#define BLOOMFILTER_ADD_QUEUE_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"
#include "bloomfilter/layout.hpp"
#include "bloomfilter/md5.hpp"

namespace bloomfilter {

// The chunks of a filter that are in memory: `count` of them from `first` on, at `bits`.
struct ChunkRange {
  std::uint8_t *bits;
  std::int32_t first;
  std::int32_t count;

  // Where a chunk of the filter lies, or null where it is not in the range.
  std::uint8_t *find(const Header &header, std::int32_t chunk) const {
    if (chunk < first || chunk - first >= count) return nullptr;
    return bits + header.chunk_offset(chunk - first);
  }
};

// Holds up to fifteen adds back until flush().
class AddQueue {
 public:
  void start(const Header &header, ChunkRange range) {
    header_ = header;
    range_ = range;
    keys_ = 0;
    waiting_ = 0;
    blocks_ = {};
  }

  // Keys of more bytes than this are not for the queue.
  std::size_t max_key_bytes() const {
    return md5::kMaxKeyBytes - (header_.k > kSlicesFirstDigest ? kPrefixBytes : 0);
  }

  // The block that the next key is to be written to, and padded; push() then takes it, given its
  // length.
  md5::Block &block() { return blocks_[keys_]; }
  void push(std::size_t length) {
    lengths_[keys_++] = static_cast<std::uint8_t>(length);
    if (keys_ == md5::kLanes) hash();
  }

  // Sets the bits of all that were pushed.
  void flush() {
    if (keys_ > 0) hash();
    apply();
  }

 private:
  // "1:" to "3:", see hash_further: kMaxHashes takes no more digests.
  static constexpr std::size_t kPrefixBytes = 2;
  static_assert((kMaxHashes - kSlicesFirstDigest) <= 9 * kSlicesFurtherDigest);

  void hash() {
    std::array<Digest, md5::kLanes> digests;
    md5::digest_lanes(blocks_, digests);
    apply();
    for (std::size_t i = 0; i < keys_; ++i) {
      items_[i].chunk = chunk_of(digests[i], header_.chunks);
      items_[i].k = header_.k;
      for (std::uint8_t p = 0; p < header_.k && p < kSlicesFirstDigest; ++p)
        items_[i].positions[p] =
            narrow_position(slice(digests[i], 18 + p * kSliceBits), header_.chunk_bits());
    }
    for (std::uint8_t next = kSlicesFirstDigest; next < header_.k; next += kSlicesFurtherDigest)
      hash_further(next);
    for (std::size_t i = 0; i < keys_; ++i) fetch(items_[i]);
    waiting_ = keys_;
    keys_ = 0;
  }

  // The positions from `next` on, nine at most, of every key.
  void hash_further(std::uint8_t next) {
    std::array<md5::Block, md5::kLanes> blocks{};
    const char round = static_cast<char>('1' + (next - kSlicesFirstDigest) / kSlicesFurtherDigest);
    for (std::size_t i = 0; i < keys_; ++i) {
      char *text = md5::text_of(blocks[i]);
      text[0] = round;
      text[1] = ':';
      std::memcpy(text + kPrefixBytes, blocks_[i].data(), lengths_[i]);
      md5::pad(blocks[i], kPrefixBytes + lengths_[i]);
    }
    std::array<Digest, md5::kLanes> digests;
    md5::digest_lanes(blocks, digests);
    for (std::size_t i = 0; i < keys_; ++i)
      for (std::uint8_t p = 0; p < kSlicesFurtherDigest && next + p < header_.k; ++p)
        items_[i].positions[next + p] =
            narrow_position(slice(digests[i], 1 + p * kSliceBits), header_.chunk_bits());
  }

  void fetch(const ItemBits &item) const {
    const std::uint8_t *chunk = range_.find(header_, item.chunk);
    if (chunk == nullptr) return;
    for (std::uint8_t p = 0; p < item.k; ++p) __builtin_prefetch(chunk + item.positions[p] / 8, 1);
  }

  void apply() {
    for (std::size_t i = 0; i < waiting_; ++i)
      if (std::uint8_t *chunk = range_.find(header_, items_[i].chunk); chunk != nullptr)
        chunk_add(chunk, items_[i]);
    waiting_ = 0;
  }

  Header header_;
  ChunkRange range_;
  std::size_t keys_;     // in blocks_, not hashed yet
  std::size_t waiting_;  // in items_, whose bits are not set yet
  std::array<std::uint8_t, md5::kLanes> lengths_;
  std::array<md5::Block, md5::kLanes> blocks_;
  std::array<ItemBits, md5::kLanes> items_;
};

}  // namespace bloomfilter

#endif
