// Which types of columns hold names, and how a value of such a type becomes text.
#ifndef BLOOMFILTER_TEXT_CAST_HPP
#define BLOOMFILTER_TEXT_CAST_HPP

#include "pg.hpp"

namespace bloomfilter {

// How values of one type become text.
struct TextCast {
  bool by_function;  // if not, a value is text as it stands
  FmgrInfo function;
};

// Whether the type is text, or a type that the server or an extension calls text without a
// conversion of its own: varchar, char(n), "char", name, citext, a domain. Fills in the cast; what
// it allocates lives in the current memory context.
bool find_text_cast(Oid type, TextCast *cast);

// The value as text, in the current memory context.
inline Datum cast_to_text(TextCast *cast, Datum value) {
  return cast->by_function ? FunctionCall1(&cast->function, value) : value;
}

}  // namespace bloomfilter

#endif
