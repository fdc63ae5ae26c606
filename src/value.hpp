// The type bloomfilter: a whole filter in one value, its bytes those of format.hpp behind a varlena
// header.
#ifndef BLOOMFILTER_VALUE_HPP
#define BLOOMFILTER_VALUE_HPP

#include "pg.hpp"

#include <span>
#include <string_view>
#include <type_traits>

#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"

namespace bloomfilter {

// A value where it lies; never to be written to.
struct ValueView {
  Header header;
  std::span<const uint8> bytes;  // header and bits
  std::span<const uint8> bits() const { return bytes.subspan(kValueHeaderBytes); }
};

// The argument, whole. Raises 55000 for null, XX001 where the bytes are no value.
ValueView value_argument(FunctionCallInfo fcinfo, int argument);
ValueView view_value(Datum value);

// A copy in the current context.
varlena *copy_value(const ValueView &view);

// The bytes behind a varlena header, be it of one byte or four.
inline std::span<const uint8> bytes_of(const varlena *value) {
  return {reinterpret_cast<const uint8 *>(VARDATA_ANY(value)),
          static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
}

// What a validator found, as a message's detail says it.
const char *format_error_detail(FormatError error);

// Raises XX001. A value has been through the validator on its way in, so what is wrong now was
// damaged since.
[[noreturn]] void damaged_value(FormatError error);

// A view of bytes that have been through no validator yet: raises 22P03, naming what is wrong.
ValueView require_value(std::span<const uint8> bytes);

// The header of a value that is built now, on this server. Raises 0A000 where the database lowers
// ASCII otherwise than others do: readers elsewhere take it for granted.
Header new_header(const Geometry &geometry, Normalization normalization);

// A new value with all bits zero, in memory of the current context.
varlena *new_value(const Header &header);
inline uint8 *value_bits(varlena *value) {
  return reinterpret_cast<uint8 *>(VARDATA(value)) + kValueHeaderBytes;
}

// Whether the item's key is on this server what it was where the value was built.
bool keeps_key(const Header &header, std::string_view item);

// Raises 55000 where it is not: the item's bits would go where no check looks elsewhere.
void require_keeps_key(const Header &header, std::string_view item);

// Raises 55000, naming both, unless the two have the same geometry, k and normalization.
void require_same_shape(const Header &one, const Header &other);

// Raises 55000 unless the value's chunks can be a filter table's: k = 7, full size, and this
// server's normalization that of the one that built the value.
void require_table_chunks(const Header &header);

// The same, and unless the value can be folded into that many chunks of that normalization, of the
// filter by this name. Returns how many of its chunks go to one.
int32 require_mergeable(const Header &header, int32 chunks, Normalization normalization,
                        const char *filter);

// In the current context: "chunks = 131072 of 8192 bits, k = 7, normalization "lower"".
const char *describe_header(const Header &header);

// A value that an aggregate is still the owner of: handed out read-only, and copied only where the
// executor stores it. PostgreSQL 15 would copy an ordinary result at once, and a filter is large.
struct ExpandedValue {
  ExpandedObjectHeader object;
  varlena *value;
};
static_assert(std::is_trivially_destructible_v<ExpandedValue>);

// Makes `expanded` stand for a value; both have to live in `context`.
void expand_value(ExpandedValue *expanded, varlena *value, MemoryContext context);

// What to return of it, in memory of the current context.
Datum expanded_result(const ExpandedValue *expanded);

}  // namespace bloomfilter

#endif
