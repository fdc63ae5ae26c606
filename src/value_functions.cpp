// The SQL functions of the type bloomfilter: input and output, operators, and functions of one
// value. Functions that also concern filter tables are in filter_value.cpp.
#include "pg.hpp"

#include <cmath>
#include <cstring>

#include "arguments.hpp"
#include "chunk_estimate.hpp"
#include "comparison.hpp"
#include "item_key.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// Warns once in a session that this server makes other keys than the one that built the value. A
// warning for each check would flood the log of a busy server.
void warn_of_normalization(const Header &header) {
  static constinit bool told = false;
  if (told) return;
  told = true;
  ereport(WARNING,
          (errmsg("normalization \"%s\" of this server differs from that of a bloomfilter value",
                  normalization_name(header.normalization)),
           has_plain_ascii(header.normalization)
               ? errdetail("Checks of names with non-ASCII characters answer maybe.")
               : errdetail("Checks answer maybe."),
           errhint("Build the value again on this server.")));
}

// A part of a value that is stored out of line: only the TOAST rows that contain it are read.
// Raises XX001 if the stored value ends before the part does.
std::span<const uint8> slice_of(varlena *stored, Size offset, Size size) {
  const std::span<const uint8> part = bytes_of(PG_DETOAST_DATUM_SLICE(
      PointerGetDatum(stored), static_cast<int32>(offset), static_cast<int32>(size)));
  if (part.size() != size) damaged_value(FormatError::kLength);
  return part;
}

// The header of a value that is stored out of line. A statement often checks many items against one
// value. So its header is read once in a statement and remembered in fn_extra: a check of 128 MiB
// takes 4.9 us, and 7.1 without that. It is not kept for longer. After the statement the value may
// be deleted, and another may get the same TOAST pointer.
const Header &stored_header(FmgrInfo *function, varlena *stored) {
  struct Remembered {
    TimestampTz statement;
    varatt_external pointer;
    Header header;
  };
  varatt_external pointer;
  VARATT_EXTERNAL_GET_POINTER(pointer, stored);
  auto *last = static_cast<Remembered *>(function->fn_extra);
  if (last == nullptr)
    function->fn_extra = last =
        static_cast<Remembered *>(MemoryContextAllocZero(function->fn_mcxt, sizeof(Remembered)));
  const TimestampTz statement = GetCurrentStatementStartTimestamp();
  if (last->statement == statement && std::memcmp(&last->pointer, &pointer, sizeof pointer) == 0)
    return last->header;
  Header header;
  const FormatError error = read_header(slice_of(stored, 0, kValueHeaderBytes), header);
  if (error != FormatError::kNone) damaged_value(error);
  *last = {statement, pointer, header};
  return last->header;
}

// Whether this server makes the item's key as the value needs it. If not, the check answers maybe,
// and raises no error: maybe is true, and a page of results does not break at one name.
bool known_here(const Header &header, std::string_view item) {
  if (likely(keeps_key(header, item))) return true;
  warn_of_normalization(header);
  return false;
}

// Whether the value might contain the item. If the value is stored out of line, only its header and
// one chunk are read: 5 us for 128 MiB, where reading the whole value takes 140 ms. A stored value
// that is too short is found by slice_of.
bool value_contains(FmgrInfo *function, Datum value, std::string_view item) {
  auto *stored = reinterpret_cast<varlena *>(DatumGetPointer(value));
  if (VARATT_IS_EXTERNAL_ONDISK(stored)) {
    const Header &header = stored_header(function, stored);
    if (!known_here(header, item)) return true;
    const ItemBits bits = hash_to_bits(header, item);
    const Size offset = kValueHeaderBytes + header.chunk_offset(bits.chunk);
    return chunk_contains(slice_of(stored, offset, header.chunk_bytes()).data(), bits);
  }
  const ValueView view = view_value(value);
  if (!known_here(view.header, item)) return true;
  const ItemBits bits = hash_to_bits(view.header, item);
  return chunk_contains(&view.bits()[view.header.chunk_offset(bits.chunk)], bits);
}

// Whether both arguments have the same bytes. Two filters with the same members in other geometries
// are different values.
bool values_equal(FunctionCallInfo fcinfo) {
  const ValueView one = value_argument(fcinfo, 0), other = value_argument(fcinfo, 1);
  return one.bytes.size() == other.bytes.size() &&
         std::memcmp(one.bytes.data(), other.bytes.data(), one.bytes.size()) == 0;
}

// A value has at most 256 MiB, so its size fits.
int32 size_of(std::span<const uint8> bytes) {
  return static_cast<int32>(bytes.size());
}

}  // namespace

extern "C" {

// bloomfilter_in(cstring) -> bloomfilter: reads the bytes in any form that bytea accepts, and
// validates them. From PostgreSQL 16 on its errors can be soft, so it cannot use require_value,
// which always raises them.
PG_FUNCTION_INFO_V1(bloomfilter_in);
PGDLLEXPORT Datum bloomfilter_in(PG_FUNCTION_ARGS) {
  Datum bytes;
  if (!compat_byteain(PG_GETARG_CSTRING(0), fcinfo->context, &bytes)) PG_RETURN_NULL();
  Header header;
  const FormatError error =
      read_value(bytes_of(reinterpret_cast<varlena *>(DatumGetPointer(bytes))), header);
  if (error != FormatError::kNone)
    ereturn(fcinfo->context, Datum{0},
            (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid bloomfilter value"),
             errdetail("%s", format_error_detail(error))));
  return bytes;
}

// bloomfilter_out(bloomfilter) -> cstring: the bytes in the hex form of bytea. It does not follow
// bytea_output: the form "escape" may take four characters a byte, and a large value would exceed
// the limit of the server for a string.
PG_FUNCTION_INFO_V1(bloomfilter_out);
PGDLLEXPORT Datum bloomfilter_out(PG_FUNCTION_ARGS) {
  const ValueView view = value_argument(fcinfo, 0);
  auto *text = static_cast<char *>(palloc(2 + 2 * view.bytes.size() + 1));
  text[0] = '\\';
  text[1] = 'x';
  const uint64 digits =
      hex_encode(reinterpret_cast<const char *>(view.bytes.data()), view.bytes.size(), text + 2);
  text[2 + digits] = '\0';
  PG_RETURN_CSTRING(text);
}

// bloomfilter_recv(internal) -> bloomfilter: the rest of the message, validated as all input is.
PG_FUNCTION_INFO_V1(bloomfilter_recv);
PGDLLEXPORT Datum bloomfilter_recv(PG_FUNCTION_ARGS) {
  auto *message = reinterpret_cast<StringInfo>(PG_GETARG_POINTER(0));
  const int size = message->len - message->cursor;
  const auto *bytes = reinterpret_cast<const uint8 *>(pq_getmsgbytes(message, size));
  return PointerGetDatum(copy_value(require_value({bytes, static_cast<size_t>(size)})));
}

// bloomfilter_send(bloomfilter) -> bytea: the bytes.
PG_FUNCTION_INFO_V1(bloomfilter_send);
PGDLLEXPORT Datum bloomfilter_send(PG_FUNCTION_ARGS) {
  return PointerGetDatum(copy_value(value_argument(fcinfo, 0)));
}

// bloomfilter_from_bytea(bytea) -> bloomfilter: the cast, which validates the bytes. The cast to
// bytea needs no function, since the two types are stored alike.
PG_FUNCTION_INFO_V1(bloomfilter_from_bytea);
PGDLLEXPORT Datum bloomfilter_from_bytea(PG_FUNCTION_ARGS) {
  return PointerGetDatum(copy_value(require_value(bytes_of(PG_GETARG_VARLENA_PP(0)))));
}

// bloom_empty(capacity float8, fp_rate float8, normalization text) -> bloomfilter: a value without
// members. It has the geometry that takes the fewest bytes for capacity items at fp_rate.
PG_FUNCTION_INFO_V1(bloom_empty);
PGDLLEXPORT Datum bloom_empty(PG_FUNCTION_ARGS) {
  const float8 capacity = PG_GETARG_FLOAT8(0), fp_rate = PG_GETARG_FLOAT8(1);
  require_size_arguments(capacity, fp_rate);
  const Normalization normalization = normalization_named(text_view(PG_GETARG_TEXT_PP(2)));
  return PointerGetDatum(
      new_value(new_header(value_geometry_for(capacity, fp_rate), normalization)));
}

// value + text -> bloomfilter: a copy with the item added. For a null item it returns the value
// itself. It always copies: the argument may lie in a shared buffer. For many items an aggregate is
// better.
PG_FUNCTION_INFO_V1(bloom_value_add);
PGDLLEXPORT Datum bloom_value_add(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(0)) null_filter();
  if (PG_ARGISNULL(1)) return PG_GETARG_DATUM(0);
  const std::string_view item = text_view(PG_GETARG_TEXT_PP(1));
  const ValueView view = value_argument(fcinfo, 0);
  require_keeps_key(view.header, item);
  varlena *sum = copy_value(view);
  const ItemBits bits = hash_to_bits(view.header, item);
  chunk_add(value_bits(sum) + view.header.chunk_offset(bits.chunk), bits);
  return PointerGetDatum(sum);
}

// value | value -> bloomfilter: a value with the members of both. Raises 55000 unless they have the
// same shape, and for null.
PG_FUNCTION_INFO_V1(bloom_value_union);
PGDLLEXPORT Datum bloom_value_union(PG_FUNCTION_ARGS) {
  const ValueView one = value_argument(fcinfo, 0), other = value_argument(fcinfo, 1);
  require_same_shape(one.header, other.header);
  varlena *both = copy_value(one);
  merge_bits(value_bits(both), other.bits());
  return PointerGetDatum(both);
}

// value @> text -> boolean: false means "definitely not". Null for a null item. Not strict, so that
// a null value is an error: as a missing filter it must not look like a "no".
PG_FUNCTION_INFO_V1(bloom_value_contain);
PGDLLEXPORT Datum bloom_value_contain(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(0)) null_filter();
  if (PG_ARGISNULL(1)) PG_RETURN_NULL();
  PG_RETURN_BOOL(
      must_be_maybe(PG_GET_COLLATION()) ||
      value_contains(fcinfo->flinfo, PG_GETARG_DATUM(0), text_view(PG_GETARG_TEXT_PP(1))));
}

// text <@ value -> boolean: the same with the arguments exchanged.
PG_FUNCTION_INFO_V1(bloom_value_contained);
PGDLLEXPORT Datum bloom_value_contained(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(1)) null_filter();
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  PG_RETURN_BOOL(
      must_be_maybe(PG_GET_COLLATION()) ||
      value_contains(fcinfo->flinfo, PG_GETARG_DATUM(1), text_view(PG_GETARG_TEXT_PP(0))));
}

// value = value -> boolean: whether they have the same bytes. Strict.
PG_FUNCTION_INFO_V1(bloom_value_eq);
PGDLLEXPORT Datum bloom_value_eq(PG_FUNCTION_ARGS) {
  PG_RETURN_BOOL(values_equal(fcinfo));
}

PG_FUNCTION_INFO_V1(bloom_value_ne);
PGDLLEXPORT Datum bloom_value_ne(PG_FUNCTION_ARGS) {
  PG_RETURN_BOOL(!values_equal(fcinfo));
}

// The hash of the bytes, for the hash operator class. It lets values be grouped and hash-joined.
PG_FUNCTION_INFO_V1(bloom_value_hash);
PGDLLEXPORT Datum bloom_value_hash(PG_FUNCTION_ARGS) {
  const std::span<const uint8> bytes = value_argument(fcinfo, 0).bytes;
  return hash_any(bytes.data(), size_of(bytes));
}

// The same with a seed, in 64 bits.
PG_FUNCTION_INFO_V1(bloom_value_hash_extended);
PGDLLEXPORT Datum bloom_value_hash_extended(PG_FUNCTION_ARGS) {
  const std::span<const uint8> bytes = value_argument(fcinfo, 0).bytes;
  return hash_any_extended(bytes.data(), size_of(bytes), static_cast<uint64>(PG_GETARG_INT64(1)));
}

// bloom_fold(value, chunks int) -> bloomfilter: the same members in fewer chunks. The number of
// chunks must divide that of the value, else it raises 22023. The bits are those that building the
// value with so few chunks would have set.
PG_FUNCTION_INFO_V1(bloom_fold);
PGDLLEXPORT Datum bloom_fold(PG_FUNCTION_ARGS) {
  const ValueView view = value_argument(fcinfo, 0);
  if (PG_ARGISNULL(1)) null_argument("chunks");
  const int32 chunks = PG_GETARG_INT32(1);
  if (chunks < 1 || view.header.chunks % chunks != 0)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("cannot fold %d chunks into %d", view.header.chunks, chunks),
                    errhint("The number of chunks must be divisible by the new number.")));
  Header header = view.header;
  header.chunks = chunks;
  varlena *folded = new_value(header);
  fold(view.header, view.bits(), chunks, value_bits(folded));
  return PointerGetDatum(folded);
}

// bloom_value_info(value) -> record: the header of the value, and estimates from its bits. If the
// filter was grown once, an item that was added before has bits in two chunks and counts in both;
// after the second time it counts in four.
PG_FUNCTION_INFO_V1(bloom_value_info);
PGDLLEXPORT Datum bloom_value_info(PG_FUNCTION_ARGS) {
  const ValueView view = value_argument(fcinfo, 0);
  const Header &header = view.header;
  float8 items = 0, fill = 0, fp_rate = 0, worst_fill = 0;
  for (int32 chunk = 0; chunk < header.chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    const ChunkEstimate estimate(
        view.bits().subspan(header.chunk_offset(chunk), header.chunk_bytes()), header.k);
    items += estimate.items();
    fill += estimate.fill();
    fp_rate += estimate.fp_rate();
    worst_fill = Max(worst_fill, estimate.fill());
  }
  Datum values[] = {
      Int32GetDatum(header.chunks),
      Int32GetDatum(header.chunk_bits()),
      Int32GetDatum(header.k),
      CStringGetTextDatum(normalization_name(header.normalization)),
      CStringGetTextDatum(psprintf("%08x", header.canary)),
      Int64GetDatum(static_cast<int64>(view.bytes.size())),
      Float8GetDatum(std::round(items)),
      Float8GetDatum(fill / header.chunks),
      Float8GetDatum(fp_rate / header.chunks),
      Float8GetDatum(worst_fill),
  };
  bool nulls[lengthof(values)] = {};
  return row_result(fcinfo, values, nulls);
}

}  // extern "C"

}  // namespace bloomfilter
