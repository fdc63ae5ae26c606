
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"

namespace bloomfilter {

void null_filter() {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("Bloom filter is NULL"),
                  errhint("Treat the answer as \"maybe\".")));
  pg_unreachable();
}

void null_argument(const char *name) {
  ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
  pg_unreachable();
}

const char *text_argument(FunctionCallInfo fcinfo, int argument, const char *name) {
  if (PG_ARGISNULL(argument)) null_argument(name);
  return text_to_cstring(PG_GETARG_TEXT_PP(argument));
}

int32 chunks_argument(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument)) null_argument("chunks");
  const int32 chunks = PG_GETARG_INT32(argument);
  if (chunks < 1)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("chunks must be at least 1, not %d", chunks)));
  return chunks;
}

int deconstruct_texts(ArrayType *array, Datum **items, bool **nulls) {
  if (ARR_NDIM(array) > 1)
    ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                    errmsg("items must be a one-dimensional array"),
                    errdetail("The array has %d dimensions.", ARR_NDIM(array))));
  int count;
  deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, items, nulls, &count);
  return count;
}

void require_size_arguments(float8 capacity, float8 fp_rate) {
  if (!(capacity >= 1 && capacity <= kMaxCapacity) || capacity != std::floor(capacity))
    ereport(
        ERROR,
        (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
         errmsg("capacity must be a whole number from 1 to %.0g, not %g", kMaxCapacity, capacity),
         capacity > 0 && capacity < 1
             ? errhint("The value looks like a false-positive rate.  The order of arguments is "
                       "filter, capacity, fp_rate.")
             : errhint("Capacity is the number of items that the filter is meant to hold.")));
  if (!(fp_rate >= kMinFpRate && fp_rate < 1))
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("fp_rate must be at least %g and less than 1, not %g", kMinFpRate, fp_rate),
             fp_rate >= 1 && fp_rate < 100
                 ? errhint("Did you mean %g?", fp_rate / 100)
                 : errhint("A rate of 0.01 means one false \"maybe\" in a hundred checks.")));
}

int32 table_chunks(float8 capacity, float8 fp_rate) {
  const Geometry geometry = table_geometry(capacity, fp_rate);
  if (geometry.chunks == 0)
    ereport(
        ERROR,
        (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
         errmsg("a Bloom filter for %.0f items at a false-positive rate of %g needs more than %d "
                "chunks",
                capacity, fp_rate, kMaxChunks),
         errhint(
             "Allow a higher false-positive rate, or divide the items among several filters.")));
  return geometry.chunks;
}

// Rows of 1,068 bytes, six a page at fillfactor 80, and the primary key's leaves at 90 % of 20
// bytes an entry.
float8 table_bytes_on_disk(float8 chunks) {
  constexpr float8 kRowsPerPage = 6, kEntriesPerPage = 366;
  return (std::ceil(chunks / kRowsPerPage) + std::ceil(chunks / kEntriesPerPage) + 2) * BLCKSZ;
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
    ereport(
        ERROR,
        (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
         errmsg("a bloomfilter value for %.0f items at a false-positive rate of %g exceeds 256 MiB",
                capacity, fp_rate),
         errhint(
             "Allow a higher false-positive rate, or use bloom_create to make a filter table.")));
  remembered[next++ % lengthof(remembered)] = {capacity, fp_rate, geometry};
  return geometry;
}

MemoryContext aggregate_context(FunctionCallInfo fcinfo) {
  MemoryContext context;
  if (AggCheckCallContext(fcinfo, &context) == 0)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("%s was called outside an aggregate", get_func_name(fcinfo->flinfo->fn_oid))));
  return context;
}

Datum row_result(FunctionCallInfo fcinfo, std::span<Datum> values, bool *nulls) {
  TupleDesc descriptor;
  if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE ||
      static_cast<size_t>(descriptor->natts) != values.size())
    elog(ERROR, "function %u does not return a row of %zu columns", fcinfo->flinfo->fn_oid,
         values.size());
  return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values.data(), nulls));
}

}  // namespace bloomfilter
