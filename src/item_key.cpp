// From an item to its key and to its MD5 digest. The key of a short ASCII item is made in place.
// For other items the server's lower() or ICU is called. With "none" an item is its own key.
#include "pg.hpp"

#include <array>
#include <clocale>
#include <cstring>

#include "item_icu.hpp"
#include "item_key.hpp"

namespace bloomfilter {
namespace {

// One context for the life of the backend, opened at its first use. EVP_md5() with a new context
// for each name takes 365 ns instead of 150. An error may leave a digest half done; the next
// start() resets it.
constinit Hasher hasher;

// In the order of the enum. Stored in every filter table: a name never changes.
constexpr const char *kNames[] = {"none", "lower", "nfkc", "username"};
static_assert(lengthof(kNames) == kLastNormalization + 1);

// Capital letters: Latin, Greek, Cyrillic, Armenian, Georgian, Deseret and full-width ones. In an
// encoding with one byte a character it is every byte beyond ASCII, capital or not.
std::string_view letters_beyond_ascii() {
  if (GetDatabaseEncoding() == PG_UTF8)
    return "\u00c4\u00c9\u0391\u03a9\u0416\u042f\u0531\u10a0\U00010400\uff21";
  static char bytes[0x80];
  for (int i = 0; i < 0x80; ++i) bytes[i] = static_cast<char>(0x80 + i);
  return {bytes, sizeof bytes};
}

// MD5 of a key of any length.
Digest hash_key(std::string_view key) {
  Digest digest{};
  if (!open_hasher().hash(key, digest)) hash_failed();
  return digest;
}

// The key of any item, without the short cut. For "none" it is the item itself, else a new string
// in the current context. The caller passes it to free_key.
std::string_view any_key(Normalization normalization, std::string_view item) {
  if (normalization == Normalization::kNone) return item;
  if (is_by_icu(normalization)) return key_by_icu(normalization, item);
  const char *key = lower_by_collation(item);
  return {key, std::strlen(key)};
}

// A query may check millions of long items in one memory context, so the keys are freed one by one.
void free_key(std::string_view key, std::string_view item) {
  if (key.data() != item.data()) pfree(const_cast<char *>(key.data()));
}

// The digest of an item that write_short_key has refused.
Digest hash_any_key(Normalization normalization, std::string_view item) {
  const std::string_view key = any_key(normalization, item);
  const Digest digest = hash_key(key);
  free_key(key, item);
  return digest;
}

// LC_CTYPE as lower() needs it, if it goes by that of the process; else null. Read once in a
// backend.
const char *own_ctype() {
  if (!kLowersByProcess) return nullptr;
  static constinit bool known = false;
  static constinit const char *ctype = nullptr;
  if (likely(known)) return ctype;
  HeapTuple tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
  if (!HeapTupleIsValid(tuple)) elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
  bool is_null;
  const Datum name = SysCacheGetAttr(DATABASEOID, tuple,
                                     static_cast<AttrNumber>(Anum_pg_database_datctype), &is_null);
  if (!is_null &&
      reinterpret_cast<Form_pg_database>(GETSTRUCT(tuple))->datlocprovider == COLLPROVIDER_LIBC)
    ctype = MemoryContextStrdup(TopMemoryContext, TextDatumGetCString(name));
  ReleaseSysCache(tuple);
  known = true;
  return ctype;
}

// Raises 55000 if the server remembers for this session that its locale is C and it is not, or the
// other way round: it first looked while a function had changed it.
void require_own_ctype(const char *ctype) {
  const bool is_c = std::strcmp(ctype, "C") == 0 || std::strcmp(ctype, "POSIX") == 0;
  if (likely(compat_lowers_as_c() == is_c)) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("lower() of this session is not that of the database"),
                  errdetail("A function has changed LC_CTYPE of the process."),
                  errhint("Open a new connection, and do not call setlocale() in functions.")));
}

}  // namespace

// A failure is not remembered: the next call tries again. A server in FIPS mode gets this error,
// and never a filter with other bits.
Hasher &open_hasher() {
  if (unlikely(!hasher.is_open()) && !hasher.open())
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("MD5 is not available"),
         errdetail("The bits of a Bloom filter come from MD5 digests, and this OpenSSL does not "
                   "offer MD5."),
         errhint(
             "OpenSSL in FIPS mode does not offer it.  Load the default provider of OpenSSL.")));
  return hasher;
}

// The error of a digest that OpenSSL began and could not finish, for instance without memory.
void hash_failed() {
  ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not compute MD5 hash")));
  pg_unreachable();
}

// str_tolower and not the SQL function lower(): it is the same code, and takes bytes that are not
// in a varlena. The default collation is fixed for the database. With the collation of the calling
// expression, two sessions could get two keys for one name.
//
// If a function of the session has called setlocale(), the database's locale is set for the time of
// the call. Else a name would get another key than in other sessions, and be denied. An error
// leaves the database's locale, as the server has set it.
char *lower_by_collation(std::string_view item) {
  const auto lower = [&] { return str_tolower(item.data(), item.size(), DEFAULT_COLLATION_OID); };
  const char *own = own_ctype();
  if (own == nullptr) return lower();
  const locale_t thread = uselocale(LC_GLOBAL_LOCALE);
  const char *now = std::setlocale(LC_CTYPE, nullptr);
  char *other = unlikely(std::strcmp(now, own) != 0) ? pstrdup(now) : nullptr;
  if (unlikely(other != nullptr) && std::setlocale(LC_CTYPE, own) == nullptr)
    elog(ERROR, "could not set locale \"%s\"", own);
  require_own_ctype(own);
  char *lowered = lower();
  if (unlikely(other != nullptr)) {
    std::setlocale(LC_CTYPE, other);
    pfree(other);
  }
  if (unlikely(thread != LC_GLOBAL_LOCALE)) uselocale(thread);
  return lowered;
}

const char *normalization_name(Normalization normalization) {
  return kNames[static_cast<int>(normalization)];
}

bool find_normalization(std::string_view name, Normalization *normalization) {
  for (uint8 one = 0; one <= kLastNormalization; ++one)
    if (name == kNames[one]) {
      *normalization = static_cast<Normalization>(one);
      return true;
    }
  return false;
}

// SQL_ASCII does not say which characters its bytes are. In multibyte encodings other than UTF8 the
// canary does not cover the characters beyond ASCII, so a changed lower() would go unnoticed. ICU
// takes Unicode. Other encodings could be converted for it, but nobody has asked for that.
void require_available(Normalization normalization) {
  const int encoding = GetDatabaseEncoding();
  if (likely(encoding == PG_UTF8) || normalization == Normalization::kNone) return;
  if (normalization == Normalization::kLower && encoding != PG_SQL_ASCII &&
      pg_database_encoding_max_length() == 1)
    return;
  ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                  errmsg("normalization \"%s\" is not available in encoding \"%s\"",
                         normalization_name(normalization), GetDatabaseEncodingName()),
                  errhint("Use normalization \"none\", or a database with encoding \"UTF8\".")));
}

Normalization normalization_named(std::string_view name) {
  Normalization normalization;
  if (!find_normalization(name, &normalization))
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("unrecognized normalization \"%s\"", item_for_message(name)),
             errhint("Normalizations are \"lower\", \"nfkc\" (full-width and invisible characters "
                     "make no difference either), \"username\" (nor do look-alike ones), and "
                     "\"none\".")));
  require_available(normalization);
  return normalization;
}

bool is_ascii(std::string_view item) {
  unsigned char seen = 0;
  for (const char byte : item) seen |= static_cast<unsigned char>(byte);
  return seen < 0x80;
}

const char *item_for_message(std::string_view item) {
  return pnstrdup(item.data(), pg_mbcliplen(item.data(), static_cast<int>(item.size()), 64));
}

// Compares both keys of all of ASCII, once in a backend. A database cannot change its locale, nor a
// process its ICU, so the answer stays right. -1 means that it is not known yet. One text of all
// characters is enough: no character of ASCII changes what becomes of its neighbor.
bool has_plain_ascii(Normalization normalization) {
  if (normalization == Normalization::kNone) return true;
  static constinit int8 plain[kLastNormalization + 1] = {-1, -1, -1, -1};
  int8 &known = plain[static_cast<int>(normalization)];
  if (unlikely(known < 0)) {
    const AsciiLines lines;
    char expected[3 * sizeof lines.bytes];
    const size_t length = ascii_key(normalization, lines.view(), expected);
    const std::string_view key = any_key(normalization, lines.view());
    known = key == std::string_view(expected, length) ? 1 : 0;
    free_key(key, lines.view());
  }
  return known != 0;
}

// For notices and advice only. No key depends on the answer, so a sample of letters is enough.
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
       errdetail("In this database's locale, lower() leaves other letters unchanged.  Names that "
                 "differ in the case of a non-ASCII letter are different names."),
       errhint("If the users table treats them as one name, make the filter in a database with "
               "another locale.")));
}

// It opens the hasher also for keys that md5.hpp hashes alone. So a server without MD5 raises its
// error at the first item, and not only at the first long one.
size_t write_short_key(Normalization normalization, std::string_view item, size_t max_bytes,
                       md5::Block &block) {
  open_hasher();
  char *key = md5::text_of(block);
  size_t length;
  if (normalization == Normalization::kNone) {
    if (unlikely(item.size() > max_bytes)) return kNoShortKey;
    length = item.copy(key, item.size());
  } else {
    if (unlikely(!has_plain_ascii(normalization))) return kNoShortKey;
    length = ascii_key(normalization, item, {key, max_bytes});
    if (unlikely(length == kNoAsciiKey)) return kNoShortKey;
  }
  md5::pad(block, length);
  return length;
}

Digest hash_item(Normalization normalization, std::string_view item) {
  md5::Block block;
  if (likely(write_short_key(normalization, item, md5::kMaxKeyBytes, block) != kNoShortKey))
    return md5::digest(block);
  return hash_any_key(normalization, item);
}

// Short keys wait in `blocks` until there are eight, and `owners` says which digest each one is
// for. Eight side by side take less than half the time (md5.hpp). Items that are not short are
// hashed at once. The last batch may have unused lanes, whose digests are dropped.
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
    if (unlikely(write_short_key(normalization, items[i], md5::kMaxKeyBytes, blocks[lanes]) ==
                 kNoShortKey)) {
      digests[i] = hash_any_key(normalization, items[i]);
      continue;
    }
    owners[lanes++] = i;
    if (lanes == md5::kLanes) flush();
  }
  if (lanes > 0) flush();
}

// With k > 7 further digests are needed, and they are taken over the key again. That is why the key
// has to be at hand here and not only its first digest.
ItemBits hash_to_bits(const Header &header, std::string_view item) {
  ItemBits bits;
  md5::Block block;
  const size_t length = write_short_key(header.normalization, item, md5::kMaxKeyBytes, block);
  if (likely(length != kNoShortKey)) {
    const std::string_view key(md5::text_of(block), length);
    if (!item_bits(header, hasher, key, md5::digest(block), bits)) hash_failed();
    return bits;
  }
  const std::string_view key = any_key(header.normalization, item);
  if (!item_bits(header, open_hasher(), key, bits)) hash_failed();
  free_key(key, item);
  return bits;
}

extern "C" {

// bloom_normalize(item text, normalization text) -> text: the key that is hashed. Strict. It calls
// lower() or ICU for every item: the short cut gives the same key, and speed does not matter here.
PG_FUNCTION_INFO_V1(bloom_normalize);
PGDLLEXPORT Datum bloom_normalize(PG_FUNCTION_ARGS) {
  const text *item = PG_GETARG_TEXT_PP(0);
  const std::string_view key =
      any_key(normalization_named(text_view(PG_GETARG_TEXT_PP(1))), text_view(item));
  PG_RETURN_TEXT_P(cstring_to_text_with_len(key.data(), static_cast<int>(key.size())));
}

}  // extern "C"

}  // namespace bloomfilter
