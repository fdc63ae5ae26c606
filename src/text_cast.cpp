// Makes text of the values of a column. A load reads its source by it, a trigger and a drain their
// column.
#include "pg.hpp"

#include "text_cast.hpp"

namespace bloomfilter {

// The only casts by a function that are taken are the server's own: those of name, char(n), "char".
// Nothing checks here whether the caller may call a function, so the function of another user must
// not run.
bool find_text_cast(Oid type, TextCast *cast) {
  *cast = {};
  if (type == TEXTOID) return true;
  Oid function = InvalidOid;
  const CoercionPathType path = find_coercion_pathway(TEXTOID, type, COERCION_IMPLICIT, &function);
  if (path == COERCION_PATH_RELABELTYPE) return true;
  if (path != COERCION_PATH_FUNC || function >= FirstNormalObjectId ||
      get_func_nargs(function) != 1)
    return false;
  cast->by_function = true;
  fmgr_info(function, &cast->function);
  return true;
}

}  // namespace bloomfilter
