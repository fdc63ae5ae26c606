// Asks FilterView, the C++ reader. See ../t/023_clients.pl for the arguments and what is printed.
#include <bloomfilter/filter.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

using namespace bloomfilter;

namespace {

// The lines of a file.
std::vector<std::string> lines(const char *path) {
  std::ifstream file(path);
  std::vector<std::string> result;
  for (std::string line; std::getline(file, line);) result.push_back(line);
  return result;
}

// The bytes that hex says.
std::string from_hex(const std::string &hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::span<const std::uint8_t> view(const std::string &bytes) {
  return {reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size()};
}

// Prints a letter for each name, or "refused".
void answer(std::span<const std::uint8_t> value, const std::vector<std::string> &names,
            Hasher &hasher) {
  FilterView filter;
  std::string letters;
  if (filter.open(value) != FormatError::kNone)
    letters = "refused";
  else
    for (const std::string &name : names)
      letters.push_back("nma"[static_cast<int>(filter.might_contain(hasher, name))]);
  std::cout << letters << '\n';
}

}  // namespace

int main(int count, char **arguments) {
  Hasher hasher;
  if (count < 4 || !hasher.open()) return 2;
  const std::string mode = arguments[1];
  std::vector<std::string> names;
  for (const std::string &hex : lines(arguments[2])) names.push_back(from_hex(hex));
  if (mode == "open")
    for (int i = 3; i < count; ++i) {
      std::ifstream file(arguments[i], std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      answer(bytes.starts_with('P') ? copied_value(view(bytes)) : view(bytes), names, hasher);
    }
  else
    for (const std::string &line : lines(arguments[3])) {
      const std::string bytes = from_hex(mode == "hex" ? line.substr(2) : line);
      answer(mode == "copy" ? copied_value(view(bytes)) : view(bytes), names, hasher);
    }
}
