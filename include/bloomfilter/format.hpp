// The bytes of a filter value: a header of 16 bytes, then the chunks in order. They are the same on
// every machine; docs/format.md describes them. This file writes the header, and validates values
// from outside.
#ifndef BLOOMFILTER_FORMAT_HPP
#define BLOOMFILTER_FORMAT_HPP

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "bloomfilter/layout.hpp"
#include "bloomfilter/sizing.hpp"

namespace bloomfilter {

// What is done to an item before it is hashed. The number is a byte of the header; a number that
// was used once never gets another meaning.
enum class Normalization : std::uint8_t { kNone = 0, kLower = 1, kNfkc = 2, kUsername = 3 };
inline constexpr std::uint8_t kLastNormalization = 3;

// The last four bytes of the header: zero for "none" and "lower", "nfkc" and "user" in ASCII for
// the others. The byte that says the normalization stands in the header twice in this way. If it
// were damaged alone, the value would be read by another rule than it was built by, and would deny
// members, ASCII ones too.
constexpr std::uint32_t normalization_mark(Normalization normalization) {
  if (normalization == Normalization::kNfkc) return 0x6e666b63;
  if (normalization == Normalization::kUsername) return 0x75736572;
  return 0;
}

inline constexpr std::uint8_t kFormatVersion = 1;
// 256 MiB, and not the gigabyte that a PostgreSQL value may have: the text form takes two
// characters a byte and is copied, and a value without a text form could not be dumped.
inline constexpr std::uint64_t kMaxValueBits = std::uint64_t{kMaxValueChunks} * kChunkBits;

// Chunks of 64 to 8192 bits.
inline constexpr int kMinLog2ChunkBits = 6;
inline constexpr int kMaxLog2ChunkBits = 13;

// The header of a filter value. Fields are in range: read_header() returns no other.
struct Header {
  std::uint8_t k;                // bits that an item sets, 1 to kMaxHashes
  std::uint8_t log2_chunk_bits;  // kMinLog2ChunkBits to kMaxLog2ChunkBits
  Normalization normalization;
  std::int32_t chunks;   // 1 or more
  std::uint32_t canary;  // digest of what the normalization did on the server that built it

  constexpr int chunk_bits() const { return 1 << log2_chunk_bits; }
  constexpr std::size_t chunk_bytes() const { return std::size_t{1} << (log2_chunk_bits - 3); }
  // Where a chunk begins, counted in bytes from the first one.
  constexpr std::size_t chunk_offset(std::int32_t chunk) const {
    return static_cast<std::size_t>(chunk) * chunk_bytes();
  }
  constexpr std::size_t bits_bytes() const { return chunk_offset(chunks); }
  constexpr std::size_t value_bytes() const { return kValueHeaderBytes + bits_bytes(); }
  friend bool operator==(const Header &, const Header &) = default;
};

// The canary of "none" in a database of each encoding that a PostgreSQL server can have. It is a
// digest of ASCII and the encoding's name alone, so it can be listed here. The canary of "lower"
// depends on the server's locale, those of "nfkc" and "username" on its ICU: they cannot.
struct EncodingCanary {
  std::string_view encoding;
  std::uint32_t canary;
};
inline constexpr EncodingCanary kNoneCanaries[] = {
    {"SQL_ASCII", 0xb663ac63},  {"EUC_JP", 0x4593d9d1},        {"EUC_CN", 0x43528f11},
    {"EUC_KR", 0x3a3611c3},     {"EUC_TW", 0x931f5ef5},        {"EUC_JIS_2004", 0xcd8770e4},
    {"UTF8", 0xe896d102},       {"MULE_INTERNAL", 0x658e0977}, {"LATIN1", 0xab4ed2e3},
    {"LATIN2", 0x93b754a9},     {"LATIN3", 0x95ec2529},        {"LATIN4", 0x4f6fd886},
    {"LATIN5", 0x5fe893fe},     {"LATIN6", 0xdeeaa82d},        {"LATIN7", 0x1fb34317},
    {"LATIN8", 0xa6ae3a53},     {"LATIN9", 0xf695e423},        {"LATIN10", 0xc20e7bfa},
    {"WIN1256", 0xefffe715},    {"WIN1258", 0xeae9b87f},       {"WIN866", 0x2b2ad125},
    {"WIN874", 0x41dcda9f},     {"KOI8R", 0x0e05abaf},         {"WIN1251", 0xc0591401},
    {"WIN1252", 0xb7da2194},    {"ISO_8859_5", 0xf17d1fbb},    {"ISO_8859_6", 0xea802ca4},
    {"ISO_8859_7", 0x0755225b}, {"ISO_8859_8", 0x907d15ca},    {"WIN1250", 0x22b81943},
    {"WIN1253", 0x337e7a44},    {"WIN1254", 0xf1cf54c0},       {"WIN1255", 0x7de22437},
    {"WIN1257", 0x4172545f},    {"KOI8U", 0xd3e4c4c7},
};

// The canary of "none" in a database of an encoding. It compiles only for encodings of the table.
consteval std::uint32_t none_canary(std::string_view encoding) {
  for (const EncodingCanary &known : kNoneCanaries)
    if (known.encoding == encoding) return known.canary;
  std::abort();
}
inline constexpr std::uint32_t kUtf8Canary = none_canary("UTF8");

// Whether a value of that normalization can have that canary. "none" has a canary of the table, and
// the others have any other. So a header whose normalization was changed is found out: read by
// another rule than it was built by, the value would deny its members.
constexpr bool canary_fits(Normalization normalization, std::uint32_t canary) {
  bool is_of_none = false;
  for (const EncodingCanary &known : kNoneCanaries) is_of_none |= known.canary == canary;
  return is_of_none == (normalization == Normalization::kNone);
}

// What is wrong with the bytes of a value.
enum class FormatError {
  kNone,           // nothing
  kTooShort,       // fewer bytes than a header
  kVersion,        // another version of the format
  kHashes,         // k out of range
  kChunkBits,      // chunk size out of range
  kNormalization,  // a normalization that this version does not know
  kChunks,         // no chunks, or more bits than kMaxValueBits
  kMark,           // last bytes that are not the mark of the normalization
  kCanary,         // a canary that no server gives to this normalization
  kLength,         // more or fewer bytes than the header says
};

namespace format {

// Numbers are written with their high byte first, as PostgreSQL sends them.
constexpr std::uint32_t read_u32(const std::uint8_t *bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

constexpr void write_u32(std::uint8_t *bytes, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

}  // namespace format

// Reads the header that `bytes` begins with, and checks every field. It does not check how many
// bytes follow: of a stored value only the header may have been fetched. On an error `header` is
// not changed.
constexpr FormatError read_header(std::span<const std::uint8_t> bytes, Header &header) {
  if (bytes.size() < kValueHeaderBytes) return FormatError::kTooShort;
  if (bytes[0] != kFormatVersion) return FormatError::kVersion;
  if (bytes[1] < 1 || bytes[1] > kMaxHashes) return FormatError::kHashes;
  if (bytes[2] < kMinLog2ChunkBits || bytes[2] > kMaxLog2ChunkBits) return FormatError::kChunkBits;
  if (bytes[3] > kLastNormalization) return FormatError::kNormalization;
  const std::uint32_t chunks = format::read_u32(&bytes[4]);
  if (chunks == 0 || chunks > static_cast<std::uint32_t>(kMaxChunks) ||
      std::uint64_t{chunks} << bytes[2] > kMaxValueBits)
    return FormatError::kChunks;
  const auto normalization = static_cast<Normalization>(bytes[3]);
  if (format::read_u32(&bytes[12]) != normalization_mark(normalization)) return FormatError::kMark;
  const std::uint32_t canary = format::read_u32(&bytes[8]);
  if (!canary_fits(normalization, canary)) return FormatError::kCanary;
  header = {bytes[1], bytes[2], normalization, static_cast<std::int32_t>(chunks), canary};
  return FormatError::kNone;
}

// Validates a whole value: the header, and that exactly as many bytes follow as it says. Every way
// into the type goes through here: text, binary, cast, and files.
constexpr FormatError read_value(std::span<const std::uint8_t> bytes, Header &header) {
  const FormatError error = read_header(bytes, header);
  if (error != FormatError::kNone) return error;
  return bytes.size() == header.value_bytes() ? FormatError::kNone : FormatError::kLength;
}

// Writes a header, whose fields must be in range, to the first kValueHeaderBytes of `bytes`.
constexpr void write_header(const Header &header, std::uint8_t *bytes) {
  bytes[0] = kFormatVersion;
  bytes[1] = header.k;
  bytes[2] = header.log2_chunk_bits;
  bytes[3] = static_cast<std::uint8_t>(header.normalization);
  format::write_u32(&bytes[4], static_cast<std::uint32_t>(header.chunks));
  format::write_u32(&bytes[8], header.canary);
  format::write_u32(&bytes[12], normalization_mark(header.normalization));
}

// The field log2_chunk_bits for chunks of that many bits, a power of two.
constexpr std::uint8_t log2_of_chunk_bits(int chunk_bits) {
  std::uint8_t log2 = 0;
  while (1 << log2 < chunk_bits) ++log2;
  return log2;
}

// Finds the value in a file that "COPY ... WITH (FORMAT binary)" wrote of one row with one column.
// Returns an empty span if the file is anything else. Before the value such a file has a signature
// of 11 bytes, no flags, no header extension, the number of columns and the value's length; after
// it comes the trailer.
inline std::span<const std::uint8_t> copied_value(std::span<const std::uint8_t> file) {
  constexpr std::uint8_t kHead[] = {'P', 'G', 'C', 'O', 'P', 'Y', '\n', 0xff, '\r', '\n', 0,
                                    0,   0,   0,   0,   0,   0,   0,    0,    0,    1};
  constexpr std::uint8_t kTrailer[] = {0xff, 0xff};
  constexpr std::size_t kBefore = sizeof kHead + 4;
  if (file.size() < kBefore + sizeof kTrailer ||
      std::memcmp(file.data(), kHead, sizeof kHead) != 0 ||
      std::memcmp(file.data() + file.size() - sizeof kTrailer, kTrailer, sizeof kTrailer) != 0)
    return {};
  const std::span<const std::uint8_t> value =
      file.subspan(kBefore, file.size() - kBefore - sizeof kTrailer);
  return value.size() == format::read_u32(&file[sizeof kHead]) ? value
                                                               : std::span<const std::uint8_t>();
}

}  // namespace bloomfilter

#endif
