// MD5 of short keys, one at a time and side by side, against OpenSSL's.
#include "bloomfilter/md5.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <random>
#include <span>
#include <string>

namespace bloomfilter {
namespace {

Digest openssl_md5(const std::string &key) {
  unsigned char bytes[16];
  EXPECT_EQ(EVP_Digest(key.data(), key.size(), bytes, nullptr, EVP_md5(), nullptr), 1);
  return digest_from_bytes(bytes);
}

// The block of a key, over whatever was in it before.
void fill(md5::Block &block, const std::string &key) {
  key.copy(md5::text_of(block), key.size());
  md5::pad(block, key.size());
}

std::string random_key(std::mt19937_64 &random, std::size_t length) {
  std::string key(length, '\0');
  for (char &byte : key) byte = static_cast<char>(random());
  return key;
}

TEST(Md5Test, EveryLengthIsThatOfOpenssl) {
  std::mt19937_64 random(1);
  md5::Block block;
  block.fill(0xff);
  for (int round = 0; round < 50; ++round)
    for (std::size_t length = 0; length <= md5::kMaxKeyBytes; ++length) {
      const std::string key = random_key(random, length);
      fill(block, key);
      EXPECT_EQ(md5::digest(block), openssl_md5(key)) << "length " << length;
    }
}

TEST(Md5Test, LanesDoNotMix) {
  std::mt19937_64 random(2);
  std::array<md5::Block, md5::kLanes> blocks{};
  for (int round = 0; round < 500; ++round) {
    std::array<std::string, md5::kLanes> keys;
    for (std::size_t lane = 0; lane < md5::kLanes; ++lane) {
      keys[lane] = random_key(random, random() % (md5::kMaxKeyBytes + 1));
      fill(blocks[lane], keys[lane]);
    }
    std::array<Digest, md5::kLanes> digests;
    md5::digest_lanes(blocks, digests);
    for (std::size_t lane = 0; lane < md5::kLanes; ++lane)
      EXPECT_EQ(digests[lane], openssl_md5(keys[lane])) << "lane " << lane;
  }
}

}  // namespace
}  // namespace bloomfilter
