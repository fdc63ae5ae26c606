// Any bytes as a value, and as a file that COPY wrote: reading stays within them, and what is
// accepted is a filter that holds what is added to it, however it is folded or united.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bloomfilter/add_queue.hpp"
#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"
#include "require.hpp"

namespace bloomfilter {
namespace {

using View = std::span<const std::uint8_t>;
using Bytes = std::vector<std::uint8_t>;

Hasher hasher;

Bytes copy_of(View bytes) {
  return Bytes(bytes.begin(), bytes.end());
}

std::size_t count_bits(View bits) {
  std::size_t count = 0;
  for (std::uint8_t byte : bits)
    for (; byte != 0; byte = static_cast<std::uint8_t>(byte & (byte - 1))) ++count;
  return count;
}

// Items made of the input: short and long, whole and in pieces, as they are and in ASCII.
std::vector<std::string> items_of(View input) {
  const std::string all(reinterpret_cast<const char *>(input.data()), input.size());
  std::vector<std::string> items = {"", "ada", "ADA", all, all.substr(0, 16)};
  for (std::size_t length : {1, 7, 53, 54, 55, 56, 300})
    if (length < all.size()) items.push_back(all.substr(all.size() - length));
  for (std::size_t i = 0, count = items.size(); i < count; ++i) {
    std::string ascii = items[i];
    for (char &byte : ascii) byte = static_cast<char>(byte & 0x7f);
    items.push_back(ascii);
  }
  return items;
}

bool is_ascii(std::string_view item) {
  return std::ranges::all_of(item, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string lower(std::string item) {
  for (char &c : item)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return item;
}

// The key of an ASCII item, character by character, as the documents say it.
std::string plain_key(Normalization normalization, std::string item) {
  if (normalization == Normalization::kNone) return item;
  const auto is_white = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  if (normalization != Normalization::kLower) {
    while (!item.empty() && is_white(item.back())) item.pop_back();
    while (!item.empty() && is_white(item.front())) item.erase(0, 1);
  }
  item = lower(item);
  if (normalization != Normalization::kUsername) return item;
  std::string key;
  for (const char c : item) switch (c) {
      case '"':
        key += "''";
        break;
      case '%':
        key += "o/o";
        break;
      case '0':
        key += 'o';
        break;
      case '1':
      case '|':
        key += 'l';
        break;
      case '`':
        key += '\'';
        break;
      case 'm':
        key += "rn";
        break;
      default:
        key += c;
    }
  return key;
}

Bytes with_header(const Header &header, View bits) {
  Bytes value(kValueHeaderBytes);
  write_header(header, value.data());
  value.insert(value.end(), bits.begin(), bits.end());
  return value;
}

// Where a reader without PostgreSQL must leave the answer to the server, and where it must not.
void try_answers(const FilterView &view, const std::vector<std::string> &items) {
  const Header &header = view.header();
  for (const std::string &item : items) {
    const bool is_known =
        header.normalization == Normalization::kNone
            ? is_ascii(item) || header.canary == kUtf8Canary
            : is_ascii(item) && plain_key(header.normalization, item).size() <= 1024;
    const Answer answer = view.might_contain(hasher, item);
    REQUIRE((answer != Answer::kAskServer) == is_known);
    if (header.normalization != Normalization::kNone && is_known)
      REQUIRE(answer == view.might_contain(hasher, plain_key(header.normalization, item)));
  }
}

// Folding keeps members, and folding twice is folding once.
void try_fold(const FilterView &view, const std::vector<std::string> &items) {
  const Header &header = view.header();
  std::vector<std::string_view> members;
  for (const std::string &item : items)
    if (view.might_contain(hasher, item) == Answer::kMaybe) members.push_back(item);
  Bytes one(header.chunk_bytes());
  fold(header, view.bits(), 1, one.data());
  for (std::int32_t divisor = 1; divisor <= header.chunks && divisor <= 8; ++divisor) {
    if (header.chunks % divisor != 0) continue;
    const std::int32_t chunks = header.chunks / divisor;
    Header fewer = header;
    fewer.chunks = chunks;
    Bytes bits(fewer.bits_bytes());
    fold(header, view.bits(), chunks, bits.data());
    REQUIRE(count_bits(bits) <= count_bits(view.bits()));
    if (divisor == 1) REQUIRE(std::ranges::equal(bits, view.bits()));
    Bytes again(header.chunk_bytes());
    fold(fewer, bits, 1, again.data());
    REQUIRE(again == one);
    const Bytes value = with_header(fewer, bits);
    FilterView folded;
    REQUIRE(folded.open(value) == FormatError::kNone);
    for (std::string_view item : members)
      REQUIRE(folded.might_contain(hasher, item) == Answer::kMaybe);
  }
}

void try_unite(View bits) {
  Bytes united = copy_of(bits);
  merge_bits(united.data(), united);
  REQUIRE(std::ranges::equal(united, bits));
  // at an odd address, with all but the last byte
  Bytes shifted(bits.size() + 1);
  merge_bits(shifted.data() + 1, bits.first(bits.size() - 1));
  REQUIRE(std::equal(bits.begin(), bits.end() - 1, shifted.begin() + 1));
  REQUIRE(count_bits(shifted) == count_bits(bits.first(bits.size() - 1)));
}

// Adds one by one and queued, of the whole and of two parts, come to the same bits; and what was
// added is there.
void try_add(const FilterView &view, const std::vector<std::string> &items) {
  const Header &header = view.header();
  const std::int32_t cut = header.chunks / 3;
  const std::size_t cut_bytes = static_cast<std::size_t>(cut) * header.chunk_bytes();
  Bytes one_by_one = copy_of(view.bits()), queued = one_by_one;
  // each in memory of its own, so that a write beyond its end shows
  Bytes head = copy_of(view.bits().first(cut_bytes));
  Bytes tail = copy_of(view.bits().subspan(cut_bytes));
  std::array<AddQueue, 3> queues;
  queues[0].start(header, {queued.data(), 0, header.chunks});
  queues[1].start(header, {head.data(), 0, cut});
  queues[2].start(header, {tail.data(), cut, header.chunks - cut});
  std::vector<std::string> added;
  for (const std::string &item : items) {
    const std::string key = plain_key(header.normalization, item);
    if (!is_ascii(key) || key.size() > queues[0].max_key_bytes()) continue;
    ItemBits bits;
    REQUIRE(item_bits(header, hasher, key, bits));
    REQUIRE(0 <= bits.chunk && bits.chunk < header.chunks);
    chunk_add(&one_by_one[static_cast<std::size_t>(bits.chunk) * header.chunk_bytes()], bits);
    for (AddQueue &queue : queues) {
      md5::Block &block = queue.block();
      key.copy(md5::text_of(block), key.size());
      md5::pad(block, key.size());
      queue.push(key.size());
    }
    added.push_back(item);
  }
  for (AddQueue &queue : queues) queue.flush();
  REQUIRE(queued == one_by_one);
  head.insert(head.end(), tail.begin(), tail.end());
  REQUIRE(head == one_by_one);
  merge_bits(queued.data(), view.bits());
  REQUIRE(queued == one_by_one);
  const Bytes value = with_header(header, one_by_one);
  FilterView filled;
  REQUIRE(filled.open(value) == FormatError::kNone);
  for (const std::string &item : added)
    REQUIRE(filled.might_contain(hasher, item) == Answer::kMaybe);
}

// A value in a file is found again, and not in any part of the file.
void try_copy(View value) {
  const auto size = static_cast<std::uint32_t>(value.size());
  Bytes file = {'P', 'G', 'C', 'O', 'P', 'Y', '\n', 0xff, '\r', '\n', 0,
                0,   0,   0,   0,   0,   0,   0,    0,    0,    1};
  for (int shift = 24; shift >= 0; shift -= 8)
    file.push_back(static_cast<std::uint8_t>(size >> shift));
  file.insert(file.end(), value.begin(), value.end());
  file.insert(file.end(), {0xff, 0xff});
  const View copied = copied_value(file);
  REQUIRE(std::ranges::equal(copied, value));
  REQUIRE(copied.data() == file.data() + 25);
  for (std::size_t less = 1; less <= 30 && less <= file.size(); ++less)
    REQUIRE(copied_value(copy_of(View(file).first(file.size() - less))).empty());
}

void try_value(View bytes, const std::vector<std::string> &items) {
  FilterView view;
  const FormatError error = view.open(bytes);
  Header header{};
  REQUIRE(read_value(bytes, header) == error);
  if (error != FormatError::kNone) {
    REQUIRE(view.bits().empty());
    for (const std::string &item : items)
      REQUIRE(view.might_contain(hasher, item) == Answer::kAskServer);
    return;
  }
  REQUIRE(1 <= header.k && header.k <= 32 && header.chunks >= 1);
  REQUIRE(6 <= header.log2_chunk_bits && header.log2_chunk_bits <= 13);
  REQUIRE(header == view.header());
  REQUIRE(view.bits().size() == header.bits_bytes());
  REQUIRE(canary_fits(header.normalization, header.canary));
  REQUIRE(std::ranges::equal(with_header(header, view.bits()), bytes));
  try_answers(view, items);
  try_fold(view, items);
  try_unite(view.bits());
  try_add(view, items);
  try_copy(bytes);
}

// A canary that the normalization can have, now and then one that it cannot.
std::uint32_t canary_of(Normalization normalization, View input) {
  const std::uint32_t any = format::read_u32(&input[8]);
  if (normalization != Normalization::kNone || input[0] % 8 == 7) return any;
  return input[0] % 2 == 0 ? kUtf8Canary : kNoneCanaries[any % std::size(kNoneCanaries)].canary;
}

// The value that the input would be with the fields of its header brought into range, k nearly so:
// few mutations of a value leave one. Empty where the input is too short for any.
Bytes repaired(View input) {
  if (input.size() < kValueHeaderBytes) return {};
  const View bits = input.subspan(kValueHeaderBytes);
  Header header{};
  header.k = static_cast<std::uint8_t>(input[1] % (kMaxHashes + 2));
  header.log2_chunk_bits = static_cast<std::uint8_t>(
      kMinLog2ChunkBits + input[2] % (kMaxLog2ChunkBits - kMinLog2ChunkBits + 1));
  while (header.chunk_bytes() > bits.size() && header.log2_chunk_bits > kMinLog2ChunkBits)
    --header.log2_chunk_bits;
  const auto most = static_cast<std::uint32_t>(bits.size() / header.chunk_bytes());
  if (most == 0) return {};
  header.normalization = static_cast<Normalization>(input[3] % (kLastNormalization + 1));
  header.chunks = static_cast<std::int32_t>(1 + format::read_u32(&input[4]) % most);
  header.canary = canary_of(header.normalization, input);
  return with_header(header, bits.first(header.bits_bytes()));
}

// The same bits as if built with another normalization: refused with the canary and the mark of
// this one.
void try_other_normalization(Bytes value, const std::vector<std::string> &items) {
  Header header{};
  if (read_value(value, header) != FormatError::kNone) return;
  for (std::uint8_t other = 0; other <= kLastNormalization; ++other) {
    if (other == static_cast<std::uint8_t>(header.normalization)) continue;
    write_header(header, value.data());
    value[3] = other;
    FilterView view;
    REQUIRE(view.open(value) != FormatError::kNone);
    Header changed = header;
    changed.normalization = static_cast<Normalization>(other);
    changed.canary = changed.normalization == Normalization::kNone ? kUtf8Canary : ~kUtf8Canary;
    write_header(changed, value.data());
    REQUIRE(view.open(value) == FormatError::kNone);
    try_answers(view, items);
  }
}

void try_input(View input) {
  const std::vector<std::string> items = items_of(input);
  try_value(input, items);
  const View copied = copied_value(input);
  if (!copied.empty()) {
    REQUIRE(copied.data() == input.data() + 25 && copied.size() == input.size() - 27);
    try_value(copied, items);
  }
  const Bytes value = repaired(input);
  if (value.empty()) return;
  try_value(value, items);
  try_other_normalization(value, items);
}

}  // namespace
}  // namespace bloomfilter

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  if (!bloomfilter::hasher.open()) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  bloomfilter::try_input({data, size});
  return 0;
}
