// Sorts the probes of a batch.
#include "pg.hpp"

#include <array>
#include <numeric>
#include <utility>

#include "filter_probe.hpp"

namespace bloomfilter {

// A radix sort, because it takes 60 ns an item where std::sort takes 177 (a million items, 131072
// chunks).
std::span<Probe> sort_by_chunk(std::span<Probe> probes, int32 chunks) {
  if (probes.size() < 2) return probes;
  constexpr int kDigitBits = 9;
  constexpr size_t kDigits = 1 << kDigitBits;
  std::span<Probe> from = probes, to = allocate_probes(probes.size());
  for (int shift = 0; shift < 31 && (chunks - 1) >> shift != 0; shift += kDigitBits) {
    const auto digit = [&](const Probe &item) -> size_t {
      return static_cast<size_t>(item.chunk >> shift) % kDigits;
    };
    CHECK_FOR_INTERRUPTS();
    std::array<size_t, kDigits + 1> starts{};
    for (const Probe &item : from) ++starts[digit(item) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (const Probe &item : from) to[starts[digit(item)]++] = item;
    std::swap(from, to);
  }
  pfree(to.data());
  return from;
}

}  // namespace bloomfilter
