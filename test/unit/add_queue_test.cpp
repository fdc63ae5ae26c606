// Queued adds against the same adds one by one.
#include "bloomfilter/add_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "reference.hpp"

namespace bloomfilter {
namespace {

using reference::Bytes;
using reference::Item;

Header header_of(int k, int log2_chunk_bits, std::int32_t chunks) {
  return {static_cast<std::uint8_t>(k), static_cast<std::uint8_t>(log2_chunk_bits),
          Normalization::kNone, chunks, kUtf8Canary};
}

void push(AddQueue &queue, const std::string &key) {
  md5::Block &block = queue.block();
  key.copy(md5::text_of(block), key.size());
  md5::pad(block, key.size());
  queue.push(key.size());
}

class AddQueueTest : public testing::Test {
 protected:
  std::string random_key(std::size_t length) {
    std::string key(length, '\0');
    for (char &byte : key) byte = static_cast<char>(random_());
    return key;
  }

  // `count` keys of at most `most` bytes.
  std::vector<std::string> random_keys(std::size_t count, std::size_t most) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back(random_key(random_() % (most + 1)));
    return keys;
  }

  static std::vector<Item> items_of(const std::vector<std::string> &keys) {
    return std::vector<Item>(keys.begin(), keys.end());
  }

  std::mt19937_64 random_{20260117};
};

TEST_F(AddQueueTest, SetsTheBitsOfAddsOneByOne) {
  const std::vector<std::string> keys = random_keys(40, 53);
  const std::vector<Item> items = items_of(keys);
  for (int k = 1; k <= 32; ++k)
    for (int log2 = 6; log2 <= 13; ++log2) {
      const Header header = header_of(k, log2, 3);
      Bytes expected(header.bits_bytes());
      for (std::size_t pushes = 0; pushes <= keys.size(); ++pushes) {
        if (pushes > 0) items[pushes - 1].add_to(expected, header.k, 3, std::uint64_t{1} << log2);
        Bytes bits(header.bits_bytes());
        AddQueue queue;
        queue.start(header, {bits.data(), 0, header.chunks});
        for (std::size_t i = 0; i < pushes; ++i) push(queue, keys[i]);
        queue.flush();
        ASSERT_EQ(bits, expected) << "k " << k << ", 2^" << log2 << ", " << pushes << " pushes";
      }
    }
}

TEST_F(AddQueueTest, TakesEveryLengthUpToItsMost) {
  for (int k = 1; k <= 32; ++k) {
    const Header header = header_of(k, 13, 5);
    Bytes bits(header.bits_bytes());
    AddQueue queue;
    queue.start(header, {bits.data(), 0, header.chunks});
    EXPECT_EQ(queue.max_key_bytes(), k <= 7 ? 55u : 53u);
    std::vector<Item> items;
    // up and down again, so that short keys come to blocks that long ones were in
    for (std::size_t i = 0; i <= 2 * queue.max_key_bytes(); ++i) {
      const std::string key = random_key(std::min(i, 2 * queue.max_key_bytes() - i));
      push(queue, key);
      items.emplace_back(key);
    }
    queue.flush();
    EXPECT_EQ(bits, reference::filter_of(items, header.k, 5, 8192)) << "k " << k;
  }
}

TEST_F(AddQueueTest, SetsWhatIsInItsRangeAndNothingAround) {
  constexpr std::int32_t kChunks = 13;
  const std::vector<std::string> keys = random_keys(300, 53);
  const std::vector<Item> items = items_of(keys);
  for (int k : {1, 7, 8, 32})
    for (int log2 : {6, 10, 13}) {
      const Header header = header_of(k, log2, kChunks);
      const auto bytes = static_cast<std::ptrdiff_t>(header.chunk_bytes());
      const Bytes whole = reference::filter_of(items, header.k, kChunks, std::uint64_t{1} << log2);
      for (std::int32_t first = 0; first < kChunks; ++first)
        for (std::int32_t count = 0; first + count <= kChunks; ++count) {
          // the range's bytes stand between two chunks of others', which stay as they are
          Bytes memory(static_cast<std::size_t>((count + 2) * bytes));
          std::fill_n(memory.begin(), bytes, 0x5A);
          std::fill_n(memory.rbegin(), bytes, 0x5A);
          Bytes expected = memory;
          std::copy_n(whole.begin() + first * bytes, count * bytes, expected.begin() + bytes);
          AddQueue queue;
          queue.start(header, {memory.data() + bytes, first, count});
          for (const std::string &key : keys) push(queue, key);
          queue.flush();
          ASSERT_EQ(memory, expected) << count << " chunks from " << first << ", k " << k;
        }
    }
}

TEST_F(AddQueueTest, KeepsBitsThatWereThere) {
  const std::vector<std::string> keys = random_keys(20, 53);
  const Header header = header_of(7, 6, 4);
  Bytes bits(header.bits_bytes()), expected = reference::filter_of(items_of(keys), 7, 4, 64);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<std::uint8_t>(random_());
    expected[i] = static_cast<std::uint8_t>(expected[i] | bits[i]);
  }
  AddQueue queue;
  queue.start(header, {bits.data(), 0, header.chunks});
  for (const std::string &key : keys) push(queue, key);
  queue.flush();
  EXPECT_EQ(bits, expected);
}

TEST_F(AddQueueTest, FlushLeavesNothingBehind) {
  const std::vector<std::string> keys = random_keys(23, 53);
  const Header header = header_of(20, 9, 3);
  Bytes bits(header.bits_bytes());
  AddQueue queue;
  queue.start(header, {bits.data(), 0, header.chunks});
  queue.flush();
  EXPECT_EQ(bits, Bytes(header.bits_bytes()));
  for (const std::string &key : keys) push(queue, key);
  queue.flush();
  EXPECT_EQ(bits, reference::filter_of(items_of(keys), 20, 3, 512));
  std::ranges::fill(bits, std::uint8_t{0});
  queue.flush();
  EXPECT_EQ(bits, Bytes(header.bits_bytes()));
  // what comes after a flush is added, and only that
  push(queue, keys[7]);
  queue.flush();
  EXPECT_EQ(bits, reference::filter_of({Item(keys[7])}, 20, 3, 512));
}

TEST_F(AddQueueTest, StartForgetsWhatWasPushed) {
  const Header header = header_of(7, 9, 3), other = header_of(30, 7, 2);
  Bytes bits(header.bits_bytes()), other_bits(other.bits_bytes());
  AddQueue queue;
  queue.start(header, {bits.data(), 0, header.chunks});
  for (int i = 0; i < 11; ++i) push(queue, random_key(10));
  const Bytes before = bits;
  queue.start(other, {other_bits.data(), 0, other.chunks});
  push(queue, "ada");
  queue.flush();
  EXPECT_EQ(bits, before);
  EXPECT_EQ(other_bits, reference::filter_of({Item("ada")}, 30, 2, 128));
}

}  // namespace
}  // namespace bloomfilter
