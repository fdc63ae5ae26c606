// Views, copies and checks of values of type bloomfilter, and the expanded form in which aggregates
// return them. The SQL functions of the type are in value_functions.cpp and value_aggregate.cpp.
#include "pg.hpp"

#include <cstring>

#include "arguments.hpp"
#include "canary.hpp"
#include "huge_pages.hpp"
#include "item_key.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// The two methods of the expanded object. The server calls them to store the value or to copy it.
// The value is flat already, so that flattening it is one copy.
Size flat_size(ExpandedObjectHeader *object) {
  return VARSIZE(reinterpret_cast<ExpandedValue *>(object)->value);
}

void flatten(ExpandedObjectHeader *object, void *result, Size size) {
  std::memcpy(result, reinterpret_cast<ExpandedValue *>(object)->value, size);
}

// Its address marks the expanded objects of this library, see expanded_here.
constexpr ExpandedObjectMethods kExpandedMethods = {flat_size, flatten};

// The value inside an expanded object that an aggregate of this library returned, else null. It
// spares a copy of up to 256 MiB. An expanded object of another kind has other data after its
// header, and the server has to flatten it.
const varlena *expanded_here(Datum value) {
  if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value))) return nullptr;
  const ExpandedObjectHeader *object = DatumGetEOHP(value);
  return object->eoh_methods == &kExpandedMethods
             ? reinterpret_cast<const ExpandedValue *>(object)->value
             : nullptr;
}

// Raises 55000 unless this server normalizes every item as the server that built the value did. All
// characters are compared, since rows and values that are merged can hold any item.
void require_normalized_here(const Header &header) {
  if (has_plain_ascii(header.normalization) &&
      header.canary == server_canary(header.normalization, CanaryPart::kAll))
    return;
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("normalization \"%s\" of this server differs from that of the bloomfilter value",
                  normalization_name(header.normalization)),
           errhint("Build the value again on this server.")));
}

}  // namespace

// A switch without a default: so the compiler warns if an error is added and has no sentence here.
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
    case FormatError::kMark:
      return "The end of its header does not belong to its normalization.";
    case FormatError::kCanary:
      return "Its canary does not belong to its normalization.";
    case FormatError::kLength:
      return "Its length is not what its header says.";
  }
  return "";
}

// ERRCODE_DATA_CORRUPTED and not 22P03: here not the user's input is wrong but what was stored.
[[noreturn]] void damaged_value(FormatError error) {
  ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("bloomfilter value is damaged"),
                  errdetail("%s", format_error_detail(error)),
                  errhint("Treat the answer as \"maybe\" and build the value again.")));
  pg_unreachable();
}

// The value is validated again each time. That costs only a look at its header and its length, and
// it makes sure that no offset into its bits points past its end.
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

// Also turns the header of one byte that a short stored value has into one of four bytes.
varlena *copy_value(const ValueView &view) {
  auto *copy = static_cast<varlena *>(palloc(VARHDRSZ + view.bytes.size()));
  SET_VARSIZE(copy, VARHDRSZ + view.bytes.size());
  std::memcpy(VARDATA(copy), view.bytes.data(), view.bytes.size());
  return copy;
}

// 22P03 is the error of a binary input function. The text form and the cast carry the same bytes,
// so they give the same error.
ValueView require_value(std::span<const uint8> bytes) {
  ValueView view{{}, bytes};
  const FormatError error = read_value(bytes, view.header);
  if (error != FormatError::kNone)
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid bloomfilter value"),
             errdetail("%s", format_error_detail(error))));
  return view;
}

// The canary takes 25 to 160 ms, once in a backend. It is needed even if only ASCII is added, since
// nobody knows yet what will be.
Header new_header(const Geometry &geometry, Normalization normalization) {
  if (!has_plain_ascii(normalization))
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("this database cannot build bloomfilter values with normalization "
                           "\"%s\"",
                           normalization_name(normalization)),
                    normalization == Normalization::kLower
                        ? errdetail("Its locale does not change A to Z as the C locale does.")
                        : errdetail("This server's ICU makes other keys of ASCII names than this "
                                    "version of the extension knows."),
                    errhint("Use normalization \"none\" with lower(item collate \"C\").")));
  const Header header = {static_cast<uint8>(geometry.k), log2_of_chunk_bits(geometry.chunk_bits),
                         normalization, geometry.chunks,
                         server_canary(normalization, CanaryPart::kAll)};
  // A later PostgreSQL may have an encoding that is not in the list. Then no reader, this server
  // included, would accept the value.
  if (!canary_fits(normalization, header.canary))
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("bloomfilter values are not available in encoding \"%s\"",
                           GetDatabaseEncodingName()),
                    errhint("Use bloom_create to make a filter table.")));
  return header;
}

// palloc0 would give memory of small pages: see allocate_zeroed.
varlena *new_value(const Header &header) {
  const Size size = VARHDRSZ + header.value_bytes();
  auto *value = static_cast<varlena *>(allocate_zeroed(size));
  SET_VARSIZE(value, size);
  write_header(header, reinterpret_cast<uint8 *>(VARDATA(value)));
  return value;
}

bool keeps_key(const Header &header, std::string_view item) {
  // For an ASCII item no canary is needed: values are built only on servers that give ASCII its
  // plain keys. That spares a backend the 25 to 160 ms that the canary of all characters takes.
  if (is_ascii(item)) return has_plain_ascii(header.normalization);
  return header.canary == server_canary(header.normalization, CanaryPart::kAll);
}

// An add needs an error where a check can answer maybe: a lost add is a wrong "no" later.
void require_keeps_key(const Header &header, std::string_view item) {
  if (likely(keeps_key(header, item))) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot add \"%s\" to a bloomfilter value", item_for_message(item)),
                  errdetail("Normalization \"%s\" of this server differs from that of the value.",
                            normalization_name(header.normalization)),
                  errhint("Build the value again on this server.")));
}

// If only the canaries differ, the two headers would look the same in a message. So that case has a
// message of its own. The canaries decide even if both filters hold only ASCII: the bits do not
// tell which items they come from.
void require_same_shape(const Header &one, const Header &other) {
  if (likely(one == other)) return;
  Header same_but_canary = other;
  same_but_canary.canary = one.canary;
  if (one == same_but_canary)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot combine bloomfilter values of different normalization"),
                    errdetail("Both have normalization \"%s\", but two servers define it "
                              "differently: the canaries are %08x and %08x.",
                              normalization_name(one.normalization), one.canary, other.canary),
                    errhint("Build both values on one server.")));
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot combine bloomfilter values of different shape"),
                  errdetail("One value has %d chunks of %d bits, k = %d and normalization \"%s\".  "
                            "The other has %d chunks of %d bits, k = %d and normalization \"%s\".",
                            one.chunks, one.chunk_bits(), one.k,
                            normalization_name(one.normalization), other.chunks, other.chunk_bits(),
                            other.k, normalization_name(other.normalization)),
                  errhint("Build both with the same capacity, false-positive rate and "
                          "normalization, or with the same number of chunks.")));
}

// More chunks than the filter's are fine if they are a multiple: folding then gives exactly the
// bits that adding the items would have set. Fewer chunks would have to be copied into several, and
// the filter would fill up with bits that no item needs.
int32 require_mergeable(const Header &header, int32 chunks, Normalization normalization,
                        const char *filter) {
  require_table_chunks(header);
  if (header.normalization != normalization || header.chunks % chunks != 0)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot merge a bloomfilter value into Bloom filter \"%s\"", filter),
                    errdetail("The filter has %d chunks and normalization \"%s\".  The value has "
                              "%d chunks and normalization \"%s\".",
                              chunks, normalization_name(normalization), header.chunks,
                              normalization_name(header.normalization)),
                    errhint("Build the value with bloom_agg_chunks(item, %d, '%s').", chunks,
                            normalization_name(normalization))));
  return header.chunks / chunks;
}

// bloom_chunks uses it too, so that its rows can become a filter table.
void require_table_chunks(const Header &header) {
  if (header.k != kTableHashes || header.chunk_bits() != kChunkBits)
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("the chunks of this bloomfilter value do not fit a filter table"),
                    errdetail("The value has chunks of %d bits and k = %d.  A filter table has "
                              "chunks of %d bits and k = %d.",
                              header.chunk_bits(), header.k, kChunkBits, kTableHashes),
                    errhint("Build the value with bloom_agg_chunks.")));
  require_normalized_here(header);
}

// `context` is the aggregate's own. The server would delete it with a read-write pointer to the
// object, but nobody ever gets one.
void expand_value(ExpandedValue *expanded, varlena *value, MemoryContext context) {
  EOH_init_header(&expanded->object, &kExpandedMethods, context);
  expanded->value = value;
}

// Returns the read-only pointer and never the read-write one. With that, the executor could give
// the aggregate's state away or let another function change it.
Datum expanded_result(const ExpandedValue *expanded) {
  return PointerGetDatum(std::memcpy(palloc(EXPANDED_POINTER_SIZE), expanded->object.eoh_ro_ptr,
                                     EXPANDED_POINTER_SIZE));
}

}  // namespace bloomfilter
