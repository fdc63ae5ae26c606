// What a fuzzer claims. If it does not hold, libFuzzer keeps the input that broke it.
#ifndef BLOOMFILTER_FUZZ_REQUIRE_HPP
#define BLOOMFILTER_FUZZ_REQUIRE_HPP

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition)                                                 \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

#endif
