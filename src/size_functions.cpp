// The SQL functions for planning: how large a filter has to be (bloom_size), and which
// false-positive rate it will have (bloom_expected_fp_rate). They read no table.
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"

namespace bloomfilter {
namespace {

// The bytes that a value takes on disk. A value larger than a TOAST row is stored out of line, in
// rows of 1,996 bytes, four to a page. Its random bits do not compress.
float8 value_disk_bytes(float8 bytes) {
  constexpr float8 kToastRow = 1996;
  return bytes <= kToastRow ? bytes : std::ceil(std::ceil(bytes / kToastRow) / 4) * BLCKSZ;
}

}  // namespace

extern "C" {

// bloom_size(capacity float8, fp_rate float8) -> rows `table` and `value`: the smallest geometry
// that holds capacity items at fp_rate. The row `value` is left out if it would exceed 256 MiB.
// Strict. It raises 54000 if not even a table can hold so many items.
PG_FUNCTION_INFO_V1(bloom_size);
PGDLLEXPORT Datum bloom_size(PG_FUNCTION_ARGS) {
  const float8 capacity = PG_GETARG_FLOAT8(0), fp_rate = PG_GETARG_FLOAT8(1);
  require_size_arguments(capacity, fp_rate);
  InitMaterializedSRF(fcinfo, 0);
  auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
  const Geometry geometries[] = {{table_chunks(capacity, fp_rate), kChunkBits, kTableHashes},
                                 value_geometry(capacity, fp_rate)};
  for (const Geometry &geometry : geometries) {
    if (geometry.chunks == 0) continue;
    const bool is_table = &geometry == geometries;
    const float8 bits = static_cast<float8>(geometry.chunks) * geometry.chunk_bits;
    const float8 bytes = bits / 8 + (is_table ? 0 : kValueHeaderBytes);
    Datum values[] = {
        CStringGetTextDatum(is_table ? "table" : "value"),
        Int32GetDatum(geometry.chunks),
        Int32GetDatum(geometry.chunk_bits),
        Int32GetDatum(geometry.k),
        Int64GetDatum(static_cast<int64>(bytes)),
        Int64GetDatum(static_cast<int64>(is_table ? table_bytes_on_disk(geometry.chunks)
                                                  : value_disk_bytes(bytes))),
        Float8GetDatum(bits / capacity),
        Float8GetDatum(
            expected_fp_rate(capacity, geometry.chunks, geometry.chunk_bits, geometry.k)),
    };
    bool nulls[lengthof(values)] = {};
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return Datum{0};
}

// bloom_expected_fp_rate(items float8, chunks int, k int) -> float8: the false-positive rate of
// that many items in chunks of 8,192 bits. Strict. The rate is that of the blocked filter, where
// some chunks are fuller than others. The textbook formula would promise a lower one.
PG_FUNCTION_INFO_V1(bloom_expected_fp_rate);
PGDLLEXPORT Datum bloom_expected_fp_rate(PG_FUNCTION_ARGS) {
  const float8 items = PG_GETARG_FLOAT8(0);
  const int32 chunks = chunks_argument(fcinfo, 1), k = PG_GETARG_INT32(2);
  if (!(items >= 0) || std::isinf(items))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("items must be zero or more, not %g", items)));
  if (k < 1 || k > kMaxHashes)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("k must be from 1 to %d, not %d", kMaxHashes, k)));
  PG_RETURN_FLOAT8(expected_fp_rate(items, chunks, kChunkBits, k));
}

}  // extern "C"

}  // namespace bloomfilter
