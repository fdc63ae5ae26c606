// From an item to its key by the filter's normalization, and from the key to its MD5 digest.
#ifndef BLOOMFILTER_ITEM_KEY_HPP
#define BLOOMFILTER_ITEM_KEY_HPP

#include "pg.hpp"

#include <span>
#include <string_view>

#include "bloomfilter/ascii_key.hpp"
#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"
#include "bloomfilter/hash.hpp"

namespace bloomfilter {

// The name of a normalization, as SQL and the settings of a filter have it.
const char *normalization_name(Normalization normalization);

// Sets *normalization to the one of that name. False if there is none.
bool find_normalization(std::string_view name, Normalization *normalization);

// The normalization of that name. Raises 22023 for an unknown name, and 0A000 if the encoding of
// this database does not allow the normalization.
Normalization normalization_named(std::string_view name);

// Raises 0A000 if the encoding of this database does not allow the normalization.
void require_available(Normalization normalization);

inline std::string_view text_view(const text *item) {
  return {VARDATA_ANY(item), static_cast<size_t>(VARSIZE_ANY_EXHDR(item))};
}

bool is_ascii(std::string_view item);

// The item as a message shows it: at most its first 64 bytes, cut after a whole character.
const char *item_for_message(std::string_view item);

// The result of lower(item) in the database's default collation, in the current context.
char *lower_by_collation(std::string_view item);

// Every ASCII character except NUL, each on a line of its own. Canaries begin with this text, and
// has_plain_ascii compares two ways to its key.
struct AsciiLines {
  char bytes[2 * 127];
  AsciiLines() {
    for (size_t c = 1; c < 128; ++c) {
      bytes[2 * (c - 1)] = static_cast<char>(c);
      bytes[2 * (c - 1) + 1] = '\n';
    }
  }
  std::string_view view() const { return {bytes, sizeof bytes}; }
};

// Whether ASCII items have the keys here that ascii_key() of the core gives them. It is false for
// "lower" in a Turkish database, and for "username" where an ICU has other confusables.
bool has_plain_ascii(Normalization normalization);

// Whether the default collation lowers only ASCII, as C does. If so, the two cases of any other
// letter are two names. It tries letters of several scripts, or every byte of the encoding.
bool lowers_ascii_only();

// Sends a notice if "lower" does less than its name says. Does nothing for "none".
void notice_ascii_only(Normalization normalization, const char *filter);

// The one MD5 context of the backend, opened. Raises 55000 if OpenSSL offers no MD5.
Hasher &open_hasher();
[[noreturn]] void hash_failed();

// Writes the item's key into the block and pads it, if the key needs no call of lower() or ICU and
// has at most `max_bytes` bytes. That is so for nearly every name. Returns the key's length, which
// may be another than the item's, or kNoShortKey; then the block may hold anything.
inline constexpr size_t kNoShortKey = kNoAsciiKey;
size_t write_short_key(Normalization normalization, std::string_view item, size_t max_bytes,
                       md5::Block &block);

// The MD5 digest of the item's key, as this server normalizes it today. An item may have any
// length. Raises 55000 if OpenSSL offers no MD5.
Digest hash_item(Normalization normalization, std::string_view item);

// The same for many items, eight at a time: 80 ns for a short ASCII name, and 190 ns for one alone.
void hash_items(Normalization normalization, std::span<const std::string_view> items,
                Digest *digests);

// The item's chunk and bit positions in a filter of any geometry.
ItemBits hash_to_bits(const Header &header, std::string_view item);

}  // namespace bloomfilter

#endif
