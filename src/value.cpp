
#include "pg.hpp"

#include <cstring>

#include "arguments.hpp"
#include "canary.hpp"
#include "huge_pages.hpp"
#include "item_key.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

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

// Raises where this server does not normalise every item as the one that built the value.
void require_normalized_here(const Header &header) {
  if ((header.normalization == Normalization::kNone || ascii_lowers_plainly()) &&
      header.canary == server_canary(header.normalization, CanaryPart::kAll))
    return;
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("normalization \"%s\" of this server differs from that of the bloomfilter value",
                  normalization_name(header.normalization)),
           errhint("Build the value again on this server.")));
}

}  // namespace

const char *format_error_detail(FormatError error) {
  switch (error) {
    case FormatError::kNone:
      break;
    case FormatError::kTooShort:
      return "It is too short to hold a header.";
    case FormatError::kVersion:
      return "It has another version of the format.";
    case FormatError::kHashes:
      return "Its k is out of range.";
    case FormatError::kChunkBits:
      return "Its chunk size is out of range.";
    case FormatError::kNormalization:
      return "Its normalization is not known to this version.";
    case FormatError::kChunks:
      return "Its number of chunks is out of range.";
    case FormatError::kReserved:
      return "Its reserved bytes are not zero.";
    case FormatError::kCanary:
      return "Its canary does not belong to its normalization.";
    case FormatError::kLength:
      return "Its length is not what its header says.";
  }
  return "";
}

[[noreturn]] void damaged_value(FormatError error) {
  ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("bloomfilter value is damaged"),
                  errdetail("%s", format_error_detail(error)),
                  errhint("Treat the answer as \"maybe\" and build the value again.")));
  pg_unreachable();
}

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

varlena *copy_value(const ValueView &view) {
  auto *copy = static_cast<varlena *>(palloc(VARHDRSZ + view.bytes.size()));
  SET_VARSIZE(copy, VARHDRSZ + view.bytes.size());
  std::memcpy(VARDATA(copy), view.bytes.data(), view.bytes.size());
  return copy;
}

ValueView require_value(std::span<const uint8> bytes) {
  ValueView view{{}, bytes};
  const FormatError error = read_value(bytes, view.header);
  if (error != FormatError::kNone)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid bloomfilter value"),
             errdetail("%s", format_error_detail(error))));
  return view;
}

Header new_header(const Geometry &geometry, Normalization normalization) {
  if (normalization == Normalization::kLower && !ascii_lowers_plainly())
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("this database cannot build bloomfilter values with normalization "
                           "\"lower\""),
                    errdetail("Its locale does not change A to Z as the C locale does."),
                    errhint("Use normalization \"none\" with lower(item collate \"C\").")));
  const Header header = {static_cast<uint8>(geometry.k), log2_of_chunk_bits(geometry.chunk_bits),
                         normalization, geometry.chunks,
                         server_canary(normalization, CanaryPart::kAll)};
  // An encoding that came with a later PostgreSQL: no reader could take such a value.
  if (!canary_fits(normalization, header.canary))
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("bloomfilter values are not available in encoding %s",
                           GetDatabaseEncodingName()),
                    errhint("Use bloom_create to make a filter table.")));
  return header;
}

varlena *new_value(const Header &header) {
  const Size size = VARHDRSZ + header.value_bytes();
  auto *value = static_cast<varlena *>(allocate_zeroed(size));
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
       errdetail("Normalization \"%s\" of this server differs from that of the value.",
                 normalization_name(header.normalization)),
       errhint("Build the value again on this server.")));
}

void require_same_shape(const Header &one, const Header &other) {
  if (likely(one == other)) return;
  Header same_but_canary = other;
  same_but_canary.canary = one.canary;
  if (one == same_but_canary)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot combine bloomfilter values of different normalization"),
                    errdetail("Both have normalization \"%s\", but two servers define it "
                              "differently: the canaries are %08x and %08x.",
                              normalization_name(one.normalization), one.canary, other.canary)));
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot combine bloomfilter values of different shape"),
                  errdetail("One value has %s, and the other has %s.", describe_header(one),
                            describe_header(other)),
                  errhint("Build both with the same capacity, false-positive rate and "
                          "normalization, or with the same number of chunks.")));
}

int32 require_mergeable(const Header &header, int32 chunks, Normalization normalization,
                        const char *filter) {
  require_table_chunks(header);
  if (header.normalization != normalization || header.chunks % chunks != 0)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("cannot merge a bloomfilter value into Bloom filter \"%s\"", filter),
             errdetail("The filter has %d chunks and normalization \"%s\", and the value has %s.",
                       chunks, normalization_name(normalization), describe_header(header)),
             errhint("Build it with bloom_agg_chunks(item, %d, '%s').", chunks,
                     normalization_name(normalization))));
  return header.chunks / chunks;
}

void require_table_chunks(const Header &header) {
  if (header.k != kTableHashes || header.chunk_bits() != kChunkBits)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("the chunks of this bloomfilter value do not fit a filter table"),
             errdetail("The value has %s, and a filter table has chunks of %d bits and k = %d.",
                       describe_header(header), kChunkBits, kTableHashes),
             errhint("Build it with bloom_agg_chunks.")));
  require_normalized_here(header);
}

const char *describe_header(const Header &header) {
  return psprintf("chunks = %d of %d bits, k = %d, normalization \"%s\"", header.chunks,
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
