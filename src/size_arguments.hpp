// Capacity and rate as SQL passes them.
#ifndef BLOOMFILTER_SIZE_ARGUMENTS_HPP
#define BLOOMFILTER_SIZE_ARGUMENTS_HPP

#include "pg.hpp"

#include "bloomfilter/sizing.hpp"

namespace bloomfilter {

// A filter that takes more than this on disk is made only where that is plainly wanted: a capacity
// with a zero too many should not fill the disk.
inline constexpr float8 kMaxUnaskedBytes = 16.0 * 1024 * 1024 * 1024;

// Raises 22023 unless capacity is a whole number in range and fp_rate a rate.
void require_size_arguments(float8 capacity, float8 fp_rate);

// The chunks of a filter table; raises 54000 where it would need too many.
int32 table_chunks(float8 capacity, float8 fp_rate);

// The geometry of a filter value; raises 54000 where it would exceed 256 MiB. Remembers
// the last sixteen.
Geometry value_geometry_for(float8 capacity, float8 fp_rate);

// What such a table takes on disk, primary key included, before any update.
float8 table_bytes_on_disk(int32 chunks);

}  // namespace bloomfilter

#endif
