#include "pg.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

#include "timeline.hpp"

namespace bloomfilter {
namespace {

// What the server writes as the reason of a switch where recovery had no target; see
// getRecoveryStopReason.
constexpr std::string_view kNoTarget = "no recovery target specified";

// A line of a timeline history file: a timeline that ended, and why.
struct Switch {
  TimeLineID ended;
  bool had_target;
};

// Reads "TIMELINE<tab>POSITION<tab>REASON". False where the line says something else.
bool parse_switch(std::string_view line, Switch *parsed) {
  const size_t first = line.find('\t');
  if (first == std::string_view::npos) return false;
  const size_t second = line.find('\t', first + 1);
  if (second == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(line.data(), line.data() + first, parsed->ended);
  parsed->had_target = line.substr(second + 1) != kNoTarget;
  return error == std::errc() && end == line.data() + first;
}

// The lines of a history file without their ends; the reason of a target in time has an empty
// one behind it. False at the end of the file.
bool read_line(FILE *file, char *buffer, int size, std::string_view *line) {
  if (fgets(buffer, size, file) == nullptr) return false;
  *line = buffer;
  while (!line->empty() && (line->back() == '\n' || line->back() == '\r')) line->remove_suffix(1);
  return true;
}

bool read_history(FILE *file, TimeLineID made, TimeLineID here) {
  char buffer[1024];
  std::string_view line;
  TimeLineID expected = 0;  // the next timeline of the chain; 0 before `made`
  while (read_line(file, buffer, sizeof buffer, &line)) {
    if (line.empty() || line.front() == '#') continue;
    Switch one{};
    if (!parse_switch(line, &one)) return false;
    if (one.ended < made) continue;
    // A number left out is of a timeline that began elsewhere: a primary whose adds are not here.
    if (one.ended != (expected == 0 ? made : expected) || one.had_target) return false;
    expected = one.ended + 1;
  }
  return ferror(file) == 0 && expected == here;
}

bool look_up(TimeLineID made, TimeLineID here) {
  if (made > here) return false;
  char path[MAXPGPATH];
  TLHistoryFilePath(path, here);
  FILE *file = AllocateFile(path, "r");
  if (file == nullptr) return false;
  const bool failed_over = read_history(file, made, here);
  FreeFile(file);
  return failed_over;
}

}  // namespace

bool came_by_failover(TimeLineID made, TimeLineID here) {
  struct Remembered {
    TimeLineID made, here;
    bool failed_over;
  };
  // Filters of a database mostly share the few timelines that they were made on.
  static constinit Remembered remembered[8] = {};
  Remembered &one = remembered[made % lengthof(remembered)];
  if (unlikely(one.made != made || one.here != here)) one = {made, here, look_up(made, here)};
  return one.failed_over;
}

}  // namespace bloomfilter
