// The type bloomfilter: a whole filter in one value. It is a varlena header, and then the bytes
// that format.hpp describes.
#ifndef BLOOMFILTER_VALUE_HPP
#define BLOOMFILTER_VALUE_HPP

#include "pg.hpp"

#include <span>
#include <string_view>
#include <type_traits>

#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"

namespace bloomfilter {

// A read-only view of a value. The bytes may lie in a shared buffer.
struct ValueView {
  Header header;
  std::span<const uint8> bytes;  // header and bits
  std::span<const uint8> bits() const { return bytes.subspan(kValueHeaderBytes); }
};

// The whole argument, or the whole value of a datum, which must not be null. Raises 55000 for a
// null argument, and XX001 if the bytes are not a valid value.
ValueView value_argument(FunctionCallInfo fcinfo, int argument);
ValueView view_value(Datum value);

// A copy of the value in the current context, which the caller may change.
varlena *copy_value(const ValueView &view);

// The bytes after a varlena header of one byte or of four.
inline std::span<const uint8> bytes_of(const varlena *value) {
  return {reinterpret_cast<const uint8 *>(VARDATA_ANY(value)),
          static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
}

// What is wrong with the bytes of a value, as a sentence for the detail of a message.
const char *format_error_detail(FormatError error);

// Raises XX001. Every value was validated when it entered the database, so it was damaged later.
[[noreturn]] void damaged_value(FormatError error);

// A view of bytes that were not validated yet. If they are not a valid value, raises 22P03 and
// names what is wrong.
ValueView require_value(std::span<const uint8> bytes);

// The header of a value that is built now on this server. Raises 0A000 if ASCII items have other
// keys here than everywhere: readers elsewhere rely on those. Also raises 0A000 in an encoding that
// is not in the list of format.hpp.
Header new_header(const Geometry &geometry, Normalization normalization);

// A new value with all bits zero, in the current context. It must not be passed to pfree.
varlena *new_value(const Header &header);
inline uint8 *value_bits(varlena *value) {
  return reinterpret_cast<uint8 *>(VARDATA(value)) + kValueHeaderBytes;
}

// Whether this server makes the same key from the item as the server that built the value.
bool keeps_key(const Header &header, std::string_view item);

// Raises 55000 if it does not. Other servers would look for the item's bits in other places.
void require_keeps_key(const Header &header, std::string_view item);

// Raises 55000 unless the two headers are equal in geometry, k, normalization and canary. The
// message describes both.
void require_same_shape(const Header &one, const Header &other);

// Raises 55000 unless the chunks of the value can be rows of a filter table. That needs k = 7,
// chunks of 8,192 bits, and a normalization that does on this server what it did where the value
// was built.
void require_table_chunks(const Header &header);

// Does what require_table_chunks does. Also raises 55000 unless the value has the same
// normalization as the filter of this name, and can be folded to its number of chunks. Returns how
// many chunks of the value become one chunk of the filter.
int32 require_mergeable(const Header &header, int32 chunks, Normalization normalization,
                        const char *filter);

// A value that still belongs to an aggregate. The executor gets it as a read-only expanded object,
// and copies it only to store it. PostgreSQL 15 would copy an ordinary result at once, and a filter
// is large.
struct ExpandedValue {
  ExpandedObjectHeader object;
  varlena *value;
};
static_assert(std::is_trivially_destructible_v<ExpandedValue>);

// Initializes `expanded` for a value. Both have to live in `context`.
void expand_value(ExpandedValue *expanded, varlena *value, MemoryContext context);

// The datum that an SQL function returns for it: a read-only pointer, in the current context.
Datum expanded_result(const ExpandedValue *expanded);

}  // namespace bloomfilter

#endif
