// The header of a value, field by field and byte by byte, and the file that COPY makes of a value.
#include "bloomfilter/format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reference.hpp"

namespace bloomfilter {
namespace {

using reference::Bytes;

constexpr std::uint64_t kMostBits = std::uint64_t{1} << 31;

// k = 7, 1 chunk of 64 bits, normalization lower, canary 01020304.
const Bytes kSmallest = {1, 7, 6, 1, 0, 0, 0, 1, 1, 2, 3, 4, 0, 0, 0, 0};

// A value that is a header and `bits` bytes of bits.
Bytes value_of(Bytes header, std::size_t bits) {
  header.resize(header.size() + bits, 0xA5);
  return header;
}

Bytes with_byte(Bytes bytes, std::size_t at, int byte) {
  bytes[at] = static_cast<std::uint8_t>(byte);
  return bytes;
}

Bytes with_chunks(int log2_chunk_bits, std::uint32_t chunks) {
  Bytes header = with_byte(kSmallest, 2, log2_chunk_bits);
  for (std::size_t i = 0; i < 4; ++i)
    header[4 + i] = static_cast<std::uint8_t>(chunks >> 8 * (3 - i) & 0xff);
  return header;
}

constexpr Header kUntouched{99, 98, Normalization::kNone, 97, 96};

// The validators of header and value must agree; a header that is refused must not be half read.
FormatError read(const Bytes &header) {
  Header read = kUntouched;
  const FormatError error = read_header(header, read);
  EXPECT_EQ(read == kUntouched, error != FormatError::kNone);
  if (error != FormatError::kNone) {
    Header again = kUntouched;
    EXPECT_EQ(read_value(value_of(header, 8), again), error);
    EXPECT_EQ(again, kUntouched);
  }
  return error;
}

// The last four bytes of a header.
std::string_view mark_of(Normalization normalization) {
  switch (normalization) {
    case Normalization::kNone:
    case Normalization::kLower:
      break;
    case Normalization::kNfkc:
      return "nfkc";
    case Normalization::kUsername:
      return "user";
  }
  return {"\0\0\0\0", 4};
}

constexpr Normalization kNormalizations[] = {Normalization::kNone, Normalization::kLower,
                                             Normalization::kNfkc, Normalization::kUsername};

Bytes with_normalization(Normalization normalization, std::uint32_t canary) {
  Bytes header = with_byte(kSmallest, 3, static_cast<int>(normalization));
  for (std::size_t i = 0; i < 4; ++i) {
    header[8 + i] = static_cast<std::uint8_t>(canary >> 8 * (3 - i) & 0xff);
    header[12 + i] = static_cast<std::uint8_t>(mark_of(normalization)[i]);
  }
  return header;
}

// Every value of the byte at `at` but `left_out`: `error` but from `first` to `last`.
void expect_range(std::size_t at, int first, int last, FormatError error, int left_out = -1) {
  for (int byte = 0; byte < 256; ++byte)
    if (byte != left_out) {
      EXPECT_EQ(read(with_byte(kSmallest, at, byte)),
                first <= byte && byte <= last ? FormatError::kNone : error)
          << "byte " << at << " is " << byte;
    }
}

TEST(FormatTest, ConstantsOfVersionOne) {
  EXPECT_EQ(kFormatVersion, 1);
  EXPECT_EQ(kValueHeaderBytes, 16);
  EXPECT_EQ(kMaxValueBits, kMostBits);
  EXPECT_EQ(static_cast<int>(Normalization::kNone), 0);
  EXPECT_EQ(static_cast<int>(Normalization::kLower), 1);
  EXPECT_EQ(static_cast<int>(Normalization::kNfkc), 2);
  EXPECT_EQ(static_cast<int>(Normalization::kUsername), 3);
  EXPECT_EQ(1 << kMinLog2ChunkBits, kMinChunkBits);
  EXPECT_EQ(1 << kMaxLog2ChunkBits, kChunkBits);
}

TEST(FormatTest, FieldsHaveTheirRanges) {
  expect_range(0, 1, 1, FormatError::kVersion);
  expect_range(1, 1, 32, FormatError::kHashes);
  expect_range(2, 6, 13, FormatError::kChunkBits);
  for (int byte = 4; byte < 256; ++byte)
    EXPECT_EQ(read(with_byte(kSmallest, 3, byte)), FormatError::kNormalization) << byte;
  EXPECT_EQ(read(with_normalization(Normalization::kNone, kUtf8Canary)), FormatError::kNone);
  EXPECT_EQ(read(with_normalization(Normalization::kNfkc, 1)), FormatError::kNone);
  EXPECT_EQ(read(with_normalization(Normalization::kUsername, 1)), FormatError::kNone);
}

// A value that was built by one rule is never read by another: with either of the two places
// changed alone it is refused. "none" and "lower" are told apart by their canaries.
TEST(FormatTest, NormalizationStandsInTheHeaderTwice) {
  for (const Normalization built : kNormalizations)
    for (const Normalization read_as : kNormalizations) {
      const std::uint32_t canary = built == Normalization::kNone ? kUtf8Canary : 0x01020304;
      Bytes header = with_normalization(built, canary);
      header[3] = static_cast<std::uint8_t>(read_as);
      EXPECT_EQ(read(header) == FormatError::kNone, built == read_as)
          << static_cast<int>(built) << " as " << static_cast<int>(read_as);
      header = with_normalization(built, canary);
      const std::string_view mark = mark_of(read_as);
      std::copy(mark.begin(), mark.end(), header.begin() + 12);
      EXPECT_EQ(read(header), mark == mark_of(built) ? FormatError::kNone : FormatError::kMark)
          << static_cast<int>(built) << " marked as " << static_cast<int>(read_as);
    }
}

TEST(FormatTest, ChunksFromOneToWhatFits) {
  for (int log2 = 6; log2 <= 13; ++log2) {
    const auto most = static_cast<std::uint32_t>(kMostBits >> log2);
    for (std::uint32_t chunks : {1u, 2u, 255u, 256u, 65537u, most - 1, most})
      EXPECT_EQ(read(with_chunks(log2, chunks)), FormatError::kNone) << chunks << " of 2^" << log2;
    for (std::uint32_t chunks :
         {0u, most + 1, most * 2, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xfffffffeu, 0xffffffffu})
      EXPECT_EQ(read(with_chunks(log2, chunks)), FormatError::kChunks)
          << chunks << " of 2^" << log2;
  }
}

// The largest value there can be, of which only the head is looked at.
TEST(FormatTest, LargestValueHas256Mebibytes) {
  for (int log2 = 6; log2 <= 13; ++log2) {
    const auto most = static_cast<std::uint32_t>(kMostBits >> log2);
    Header header{};
    ASSERT_EQ(read_header(with_chunks(log2, most), header), FormatError::kNone);
    EXPECT_EQ(header.bits_bytes(), std::size_t{256} << 20);
    EXPECT_EQ(header.value_bytes(), (std::size_t{256} << 20) + 16);
    EXPECT_EQ(read_value(with_chunks(log2, most), header), FormatError::kLength);
  }
}

TEST(FormatTest, EveryBitOfTheMarkCounts) {
  for (const Normalization normalization : kNormalizations)
    for (std::size_t byte = 12; byte < 16; ++byte)
      for (int bit = 0; bit < 8; ++bit) {
        Bytes header = with_normalization(normalization,
                                          normalization == Normalization::kNone ? kUtf8Canary : 1);
        header[byte] ^= static_cast<std::uint8_t>(1 << bit);
        EXPECT_EQ(read(header), FormatError::kMark) << "bit " << bit << " of byte " << byte;
      }
}

// As make_canary() of the extension computes them: the characters of ASCII from 1 on, an end of
// line after each, an empty line, and the encoding's name.
TEST(FormatTest, CanariesOfNoneAreThoseOfTheirEncodingsNames) {
  EXPECT_EQ(std::size(kNoneCanaries), 35u);
  std::string ascii;
  for (int c = 1; c < 128; ++c) ascii += std::string(1, static_cast<char>(c)) + "\n";
  std::set<std::string_view> encodings;
  for (const EncodingCanary &known : kNoneCanaries) {
    const std::string text = ascii + "\n" + std::string(known.encoding) + "\n";
    EXPECT_EQ(reference::number(reference::md5_digits(text), 1, 32), known.canary)
        << known.encoding;
    EXPECT_TRUE(encodings.insert(known.encoding).second) << known.encoding << " is there twice";
  }
  EXPECT_EQ(kUtf8Canary, 0xe896d102);
}

// A value of `lower` that calls itself `none`, or the other way round, would deny its members.
TEST(FormatTest, CanaryIsOneOfItsNormalization) {
  for (const EncodingCanary &known : kNoneCanaries) {
    SCOPED_TRACE(known.encoding);
    EXPECT_EQ(read(with_normalization(Normalization::kNone, known.canary)), FormatError::kNone);
    for (const Normalization other :
         {Normalization::kLower, Normalization::kNfkc, Normalization::kUsername})
      EXPECT_EQ(read(with_normalization(other, known.canary)), FormatError::kCanary);
    for (int bit = 0; bit < 32; ++bit) {
      const std::uint32_t other = known.canary ^ 1u << bit;
      EXPECT_EQ(read(with_normalization(Normalization::kNone, other)), FormatError::kCanary);
      EXPECT_EQ(read(with_normalization(Normalization::kLower, other)), FormatError::kNone);
    }
  }
  for (std::uint32_t canary : {0u, 1u, 0x01020304u, 0x80000000u, 0xffffffffu}) {
    EXPECT_EQ(read(with_normalization(Normalization::kNone, canary)), FormatError::kCanary);
    EXPECT_EQ(read(with_normalization(Normalization::kLower, canary)), FormatError::kNone);
  }
}

TEST(FormatTest, EveryOtherLengthIsRefused) {
  for (std::uint32_t chunks : {1u, 3u}) {
    const std::size_t right = 16 + 16 * std::size_t{chunks};
    for (std::size_t length = 0; length <= 2 * right; ++length) {
      Bytes bytes = value_of(with_chunks(7, chunks), 2 * right - 16);
      bytes.resize(length);
      bytes.shrink_to_fit();
      Header header{};
      EXPECT_EQ(read_value(bytes, header), length < 16       ? FormatError::kTooShort
                                           : length != right ? FormatError::kLength
                                                             : FormatError::kNone)
          << "length " << length;
      EXPECT_EQ(read_header(bytes, header),
                length < 16 ? FormatError::kTooShort : FormatError::kNone)
          << "length " << length;
    }
  }
}

TEST(FormatTest, NumbersHaveTheirHighByteFirst) {
  Header header{};
  const Bytes bytes = {1, 32, 8, 0, 0, 0x12, 0x34, 0x56, 0xab, 0x4e, 0xd2, 0xe3, 0, 0, 0, 0};
  ASSERT_EQ(read_header(bytes, header), FormatError::kNone);
  EXPECT_EQ(header, (Header{32, 8, Normalization::kNone, 0x123456, 0xab4ed2e3}));
  EXPECT_EQ(header.chunk_bits(), 256);
  EXPECT_EQ(header.chunk_bytes(), 32u);
  EXPECT_EQ(header.bits_bytes(), 0x123456u * 32);
  EXPECT_EQ(header.value_bytes(), 0x123456u * 32 + 16);
  Bytes written(18, 0x77);
  write_header(header, written.data() + 1);
  EXPECT_EQ(Bytes(written.begin() + 1, written.end() - 1), bytes);
  EXPECT_EQ(written.front(), 0x77);
  EXPECT_EQ(written.back(), 0x77);
}

TEST(FormatTest, WhatIsWrittenIsRead) {
  for (int k = 1; k <= 32; ++k)
    for (int log2 = 6; log2 <= 13; ++log2)
      for (Normalization normalization : kNormalizations)
        for (std::int32_t chunks : {1, 3, 256, 77777, 1 << 18})
          for (std::uint32_t canary :
               {0u, 1u, 0x80000000u, 0xffffffffu, kUtf8Canary, none_canary("EUC_JP")}) {
            if (!canary_fits(normalization, canary)) continue;
            const Header header{static_cast<std::uint8_t>(k), static_cast<std::uint8_t>(log2),
                                normalization, chunks, canary};
            Bytes bytes(16, 0xff);
            write_header(header, bytes.data());
            Header read = kUntouched;
            ASSERT_EQ(read_header(bytes, read), FormatError::kNone);
            ASSERT_EQ(read, header);
          }
}

TEST(FormatTest, ChunksOfSixtyFourBitsAreEightBytes) {
  Header header{};
  const Bytes value = value_of(with_chunks(6, 5), 40);
  ASSERT_EQ(read_value(value, header), FormatError::kNone);
  EXPECT_EQ(header.chunk_bits(), 64);
  EXPECT_EQ(header.chunk_bytes(), 8u);
  EXPECT_EQ(header.bits_bytes(), 40u);
  EXPECT_EQ(header.value_bytes(), 56u);
}

TEST(FormatTest, LogarithmOfChunkBits) {
  for (int log2 = 6; log2 <= 13; ++log2) EXPECT_EQ(log2_of_chunk_bits(1 << log2), log2);
}

constexpr bool works_at_compile_time() {
  std::array<std::uint8_t, 24> bytes{};
  const Header header{7, 6, Normalization::kLower, 1, 0x01020304};
  write_header(header, bytes.data());
  Header read{};
  return read_value(bytes, read) == FormatError::kNone && read == header;
}

TEST(FormatTest, WorksAtCompileTime) {
  constexpr bool kWorks = works_at_compile_time();
  EXPECT_TRUE(kWorks);
}

// What PostgreSQL writes, after the manual's page on COPY.
const Bytes kSignature = {'P', 'G', 'C', 'O', 'P', 'Y', '\n', 0xff, '\r', '\n', 0};
const Bytes kNoFlags = {0, 0, 0, 0};
const Bytes kNoExtension = {0, 0, 0, 0};
const Bytes kOneField = {0, 1};
const Bytes kTrailer = {0xff, 0xff};

Bytes operator+(Bytes left, const Bytes &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Bytes field(const Bytes &value) {
  const std::size_t size = value.size();
  return Bytes{static_cast<std::uint8_t>(size >> 24), static_cast<std::uint8_t>(size >> 16),
               static_cast<std::uint8_t>(size >> 8), static_cast<std::uint8_t>(size)} +
         value;
}

const Bytes kHead = kSignature + kNoFlags + kNoExtension;
const Bytes kValue = value_of(kSmallest, 8);

TEST(CopiedValueTest, IsTheOneFieldOfTheOneRow) {
  for (std::size_t bits : {8u, 0x100u, 0x10203u}) {
    const Bytes value = value_of(kSmallest, bits);
    const Bytes file = kHead + kOneField + field(value) + kTrailer;
    const std::span<const std::uint8_t> copied = copied_value(file);
    EXPECT_EQ(copied.data(), file.data() + 25);
    EXPECT_EQ(Bytes(copied.begin(), copied.end()), value);
  }
}

TEST(CopiedValueTest, NothingIsInPartOfAFile) {
  const Bytes file = kHead + kOneField + field(kValue) + kTrailer;
  for (std::size_t length = 0; length < file.size(); ++length) {
    // in memory that ends there, for the sanitizers
    const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_TRUE(copied_value(part).empty()) << "length " << length;
    const Bytes tail(file.end() - static_cast<std::ptrdiff_t>(length), file.end());
    EXPECT_TRUE(copied_value(tail).empty()) << "the last " << length;
  }
  EXPECT_TRUE(copied_value(file + Bytes{0}).empty());
  EXPECT_TRUE(copied_value(file + kTrailer).empty());
}

TEST(CopiedValueTest, NothingIsInAFileOfAnotherShape) {
  const Bytes null_field = {0xff, 0xff, 0xff, 0xff};
  EXPECT_TRUE(copied_value(kHead + kTrailer).empty()) << "no row";
  EXPECT_TRUE(copied_value(kHead + Bytes{0, 0} + kTrailer).empty()) << "no column";
  EXPECT_TRUE(copied_value(kHead + kOneField + null_field + kTrailer).empty()) << "NULL";
  for (std::size_t length = 0; length < 4; ++length) {
    // whose length, or a part of it, reads like the trailer
    const Bytes part = kHead + kOneField + Bytes(length, 0xff);
    EXPECT_TRUE(copied_value(part + kTrailer).empty()) << "NULL, cut off after " << length;
  }
  EXPECT_TRUE(copied_value(kHead + kOneField + field({}) + kTrailer).empty()) << "empty field";
  EXPECT_TRUE(copied_value(kHead + kOneField + field(kValue) + kOneField + field(kValue) + kTrailer)
                  .empty())
      << "two rows";
  EXPECT_TRUE(copied_value(kHead + Bytes{0, 2} + field(kValue) + field(kValue) + kTrailer).empty())
      << "two columns";
  EXPECT_TRUE(copied_value(kHead + Bytes{1, 1} + field(kValue) + kTrailer).empty())
      << "257 columns";
  EXPECT_TRUE(copied_value(kSignature + kNoFlags + Bytes{0, 0, 0, 1, 0} + kOneField +
                           field(kValue) + kTrailer)
                  .empty())
      << "extended header";
  EXPECT_TRUE(copied_value(kValue).empty()) << "a bare value";
}

// Every byte around the value is looked at: signature, flags, extension, count, length, trailer.
TEST(CopiedValueTest, EveryBitAroundTheValueMatters) {
  const Bytes file = kHead + kOneField + field(kValue) + kTrailer;
  for (std::size_t at = 0; at < file.size(); ++at) {
    const bool in_value = at >= 25 && at < 25 + kValue.size();
    for (int bit = 0; bit < 8; ++bit)
      EXPECT_EQ(copied_value(with_byte(file, at, file[at] ^ 1 << bit)).empty(), !in_value)
          << "bit " << bit << " of byte " << at;
  }
}

}  // namespace
}  // namespace bloomfilter
