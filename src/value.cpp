// The type bloomfilter: input, output, operators, and what can be done with one value.
#include "pg.hpp"

#include <cmath>
#include <cstring>

#include "bits_memory.hpp"
#include "bloomfilter/sizing.hpp"
#include "filter_table.hpp"
#include "normalize.hpp"
#include "popcount.hpp"
#include "size_arguments.hpp"
#include "value.hpp"

using namespace bloomfilter;

namespace {

const char *reason(FormatError error) {
  switch (error) {
    case FormatError::kNone:
      break;
    case FormatError::kTooShort:
      return "It is too short to hold a header.";
    case FormatError::kVersion:
      return "It is of another version of the format.";
    case FormatError::kHashes:
      return "Its k is out of range.";
    case FormatError::kChunkBits:
      return "Its size of a chunk is out of range.";
    case FormatError::kNormalization:
      return "Its normalisation is unknown to this version.";
    case FormatError::kChunks:
      return "Its number of chunks is out of range.";
    case FormatError::kReserved:
      return "Its reserved bytes are not zero.";
    case FormatError::kCanary:
      return "Its canary is not one of its normalization.";
    case FormatError::kLength:
      return "Its length is not what its header says.";
  }
  return "";
}

std::span<const uint8> bytes_of(const varlena *value) {
  return {reinterpret_cast<const uint8 *>(VARDATA_ANY(value)),
          static_cast<size_t>(VARSIZE_ANY_EXHDR(value))};
}

// A value has been through the validator on its way in, so what is wrong now was damaged since.
[[noreturn]] void damaged_value(FormatError error) {
  ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("bloomfilter value is damaged"),
                  errdetail("%s", reason(error)),
                  errhint("Take the answer as \"maybe\", and make the value anew.")));
  pg_unreachable();
}

Size flat_size(ExpandedObjectHeader *object) {
  return VARSIZE(reinterpret_cast<ExpandedValue *>(object)->value);
}

void flatten(ExpandedObjectHeader *object, void *result, Size size) {
  std::memcpy(result, reinterpret_cast<ExpandedValue *>(object)->value, size);
}

constexpr ExpandedObjectMethods kExpandedMethods = {flat_size, flatten};

// The value that one of our aggregates hands out expanded, or null. Anybody else's expanded object
// has other things behind its header, and is for the server to flatten.
const varlena *expanded_here(Datum value) {
  if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value))) return nullptr;
  const ExpandedObjectHeader *object = DatumGetEOHP(value);
  return object->eoh_methods == &kExpandedMethods
             ? reinterpret_cast<const ExpandedValue *>(object)->value
             : nullptr;
}

varlena *copy_value(const ValueView &view) {
  auto *copy = static_cast<varlena *>(palloc(VARHDRSZ + view.bytes.size()));
  SET_VARSIZE(copy, VARHDRSZ + view.bytes.size());
  std::memcpy(VARDATA(copy), view.bytes.data(), view.bytes.size());
  return copy;
}

// Says once a session that keys are not what they were.
void tell_normalization(const Header &header) {
  static constinit bool told = false;
  if (told) return;
  told = true;
  ereport(WARNING, (errmsg("normalisation \"%s\" is not what a bloomfilter value was built with",
                           normalization_name(header.normalization)),
                    errdetail("Checks of names beyond ASCII answer maybe."),
                    errhint("Make the value anew on this server.")));
}

std::span<const uint8> slice_of(varlena *stored, Size offset, Size size) {
  const std::span<const uint8> slice = bytes_of(PG_DETOAST_DATUM_SLICE(
      PointerGetDatum(stored), static_cast<int32>(offset), static_cast<int32>(size)));
  if (slice.size() != size) damaged_value(FormatError::kLength);
  return slice;
}

// The header of a value that is stored out of line. Many checks in a row are of one value: its
// header is read once a statement (4.9 us a check of 128 MiB, against 7.1). Only while a statement
// runs is a TOAST pointer sure to mean the same value.
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

// Raises no error for an item whose key is another today: such a check answers maybe.
bool known_here(const Header &header, std::string_view item) {
  if (likely(keeps_key(header, item))) return true;
  tell_normalization(header);
  return false;
}

// Whether the value that the datum is might contain the item. Of one that is stored out of line
// no more is read than its header and one chunk.
bool contains(FmgrInfo *function, Datum value, std::string_view item) {
  auto *stored = reinterpret_cast<varlena *>(DatumGetPointer(value));
  if (VARATT_IS_EXTERNAL_ONDISK(stored)) {
    const Header &header = stored_header(function, stored);
    if (!known_here(header, item)) return true;
    const ItemBits placed = place_item(header, item);
    const Size offset = kValueHeaderBytes + static_cast<Size>(placed.chunk) * header.chunk_bytes();
    return chunk_contains(slice_of(stored, offset, header.chunk_bytes()).data(), placed);
  }
  const ValueView view = view_value(value);
  if (!known_here(view.header, item)) return true;
  const ItemBits placed = place_item(view.header, item);
  return chunk_contains(&view.bits()[static_cast<Size>(placed.chunk) * view.header.chunk_bytes()],
                        placed);
}

// Raises where this server does not normalise every item as the one that built the value.
void require_normalized_here(const Header &header) {
  if ((header.normalization == Normalization::kNone || ascii_lowers_plainly()) &&
      header.canary == server_canary(header.normalization, CanaryPart::kAll))
    return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("normalisation \"%s\" of this server is not what a bloomfilter value was "
                         "built with",
                         normalization_name(header.normalization)),
                  errhint("Make the value anew on this server.")));
}

bool equal(FunctionCallInfo fcinfo) {
  const ValueView one = value_argument(fcinfo, 0), other = value_argument(fcinfo, 1);
  return one.bytes.size() == other.bytes.size() &&
         std::memcmp(one.bytes.data(), other.bytes.data(), one.bytes.size()) == 0;
}

int32 size_of(std::span<const uint8> bytes) {
  return static_cast<int32>(bytes.size());
}

}  // namespace

namespace bloomfilter {

ValueView view_value(Datum value) {
  const varlena *flat = expanded_here(value);
  if (flat == nullptr) flat = PG_DETOAST_DATUM_PACKED(value);
  ValueView view{{}, bytes_of(flat)};
  const FormatError error = read_value(view.bytes, view.header);
  if (error != FormatError::kNone) damaged_value(error);
  return view;
}

ValueView value_argument(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument)) null_filter();
  return view_value(PG_GETARG_DATUM(argument));
}

ValueView require_value(std::span<const uint8> bytes) {
  ValueView view{{}, bytes};
  const FormatError error = read_value(bytes, view.header);
  if (error != FormatError::kNone)
    ereport(ERROR, (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
                    errmsg("invalid bloomfilter value"), errdetail("%s", reason(error))));
  return view;
}

Header new_header(const Geometry &geometry, Normalization normalization) {
  if (normalization == Normalization::kLower && !ascii_lowers_plainly())
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("this database cannot build bloomfilter values with normalisation "
                           "\"lower\""),
                    errdetail("Its locale lowers A to Z otherwise than others do."),
                    errhint("Use normalisation \"none\" over lower(item collate \"C\").")));
  const Header header = {static_cast<uint8>(geometry.k), log2_of_chunk_bits(geometry.chunk_bits),
                         normalization, geometry.chunks,
                         server_canary(normalization, CanaryPart::kAll)};
  // An encoding that came with a later PostgreSQL: no reader could take such a value.
  if (!canary_fits(normalization, header.canary))
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("bloomfilter values are not available in encoding %s",
                           GetDatabaseEncodingName()),
                    errhint("Use a filter table: bloom_create.")));
  return header;
}

varlena *new_value(const Header &header) {
  const Size size = VARHDRSZ + header.value_bytes();
  auto *value = static_cast<varlena *>(allocate_bits(size));
  SET_VARSIZE(value, size);
  write_header(header, reinterpret_cast<uint8 *>(VARDATA(value)));
  return value;
}

bool keeps_key(const Header &header, std::string_view item) {
  // The canary of all characters takes up to 100 ms to make, once a backend, and of ASCII none is
  // needed: values are built only where it is lowered plainly.
  if (is_ascii(item)) return header.normalization == Normalization::kNone || ascii_lowers_plainly();
  return header.canary == server_canary(header.normalization, CanaryPart::kAll);
}

void require_keeps_key(const Header &header, std::string_view item) {
  if (likely(keeps_key(header, item))) return;
  ereport(
      ERROR,
      (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
       errmsg("cannot add \"%s\" to a bloomfilter value",
              pnstrdup(item.data(), pg_mbcliplen(item.data(), static_cast<int>(item.size()), 64))),
       errdetail("Normalisation \"%s\" is not what the value was built with.",
                 normalization_name(header.normalization)),
       errhint("Make the value anew on this server.")));
}

void require_same_shape(const Header &one, const Header &other) {
  if (likely(one == other)) return;
  Header same_but_canary = other;
  same_but_canary.canary = one.canary;
  if (one == same_but_canary)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot unite Bloom filters of different normalisation"),
                    errdetail("Both are of normalisation \"%s\", but as two servers have it: "
                              "canary %08x and %08x.",
                              normalization_name(one.normalization), one.canary, other.canary)));
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot unite Bloom filters of different shape"),
                  errdetail("One has %s; the other %s.", describe(one), describe(other)),
                  errhint("Build both with the same capacity, rate and normalisation, or the same "
                          "number of chunks.")));
}

int32 require_mergeable(const Header &header, int32 chunks, Normalization normalization,
                        const char *filter) {
  require_table_chunks(header);
  if (header.normalization != normalization || header.chunks % chunks != 0)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("cannot merge a bloomfilter value into Bloom filter \"%s\"", filter),
             errdetail("The filter has %d chunks and normalisation \"%s\"; the value has %s.",
                       chunks, normalization_name(normalization), describe(header)),
             errhint("Build it with bloom_agg_chunks(item, %d, '%s').", chunks,
                     normalization_name(normalization))));
  return header.chunks / chunks;
}

void require_table_chunks(const Header &header) {
  if (header.k != kTableHashes || header.chunk_bits() != kChunkBits)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("the chunks of this bloomfilter value cannot be a filter table's"),
                    errdetail("It has %s; a table has chunks of %d bits and k = %d.",
                              describe(header), kChunkBits, kTableHashes),
                    errhint("Build it with bloom_agg_chunks.")));
  require_normalized_here(header);
}

const char *describe(const Header &header) {
  return psprintf("chunks = %d of %d bits, k = %d, normalisation \"%s\"", header.chunks,
                  header.chunk_bits(), header.k, normalization_name(header.normalization));
}

void expand_value(ExpandedValue *expanded, varlena *value, MemoryContext context) {
  EOH_init_header(&expanded->object, &kExpandedMethods, context);
  expanded->value = value;
}

Datum expanded_result(const ExpandedValue *expanded) {
  return PointerGetDatum(std::memcpy(palloc(EXPANDED_POINTER_SIZE), expanded->object.eoh_ro_ptr,
                                     EXPANDED_POINTER_SIZE));
}

}  // namespace bloomfilter

// bloomfilter_in(cstring) -> bloomfilter: the bytes in any form of bytea, validated.
BLOOM_SQL_FUNCTION(bloomfilter_in) {
  Datum bytes;
  if (!compat_byteain(PG_GETARG_CSTRING(0), fcinfo->context, &bytes)) PG_RETURN_NULL();
  Header header;
  const FormatError error =
      read_value(bytes_of(reinterpret_cast<varlena *>(DatumGetPointer(bytes))), header);
  if (error != FormatError::kNone)
    ereturn(fcinfo->context, Datum{0},
            (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid bloomfilter value"),
             errdetail("%s", reason(error))));
  return bytes;
}

// bloomfilter_out(bloomfilter) -> cstring: hex as of bytea, whatever bytea_output says.
BLOOM_SQL_FUNCTION(bloomfilter_out) {
  const ValueView view = value_argument(fcinfo, 0);
  auto *text = static_cast<char *>(palloc(2 + 2 * view.bytes.size() + 1));
  text[0] = '\\';
  text[1] = 'x';
  const uint64 digits =
      hex_encode(reinterpret_cast<const char *>(view.bytes.data()), view.bytes.size(), text + 2);
  text[2 + digits] = '\0';
  PG_RETURN_CSTRING(text);
}

// bloomfilter_recv(internal) -> bloomfilter: the bytes, validated.
BLOOM_SQL_FUNCTION(bloomfilter_recv) {
  auto *message = reinterpret_cast<StringInfo>(PG_GETARG_POINTER(0));
  const int size = message->len - message->cursor;
  const auto *bytes = reinterpret_cast<const uint8 *>(pq_getmsgbytes(message, size));
  return PointerGetDatum(copy_value(require_value({bytes, static_cast<size_t>(size)})));
}

// bloomfilter_send(bloomfilter) -> bytea: the bytes.
BLOOM_SQL_FUNCTION(bloomfilter_send) {
  return PointerGetDatum(copy_value(value_argument(fcinfo, 0)));
}

// bloomfilter_from_bytea(bytea) -> bloomfilter: the cast; validates.
BLOOM_SQL_FUNCTION(bloomfilter_from_bytea) {
  return PointerGetDatum(copy_value(require_value(bytes_of(PG_GETARG_VARLENA_PP(0)))));
}

// bloom_empty(capacity float8, fp_rate float8, normalization text) -> bloomfilter: no members, in
// the geometry that takes the fewest bytes for capacity items at fp_rate.
BLOOM_SQL_FUNCTION(bloom_empty) {
  const float8 capacity = PG_GETARG_FLOAT8(0), fp_rate = PG_GETARG_FLOAT8(1);
  require_size_arguments(capacity, fp_rate);
  const Normalization normalization = normalization_named(text_to_cstring(PG_GETARG_TEXT_PP(2)));
  return PointerGetDatum(
      new_value(new_header(value_geometry_for(capacity, fp_rate), normalization)));
}

// value + text -> bloomfilter: a copy with the item added; of a null item the value itself.
BLOOM_SQL_FUNCTION(bloom_value_add) {
  if (PG_ARGISNULL(0)) null_filter();
  if (PG_ARGISNULL(1)) return PG_GETARG_DATUM(0);
  const std::string_view item = text_view(PG_GETARG_TEXT_PP(1));
  const ValueView view = value_argument(fcinfo, 0);
  require_keeps_key(view.header, item);
  varlena *sum = copy_value(view);
  const ItemBits placed = place_item(view.header, item);
  chunk_add(value_bits(sum) + static_cast<Size>(placed.chunk) * view.header.chunk_bytes(), placed);
  return PointerGetDatum(sum);
}

// value | value -> bloomfilter: the members of both, which must have the same shape.
BLOOM_SQL_FUNCTION(bloom_value_union) {
  const ValueView one = value_argument(fcinfo, 0), other = value_argument(fcinfo, 1);
  require_same_shape(one.header, other.header);
  varlena *both = copy_value(one);
  unite(value_bits(both), other.bits());
  return PointerGetDatum(both);
}

// value @> text -> boolean: false means definitely not. Null for a null item.
BLOOM_SQL_FUNCTION(bloom_value_contain) {
  if (PG_ARGISNULL(0)) null_filter();
  if (PG_ARGISNULL(1)) PG_RETURN_NULL();
  PG_RETURN_BOOL(contains(fcinfo->flinfo, PG_GETARG_DATUM(0), text_view(PG_GETARG_TEXT_PP(1))));
}

// text <@ value -> boolean: the commutator.
BLOOM_SQL_FUNCTION(bloom_value_contained) {
  if (PG_ARGISNULL(1)) null_filter();
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  PG_RETURN_BOOL(contains(fcinfo->flinfo, PG_GETARG_DATUM(1), text_view(PG_GETARG_TEXT_PP(0))));
}

// value = value -> boolean: whether they are the same byte for byte. Strict.
BLOOM_SQL_FUNCTION(bloom_value_eq) {
  PG_RETURN_BOOL(equal(fcinfo));
}

BLOOM_SQL_FUNCTION(bloom_value_ne) {
  PG_RETURN_BOOL(!equal(fcinfo));
}

BLOOM_SQL_FUNCTION(bloom_value_hash) {
  const std::span<const uint8> bytes = value_argument(fcinfo, 0).bytes;
  return hash_any(bytes.data(), size_of(bytes));
}

BLOOM_SQL_FUNCTION(bloom_value_hash_extended) {
  const std::span<const uint8> bytes = value_argument(fcinfo, 0).bytes;
  return hash_any_extended(bytes.data(), size_of(bytes), static_cast<uint64>(PG_GETARG_INT64(1)));
}

// bloom_fold(value, chunks int) -> bloomfilter: the same members in fewer chunks, whose number
// divides that of the value; the bits that building it so would have set.
BLOOM_SQL_FUNCTION(bloom_fold) {
  const ValueView view = value_argument(fcinfo, 0);
  if (PG_ARGISNULL(1))
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("chunks must not be null")));
  const int32 chunks = PG_GETARG_INT32(1);
  if (chunks < 1 || view.header.chunks % chunks != 0)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("cannot fold %d chunks into %d", view.header.chunks, chunks),
             errhint("The number of chunks can be divided by a whole number, and by no other.")));
  Header header = view.header;
  header.chunks = chunks;
  varlena *folded = new_value(header);
  fold(view.header, view.bits(), chunks, value_bits(folded));
  return PointerGetDatum(folded);
}

// bloom_value_info(value) -> record: its header, and what its bits tell. Of a filter that was grown
// an item has bits in two chunks (in four after the second time), and counts in each.
BLOOM_SQL_FUNCTION(bloom_value_info) {
  const ValueView view = value_argument(fcinfo, 0);
  const Header &header = view.header;
  float8 items = 0, fill = 0, fp_rate = 0, worst_fill = 0;
  for (int32 chunk = 0; chunk < header.chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    const auto set = static_cast<float8>(popcount(view.bits().subspan(
        static_cast<Size>(chunk) * header.chunk_bytes(), header.chunk_bytes())));
    const float8 chunk_fill = set / header.chunk_bits();
    items += estimated_items(set, header.chunk_bits(), header.k);
    fill += chunk_fill;
    fp_rate += std::pow(chunk_fill, header.k);
    worst_fill = Max(worst_fill, chunk_fill);
  }
  TupleDesc descriptor;
  if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
    elog(ERROR, "bloom_value_info does not return a row");
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
  return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}
