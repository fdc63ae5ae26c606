#include "pg.hpp"

#include <array>
#include <cstring>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "normalize.hpp"

namespace bloomfilter {
namespace {

constinit Hasher hasher;

Hasher &open_hasher() {
  if (unlikely(!hasher.is_open()) && !hasher.open())
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("MD5 is not available"),
             errdetail("The bits of a Bloom filter are cut from MD5 digests, and OpenSSL "
                       "does not offer the algorithm here."),
             errhint("OpenSSL in FIPS mode does not: load its default provider.")));
  return hasher;
}

[[noreturn]] void hash_failed() {
  ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("OpenSSL could not compute MD5")));
  pg_unreachable();
}

char *lower_by_collation(std::string_view item) {
  return str_tolower(item.data(), item.size(), DEFAULT_COLLATION_OID);
}

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

// Every ASCII character but NUL, each on a line of its own.
struct AsciiLines {
  char bytes[2 * 127];
  AsciiLines() {
    for (int c = 1; c < 128; ++c) {
      bytes[2 * (c - 1)] = static_cast<char>(c);
      bytes[2 * (c - 1) + 1] = '\n';
    }
  }
  std::string_view view() const { return {bytes, sizeof bytes}; }
};

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

// Collects characters in lines, and adds each full buffer's normalisation to a digest.
struct CanaryDigest {
  Normalization normalization;
  char buffer[4096];
  size_t used = 0;

  void add(std::string_view character) {
    if (used + character.size() + 1 > sizeof buffer) flush();
    std::memcpy(buffer + used, character.data(), character.size());
    used += character.size();
    buffer[used++] = '\n';
  }
  void flush() {
    CHECK_FOR_INTERRUPTS();
    char *key = normalization == Normalization::kLower ? lower_by_collation({buffer, used})
                                                       : pnstrdup(buffer, used);
    if (!hasher.add({key, std::strlen(key)})) hash_failed();
    pfree(key);
    used = 0;
  }
};

// Where lowering looks at the neighbours: final sigma, Turkish and Lithuanian dots, combining
// marks.
constexpr const char *kContextCases[] = {"\u0391\u03a3",  "\u0391\u03a3\u0391",
                                         "\u03a3",        "\u0391\u03a3 \u0391",
                                         "\u0391\u03a3.", "\u0391\u0301\u03a3",
                                         "I\u0307",       "I\u0300",
                                         "J\u0301",       "\u012e\u0303",
                                         "\u0130",        "\u0130I",
                                         "A\u030a",       "E\u0301",
                                         "\u212a",        "\u1e9e"};

void add_other_characters(CanaryDigest &digest) {
  if (GetDatabaseEncoding() == PG_UTF8) {
    for (pg_wchar c = 0x80; c <= 0x10FFFF; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      unsigned char utf8[MAX_MULTIBYTE_CHAR_LEN + 1];
      unicode_to_utf8(c, utf8);
      digest.add({reinterpret_cast<char *>(utf8), static_cast<size_t>(pg_utf_mblen(utf8))});
    }
    for (const char *text : kContextCases) digest.add(text);
  } else if (pg_database_encoding_max_length() == 1) {
    for (int c = 0x80; c <= 0xFF; ++c) {
      const char byte = static_cast<char>(c);
      digest.add({&byte, 1});
    }
  }
  digest.flush();
}

uint32 make_canary(Normalization normalization, CanaryPart part) {
  if (!open_hasher().start()) hash_failed();
  CanaryDigest digest{normalization, {}, 0};
  digest.add(AsciiLines().view());
  digest.flush();
  if (part == CanaryPart::kAll) {
    digest.add(GetDatabaseEncodingName());
    digest.flush();
    // With "none" an item is its own key, and only the encoding can change it.
    if (normalization == Normalization::kLower) add_other_characters(digest);
  }
  Digest result{};
  if (!hasher.finish(result)) hash_failed();
  return static_cast<uint32>(result.hi >> 32);
}

// Version of what lowers text under `provider`, as far as it can be told.
const char *provider_version(char provider, const char *locale) {
  if (provider == COLLPROVIDER_LIBC) {
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    // Not to be told: a stamp that no other backend has, so that each makes the canary itself.
    return psprintf("unknown in %d", MyProcPid);
#endif
  }
  const char *version = get_collation_actual_version(provider, locale);
  // The tables of the built-in provider and the code around ICU are the server's.
  return psprintf("%s pg%s", version == nullptr ? "" : version, PG_MAJORVERSION);
}

void write_stamp(char *stamp) {
  HeapTuple tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
  if (!HeapTupleIsValid(tuple)) elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
  const char provider = reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple))->datlocprovider;
  bool is_null;
  const Datum locale = SysCacheGetAttr(DATABASEOID, tuple,
                                       provider == COLLPROVIDER_LIBC
                                           ? static_cast<AttrNumber>(Anum_pg_database_datctype)
                                           : kDatabaseLocaleAttribute,
                                       &is_null);
  const char *name = is_null ? "" : TextDatumGetCString(locale);
  const int length = snprintf(stamp, kStampBytes, "%s %c %s %s", GetDatabaseEncodingName(),
                              provider, provider_version(provider, name), name);
  // Cut short it could be equal where the whole is not: better one that no other backend has.
  if (length >= kStampBytes) snprintf(stamp, kStampBytes, "too long in %d", MyProcPid);
  ReleaseSysCache(tuple);
}

}  // namespace

Normalization normalization_named(const char *name) {
  if (std::strcmp(name, "none") == 0) return Normalization::kNone;
  if (std::strcmp(name, "lower") != 0)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown normalisation \"%s\"", name),
             errhint("\"lower\" hashes lower(item), \"none\" the item as it is.")));
  if (GetDatabaseEncoding() == PG_SQL_ASCII ||
      (GetDatabaseEncoding() != PG_UTF8 && pg_database_encoding_max_length() > 1))
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("normalisation \"lower\" is not available in encoding %s",
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

bool ascii_lowers_plainly() {
  static constinit int8 plainly = -1;
  if (unlikely(plainly < 0)) {
    const AsciiLines lines;
    char expected[sizeof lines.bytes];
    lower_ascii(lines.view(), expected);
    char *lowered = lower_by_collation(lines.view());
    plainly = std::string_view(lowered) == std::string_view(expected, sizeof expected);
    pfree(lowered);
  }
  return plainly != 0;
}

bool lowers_ascii_only() {
  static constinit int8 only = -1;
  if (unlikely(only < 0)) {
    const std::string_view letters = letters_beyond_ascii();
    char *lowered = lower_by_collation(letters);
    only = letters == std::string_view(lowered);
    pfree(lowered);
  }
  return only != 0;
}

void tell_ascii_only(Normalization normalization, const char *filter) {
  if (normalization != Normalization::kLower || !lowers_ascii_only()) return;
  ereport(
      NOTICE,
      (errmsg("normalization \"lower\" of Bloom filter \"%s\" folds ASCII letters only", filter),
       errdetail("lower() of this database's locale leaves all others as they are: a name beyond "
                 "ASCII in another case is another name."),
       errhint("Where that is not what the shards say, make the filter in a database of another "
               "locale.")));
}

bool write_short_key(Normalization normalization, std::string_view item, size_t most,
                     md5::Block &block) {
  open_hasher();
  if (unlikely(item.size() > most)) return false;
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

ItemBits place_item(const Header &header, std::string_view item) {
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

uint32 server_canary(Normalization normalization, CanaryPart part) {
  struct Remembered {
    bool known;
    uint32 value;
  };
  static constinit Remembered remembered[2][2] = {};
  Remembered &canary = remembered[static_cast<int>(normalization)][static_cast<int>(part)];
  if (!canary.known) canary = {true, make_canary(normalization, part)};
  return canary.value;
}

const char *server_stamp(Normalization normalization) {
  if (normalization == Normalization::kNone) return GetDatabaseEncodingName();
  static constinit char stamp[kStampBytes] = {};
  if (stamp[0] == '\0') write_stamp(stamp);
  return stamp;
}

}  // namespace bloomfilter

using namespace bloomfilter;

// bloom_normalize(item text, normalization text) -> text: the key that is hashed.
BLOOM_SQL_FUNCTION(bloom_normalize) {
  text *item = PG_GETARG_TEXT_PP(0);
  const Normalization normalization = normalization_named(text_to_cstring(PG_GETARG_TEXT_PP(1)));
  if (normalization == Normalization::kNone) PG_RETURN_TEXT_P(item);
  PG_RETURN_TEXT_P(cstring_to_text(lower_by_collation(text_view(item))));
}
