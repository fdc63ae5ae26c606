// The canary of a normalization. A filter keeps the canary of the server that its names were added
// on. If this server's canary differs, an item may get another key here than it got there.
#ifndef BLOOMFILTER_CANARY_HPP
#define BLOOMFILTER_CANARY_HPP

#include "pg.hpp"

#include "bloomfilter/format.hpp"

namespace bloomfilter {

// The canary of this server. kAscii is a digest of what the normalization makes of every ASCII
// character. kAll adds every other character of the database and the encoding's name. A filter with
// other canaries was built with another lower() or another ICU, and must not answer "no". The ASCII
// part takes no time. The whole takes 25 to 160 ms of the processor, the first time that a backend
// asks for it.
//
// Where only the other characters differ, ASCII items may still be denied. Their keys come from the
// ASCII tables alone, which are equal: so an ASCII item that was added is found. Under "username" a
// name of other characters may have an ASCII key (a Cyrillic one that looks like paypal). It was
// stored under the key that the old tables gave it, and the item paypal meets that key as before.
// The name itself may have another key now, and is answered with maybe. What looks like paypal only
// to the new tables was another name when it was added, and stays one until the rebuild.
enum class CanaryPart { kAscii = 0, kAll = 1 };
uint32 server_canary(Normalization normalization, CanaryPart part);

// Encoding, locale, provider and its version. As long as these stay the same, the canary does too,
// and it need not be computed. At most kStampBytes with its terminating zero; it lives as long as
// the backend.
inline constexpr int kStampBytes = 160;
const char *server_stamp(Normalization normalization);

}  // namespace bloomfilter

#endif
