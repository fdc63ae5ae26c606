// Allocates the memory for the bits of a filter.
#ifndef BLOOMFILTER_HUGE_PAGES_HPP
#define BLOOMFILTER_HUGE_PAGES_HPP

#include "pg.hpp"

#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace bloomfilter {

// Zeroed memory of any size in the current context. Each access to a large filter goes to another
// page, and huge pages spare the processor most of the address translation. The kernel takes the
// advice only for memory that was not touched yet. The result must not be passed to pfree, since it
// may not be the address that palloc returned; it is freed with its context.
inline void *allocate_zeroed(Size size) {
#ifdef MADV_HUGEPAGE
  constexpr Size kHugePage = Size{2} << 20, kWorthIt = Size{32} << 20;
  if (size >= kWorthIt) {
    void *memory = MemoryContextAllocHuge(CurrentMemoryContext, size + kHugePage);
    memory = reinterpret_cast<void *>(TYPEALIGN(kHugePage, memory));
    madvise(memory, TYPEALIGN_DOWN(kHugePage, size), MADV_HUGEPAGE);
    return std::memset(memory, 0, size);
  }
#endif
  return std::memset(MemoryContextAllocHuge(CurrentMemoryContext, size), 0, size);
}

}  // namespace bloomfilter

#endif
