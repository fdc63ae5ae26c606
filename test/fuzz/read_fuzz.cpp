// Any bytes as a value: reading stays within them. This is the first step of value_fuzz alone, so
// that a hundred million inputs take minutes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "bloomfilter/filter.hpp"
#include "bloomfilter/format.hpp"
#include "require.hpp"

namespace bloomfilter {
namespace {

Hasher hasher;

// Whatever is refused leaves the answer to the server. The item is the end of the input, short
// enough for the fast hash.
void try_value(std::span<const std::uint8_t> bytes) {
  FilterView view;
  const FormatError error = view.open(bytes);
  Header header{};
  REQUIRE(read_value(bytes, header) == error);
  const std::size_t length = bytes.size() < 16 ? bytes.size() : 16;
  const std::string_view item(reinterpret_cast<const char *>(bytes.data()) + bytes.size() - length,
                              length);
  const Answer answer = view.might_contain(hasher, item);
  if (error != FormatError::kNone) {
    REQUIRE(answer == Answer::kAskServer && view.bits().empty());
    return;
  }
  REQUIRE(header == view.header());
  REQUIRE(view.bits().size() == bytes.size() - kValueHeaderBytes);
}

}  // namespace
}  // namespace bloomfilter

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  if (!bloomfilter::hasher.open()) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const std::span<const std::uint8_t> input(data, size);
  bloomfilter::try_value(input);
  const std::span<const std::uint8_t> copied = bloomfilter::copied_value(input);
  if (!copied.empty()) bloomfilter::try_value(copied);
  return 0;
}
