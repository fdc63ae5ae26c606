// Computes the canary of a normalization, and the stamp that spares the work of computing it. Both
// are stored in filters, so neither the characters nor their order may ever change.
#include "pg.hpp"

#include <cstring>
#include <string_view>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "canary.hpp"
#include "item_icu.hpp"
#include "item_key.hpp"

namespace bloomfilter {
namespace {

// What one normalization makes of the lines of a buffer, in the current context. `step` counts the
// steps of a normalization by ICU: each is digested on its own.
std::string_view normalized_lines(Normalization normalization, int step, std::string_view lines) {
  if (is_by_icu(normalization)) return canary_lines_by_icu(step, lines);
  const char *key = normalization == Normalization::kLower ? lower_by_collation(lines)
                                                           : pnstrdup(lines.data(), lines.size());
  return {key, std::strlen(key)};
}

// Collects characters, one on each line, and adds the normalization of each full buffer to the
// backend's digest. The line ends keep characters apart, so that none changes how its neighbor is
// normalized. For the same reason the size of the buffer has no influence on the digest.
struct CanaryDigest {
  Normalization normalization;
  int step;
  MemoryContext context;  // emptied after each buffer
  char buffer[4096];
  size_t used = 0;

  void add(std::string_view character) {
    if (used + character.size() + 1 > sizeof buffer) flush();
    std::memcpy(buffer + used, character.data(), character.size());
    used += character.size();
    buffer[used++] = '\n';
  }
  // No code that hashes may run between start() and finish(): there is one hasher in the backend.
  void flush() {
    CHECK_FOR_INTERRUPTS();
    MemoryContext caller = MemoryContextSwitchTo(context);
    if (!open_hasher().add(normalized_lines(normalization, step, {buffer, used}))) hash_failed();
    MemoryContextSwitchTo(caller);
    MemoryContextReset(context);
    used = 0;
  }
};

// Texts in which the lower case of a letter depends on its neighbors: final sigma, Turkish and
// Lithuanian dots, combining marks. Single characters would not show such a change.
constexpr const char *kContextCases[] = {"\u0391\u03a3",  "\u0391\u03a3\u0391",
                                         "\u03a3",        "\u0391\u03a3 \u0391",
                                         "\u0391\u03a3.", "\u0391\u0301\u03a3",
                                         "I\u0307",       "I\u0300",
                                         "J\u0301",       "\u012e\u0303",
                                         "\u0130",        "\u0130I",
                                         "A\u030a",       "E\u0301",
                                         "\u212a",        "\u1e9e"};

// The same for ICU: marks that are put in order and composed, Hangul that is composed, characters
// that are dropped between others, marks of folded letters, a virama with a joiner.
constexpr const char *kIcuContextCases[] = {
    "a\u0323\u0307",      "a\u0307\u0323",      "\u1100\u1161\u11a8",
    "\uac00\u11a8",       "a\u200b\u0301",      "a\u00ad\u0301",
    "\u03b1\u0345\u0301", "\u0391\u0345\u0313", "\u0915\u094d\u200d\u0937",
    "\u0130\u0307",       "\u017f\u0307\u0323", "\u1e9e\u0301",
    "\u0627\u0654\u0655", "\u0f71\u0f72\u0f74", "\u3131\u314f",
    "\uff76\uff9e",       "\U0001d15f\u0301",   "A\ufe0fB",
    "x\u00a8y",           "\u0131\u0307"};

// Adds all characters beyond ASCII. A sample would be faster, but two libraries may differ at one
// code point of 1.1 million: glibc's C.UTF-8 and ICU's root locale do, at U+0130. The encodings
// that are skipped allow "none" only.
void add_other_characters(CanaryDigest &digest) {
  if (is_by_icu(digest.normalization) && GetDatabaseEncoding() != PG_UTF8) return;
  if (GetDatabaseEncoding() == PG_UTF8) {
    for (pg_wchar c = 0x80; c <= 0x10FFFF; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      unsigned char utf8[MAX_MULTIBYTE_CHAR_LEN + 1];
      unicode_to_utf8(c, utf8);
      digest.add({reinterpret_cast<char *>(utf8), static_cast<size_t>(pg_utf_mblen(utf8))});
    }
    for (const char *text : kContextCases) digest.add(text);
    if (is_by_icu(digest.normalization))
      for (const char *text : kIcuContextCases) digest.add(text);
  } else if (pg_database_encoding_max_length() == 1) {
    for (int c = 0x80; c <= 0xFF; ++c) {
      const char byte = static_cast<char>(c);
      digest.add({&byte, 1});
    }
  }
  digest.flush();
}

// Adds the characters of one part of the canary, as one step of the normalization changes them.
void add_characters(CanaryDigest &digest, CanaryPart part) {
  digest.add(AsciiLines().view());
  digest.flush();
  if (part == CanaryPart::kAscii) return;
  digest.add(GetDatabaseEncodingName());
  digest.flush();
  // With "none" an item is its own key, and only the encoding can change it.
  if (digest.normalization != Normalization::kNone) add_other_characters(digest);
}

// The first 32 bits of the digest are kept. They have to show an accident, not to stop an attacker.
uint32 make_canary(Normalization normalization, CanaryPart part) {
  MemoryContext context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter canary", ALLOCSET_DEFAULT_SIZES);
  if (!open_hasher().start()) hash_failed();
  const int steps = is_by_icu(normalization) ? icu_steps(normalization) : 1;
  for (int step = 0; step < steps; ++step) {
    CanaryDigest digest{normalization, step, context, {}, 0};
    add_characters(digest, part);
  }
  MemoryContextDelete(context);
  Digest result{};
  if (!open_hasher().finish(result)) hash_failed();
  return static_cast<uint32>(result.hi >> 32);
}

// The version of the library that lowers text for `provider`, as far as the server can know it.
const char *provider_version(char provider, const char *locale) {
  if (provider == COLLPROVIDER_LIBC) {
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    // The version is unknown. So the stamp is one that no other backend has, and each backend has
    // to compute the canary itself.
    return psprintf("unknown in %d", MyProcPid);
#endif
  }
  const char *version = get_collation_actual_version(provider, locale);
  // The tables of the built-in provider and the code around ICU belong to the server, so that its
  // major version is part of the stamp.
  return psprintf("%s pg%s", version == nullptr ? "" : version, PG_MAJORVERSION);
}

// The stamp of "lower"; returns the length that it would have with room enough. Reads the catalog
// and not the settings of the session: lower() follows pg_database.
int write_locale_stamp(char *stamp) {
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
  ReleaseSysCache(tuple);
  return length;
}

// ICU's keys do not depend on the locale of the database, nor does their stamp.
void write_stamp(Normalization normalization, char *stamp) {
  const int length = is_by_icu(normalization) ? snprintf(stamp, kStampBytes, "%s %s",
                                                         GetDatabaseEncodingName(), icu_versions())
                                              : write_locale_stamp(stamp);
  // A stamp that is cut off could equal another that differs further on. So it is replaced by one
  // that no other backend has.
  if (length >= kStampBytes) snprintf(stamp, kStampBytes, "too long in %d", MyProcPid);
}

}  // namespace

// Remembered for the life of the backend: neither the encoding nor the loaded library can change.
uint32 server_canary(Normalization normalization, CanaryPart part) {
  struct Remembered {
    bool known;
    uint32 value;
  };
  static constinit Remembered remembered[kLastNormalization + 1][2] = {};
  Remembered &canary = remembered[static_cast<int>(normalization)][static_cast<int>(part)];
  if (!canary.known) canary = {true, make_canary(normalization, part)};
  return canary.value;
}

// With "none" only the encoding matters, and its name is the whole stamp.
const char *server_stamp(Normalization normalization) {
  if (normalization == Normalization::kNone) return GetDatabaseEncodingName();
  static constinit char stamps[2][kStampBytes] = {};
  char *stamp = stamps[is_by_icu(normalization)];
  if (stamp[0] == '\0') write_stamp(normalization, stamp);
  return stamp;
}

}  // namespace bloomfilter
