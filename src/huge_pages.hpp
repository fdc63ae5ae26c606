// Memory for the bits of a large filter.
#ifndef BLOOMFILTER_HUGE_PAGES_HPP
#define BLOOMFILTER_HUGE_PAGES_HPP

#include "pg.hpp"

#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace bloomfilter {

// Zeroed memory of the current context for a filter's bits, of any size. A large filter is met all
// over, page after page, and huge pages spare the processor most of its address translation; the
// advice has to come before the first touch. Not to be freed but with its context.
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
