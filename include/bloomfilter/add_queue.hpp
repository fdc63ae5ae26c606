// Adds many keys to a filter in memory, faster than one by one. Keys are hashed eight at a time.
// The processor fetches the cache lines of their bits while the next eight are hashed. Without that
// each name waits for seven cache lines: bloom_agg of 10 million names took 204 ns of processor
// time a name without the fetches, and takes 115 with them.
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

// The chunks of a filter that are in memory: `count` chunks, the first of which is chunk `first`. A
// filter that is larger than memory is built one range after another.
struct ChunkRange {
  std::uint8_t *bits;
  std::int32_t first;
  std::int32_t count;

  // The address of a chunk's bytes, or null if the chunk is not in the range.
  std::uint8_t *find(const Header &header, std::int32_t chunk) const {
    if (chunk < first || chunk - first >= count) return nullptr;
    return bits + header.chunk_offset(chunk - first);
  }
};

// A queue of adds. Up to fifteen of them have not set their bits yet: seven that are not hashed,
// and eight whose cache lines are being fetched. flush() sets the bits of all.
//
// There is no constructor: the queue lies in memory of palloc. There is no destructor either, since
// a longjmp may pass over it. The caller calls start() first and flush() last.
class AddQueue {
 public:
  // Empties the queue. All that follows goes to the chunks of `range`.
  void start(const Header &header, ChunkRange range) {
    header_ = header;
    range_ = range;
    keys_ = 0;
    waiting_ = 0;
    blocks_ = {};
  }

  // The longest key that the queue takes, in bytes. Longer keys take more than one block of MD5.
  // The caller adds those itself.
  std::size_t max_key_bytes() const {
    return md5::kMaxKeyBytes - (header_.k > kSlicesFirstDigest ? kPrefixBytes : 0);
  }

  // The block for the next key. The caller writes the key there, pads it, and calls push() with the
  // key's length. So a key is normalized into its place and not copied.
  md5::Block &block() { return blocks_[keys_]; }
  void push(std::size_t length) {
    lengths_[keys_++] = static_cast<std::uint8_t>(length);
    if (keys_ == md5::kLanes) hash();
  }

  // Sets the bits of all keys that were pushed.
  void flush() {
    if (keys_ > 0) hash();
    apply();
  }

 private:
  // "1:" to "3:", see hash_further. kMaxHashes takes no more than three further digests, so that a
  // prefix has one digit.
  static constexpr std::size_t kPrefixBytes = 2;
  static_assert((kMaxHashes - kSlicesFirstDigest) <= 9 * kSlicesFurtherDigest);

  // Hashes the keys that wait and asks for their cache lines. In between it sets the bits of the
  // eight keys before them, whose lines have arrived meanwhile.
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

  // Computes, for every key, its positions from number `next` on: nine of them, or as many as are
  // left.
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

  // Asks the processor for the cache lines of an item's bits. It does not wait for them. Inlined
  // always: gcc takes a function that only prefetches for one without effect, and drops the calls.
  __attribute__((always_inline)) void fetch(const ItemBits &item) const {
    const std::uint8_t *chunk = range_.find(header_, item.chunk);
    if (chunk == nullptr) return;
    for (std::uint8_t p = 0; p < item.k; ++p) __builtin_prefetch(chunk + item.positions[p] / 8, 1);
  }

  // Sets the bits of the items that are hashed.
  void apply() {
    for (std::size_t i = 0; i < waiting_; ++i)
      if (std::uint8_t *chunk = range_.find(header_, items_[i].chunk); chunk != nullptr)
        chunk_add(chunk, items_[i]);
    waiting_ = 0;
  }

  Header header_;
  ChunkRange range_;
  std::size_t keys_;     // keys in blocks_ that are not hashed yet
  std::size_t waiting_;  // items in items_ whose bits are not set yet
  std::array<std::uint8_t, md5::kLanes> lengths_;
  std::array<md5::Block, md5::kLanes> blocks_;
  std::array<ItemBits, md5::kLanes> items_;
};

}  // namespace bloomfilter

#endif
