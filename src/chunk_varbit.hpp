// A chunk as an SQL value, of type bit(8192).
#ifndef BLOOMFILTER_CHUNK_VARBIT_HPP
#define BLOOMFILTER_CHUNK_VARBIT_HPP

#include "pg.hpp"

#include <cstring>

#include "bloomfilter/chunk.hpp"

namespace bloomfilter {

inline constexpr Size kChunkValueBytes = VARBITTOTALLEN(kChunkBits);

// Raises 22026 unless the bit string has 8,192 bits. The check is needed, since PostgreSQL ignores
// the n of bit(n) in the signature of a function.
inline VarBit *require_chunk_value(VarBit *bits) {
  if (VARBITLEN(bits) != kChunkBits)
    ereport(ERROR, (errcode(ERRCODE_STRING_DATA_LENGTH_MISMATCH),
                    errmsg("chunk must have %d bits, not %d", kChunkBits, VARBITLEN(bits)),
                    errhint("Declare the column as bit(%d).", kChunkBits)));
  return bits;
}

inline VarBit *new_chunk_value() {
  auto *bits = static_cast<VarBit *>(palloc0(kChunkValueBytes));
  SET_VARSIZE(bits, kChunkValueBytes);
  VARBITLEN(bits) = kChunkBits;
  return bits;
}

inline VarBit *copy_chunk_value(const VarBit *bits) {
  auto *copy = static_cast<VarBit *>(palloc(kChunkValueBytes));
  std::memcpy(copy, bits, kChunkValueBytes);
  return copy;
}

inline ChunkView chunk_view(const VarBit *bits) {
  return ChunkView(VARBITS(bits), kChunkBytes);
}

inline MutableChunkView mutable_chunk_view(VarBit *bits) {
  return MutableChunkView(VARBITS(bits), kChunkBytes);
}

}  // namespace bloomfilter

#endif
