// "nfkc" is NFKC_Casefold, then without white space at the ends. "username" is that, then the
// confusable skeleton of UTS #39, then that again, until nothing changes. What these lines say is
// frozen, as the bit layout is: with another rule, filters would deny their members.
//
// - NFKC_Casefold folds case, full-width forms and ligatures, and drops characters that nobody sees
//   (zero width, soft hyphen). The trim comes after it: white space may come to an end only when
//   such a character is dropped. Without that, a key would not be its own key.
// - The skeleton is the plain one. The bidirectional skeleton of later versions of UTS #39 compares
//   names as they are displayed in a line of one direction. It needs ICU 74, and nobody knows in
//   which direction a page will show a name. So it would tie the key to the version of ICU.
// - A skeleton may bring a capital letter (0 looks like O), and its fold may have another skeleton
//   (a cross through M: M, then m, then rn). Most items change in one round or none, and the rest
//   in two.
// - Of more than 128 marks in a row, the rest is dropped before the fold: see drop_surplus_marks.
// - There is no locale in any of this: both tables are for all languages.
#include "pg.hpp"

// The C API alone: the C++ classes of ICU have destructors, and change with its version.
#define U_SHOW_CPLUSPLUS_API 0
#define U_SHOW_CPLUSPLUS_HEADER_API 0
#include <unicode/icudataver.h>
#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uspoof.h>
#include <unicode/ustring.h>
#include <unicode/utf16.h>
#include <unicode/uversion.h>

#include "item_icu.hpp"

namespace bloomfilter {
namespace {

// Text in UTF-16, which ICU works on, in memory of palloc.
struct Utf16 {
  UChar *units;
  int32 length;
  friend bool operator==(const Utf16 &one, const Utf16 &other) {
    return one.length == other.length && u_memcmp(one.units, other.units, one.length) == 0;
  }
};

// How many combining marks in a row count. Text of no language has more than a few, and Unicode's
// Stream-Safe Text Format allows 30 (UAX #15). ICU orders the marks of a letter by insertion, which
// takes quadratic time and cannot be canceled: 40,000 marks, a name of 80 kB, took 3 s.
constexpr int32 kMaxMarks = 128;

// NFKC_Casefold makes at most so many marks of one unit of UTF-16: three are known.
constexpr int32 kMaxMarksPerUnit = 4;

// A key that has not settled after so many rounds is taken as it is: it is still a function of the
// item. No item is known that needs more than two.
constexpr int kMaxRounds = 16;

// Raises an error if ICU failed. It has no more memory, or lacks its data file, or the text became
// longer than 2^31 units.
void require_success(UErrorCode error) {
  if (likely(U_SUCCESS(error))) return;
  ereport(ERROR, (errcode(error == U_MEMORY_ALLOCATION_ERROR ? ERRCODE_OUT_OF_MEMORY
                                                             : ERRCODE_SYSTEM_ERROR),
                  errmsg("could not normalize a name: ICU reports %s", u_errorName(error))));
}

// The result of convert(units, capacity, &error), which is an ICU function that writes text and
// returns its length, also where the capacity does not suffice. Then it is called once more. Some
// of these functions take a capacity of zero for a mistake.
template <typename Convert>
Utf16 converted(int32 guess, Convert convert) {
  for (int32 capacity = Max(guess, 1);;) {
    auto *units = static_cast<UChar *>(
        palloc_extended(sizeof(UChar) * static_cast<Size>(capacity), MCXT_ALLOC_HUGE));
    UErrorCode error = U_ZERO_ERROR;
    const int32 length = convert(units, capacity, &error);
    if (error != U_BUFFER_OVERFLOW_ERROR) {
      require_success(error);
      return {units, length};
    }
    pfree(units);
    capacity = length;
  }
}

// Text in UTF-8 as UTF-16. Invalid bytes are in no text of a UTF8 database. They come only where a
// filter was restored into another encoding. There no check is answered from it.
Utf16 to_utf16(std::string_view text) {
  constexpr UChar32 kReplacement = 0xFFFD;
  const auto bytes = static_cast<int32>(text.size());
  return converted(bytes, [&](UChar *units, int32 capacity, UErrorCode *error) {
    int32 length = 0;
    u_strFromUTF8WithSub(units, capacity, &length, text.data(), bytes, kReplacement, nullptr,
                         error);
    return length;
  });
}

// UTF-16 as UTF-8, which takes at most three bytes a unit.
std::string_view to_utf8(const Utf16 &text) {
  const Size most = 3 * static_cast<Size>(text.length);
  char *bytes = static_cast<char *>(palloc_extended(most + 1, MCXT_ALLOC_HUGE));
  const auto capacity = static_cast<int32>(Min(most, static_cast<Size>(PG_INT32_MAX)));
  int32 length = 0;
  UErrorCode error = U_ZERO_ERROR;
  u_strToUTF8(bytes, capacity, &length, text.units, text.length, &error);
  require_success(error);
  return {bytes, static_cast<size_t>(length)};
}

// White_Space of Unicode, as it has been since 2013. It is written here and not asked of ICU, so
// that no other version can bring another list.
constexpr bool is_white_space(UChar unit) {
  return (unit >= 0x09 && unit <= 0x0D) || unit == 0x20 || unit == 0x85 || unit == 0xA0 ||
         unit == 0x1680 || (unit >= 0x2000 && unit <= 0x200A) || unit == 0x2028 || unit == 0x2029 ||
         unit == 0x202F || unit == 0x205F || unit == 0x3000;
}

// Takes white space from both ends, in place.
void trim(Utf16 *text) {
  while (text->length > 0 && is_white_space(text->units[text->length - 1])) --text->length;
  int32 first = 0;
  while (first < text->length && is_white_space(text->units[first])) ++first;
  text->length -= first;
  u_memmove(text->units, text->units + first, text->length);
}

// Changes `*marks`, the number of marks in a row, by what NFKC_Casefold makes of a character. A
// character that becomes nothing does not end the row. Returns false if the character would make
// the row too long.
bool count_marks(const UNormalizer2 *normalizer, UChar32 character, int32 *marks) {
  UChar mapped[32];
  UErrorCode error = U_ZERO_ERROR;
  int32 length = unorm2_getDecomposition(normalizer, character, mapped, lengthof(mapped), &error);
  require_success(error);
  if (length < 0) {
    // It stays as it is.
    length = 0;
    U16_APPEND_UNSAFE(mapped, length, character);
  }
  int32 counted = *marks;
  bool has_letter = false;
  for (int32 i = 0; i < length;) {
    UChar32 part;
    U16_NEXT(mapped, i, length, part);
    // By category too: some marks that stay in their place have a skeleton that is put in order.
    const bool is_mark =
        unorm2_getCombiningClass(normalizer, part) != 0 || (U_GET_GC_MASK(part) & U_GC_M_MASK) != 0;
    has_letter |= !is_mark;
    counted = is_mark ? counted + 1 : 0;
  }
  if (!has_letter && counted > kMaxMarks) return false;
  *marks = counted;
  return true;
}

// Drops, in place, the marks beyond kMaxMarks in a row. So a key is made in linear time, and two
// names are one if they differ in dropped marks only. Marks are counted as the fold makes them, in
// the item as in its key. So the fold of a key drops nothing more, and a key is its own key.
void drop_surplus_marks(const UNormalizer2 *normalizer, Utf16 *text) {
  if (likely(text->length <= kMaxMarks / kMaxMarksPerUnit)) return;
  int32 marks = 0, kept = 0;
  for (int32 i = 0; i < text->length;) {
    CHECK_FOR_INTERRUPTS();
    const int32 begin = i;
    UChar32 character;
    U16_NEXT(text->units, i, text->length, character);
    if (!count_marks(normalizer, character, &marks)) continue;
    u_memmove(text->units + kept, text->units + begin, i - begin);
    kept += i - begin;
  }
  text->length = kept;
}

// NFKC_Casefold. It may drop marks of the text.
Utf16 fold(Utf16 text) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2 *normalizer = unorm2_getNFKCCasefoldInstance(&error);
  require_success(error);
  drop_surplus_marks(normalizer, &text);
  return converted(text.length, [&](UChar *units, int32 capacity, UErrorCode *result) {
    return unorm2_normalize(normalizer, text.units, text.length, units, capacity, result);
  });
}

// The tables of UTS #39, opened once for the life of the backend.
const USpoofChecker *spoof_checker() {
  static constinit USpoofChecker *checker = nullptr;
  if (unlikely(checker == nullptr)) {
    UErrorCode error = U_ZERO_ERROR;
    USpoofChecker *opened = uspoof_open(&error);
    require_success(error);
    checker = opened;
  }
  return checker;
}

// The confusable skeleton. Its type is a parameter that ICU ignores.
Utf16 skeleton(const Utf16 &text) {
  const USpoofChecker *checker = spoof_checker();
  return converted(text.length, [&](UChar *units, int32 capacity, UErrorCode *error) {
    return uspoof_getSkeleton(checker, 0, text.units, text.length, units, capacity, error);
  });
}

// "nfkc" of a text. The caller frees the units of the result.
Utf16 nfkc(const Utf16 &text) {
  Utf16 folded = fold(text);
  trim(&folded);
  return folded;
}

// Replaces a folded text by its skeleton, folded, until it is its own. The last skeleton is the
// text itself, mostly, and needs no fold.
Utf16 settle(Utf16 text) {
  for (int round = 0; round < kMaxRounds; ++round) {
    CHECK_FOR_INTERRUPTS();
    const Utf16 plain = skeleton(text);
    const bool is_own = plain == text;
    const Utf16 next = is_own ? plain : nfkc(plain);
    if (!is_own) pfree(plain.units);
    const bool is_settled = is_own || next == text;
    pfree(text.units);
    text = next;
    if (is_settled) break;
  }
  return text;
}

}  // namespace

// A query may check millions of items in one context, so everything but the key is freed.
std::string_view key_by_icu(Normalization normalization, std::string_view item) {
  const Utf16 wide = to_utf16(item);
  Utf16 key = nfkc(wide);
  if (normalization == Normalization::kUsername) key = settle(key);
  const std::string_view bytes = to_utf8(key);
  pfree(wide.units);
  pfree(key.units);
  return bytes;
}

// One round: a second one takes skeletons and folds of characters that are lines of their own.
std::string_view canary_lines_by_icu(int step, std::string_view lines) {
  const Utf16 folded = fold(to_utf16(lines));
  return to_utf8(step == 0 ? folded : skeleton(folded));
}

const char *icu_versions() {
  UVersionInfo version;
  char library[U_MAX_VERSION_STRING_LENGTH];
  char unicode[U_MAX_VERSION_STRING_LENGTH];
  char data[U_MAX_VERSION_STRING_LENGTH];
  u_getVersion(version);
  u_versionToString(version, library);
  u_getUnicodeVersion(version);
  u_versionToString(version, unicode);
  UErrorCode error = U_ZERO_ERROR;
  u_getDataVersion(version, &error);
  require_success(error);
  u_versionToString(version, data);
  return psprintf("ICU %s, Unicode %s, data %s", library, unicode, data);
}

}  // namespace bloomfilter
