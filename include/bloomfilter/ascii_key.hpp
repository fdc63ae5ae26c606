// The key of an ASCII item under every normalization, without the server and without ICU. ASCII is
// the part of each normalization that is the same everywhere: it is frozen, as the bit layout is.
#ifndef BLOOMFILTER_ASCII_KEY_HPP
#define BLOOMFILTER_ASCII_KEY_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bloomfilter/format.hpp"

namespace bloomfilter {

// Returned instead of a length: the item is not ASCII, or its key does not fit.
inline constexpr std::size_t kNoAsciiKey = SIZE_MAX;

namespace ascii {

// The White_Space characters of Unicode that are ASCII: tab, line feed, vertical tab, form feed,
// carriage return, and space.
constexpr bool is_white_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The text without the white space at its ends.
constexpr std::string_view trim(std::string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

// Writes the text with A-Z made a-z. `key` has room for as many bytes. Returns false if a byte is
// not ASCII. The high bits are tested once at the end, and not in each step.
constexpr bool lower(std::string_view text, char *key) {
  unsigned char seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    seen |= byte;
    const bool upper = static_cast<unsigned char>(byte - 'A') < 26;
    key[i] = static_cast<char>(upper ? byte | 0x20 : byte);
  }
  return seen < 0x80;
}

// What "username" makes of one character: one to three others.
struct Skeleton {
  char text[3];
  std::uint8_t length;
};

// That of every ASCII character. It is lower case, then the confusable skeleton of UTS #39, lowered
// again, until nothing changes: 0 looks like O, which is lowered to o, and % like o/o with a small
// o. It is context-free, so the key of a text is made character by character. ICU 72, 76 and 78
// (Unicode 15 to 17) agree on it. A server whose ICU does not builds no values of "username".
constexpr std::array<Skeleton, 0x80> make_skeletons() {
  std::array<Skeleton, 0x80> skeletons{};
  for (std::size_t c = 0; c < skeletons.size(); ++c)
    skeletons[c] = {{static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c)}, 1};
  skeletons['"'] = {{'\'', '\''}, 2};
  skeletons['%'] = {{'o', '/', 'o'}, 3};
  skeletons['0'] = {{'o'}, 1};
  skeletons['1'] = {{'l'}, 1};
  skeletons['M'] = {{'r', 'n'}, 2};
  skeletons['m'] = {{'r', 'n'}, 2};
  skeletons['`'] = {{'\''}, 1};
  skeletons['|'] = {{'l'}, 1};
  return skeletons;
}
inline constexpr std::array<Skeleton, 0x80> kSkeletons = make_skeletons();

// Writes the skeletons of the characters of a text to `key`, and returns their length. Returns
// kNoAsciiKey if a byte is not ASCII or the room does not suffice.
constexpr std::size_t write_skeletons(std::string_view text, std::span<char> key) {
  std::size_t length = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= kSkeletons.size()) return kNoAsciiKey;
    const Skeleton &skeleton = kSkeletons[byte];
    if (skeleton.length > key.size() - length) return kNoAsciiKey;
    key[length] = skeleton.text[0];
    for (std::uint8_t i = 1; i < skeleton.length; ++i) key[length + i] = skeleton.text[i];
    length += skeleton.length;
  }
  return length;
}

}  // namespace ascii

// Writes the key of an ASCII item under "lower", "nfkc" or "username", and returns its length. It
// may be longer than the item (m becomes rn), or empty. Returns kNoAsciiKey if the item is not
// ASCII or the room does not suffice; then `key` may hold anything.
constexpr std::size_t ascii_key(Normalization normalization, std::string_view item,
                                std::span<char> key) {
  if (normalization != Normalization::kLower) item = ascii::trim(item);
  if (normalization == Normalization::kUsername) return ascii::write_skeletons(item, key);
  if (item.size() > key.size() || !ascii::lower(item, key.data())) return kNoAsciiKey;
  return item.size();
}

}  // namespace bloomfilter

#endif
