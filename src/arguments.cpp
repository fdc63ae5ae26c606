// Reads and checks the arguments of SQL functions, and builds the rows that they return. Every
// user's mistake gets an SQLSTATE here, and a hint if the user can correct it.
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"

namespace bloomfilter {
namespace {

// Raises 2202E for an array of two dimensions or more: answers to it would lose their order and
// shape. An empty array has no dimension at all and is accepted.
void require_one_dimension(const ArrayType *array, const char *name) {
  if (ARR_NDIM(array) > 1)
    ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                    errmsg("%s must be a one-dimensional array", name),
                    errdetail("The array has %d dimensions.", ARR_NDIM(array))));
}

}  // namespace

// The hint is for the application: any error of a check means that it has to ask the users table.
void null_filter() {
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("Bloom filter must not be null"), errhint("Treat the answer as \"maybe\".")));
  pg_unreachable();
}

// All SQL functions take the filter first.
Oid filter_argument(FunctionCallInfo fcinfo) {
  if (PG_ARGISNULL(0)) null_filter();
  return PG_GETARG_OID(0);
}

// An empty array is an error, because its answer would be "in none of them": array(select ...) over
// a table of filters that has lost its rows would make every name free.
std::span<const Oid> filters_argument(FunctionCallInfo fcinfo) {
  if (PG_ARGISNULL(0)) null_filter();
  ArrayType *array = PG_GETARG_ARRAYTYPE_P(0);
  require_one_dimension(array, "filters");
  if (array_contains_nulls(array)) null_filter();
  if (ARR_NDIM(array) == 0)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("filters must not be empty"),
                    errhint("Treat the answer as \"maybe\".  If a query makes the array, see why "
                            "it found no filter.")));
  return {reinterpret_cast<const Oid *>(ARR_DATA_PTR(array)),
          static_cast<size_t>(ARR_DIMS(array)[0])};
}

void null_argument(const char *name) {
  ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                  errmsg("argument \"%s\" must not be null", name)));
  pg_unreachable();
}

// The SQL functions that call this are not strict. A strict function would return NULL for a null
// argument and would do nothing, and the caller would not notice.
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

int deconstruct_texts(ArrayType *array, const char *name, Datum **items, bool **nulls) {
  require_one_dimension(array, name);
  int count;
  deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, items, nulls, &count);
  return count;
}

// The conditions are negated so that NaN is refused too. Both arguments are numbers, and people
// swap them or write a percentage, so the hints name these two mistakes.
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

// The caller has checked the ranges with require_size_arguments. A table always has k = 7, so the
// number of chunks is all that has to be found.
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

// A row takes 1,068 bytes, and six rows fill a page of 8 kB at fillfactor 80. An entry of the
// primary key takes 20 bytes, and its leaf pages are filled to 90 %. Two pages are added for the
// index's meta page and its root; a large index has a few inner pages more, which do not count.
float8 table_bytes_on_disk(float8 chunks) {
  constexpr float8 kRowsPerPage = 6, kEntriesPerPage = 366;
  return (std::ceil(chunks / kRowsPerPage) + std::ceil(chunks / kEntriesPerPage) + 2) * BLCKSZ;
}

Geometry value_geometry_for(float8 capacity, float8 fp_rate) {
  // An aggregate asks once for each group, and an insert once for each row. The search takes 10 us
  // to 1 ms. A linear look at sixteen entries costs nothing beside that, so a hash table would not
  // help. An empty entry has capacity 0, which require_size_arguments never lets through.
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

// Every function of an aggregate calls this before it touches the state. It writes into the state
// in place. In a plain call the state would be the caller's value, maybe one in a shared buffer.
MemoryContext aggregate_context(FunctionCallInfo fcinfo) {
  MemoryContext context;
  if (AggCheckCallContext(fcinfo, &context) == 0)
    ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                    errmsg("function %s was called outside an aggregate",
                           get_func_name(fcinfo->flinfo->fn_oid))));
  return context;
}

// elog is enough here: no user can cause this. It happens only if the SQL objects that are
// installed belong to another version of this library.
Datum row_result(FunctionCallInfo fcinfo, std::span<Datum> values, bool *nulls) {
  TupleDesc descriptor;
  if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE ||
      static_cast<size_t>(descriptor->natts) != values.size())
    elog(ERROR, "function %u does not return a row of %zu columns", fcinfo->flinfo->fn_oid,
         values.size());
  return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values.data(), nulls));
}

}  // namespace bloomfilter
