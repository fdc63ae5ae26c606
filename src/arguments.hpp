// Arguments as SQL passes them: which may be null, what their range is, and what stands for one
// that is left out; and the two shapes in which results go back.
#ifndef BLOOMFILTER_ARGUMENTS_HPP
#define BLOOMFILTER_ARGUMENTS_HPP

#include "pg.hpp"

#include <span>

#include "bloomfilter/sizing.hpp"

namespace bloomfilter {

// What a null argument stands for: the defaults that sql/bloomfilter.sql declares.
inline constexpr float8 kDefaultFpRate = 0.01;
inline constexpr float8 kDefaultGraceSeconds = 60;
inline constexpr float8 kDefaultMinShare = 0.97;

// A filter that takes more than this on disk is made only where that is plainly wanted: a capacity
// with a zero too many should not fill the disk.
inline constexpr float8 kMaxUnaskedBytes = 16.0 * 1024 * 1024 * 1024;

// Raises 55000: a filter argument that is NULL is a missing filter, not an unknown answer.
[[noreturn]] void null_filter();

// Raises 22004 for the argument of that name.
[[noreturn]] void null_argument(const char *name);

// Raises 22004 where the argument is null.
const char *text_argument(FunctionCallInfo fcinfo, int argument, const char *name);

// A number of chunks; raises 22004 for null, 22023 below 1.
int32 chunks_argument(FunctionCallInfo fcinfo, int argument);

// The elements of a text array; raises 2202E unless it has at most one dimension. Returns how many.
int deconstruct_texts(ArrayType *array, Datum **items, bool **nulls);

// Raises 22023 unless capacity is a whole number in range and fp_rate a rate.
void require_size_arguments(float8 capacity, float8 fp_rate);

// The chunks of a filter table; raises 54000 where it would need too many.
int32 table_chunks(float8 capacity, float8 fp_rate);

// What such a table takes on disk, primary key included, before any update.
float8 table_bytes_on_disk(float8 chunks);

// The geometry of a filter value; raises 54000 where it would exceed 256 MiB. Remembers
// the last sixteen.
Geometry value_geometry_for(float8 capacity, float8 fp_rate);

// The memory that lives as long as the aggregate's state; raises 0A000 outside an aggregate.
MemoryContext aggregate_context(FunctionCallInfo fcinfo);

// A row of the function's declared result type, of as many columns as there are values.
Datum row_result(FunctionCallInfo fcinfo, std::span<Datum> values, bool *nulls);

}  // namespace bloomfilter

#endif
