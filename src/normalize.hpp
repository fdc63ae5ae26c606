// From an item to its key and digest, and the canary that tells when that way has changed.
#ifndef BLOOMFILTER_NORMALIZE_HPP
#define BLOOMFILTER_NORMALIZE_HPP

#include "pg.hpp"

#include <span>
#include <string_view>

#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"
#include "bloomfilter/hash.hpp"

namespace bloomfilter {

// The normalisation of that name. Error 22023 for any other, and for one that this database's
// encoding does not allow.
Normalization normalization_named(const char *name);
const char *normalization_name(Normalization normalization);

inline std::string_view text_view(const text *item) {
  return {VARDATA_ANY(item), static_cast<size_t>(VARSIZE_ANY_EXHDR(item))};
}

bool is_ascii(std::string_view item);

// Whether the default collation lowers ASCII as C does: Turkish does not.
bool ascii_lowers_plainly();

// Whether the default collation lowers nothing but ASCII, as C does; then two cases of any other
// letter are two names. Told from letters of several scripts, or from every byte.
bool lowers_ascii_only();

// Tells by a notice where "lower" does less than its name says. Nothing for "none".
void tell_ascii_only(Normalization normalization, const char *filter);

// Writes the item's key, padded, where it is found without a copy and has at most `most` bytes:
// nearly every name. False for others, and then the block may hold anything.
bool write_short_key(Normalization normalization, std::string_view item, size_t most,
                     md5::Block &block);

// md5 of the item's key, with the normalisation of this server today. An item may have any
// length; error 55000 where OpenSSL has no MD5.
Digest hash_item(Normalization normalization, std::string_view item);

// The same of many items, eight at a time: 80 ns a short ASCII name where one alone takes 190.
void hash_items(Normalization normalization, std::span<const std::string_view> items,
                Digest *digests);

// Where the item's bits lie in a filter of any geometry.
ItemBits place_item(const Header &header, std::string_view item);

// The canary of this server: a digest of what the normalisation makes of every ASCII character,
// or of those, every other character of the database and the encoding's name. A filter whose
// canaries are others was built with another lower(), and must not deny. The ASCII part is made
// at once, the whole in 25 to 100 ms the first time a backend asks for it.
enum class CanaryPart { kAscii = 0, kAll = 1 };
uint32 server_canary(Normalization normalization, CanaryPart part);

// Encoding, locale, provider and its version: as long as these are the same, so is the canary,
// and it need not be made. At most kStampBytes with its terminating zero; lives as long as the
// backend.
inline constexpr int kStampBytes = 160;
const char *server_stamp(Normalization normalization);

}  // namespace bloomfilter

#endif
