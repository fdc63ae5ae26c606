// Filters of every geometry against the layout written out a second time, and what a reader
// without PostgreSQL may say of them.
#include "bloomfilter/filter.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "reference.hpp"

namespace bloomfilter {
namespace {

using reference::Bytes;
using reference::Item;

// Of "lower" on some server.
constexpr std::uint32_t kOtherCanary = 0x12345678;

// The golden value of docs/format.md: `ada` in one chunk of 64 bits, k = 7, "none" in UTF8.
// Computed in Python, with hashlib.
constexpr const char *kGolden =
    "01 07 06 00  00 00 00 01  e8 96 d1 02  00 00 00 00  08 02 00 60 00 22 04 00";

Header header_of(int k, int log2_chunk_bits, std::int32_t chunks,
                 Normalization normalization = Normalization::kNone,
                 std::uint32_t canary = kUtf8Canary) {
  return {static_cast<std::uint8_t>(k), static_cast<std::uint8_t>(log2_chunk_bits), normalization,
          chunks, canary};
}

Bytes value_of(const Header &header, const std::vector<Item> &items) {
  Bytes value(kValueHeaderBytes);
  write_header(header, value.data());
  const Bytes bits =
      reference::filter_of(items, header.k, static_cast<std::uint64_t>(header.chunks),
                           std::uint64_t{1} << header.log2_chunk_bits);
  value.insert(value.end(), bits.begin(), bits.end());
  return value;
}

class FilterTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(hasher_.open()); }
  void TearDown() override { hasher_.close(); }

  // What a view of the value says of the item.
  Answer ask(const Bytes &value, std::string_view item) {
    FilterView view;
    EXPECT_EQ(view.open(value), FormatError::kNone);
    return view.might_contain(hasher_, item);
  }

  // The same of a value with so few bits set that nothing but `keys` is found in it.
  Answer ask(Normalization normalization, std::uint32_t canary,
             const std::vector<std::string> &keys, std::string_view item) {
    const Header header = header_of(32, 13, 31, normalization, canary);
    return ask(value_of(header, std::vector<Item>(keys.begin(), keys.end())), item);
  }

  std::string random_key() {
    std::string key(random_() % 70, '\0');
    for (char &byte : key) byte = static_cast<char>(random_());
    return key;
  }

  Bytes random_bytes(std::size_t size) {
    Bytes bytes(size);
    for (std::uint8_t &byte : bytes) byte = static_cast<std::uint8_t>(random_());
    return bytes;
  }

  Hasher hasher_;
  std::mt19937_64 random_{20260116};
};

TEST_F(FilterTest, GoldenValue) {
  Bytes expected;
  std::istringstream digits(kGolden);
  for (unsigned byte; digits >> std::hex >> byte;)
    expected.push_back(static_cast<std::uint8_t>(byte));
  ASSERT_EQ(expected.size(), 24u);

  const Header header = header_of(7, 6, 1);
  Bytes value(header.value_bytes());
  write_header(header, value.data());
  ItemBits ada;
  ASSERT_TRUE(item_bits(header, hasher_, "ada", ada));
  chunk_add(value.data() + kValueHeaderBytes, ada);
  EXPECT_EQ(value, expected);
  EXPECT_EQ(value, value_of(header, {Item("ada")}));
  EXPECT_EQ(ask(expected, "ada"), Answer::kMaybe);
  EXPECT_EQ(ask(expected, "grace"), Answer::kDefinitelyNot);
}

TEST_F(FilterTest, GoldenValueIsWhatThePageHas) {
  std::ifstream file(BLOOM_FORMAT_PAGE);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(kGolden), std::string::npos) << BLOOM_FORMAT_PAGE;
}

TEST_F(FilterTest, ItemBitsAreThoseOfTheDesign) {
  for (int log2 = 6; log2 <= 13; ++log2)
    for (int k = 1; k <= 32; ++k) {
      const std::string key = random_key();
      const Item item(key);
      const auto chunks = static_cast<std::int32_t>(1 + random_() % (1u << (31 - log2)));
      const Header header = header_of(k, log2, chunks);
      ItemBits bits;
      ASSERT_TRUE(item_bits(header, hasher_, key, bits));
      EXPECT_EQ(bits.chunk, static_cast<std::int64_t>(item.chunk(std::uint64_t(chunks))));
      ASSERT_EQ(bits.k, k);
      for (std::size_t i = 0; i < bits.k; ++i)
        EXPECT_EQ(bits.positions[i], item.position(i, std::uint64_t{1} << log2))
            << "position " << i << " of 2^" << log2;
      Digest digest{};
      ItemBits same;
      ASSERT_TRUE(hasher_.hash(key, digest));
      ASSERT_TRUE(item_bits(header, hasher_, key, digest, same));
      EXPECT_EQ(same.chunk, bits.chunk);
      EXPECT_TRUE(
          std::equal(bits.positions.begin(), bits.positions.begin() + k, same.positions.begin()));
    }
}

// With as many chunks as the largest value has, by Pearson's chi-square: see layout_test.cpp.
TEST_F(FilterTest, LastChunksAndPositionsAreHitLikeTheFirst) {
  const Header header = header_of(7, 13, kMaxValueChunks);
  constexpr int kMean = 8;
  std::vector<std::uint32_t> chunks(kMaxValueChunks), positions(kChunkBits);
  for (int i = 0; i < kMaxValueChunks * kMean; ++i) {
    ItemBits bits;
    ASSERT_TRUE(item_bits(header, hasher_, "", {random_(), random_()}, bits));
    ++chunks.at(static_cast<std::size_t>(bits.chunk));
    for (int p = 0; p < 7; ++p) ++positions.at(bits.positions[static_cast<std::size_t>(p)]);
  }
  const auto expect_even = [](std::span<const std::uint32_t> cells, double mean) {
    double chi_square = 0;
    for (std::uint32_t count : cells) chi_square += (count - mean) * (count - mean) / mean;
    const double expected = static_cast<double>(cells.size());
    EXPECT_NEAR(chi_square, expected, 6 * std::sqrt(2 * expected + expected / mean));
  };
  const std::span<const std::uint32_t> all_chunks(chunks), all_positions(positions);
  const double mean = 7.0 * kMean * kMaxValueChunks / kChunkBits;
  for (std::size_t share : {1u, 4u, 64u}) {
    expect_even(all_chunks.last(kMaxValueChunks / share), kMean);
    expect_even(all_chunks.first(kMaxValueChunks / share), kMean);
    expect_even(all_positions.last(kChunkBits / share), mean);
    expect_even(all_positions.first(kChunkBits / share), mean);
  }
}

// Numbers of chunks that are no powers of two, and one chunk.
TEST_F(FilterTest, NeverDeniesAMember) {
  std::vector<std::string> keys;
  std::vector<Item> members, others;
  for (int i = 0; i < 40; ++i) {
    keys.push_back(random_key());
    members.emplace_back(keys.back());
  }
  for (int i = 0; i < 40; ++i) {
    keys.push_back(random_key() + "?");
    others.emplace_back(keys.back());
  }
  for (int log2 = 6; log2 <= 13; ++log2)
    for (int k = 1; k <= 32; ++k)
      for (std::int32_t chunks : {1, 3, 7, 29}) {
        const Header header = header_of(k, log2, chunks);
        const Bytes value = value_of(header, members);
        const Bytes bits(value.begin() + kValueHeaderBytes, value.end());
        FilterView view;
        ASSERT_EQ(view.open(value), FormatError::kNone);
        EXPECT_EQ(view.header(), header);
        EXPECT_EQ(view.bits().data(), value.data() + kValueHeaderBytes);
        EXPECT_EQ(view.bits().size(), bits.size());
        for (std::size_t i = 0; i < members.size(); ++i)
          ASSERT_EQ(view.might_contain(hasher_, keys[i]), Answer::kMaybe)
              << "k " << k << ", " << chunks << " of 2^" << log2;
        // and of the others it says what their bits say
        for (std::size_t i = 0; i < others.size(); ++i)
          ASSERT_EQ(view.might_contain(hasher_, keys[members.size() + i]),
                    others[i].is_in(bits, header.k, static_cast<std::uint64_t>(chunks),
                                    std::uint64_t{1} << log2)
                        ? Answer::kMaybe
                        : Answer::kDefinitelyNot);
      }
}

// One bit that is missing is enough, whichever it is.
TEST_F(FilterTest, EveryBitOfAnItemCounts) {
  for (int k : {1, 7, 8, 16, 17, 32}) {
    const Header header = header_of(k, 13, 5);
    const Item item("grace");
    const Bytes value = value_of(header, {item});
    ASSERT_EQ(ask(value, "grace"), Answer::kMaybe);
    for (std::size_t i = 0; i < header.k; ++i) {
      Bytes lacking = value;
      const std::uint64_t bit = item.bit(i, 5, 8192);
      lacking[kValueHeaderBytes + bit / 8] ^= static_cast<std::uint8_t>(0x80 >> bit % 8);
      EXPECT_EQ(ask(lacking, "grace"), Answer::kDefinitelyNot) << "bit " << i << " of " << k;
    }
  }
}

TEST_F(FilterTest, ChunkAddSetsWhatChunkContainsAsksFor) {
  for (int k = 1; k <= 32; ++k) {
    const Header header = header_of(k, 8, 1);
    Bytes chunk(header.chunk_bytes()), expected = chunk;
    for (int i = 0; i < 6; ++i) {
      const std::string key = random_key();
      ItemBits bits;
      ASSERT_TRUE(item_bits(header, hasher_, key, bits));
      EXPECT_EQ(chunk_contains(chunk.data(), bits), Item(key).is_in(expected, header.k, 1, 256));
      chunk_add(chunk.data(), bits);
      Item(key).add_to(expected, header.k, 1, 256);
      EXPECT_TRUE(chunk_contains(chunk.data(), bits));
      EXPECT_EQ(chunk, expected);
    }
  }
}

TEST_F(FilterTest, UniteIsOrOfAsManyBytesAsTheSourceHas) {
  for (std::size_t size = 0; size <= 40; ++size)
    for (std::size_t offset = 0; offset < 8; ++offset) {
      const Bytes source = random_bytes(size), before = random_bytes(offset + size + 9);
      Bytes target = before;
      merge_bits(target.data() + offset, source);
      for (std::size_t i = 0; i < target.size(); ++i) {
        const bool covered = offset <= i && i < offset + size;
        ASSERT_EQ(target[i], before[i] | (covered ? source[i - offset] : 0))
            << "byte " << i << ", " << size << " from " << offset;
      }
    }
}

TEST_F(FilterTest, UniteWithItselfChangesNothing) {
  const Bytes before = random_bytes(29);
  Bytes bytes = before;
  merge_bits(bytes.data(), bytes);
  EXPECT_EQ(bytes, before);
}

TEST_F(FilterTest, FoldedFilterIsThatOfFewerChunks) {
  std::vector<Item> items;
  for (int i = 0; i < 100; ++i) items.emplace_back(random_key());
  for (int log2 : {6, 9, 13})
    for (std::int32_t chunks : {1, 2, 12, 30, 49, 97, 128}) {
      const Header header = header_of(5, log2, chunks);
      const auto filter = [&](std::int32_t n) {
        return reference::filter_of(items, 5, static_cast<std::uint64_t>(n),
                                    std::uint64_t{1} << log2);
      };
      const Bytes bits = filter(chunks);
      for (std::int32_t fewer = 1; fewer <= chunks; ++fewer) {
        if (chunks % fewer != 0) continue;
        Bytes target(static_cast<std::size_t>(fewer) * header.chunk_bytes());
        fold(header, bits, fewer, target.data());
        ASSERT_EQ(target, filter(fewer)) << chunks << " to " << fewer << " of 2^" << log2;
        // into bits that are there already, which stay
        Bytes full(target.size(), 0xff);
        fold(header, bits, fewer, full.data());
        ASSERT_EQ(full, Bytes(target.size(), 0xff));
      }
    }
}

TEST_F(FilterTest, NoneTakesItemsAsTheyAre) {
  const auto none = [&](const std::vector<std::string> &keys, std::string_view item) {
    return ask(Normalization::kNone, kUtf8Canary, keys, item);
  };
  EXPECT_EQ(none({"Ada"}, "Ada"), Answer::kMaybe);
  EXPECT_EQ(none({"Ada"}, "ada"), Answer::kDefinitelyNot);
  EXPECT_EQ(none({"ada"}, "Ada"), Answer::kDefinitelyNot);
  EXPECT_EQ(none({""}, ""), Answer::kMaybe);
  EXPECT_EQ(none({"zo\303\253"}, "zo\303\253"), Answer::kMaybe);
  EXPECT_EQ(none({"zo\303\253"}, "Zo\303\253"), Answer::kDefinitelyNot);
  for (std::size_t length : {55u, 56u, 1024u, 1025u, 100000u}) {
    EXPECT_EQ(none({std::string(length, 'A')}, std::string(length, 'A')), Answer::kMaybe);
    EXPECT_EQ(none({std::string(length, 'A')}, std::string(length, 'a')), Answer::kDefinitelyNot);
  }
}

TEST_F(FilterTest, LowerTakesAsciiInLowerCase) {
  const auto lower = [&](const std::vector<std::string> &keys, std::string_view item) {
    return ask(Normalization::kLower, kOtherCanary, keys, item);
  };
  for (const char *item : {"ada", "Ada", "ADA", "aDa"})
    EXPECT_EQ(lower({"ada"}, item), Answer::kMaybe) << item;
  EXPECT_EQ(lower({"Ada"}, "Ada"), Answer::kDefinitelyNot);
  EXPECT_EQ(lower({""}, ""), Answer::kMaybe);
  // each character, also those next to the letters
  for (int c = 0; c < 128; ++c) {
    const bool upper = 65 <= c && c <= 90;
    const std::string item(1, static_cast<char>(c));
    const std::string key(1, static_cast<char>(upper ? c + 32 : c));
    const std::string other(1, static_cast<char>(c ^ 32));
    EXPECT_EQ(lower({key}, item), Answer::kMaybe) << c;
    if (key != other) {
      EXPECT_EQ(lower({other}, item), Answer::kDefinitelyNot) << c;
    }
  }
}

TEST_F(FilterTest, LowerOfALongItemIsLeftToTheServer) {
  const std::string longest(1024, 'Z'), lowered(1024, 'z');
  const auto lower = [&](const std::vector<std::string> &keys, std::string_view item) {
    return ask(Normalization::kLower, kOtherCanary, keys, item);
  };
  EXPECT_EQ(lower({lowered}, longest), Answer::kMaybe);
  EXPECT_EQ(lower({}, longest), Answer::kDefinitelyNot);
  EXPECT_EQ(lower({lowered + "z"}, longest + "Z"), Answer::kAskServer);
  EXPECT_EQ(lower({}, longest + "Z"), Answer::kAskServer);
  EXPECT_EQ(lower({}, std::string(100000, 'z')), Answer::kAskServer);
}

// Each character alone, between others, and at an end, where white space goes.
TEST_F(FilterTest, NfkcTakesAsciiTrimmedAndInLowerCase) {
  const auto nfkc = [&](const std::vector<std::string> &keys, std::string_view item) {
    return ask(Normalization::kNfkc, kOtherCanary, keys, item);
  };
  for (const char *item : {"ada b", "Ada B", " ADA B", "\t\n\v\f\r ada b\r\n "})
    EXPECT_EQ(nfkc({"ada b"}, item), Answer::kMaybe) << item;
  for (const char *item : {"", " ", "\t \r\n"}) EXPECT_EQ(nfkc({""}, item), Answer::kMaybe);
  EXPECT_EQ(nfkc({"ada b"}, "ada  b"), Answer::kDefinitelyNot);
  for (int c = 1; c < 128; ++c) {
    const bool white = c == 32 || (9 <= c && c <= 13);
    const std::string plain(1, static_cast<char>(65 <= c && c <= 90 ? c + 32 : c));
    const std::string one(1, static_cast<char>(c));
    EXPECT_EQ(nfkc({white ? "" : plain}, one), Answer::kMaybe) << c;
    EXPECT_EQ(nfkc({"a" + plain + "b"}, "A" + one + "B"), Answer::kMaybe) << c;
    EXPECT_EQ(nfkc({white ? "a" : "a" + plain}, "A" + one), Answer::kMaybe) << c;
    EXPECT_EQ(nfkc({white ? "a" : plain + "a"}, one + "A"), Answer::kMaybe) << c;
  }
  EXPECT_EQ(nfkc({"ada"}, "\034ada"), Answer::kDefinitelyNot);
}

TEST_F(FilterTest, UsernameTakesAsciiThatLooksAlike) {
  const auto username = [&](const std::vector<std::string> &keys, std::string_view item) {
    return ask(Normalization::kUsername, kOtherCanary, keys, item);
  };
  for (const char *item : {"rnodern", "modern", "MODERN", "rnodem", " RNODEM\n"})
    EXPECT_EQ(username({"rnodern"}, item), Answer::kMaybe) << item;
  for (const char *item : {"userl", "user1", "USER|", " user1 "})
    EXPECT_EQ(username({"userl"}, item), Answer::kMaybe) << item;
  EXPECT_EQ(username({"looo/o"}, "100%"), Answer::kMaybe);
  EXPECT_EQ(username({"''''"}, "`'\""), Answer::kMaybe);
  // A capital I is a small i first, and that looks like nothing else.
  EXPECT_EQ(username({"paypal"}, "paypaI"), Answer::kDefinitelyNot);
  const std::string_view others = "\t\n\v\f\r \"%01M`m|";
  for (int c = 1; c < 128; ++c) {
    if (others.find(static_cast<char>(c)) != others.npos) continue;
    const std::string plain(1, static_cast<char>(65 <= c && c <= 90 ? c + 32 : c));
    EXPECT_EQ(username({plain}, std::string(1, static_cast<char>(c))), Answer::kMaybe) << c;
  }
}

// The limit of 1,024 bytes is one of the key, which is longer than the item here.
TEST_F(FilterTest, AKeyThatGrowsBeyondTheLimitIsLeftToTheServer) {
  std::string key;
  for (int i = 0; i < 512; ++i) key += "rn";
  EXPECT_EQ(ask(Normalization::kUsername, kOtherCanary, {key}, std::string(512, 'm')),
            Answer::kMaybe);
  for (const std::string &item : {std::string(512, 'm') + "a", "a" + std::string(512, 'm'),
                                  std::string(100000, '%'), std::string(342, '%')})
    EXPECT_EQ(ask(Normalization::kUsername, kOtherCanary, {}, item), Answer::kAskServer);
  EXPECT_EQ(ask(Normalization::kUsername, kOtherCanary, {}, std::string(341, '%')),
            Answer::kDefinitelyNot);
  EXPECT_EQ(ask(Normalization::kNfkc, kOtherCanary, {}, std::string(5000, ' ') + "a"),
            Answer::kDefinitelyNot);
}

// Wherever the one byte beyond ASCII stands.
TEST_F(FilterTest, BeyondAsciiTheKeyIsKnownOnlyOfNoneInUtf8) {
  for (std::size_t at = 0; at < 20; ++at)
    for (char byte : {'\x80', '\xc3', '\xff', '\x7f'}) {
      const bool ascii = byte == '\x7f';
      std::string item(20, 'x');
      item[at] = byte;
      const auto answer = [&](Normalization normalization, std::uint32_t canary) {
        return ask(normalization, canary, {}, item);
      };
      const Answer unknown = ascii ? Answer::kDefinitelyNot : Answer::kAskServer;
      EXPECT_EQ(answer(Normalization::kNone, kUtf8Canary), Answer::kDefinitelyNot);
      for (const EncodingCanary &other : kNoneCanaries)
        if (other.canary != kUtf8Canary) {
          EXPECT_EQ(answer(Normalization::kNone, other.canary), unknown) << other.encoding << at;
        }
      for (const Normalization other :
           {Normalization::kLower, Normalization::kNfkc, Normalization::kUsername})
        EXPECT_EQ(answer(other, kOtherCanary), unknown) << at;
    }
}

TEST_F(FilterTest, AViewThatIsNotOpenAsksTheServer) {
  FilterView view;
  EXPECT_EQ(view.might_contain(hasher_, "ada"), Answer::kAskServer);
  EXPECT_TRUE(view.bits().empty());
  const Bytes value = value_of(header_of(7, 6, 1), {});
  for (std::size_t length = 0; length < value.size(); ++length) {
    ASSERT_EQ(view.open(value), FormatError::kNone);
    ASSERT_EQ(view.might_contain(hasher_, "ada"), Answer::kDefinitelyNot);
    // what was opened before does not answer for what could not be
    EXPECT_EQ(view.open(std::span(value).first(length)),
              length < 16 ? FormatError::kTooShort : FormatError::kLength);
    EXPECT_EQ(view.might_contain(hasher_, "ada"), Answer::kAskServer) << length;
    EXPECT_TRUE(view.bits().empty());
  }
}

}  // namespace
}  // namespace bloomfilter
