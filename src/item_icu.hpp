// The normalizations "nfkc" and "username", by ICU's C API. They do not depend on the database's
// locale, nor on whether the server itself was built with ICU.
#ifndef BLOOMFILTER_ITEM_ICU_HPP
#define BLOOMFILTER_ITEM_ICU_HPP

#include "pg.hpp"

#include <string_view>

#include "bloomfilter/format.hpp"

namespace bloomfilter {

// Whether the normalization is one of this file.
constexpr bool is_by_icu(Normalization normalization) {
  return normalization == Normalization::kNfkc || normalization == Normalization::kUsername;
}

// The key of any item, in the current context. The caller may pass its bytes to pfree. The item is
// in UTF-8; bytes that are not become U+FFFD. Raises 58000 or 53200 if ICU fails.
std::string_view key_by_icu(Normalization normalization, std::string_view item);

// For the canary, which takes many characters at once, a line each: the steps of which every key is
// made, without the trim. Step 0 folds the lines, step 1 takes the skeletons of folded lines.
// "nfkc" has the first step only. The result is in the current context.
constexpr int icu_steps(Normalization normalization) {
  if (normalization == Normalization::kUsername) return 2;
  return normalization == Normalization::kNfkc ? 1 : 0;
}
std::string_view canary_lines_by_icu(int step, std::string_view lines);

// Versions of the ICU library, of its Unicode, and of its data. In the current context.
const char *icu_versions();

}  // namespace bloomfilter

#endif
