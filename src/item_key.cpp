
#include "pg.hpp"

#include <array>
#include <cstring>

#include "item_key.hpp"

namespace bloomfilter {
namespace {

constinit Hasher hasher;

// Lowers A-Z only. False if the item holds anything but ASCII.
bool lower_ascii(std::string_view item, char *lowered) {
  unsigned char seen = 0;
  for (size_t i = 0; i < item.size(); ++i) {
    const auto byte = static_cast<unsigned char>(item[i]);
    seen |= byte;
    const bool upper = static_cast<unsigned char>(byte - 'A') < 26;
    lowered[i] = static_cast<char>(upper ? byte | 0x20 : byte);
  }
  return seen < 0x80;
}

// Capitals: Latin, Greek, Cyrillic, Armenian, Georgian, Deseret and full-width ones; or, where a
// character is a byte, every one beyond ASCII.
std::string_view letters_beyond_ascii() {
  if (GetDatabaseEncoding() == PG_UTF8)
    return "\u00c4\u00c9\u0391\u03a9\u0416\u042f\u0531\u10a0\U00010400\uff21";
  static char bytes[0x80];
  for (int i = 0; i < 0x80; ++i) bytes[i] = static_cast<char>(0x80 + i);
  return {bytes, sizeof bytes};
}

Digest hash_key(std::string_view key) {
  Digest digest{};
  if (!open_hasher().hash(key, digest)) hash_failed();
  return digest;
}

// The key of an item whose key is long, or beyond ASCII; to be freed where it is not the item.
std::string_view any_key(Normalization normalization, std::string_view item) {
  if (normalization == Normalization::kNone) return item;
  const char *key = lower_by_collation(item);
  return {key, std::strlen(key)};
}

void free_key(std::string_view key, std::string_view item) {
  if (key.data() != item.data()) pfree(const_cast<char *>(key.data()));
}

Digest hash_any_key(Normalization normalization, std::string_view item) {
  const std::string_view key = any_key(normalization, item);
  const Digest digest = hash_key(key);
  free_key(key, item);
  return digest;
}

}  // namespace

Hasher &open_hasher() {
  if (unlikely(!hasher.is_open()) && !hasher.open())
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("MD5 is not available"),
             errdetail("The bits of a Bloom filter are cut from MD5 digests, and OpenSSL "
                       "does not offer the algorithm here."),
             errhint("OpenSSL in FIPS mode does not: load its default provider.")));
  return hasher;
}

void hash_failed() {
  ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("OpenSSL could not compute MD5")));
  pg_unreachable();
}

char *lower_by_collation(std::string_view item) {
  return str_tolower(item.data(), item.size(), DEFAULT_COLLATION_OID);
}

Normalization normalization_named(const char *name) {
  if (std::strcmp(name, "none") == 0) return Normalization::kNone;
  if (std::strcmp(name, "lower") != 0)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown normalization \"%s\"", name),
             errhint("\"lower\" hashes lower(item), \"none\" the item as it is.")));
  if (GetDatabaseEncoding() == PG_SQL_ASCII ||
      (GetDatabaseEncoding() != PG_UTF8 && pg_database_encoding_max_length() > 1))
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("normalization \"lower\" is not available in encoding %s",
                           GetDatabaseEncodingName()),
                    errhint("Use normalization => 'none', or a UTF8 database.")));
  return Normalization::kLower;
}

const char *normalization_name(Normalization normalization) {
  return normalization == Normalization::kNone ? "none" : "lower";
}

bool is_ascii(std::string_view item) {
  unsigned char seen = 0;
  for (const char byte : item) seen |= static_cast<unsigned char>(byte);
  return seen < 0x80;
}

const char *item_for_message(std::string_view item) {
  return pnstrdup(item.data(), pg_mbcliplen(item.data(), static_cast<int>(item.size()), 64));
}

bool ascii_lowers_plainly() {
  static constinit int8 plainly = -1;
  if (unlikely(plainly < 0)) {
    const AsciiLines lines;
    char expected[sizeof lines.bytes];
    lower_ascii(lines.view(), expected);
    char *lowered = lower_by_collation(lines.view());
    plainly = std::string_view(lowered) == std::string_view(expected, sizeof expected) ? 1 : 0;
    pfree(lowered);
  }
  return plainly != 0;
}

bool lowers_ascii_only() {
  static constinit int8 only = -1;
  if (unlikely(only < 0)) {
    const std::string_view letters = letters_beyond_ascii();
    char *lowered = lower_by_collation(letters);
    only = letters == std::string_view(lowered) ? 1 : 0;
    pfree(lowered);
  }
  return only != 0;
}

void notice_ascii_only(Normalization normalization, const char *filter) {
  if (normalization != Normalization::kLower || !lowers_ascii_only()) return;
  ereport(
      NOTICE,
      (errmsg("normalization \"lower\" of Bloom filter \"%s\" folds ASCII letters only", filter),
       errdetail("lower() of this database's locale leaves all others as they are: a name beyond "
                 "ASCII in another case is another name."),
       errhint("Where that is not what the shards say, make the filter in a database of another "
               "locale.")));
}

bool write_short_key(Normalization normalization, std::string_view item, size_t max_bytes,
                     md5::Block &block) {
  open_hasher();
  if (unlikely(item.size() > max_bytes)) return false;
  if (normalization == Normalization::kNone)
    item.copy(md5::text_of(block), item.size());
  else if (!ascii_lowers_plainly() || !lower_ascii(item, md5::text_of(block)))
    return false;
  md5::pad(block, item.size());
  return true;
}

Digest hash_item(Normalization normalization, std::string_view item) {
  md5::Block block;
  if (likely(write_short_key(normalization, item, md5::kMaxKeyBytes, block)))
    return md5::digest(block);
  return hash_any_key(normalization, item);
}

void hash_items(Normalization normalization, std::span<const std::string_view> items,
                Digest *digests) {
  std::array<md5::Block, md5::kLanes> blocks{};
  std::array<size_t, md5::kLanes> owners;
  size_t lanes = 0;
  const auto flush = [&] {
    std::array<Digest, md5::kLanes> hashed;
    md5::digest_lanes(blocks, hashed);
    for (size_t lane = 0; lane < lanes; ++lane) digests[owners[lane]] = hashed[lane];
    lanes = 0;
  };
  for (size_t i = 0; i < items.size(); ++i) {
    if (unlikely(!write_short_key(normalization, items[i], md5::kMaxKeyBytes, blocks[lanes]))) {
      digests[i] = hash_any_key(normalization, items[i]);
      continue;
    }
    owners[lanes++] = i;
    if (lanes == md5::kLanes) flush();
  }
  if (lanes > 0) flush();
}

ItemBits hash_to_bits(const Header &header, std::string_view item) {
  ItemBits bits;
  md5::Block block;
  if (likely(write_short_key(header.normalization, item, md5::kMaxKeyBytes, block))) {
    const std::string_view key(md5::text_of(block), item.size());
    if (!item_bits(header, hasher, key, md5::digest(block), bits)) hash_failed();
    return bits;
  }
  const std::string_view key = any_key(header.normalization, item);
  if (!item_bits(header, open_hasher(), key, bits)) hash_failed();
  free_key(key, item);
  return bits;
}

extern "C" {

// bloom_normalize(item text, normalization text) -> text: the key that is hashed.
PG_FUNCTION_INFO_V1(bloom_normalize);
PGDLLEXPORT Datum bloom_normalize(PG_FUNCTION_ARGS) {
  text *item = PG_GETARG_TEXT_PP(0);
  const Normalization normalization = normalization_named(text_to_cstring(PG_GETARG_TEXT_PP(1)));
  if (normalization == Normalization::kNone) PG_RETURN_TEXT_P(item);
  PG_RETURN_TEXT_P(cstring_to_text(lower_by_collation(text_view(item))));
}

}  // extern "C"

}  // namespace bloomfilter
