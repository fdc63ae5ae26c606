// The canary of a normalization: by it a filter tells when this server's way from an item to its
// key is no longer the one that its names were added by.
#ifndef BLOOMFILTER_CANARY_HPP
#define BLOOMFILTER_CANARY_HPP

#include "pg.hpp"

#include "bloomfilter/format.hpp"

namespace bloomfilter {

// The canary of this server: a digest of what the normalization makes of every ASCII character,
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
