// How names are compared where they come from. A filter knows a name by its key. A nondeterministic
// collation, or a type with an equality of its own, may call names equal that have different keys.
#ifndef BLOOMFILTER_COMPARISON_HPP
#define BLOOMFILTER_COMPARISON_HPP

#include "pg.hpp"

#include "bloomfilter/format.hpp"

namespace bloomfilter {

// Whether the collation is nondeterministic. The default collation, that of nearly every item,
// never is, and is known without a look at the catalog.
inline bool is_loose(Oid collation) {
  return unlikely(collation != DEFAULT_COLLATION_OID && OidIsValid(collation)) &&
         !get_collation_isdeterministic(collation);
}

// Tells once in a session why checks under this collation do not deny.
void warn_of_loose_check(Oid collation);

// Whether a check of an item with this collation has to answer maybe, with a warning: a name that
// the collation calls equal may have been added with another key.
inline bool must_be_maybe(Oid collation) {
  if (likely(!is_loose(collation))) return false;
  warn_of_loose_check(collation);
  return true;
}

// Warns if a column of names calls names equal that may have different keys: by its collation, or,
// in a filter with normalization "none", by an equality that its type brings, as citext does.
// Returns whether it did.
bool warn_of_column(Oid type, Oid collation, Normalization normalization, const char *filter);

}  // namespace bloomfilter

#endif
