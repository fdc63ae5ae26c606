// The arguments of SQL functions: which may be null, what their ranges are, and which default
// replaces an argument that is left out. Also how results of several columns go back.
#ifndef BLOOMFILTER_ARGUMENTS_HPP
#define BLOOMFILTER_ARGUMENTS_HPP

#include "pg.hpp"

#include <span>

#include "bloomfilter/sizing.hpp"

namespace bloomfilter {

// The values that a null argument stands for. They equal the defaults that sql/bloomfilter.sql
// declares.
inline constexpr float8 kDefaultFpRate = 0.01;
inline constexpr float8 kDefaultGraceSeconds = 60;
inline constexpr float8 kDefaultMinShare = 0.97;

// A filter that takes more bytes than this on disk is made only if the caller asks for it
// explicitly. A capacity with one zero too many must not fill the disk.
inline constexpr float8 kMaxUnaskedBytes = 16.0 * 1024 * 1024 * 1024;

// Raises 55000. A filter argument that is NULL means that a filter is missing. Its answer must not
// be NULL, since an application may read NULL as "no".
[[noreturn]] void null_filter();

// The filter that argument 0 names. Raises what null_filter raises if it is null.
Oid filter_argument(FunctionCallInfo fcinfo);

// The filters that an array in argument 0 names, in its order. They may lie in a shared buffer.
// Raises what null_filter raises if the array or an element is null, 2202E if the array has more
// than one dimension, and 22023 if it is empty.
std::span<const Oid> filters_argument(FunctionCallInfo fcinfo);

// Raises 22004, and names the argument.
[[noreturn]] void null_argument(const char *name);

// The argument as a C string. Raises 22004 if it is null.
const char *text_argument(FunctionCallInfo fcinfo, int argument, const char *name);

// A number of chunks, at least 1. Raises 22004 for null, and 22023 below 1.
int32 chunks_argument(FunctionCallInfo fcinfo, int argument);

// Takes a text array apart, and returns the number of its elements. Raises 2202E, with the name of
// the argument, if the array has more than one dimension.
int deconstruct_texts(ArrayType *array, const char *name, Datum **items, bool **nulls);

// Raises 22023 unless capacity is a whole number from 1 to kMaxCapacity, and fp_rate is at least
// kMinFpRate and less than 1.
void require_size_arguments(float8 capacity, float8 fp_rate);

// The number of chunks of a filter table. Raises 54000 if it would need more than kMaxChunks.
int32 table_chunks(float8 capacity, float8 fp_rate);

// The bytes that such a table takes on disk with its primary key, before any update.
float8 table_bytes_on_disk(float8 chunks);

// The geometry of a filter value. Raises 54000 if the value would exceed 256 MiB. Both arguments
// must have passed require_size_arguments. The last sixteen results are remembered.
Geometry value_geometry_for(float8 capacity, float8 fp_rate);

// The memory context that lives as long as the aggregate's state. Raises 0A000 if the function was
// not called by an aggregate.
MemoryContext aggregate_context(FunctionCallInfo fcinfo);

// A row of the function's declared result type. That type must have one column for each value.
Datum row_result(FunctionCallInfo fcinfo, std::span<Datum> values, bool *nulls);

}  // namespace bloomfilter

#endif
