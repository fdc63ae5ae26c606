// Warnings about names that are equal in their table and are different names to a filter.
#include "pg.hpp"

#include "comparison.hpp"

namespace bloomfilter {
namespace {

// Whether the type, or that under a domain, has an equality that an extension or a user made. A
// type that is only called text has that of text.
bool has_own_equality(Oid type) {
  return lookup_type_cache(getBaseType(type), TYPECACHE_EQ_OPR)->eq_opr >= FirstNormalObjectId;
}

}  // namespace

// Once in a session, for all filters, values and chunks together: the collation is the caller's,
// and has nothing to do with one of them.
void warn_of_loose_check(Oid collation) {
  static constinit bool told = false;
  if (told) return;
  told = true;
  ereport(WARNING,
          (errmsg("checks under collation \"%s\" answer maybe", get_collation_name(collation)),
           errdetail("The collation is nondeterministic.  A name that it calls equal may have been "
                     "added, and would have other bits."),
           errhint("To ask for the name as it is written, add: collate \"C\".")));
}

bool warn_of_column(Oid type, Oid collation, Normalization normalization, const char *filter) {
  if (is_loose(collation)) {
    ereport(
        WARNING,
        (errmsg("Bloom filter \"%s\" gets names that are compared by nondeterministic "
                "collation \"%s\"",
                filter, get_collation_name(collation)),
         errdetail("The collation may call two names equal that the filter tells apart.  A "
                   "check of one says \"definitely not\" though the other was added."),
         errhint("Let the table compare names as the filter does, for example by a unique index "
                 "on bloom_normalize(name, 'nfkc').")));
    return true;
  }
  if (normalization != Normalization::kNone || !has_own_equality(type)) return false;
  ereport(WARNING,
          (errmsg("Bloom filter \"%s\" gets names that are compared by the equality of type %s",
                  filter, format_type_be(type)),
           errdetail("The type may call two names equal that normalization \"none\" tells apart.  "
                     "A check of one says \"definitely not\" though the other was added."),
           errhint("Make the filter with normalization \"lower\", which folds case as citext "
                   "does.")));
  return true;
}

}  // namespace bloomfilter
