// From a key to its MD5 digests. Short keys are hashed by md5.hpp, longer ones by OpenSSL. MD5 is
// the hash that the published layout uses, and every language has it. It protects nothing here.
#ifndef BLOOMFILTER_HASH_HPP
#define BLOOMFILTER_HASH_HPP

#include <openssl/evp.h>

#include <charconv>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "bloomfilter/md5.hpp"

namespace bloomfilter {

// Computes MD5 digests. The algorithm is looked up once, and one context is used for all digests:
// with OpenSSL 150 ns a name, where EVP_md5() and a new context for each take 365.
//
// One thread may use it at a time. It owns what open() made until close(). It has no destructor,
// since a longjmp of the server may pass over it.
class Hasher {
 public:
  // Returns false if OpenSSL offers no MD5 (in FIPS mode) or is out of memory. Not to be called
  // twice without close().
  bool open() {
    algorithm_ = EVP_MD_fetch(nullptr, "MD5", nullptr);
    context_ = EVP_MD_CTX_new();
    if (algorithm_ != nullptr && context_ != nullptr) return true;
    close();
    return false;
  }

  // Frees what open() made. The caller may open() again.
  void close() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(algorithm_);
    context_ = nullptr;
    algorithm_ = nullptr;
  }

  bool is_open() const { return context_ != nullptr; }

  // A digest over several pieces: start(), add() any number of times, finish(). Each returns false
  // if OpenSSL reports a failure.
  bool start() { return EVP_DigestInit_ex(context_, algorithm_, nullptr) == 1; }
  bool add(std::string_view bytes) {
    return EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1;
  }
  bool finish(Digest &digest) {
    unsigned char bytes[16];
    if (EVP_DigestFinal_ex(context_, bytes, nullptr) != 1) return false;
    digest = digest_from_bytes(bytes);
    return true;
  }

  // md5(key). Returns false if OpenSSL reports a failure.
  bool hash(std::string_view key, Digest &digest) { return hash_pair({}, key, digest); }

  // md5(round || ":" || key): the digest that the positions of k > 7 are cut from. The first round
  // is 1. Returns false if OpenSSL reports a failure.
  bool hash_further(int round, std::string_view key, Digest &digest) {
    char prefix[16];
    char *end = std::to_chars(prefix, prefix + sizeof prefix - 1, round).ptr;
    *end++ = ':';
    return hash_pair({prefix, static_cast<std::size_t>(end - prefix)}, key, digest);
  }

 private:
  // md5(prefix || key). A key of one block needs no OpenSSL: 93 ns where OpenSSL takes 125
  // (core_bench).
  bool hash_pair(std::string_view prefix, std::string_view key, Digest &digest) {
    if (prefix.size() + key.size() > md5::kMaxKeyBytes)
      return start() && add(prefix) && add(key) && finish(digest);
    md5::Block block;
    prefix.copy(md5::text_of(block), prefix.size());
    key.copy(md5::text_of(block) + prefix.size(), key.size());
    md5::pad(block, prefix.size() + key.size());
    digest = md5::digest(block);
    return true;
  }

  EVP_MD *algorithm_ = nullptr;
  EVP_MD_CTX *context_ = nullptr;
};

static_assert(std::is_trivially_destructible_v<Hasher>);

}  // namespace bloomfilter

#endif
