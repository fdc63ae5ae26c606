// How large a filter has to be, and what it will do: bloom_size, bloom_expected_fp_rate.
#include "pg.hpp"

#include "size_arguments.hpp"

using namespace bloomfilter;

namespace {

// Of a fresh filter table: rows of 1,068 bytes, six a page at fillfactor 80, and the primary
// key's leaves at 90 % of 20 bytes an entry.
float8 table_disk_bytes(float8 chunks) {
  constexpr float8 kRowsAPage = 6, kEntriesAPage = 366;
  return (std::ceil(chunks / kRowsAPage) + std::ceil(chunks / kEntriesAPage) + 2) * BLCKSZ;
}

// Of a value stored out of line, four TOAST rows of 1,996 bytes a page.
float8 value_disk_bytes(float8 bytes) {
  constexpr float8 kToastRow = 1996;
  return bytes <= kToastRow ? bytes : std::ceil(std::ceil(bytes / kToastRow) / 4) * BLCKSZ;
}

}  // namespace

namespace bloomfilter {

void require_size_arguments(float8 capacity, float8 fp_rate) {
  if (!(capacity >= 1 && capacity <= kMaxCapacity) || capacity != std::floor(capacity))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("capacity must be a whole number from 1 to %.0g, not %g", kMaxCapacity,
                           capacity),
                    capacity > 0 && capacity < 1
                        ? errhint("It looks like a rate: the order is filter, capacity, fp_rate.")
                        : errhint("It is the number of items that the filter is meant to hold.")));
  if (!(fp_rate >= kMinFpRate && fp_rate < 1))
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("fp_rate must be at least %g and less than 1, not %g", kMinFpRate, fp_rate),
             fp_rate >= 1 && fp_rate < 100
                 ? errhint("Did you mean %g?", fp_rate / 100)
                 : errhint("0.01 is one false \"maybe\" in a hundred checks.")));
}

int32 table_chunks(float8 capacity, float8 fp_rate) {
  const Geometry geometry = table_geometry(capacity, fp_rate);
  if (geometry.chunks == 0)
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("a filter for %.0f items at a rate of %g needs more than %d chunks",
                           capacity, fp_rate, kMaxChunks),
                    errhint("Allow a higher rate, or divide the items over several filters.")));
  return geometry.chunks;
}

Geometry value_geometry_for(float8 capacity, float8 fp_rate) {
  // An aggregate asks once a group, an insert once a row, and an answer takes 10 us to 1 ms.
  struct Remembered {
    float8 capacity, fp_rate;
    Geometry geometry;
  };
  static constinit Remembered remembered[16] = {};
  static constinit size_t next = 0;
  for (const Remembered &known : remembered)
    if (known.capacity == capacity && known.fp_rate == fp_rate) return known.geometry;
  const Geometry geometry = value_geometry(capacity, fp_rate);
  if (geometry.chunks == 0)
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("a filter value for %.0f items at a rate of %g exceeds 256 MiB",
                           capacity, fp_rate),
                    errhint("Allow a higher rate, or use a filter table: bloom_create.")));
  remembered[next++ % lengthof(remembered)] = {capacity, fp_rate, geometry};
  return geometry;
}

float8 table_bytes_on_disk(int32 chunks) {
  return table_disk_bytes(chunks);
}

}  // namespace bloomfilter

// bloom_size(capacity float8, fp_rate float8) -> rows `table` and `value`: the smallest geometry
// that holds capacity items at fp_rate. No row `value` where it would exceed 256 MiB.
BLOOM_SQL_FUNCTION(bloom_size) {
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
        Int64GetDatum(static_cast<int64>(is_table ? table_disk_bytes(geometry.chunks)
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

// bloom_expected_fp_rate(items float8, chunks int, k int) -> float8: of that many items in chunks
// of 8,192 bits.
BLOOM_SQL_FUNCTION(bloom_expected_fp_rate) {
  const float8 items = PG_GETARG_FLOAT8(0);
  const int32 chunks = PG_GETARG_INT32(1), k = PG_GETARG_INT32(2);
  if (!(items >= 0) || std::isinf(items))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("items must be zero or more, not %g", items)));
  if (chunks < 1)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("chunks must be at least 1, not %d", chunks)));
  if (k < 1 || k > kMaxHashes)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("k must be from 1 to %d, not %d", kMaxHashes, k)));
  PG_RETURN_FLOAT8(expected_fp_rate(items, chunks, kChunkBits, k));
}
