// From a key to its digests: MD5, of short keys by md5.hpp, of longer ones by OpenSSL.
#ifndef BLOOMFILTER_HASH_HPP
#define BLOOMFILTER_HASH_HPP

#include <openssl/evp.h>

#include <charconv>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "bloomfilter/md5.hpp"

namespace bloomfilter {

// MD5 with the algorithm looked up once and one context used again and again: 150 ns a name
// where EVP_md5() and a new context each time take 365. Not for two threads at once. Owns what
// open() made until close(); it has no destructor, so that a longjmp may pass over it.
class Hasher {
 public:
  // False if OpenSSL offers no MD5 (FIPS) or is out of memory. Once, until close().
  bool open() {
    algorithm_ = EVP_MD_fetch(nullptr, "MD5", nullptr);
    context_ = EVP_MD_CTX_new();
    if (algorithm_ != nullptr && context_ != nullptr) return true;
    close();
    return false;
  }

  void close() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(algorithm_);
    context_ = nullptr;
    algorithm_ = nullptr;
  }

  bool is_open() const { return context_ != nullptr; }

  // An open digest over several pieces: start(), add() any number of times, finish(). Each is
  // false if OpenSSL reports a failure.
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

  // md5(key). False if OpenSSL reports a failure.
  bool hash(std::string_view key, Digest &digest) { return hash_pair({}, key, digest); }

  // md5(round || ":" || key), the digest that further positions of k > 7 are cut from; round
  // counts from 1. False if OpenSSL reports a failure.
  bool hash_further(int round, std::string_view key, Digest &digest) {
    char prefix[16];
    char *end = std::to_chars(prefix, prefix + sizeof prefix - 1, round).ptr;
    *end++ = ':';
    return hash_pair({prefix, static_cast<std::size_t>(end - prefix)}, key, digest);
  }

 private:
  // md5(prefix || key).
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
