// From an item to its key, and from there to its digest.
#ifndef BLOOMFILTER_ITEM_KEY_HPP
#define BLOOMFILTER_ITEM_KEY_HPP

#include "pg.hpp"

#include <span>
#include <string_view>

#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"
#include "bloomfilter/hash.hpp"

namespace bloomfilter {

// The normalization of that name. Error 22023 for any other, and for one that this database's
// encoding does not allow.
Normalization normalization_named(const char *name);
const char *normalization_name(Normalization normalization);

inline std::string_view text_view(const text *item) {
  return {VARDATA_ANY(item), static_cast<size_t>(VARSIZE_ANY_EXHDR(item))};
}

bool is_ascii(std::string_view item);

// The item as a message shows it: its first 64 bytes, ending with a whole character.
const char *item_for_message(std::string_view item);

// What lower() makes of the item in the database's default collation, in the current context.
char *lower_by_collation(std::string_view item);

// Every ASCII character but NUL, each on a line of its own: what canaries and comparisons of two
// ways to lower begin with.
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

// Whether the default collation lowers ASCII as C does: Turkish does not.
bool ascii_lowers_plainly();

// Whether the default collation lowers nothing but ASCII, as C does; then two cases of any other
// letter are two names. Told from letters of several scripts, or from every byte.
bool lowers_ascii_only();

// Tells by a notice where "lower" does less than its name says. Nothing for "none".
void notice_ascii_only(Normalization normalization, const char *filter);

// The backend's one MD5 context, open. Error 55000 where OpenSSL has no MD5.
Hasher &open_hasher();
[[noreturn]] void hash_failed();

// Writes the item's key, padded, where it is found without a copy and has at most `max_bytes`
// bytes: nearly every name. False for others, and then the block may hold anything.
bool write_short_key(Normalization normalization, std::string_view item, size_t max_bytes,
                     md5::Block &block);

// md5 of the item's key, with the normalization of this server today. An item may have any
// length; error 55000 where OpenSSL has no MD5.
Digest hash_item(Normalization normalization, std::string_view item);

// The same of many items, eight at a time: 80 ns a short ASCII name where one alone takes 190.
void hash_items(Normalization normalization, std::span<const std::string_view> items,
                Digest *digests);

// The item's bits in a filter of any geometry.
ItemBits hash_to_bits(const Header &header, std::string_view item);

}  // namespace bloomfilter

#endif
