// Digests of keys: MD5 as RFC 1321 defines it, whichever way the bytes come in.
#include "bloomfilter/hash.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <climits>
#include <cstdint>
#include <string>
#include <string_view>

namespace bloomfilter {
namespace {

// The 32 hex digits of a digest, as md5() writes them.
std::string hex(const Digest &digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::uint64_t half : {digest.hi, digest.lo})
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[half >> shift & 15];
  return text;
}

// Bytes without a period that divides MD5's block of 64.
std::string patterned(std::size_t length) {
  std::string key(length, '\0');
  for (std::size_t i = 0; i < length; ++i) key[i] = static_cast<char>((i * 7 + length) % 251);
  return key;
}

class HashTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(hasher_.open()); }
  void TearDown() override { hasher_.close(); }

  std::string md5(std::string_view key) {
    Digest digest{};
    EXPECT_TRUE(hasher_.hash(key, digest));
    return hex(digest);
  }

  std::string md5_further(int round, std::string_view key) {
    Digest digest{};
    EXPECT_TRUE(hasher_.hash_further(round, key, digest));
    return hex(digest);
  }

  Hasher hasher_;
};

TEST(DigestTest, MostSignificantByteComesFirst) {
  constexpr unsigned char kBytes[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                        0xf0, 0xe1, 0xd2, 0xc3, 0xb4, 0xa5, 0x96, 0x87};
  constexpr Digest kDigest = digest_from_bytes(kBytes);
  EXPECT_EQ(kDigest.hi, 0x0123456789abcdef);
  EXPECT_EQ(kDigest.lo, 0xf0e1d2c3b4a59687);
}

TEST(DigestTest, EqualMeansBothHalvesEqual) {
  EXPECT_EQ((Digest{1, 2}), (Digest{1, 2}));
  EXPECT_NE((Digest{1, 2}), (Digest{1, 3}));
  EXPECT_NE((Digest{1, 2}), (Digest{3, 2}));
}

// The test suite of RFC 1321, appendix A.5.
TEST_F(HashTest, IsMd5) {
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("a"), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(md5("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
            "d174ab98d277d9f5a5611c2c9f419d9f");
  EXPECT_EQ(md5("1234567890123456789012345678901234567890"
                "1234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

// The expected digests of this and the next two tests come from Python's hashlib.
TEST_F(HashTest, TakesAnyBytes) {
  EXPECT_EQ(md5("zo\303\253"), "d29ef0d0cdf4c8c297ed4840b9aa2017");
  EXPECT_EQ(md5(std::string_view("\0", 1)), "93b885adfe0da089cdf634904fd59f71");
  EXPECT_EQ(md5("\377\376\200"), "45a6eeda47eb0845d0095f2f0576e2f7");
}

// Lengths 0 to 200 lie on both sides of MD5's padding and block limits, 55|56 and 63|64.
TEST_F(HashTest, EveryLengthAroundBlockLimits) {
  std::string digests;
  for (std::size_t length = 0; length <= 200; ++length) digests += md5(patterned(length));
  EXPECT_EQ(md5(digests), "ffddd768446f7ccc0485af76001971fd");
}

TEST_F(HashTest, LongKeys) {
  EXPECT_EQ(md5(std::string(65536, 'a')), "2d61aa54b58c2e94403fb092c3dbc027");
  EXPECT_EQ(md5(patterned(65536)), "f32bb2b032e82bcd7e6bd96c8852d5ee");
}

// Literals from Python's hashlib, md5(b"1:ada") and so on.
TEST_F(HashTest, FurtherDigestsHavePrefix) {
  EXPECT_EQ(md5_further(1, "ada"), "e4d0f800ff16f1b94c8ce1de8bb8fefd");
  EXPECT_EQ(md5_further(2, "ada"), "cf0c119c0624d173d6d86cdbfda09965");
  EXPECT_EQ(md5_further(10, "ada"), "8a75ef371cd0ce0aca67777345234054");
  EXPECT_EQ(md5_further(1, ""), "3afcdbfeb6ecfbdd0ba628696e3cc163");
}

TEST_F(HashTest, FurtherDigestIsThatOfPrefixAndKey) {
  for (const std::string &key :
       {std::string(), std::string("ada"), std::string("\0:1", 3), patterned(54), patterned(65536)})
    for (int round : {1, 2, 3, 9, 10, 99, 100, INT_MAX})
      EXPECT_EQ(md5_further(round, key), md5(std::to_string(round) + ":" + key))
          << "round " << round << ", key of " << key.size() << " bytes";
}

TEST_F(HashTest, PiecesEqualOneShot) {
  const std::string key = patterned(200);
  const std::string whole = md5(key);
  for (std::size_t cut = 0; cut <= key.size(); ++cut) {
    const std::string_view view = key;
    Digest digest{};
    ASSERT_TRUE(hasher_.start());
    ASSERT_TRUE(hasher_.add(view.substr(0, cut)));
    ASSERT_TRUE(hasher_.add(view.substr(cut)));
    ASSERT_TRUE(hasher_.finish(digest));
    EXPECT_EQ(hex(digest), whole) << "cut at " << cut;
  }
}

TEST_F(HashTest, OneByteAtATimeAndNoPieceAtAll) {
  const std::string key = patterned(131);
  Digest digest{};
  ASSERT_TRUE(hasher_.start());
  for (char byte : key) ASSERT_TRUE(hasher_.add({&byte, 1}));
  ASSERT_TRUE(hasher_.finish(digest));
  EXPECT_EQ(hex(digest), md5(key));

  ASSERT_TRUE(hasher_.start());
  ASSERT_TRUE(hasher_.finish(digest));
  EXPECT_EQ(hex(digest), md5(""));
}

TEST_F(HashTest, NothingIsCarriedOverToNextKey) {
  const std::string long_key = patterned(65536);
  const std::string of_long = md5(long_key);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
    EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
    EXPECT_EQ(md5(long_key), of_long);
  }
}

// An error between start() and finish() leaves a half-made digest behind.
TEST_F(HashTest, StartForgetsUnfinishedDigest) {
  ASSERT_TRUE(hasher_.start());
  ASSERT_TRUE(hasher_.add(std::string_view("left over")));
  EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
}

TEST_F(HashTest, HashersAreIndependent) {
  Hasher other;
  ASSERT_TRUE(other.open());
  Digest digest{};
  ASSERT_TRUE(hasher_.start());
  ASSERT_TRUE(hasher_.add(std::string_view("ab")));
  ASSERT_TRUE(other.hash(std::string_view("xyz"), digest));
  other.close();
  ASSERT_TRUE(hasher_.add(std::string_view("c")));
  ASSERT_TRUE(hasher_.finish(digest));
  EXPECT_EQ(hex(digest), "900150983cd24fb0d6963f7d28e17f72");
}

TEST(HasherTest, IsOpenBetweenOpenAndClose) {
  Hasher hasher;
  EXPECT_FALSE(hasher.is_open());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(hasher.open());
    EXPECT_TRUE(hasher.is_open());
    Digest digest{};
    EXPECT_TRUE(hasher.hash(std::string_view("abc"), digest));
    EXPECT_EQ(hex(digest), "900150983cd24fb0d6963f7d28e17f72");
    hasher.close();
    EXPECT_FALSE(hasher.is_open());
  }
  hasher.close();
  EXPECT_FALSE(hasher.is_open());
}

TEST(HasherTest, OpenFailsWhereMd5IsNotToBeHad) {
  ASSERT_EQ(EVP_default_properties_enable_fips(nullptr, 1), 1);
  Hasher hasher;
  const bool opened = hasher.open();
  ASSERT_EQ(EVP_default_properties_enable_fips(nullptr, 0), 1);
  EXPECT_FALSE(opened);
  EXPECT_FALSE(hasher.is_open());
  hasher.close();

  ASSERT_TRUE(hasher.open());
  hasher.close();
}

}  // namespace
}  // namespace bloomfilter
