// Reads the timeline history files of the server. The server's own readTimeLineHistory is of no use
// here: it drops the reasons of the switches, and it ends the session if a line is damaged.
#include "pg.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

#include "timeline.hpp"

namespace bloomfilter {
namespace {

// The reason that the server writes for a switch of timelines if recovery had no target. It comes
// from getRecoveryStopReason, and is not translated.
constexpr std::string_view kNoTarget = "no recovery target specified";

// One line of a timeline history file: a timeline that ended, and whether at a recovery target.
struct Switch {
  TimeLineID ended;
  bool had_target;
};

// Reads "TIMELINE<tab>POSITION<tab>REASON". Returns false if the line has another form.
bool parse_switch(std::string_view line, Switch *parsed) {
  const size_t first = line.find('\t');
  if (first == std::string_view::npos) return false;
  const size_t second = line.find('\t', first + 1);
  if (second == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(line.data(), line.data() + first, parsed->ended);
  parsed->had_target = line.substr(second + 1) != kNoTarget;
  return error == std::errc() && end == line.data() + first;
}

// Reads the next line, without its line end, into `buffer`. Returns false at the end of the file.
// After a recovery target that is a time the server writes an empty line.
bool read_line(FILE *file, char *buffer, int size, std::string_view *line) {
  if (fgets(buffer, size, file) == nullptr) return false;
  *line = buffer;
  while (!line->empty() && (line->back() == '\n' || line->back() == '\r')) line->remove_suffix(1);
  return true;
}

// Follows the chain of timelines from `made` to `here`. Anything unexpected gives false: then the
// filter counts as suspended, and answers maybe where it could have said no.
bool read_history(FILE *file, TimeLineID made, TimeLineID here) {
  char buffer[1024];
  std::string_view line;
  TimeLineID expected = 0;  // the next timeline of the chain; 0 before `made`
  while (read_line(file, buffer, sizeof buffer, &line)) {
    if (line.empty() || line.front() == '#') continue;
    Switch one{};
    if (!parse_switch(line, &one)) return false;
    if (one.ended < made) continue;
    // A promotion takes the next free number. If a number is left out, another server had taken it:
    // a primary that may have had adds that are missing here.
    if (one.ended != (expected == 0 ? made : expected) || one.had_target) return false;
    expected = one.ended + 1;
  }
  return ferror(file) == 0 && expected == here;
}

// A timeline never descends from one with a higher number, so such a pair needs no file.
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
  // The filters of a database were made on a few timelines. So eight entries are enough, and a
  // collision only reads the file again.
  static constinit Remembered remembered[8] = {};
  Remembered &one = remembered[made % lengthof(remembered)];
  if (unlikely(one.made != made || one.here != here)) one = {made, here, look_up(made, here)};
  return one.failed_over;
}

}  // namespace bloomfilter
