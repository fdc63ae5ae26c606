// The progress of a long command. It is kept where the server keeps that of its own commands, in
// the session's entry of shared memory: so it needs no preloading, is seen before the commit, stays
// over the commits of a procedure, and is gone with an error, a cancel or the session.
#include "pg.hpp"

#include <array>

#include "progress.hpp"

namespace bloomfilter {

constinit StepCount step_count{0, kNever};

namespace {

constexpr int64 kNoticeMilliseconds = 10000;

// The count is shown about every 100 ms, and at least after so many rows or chunks: 4096 names take
// a millisecond, and showing them a tenth of a microsecond.
constexpr int64 kMaxInterval = 4096;
constexpr int64 kShortMilliseconds = 50, kLongMilliseconds = 200;

// What this session shows, and when it did so last.
struct Shown {
  bool active;
  Oid relid;
  char name[NAMEDATALEN];
  std::array<int64, kProgressSlots> slots;
  int64 interval;
  TimestampTz reported, noticed;
};
constinit Shown shown{};

// Copies the numbers to shared memory. The progress of a command of the server stays: it would show
// our numbers as its own.
void publish() {
  if (MyBEEntry == nullptr) return;
  const int command = compat_progress_command(*MyBEEntry);
  if (command == PROGRESS_COMMAND_INVALID)
    compat_start_progress(shown.relid);
  else if (command != kCompatProgressCommand)
    return;
  int places[kProgressSlots];
  for (int i = 0; i < kProgressSlots; ++i) places[i] = i;
  pgstat_progress_update_multi_param(kProgressSlots, places, shown.slots.data());
}

Step current_step() {
  return static_cast<Step>(shown.slots[kStepSlot]);
}

// Puts what the step has counted to its place.
void keep_count() {
  const ProgressSlot slot = slots_of(current_step()).done;
  if (slot != kMarkSlot) shown.slots[slot] = step_count.done;
}

// Sets how much the step will count.
void set_total(int64 total) {
  const ProgressSlot slot = slots_of(current_step()).total;
  if (slot != kMarkSlot) shown.slots[slot] = total;
}

// What a step has done to the things that it counts.
const char *counted_as(Step step) {
  switch (step) {
    case Step::kReadingNames:
      return "names read";
    case Step::kReadingValues:
      return "values read";
    case Step::kWriting:
      return "chunks written";
    case Step::kMerging:
      return "chunks merged";
    default:
      return "chunks read";
  }
}

void tell_progress(TimestampTz now) {
  const int64 left = step_time_left(shown.slots.data(), now);
  const auto done = static_cast<long long>(step_count.done);
  const char *what = counted_as(current_step());
  if (left < 0)
    ereport(NOTICE, (errmsg("Bloom filter \"%s\": %lld %s", shown.name, done, what)));
  else
    ereport(NOTICE,
            (errmsg("Bloom filter \"%s\": %lld %s, about %lld s left", shown.name, done, what,
                    static_cast<long long>((left + USECS_PER_SEC - 1) / USECS_PER_SEC))));
}

}  // namespace

void begin_progress(LongCommand command, Oid relid, const char *name, Step step, int64 total) {
  shown = {};
  shown.active = true;
  shown.relid = relid;
  // Null if somebody has dropped the relation; the command will find out.
  strlcpy(shown.name, name == nullptr ? "" : name, sizeof shown.name);
  shown.slots[kMarkSlot] = kProgressMark;
  shown.slots[kCommandSlot] = static_cast<int64>(command);
  for (const ProgressSlot slot : {kNamesSlot, kValuesSlot, kChunksSlot}) shown.slots[slot] = -1;
  shown.slots[kStartedSlot] = GetCurrentTimestamp();
  shown.slots[kStepSlot] = static_cast<int64>(Step::kOpening);  // counts nothing
  enter_step(step, total);
}

void enter_step(Step step, int64 total) {
  if (!shown.active) return;
  keep_count();
  const TimestampTz now = GetCurrentTimestamp();
  shown.slots[kStepSlot] = static_cast<int64>(step);
  shown.slots[kStepStartedSlot] = now;
  shown.slots[kFirstSlot] = shown.slots[kEndSlot] = 0;
  shown.slots[kWaitsForSlot] = kWaitsForNobody;
  shown.reported = shown.noticed = now;
  shown.interval = 1;
  step_count = {0, 1};
  keep_count();
  set_total(total);
  publish();
}

void expect_total(int64 total) {
  if (!shown.active) return;
  set_total(total);
  publish();
}

void expect_end_after(int64 milliseconds) {
  if (!shown.active) return;
  shown.slots[kEndSlot] = TimestampTzPlusMilliseconds(shown.slots[kStepStartedSlot], milliseconds);
  publish();
}

void show_waiting_for(int pid) {
  if (!shown.active) return;
  shown.slots[kWaitsForSlot] = pid;
  publish();
}

void end_progress() {
  if (!shown.active) return;
  shown.active = false;
  step_count = {0, kNever};
  if (MyBEEntry != nullptr && compat_progress_command(*MyBEEntry) == kCompatProgressCommand)
    pgstat_progress_end_command();
}

// The interval follows the speed of the source, which may change: one row a second is shown row by
// row.
void report_progress() {
  const TimestampTz now = GetCurrentTimestamp();
  if (!TimestampDifferenceExceeds(shown.reported, now, kShortMilliseconds))
    shown.interval = Min(2 * shown.interval, kMaxInterval);
  else if (TimestampDifferenceExceeds(shown.reported, now, kLongMilliseconds))
    shown.interval = Max(shown.interval / 2, 1);
  shown.reported = now;
  if (shown.slots[kFirstSlot] == 0) shown.slots[kFirstSlot] = now;
  step_count.next = step_count.done + shown.interval;
  keep_count();
  publish();
  if (!TimestampDifferenceExceeds(shown.noticed, now, kNoticeMilliseconds)) return;
  shown.noticed = now;
  tell_progress(now);
}

CountSlots slots_of(Step step) {
  switch (step) {
    case Step::kReadingNames:
      return {kNamesSlot, kRowsExpectedSlot};
    case Step::kReadingValues:
      return {kValuesSlot, kRowsExpectedSlot};
    case Step::kScanning:
    case Step::kWriting:
    case Step::kMerging:
      return {kChunksSlot, kChunksTotalSlot};
    default:
      return {kMarkSlot, kMarkSlot};
  }
}

// By the share of the step that is done, and by the time since the first row: a source may sort for
// minutes before that. An expected number that was exceeded tells nothing.
int64 step_time_left(const int64 *slots, TimestampTz now) {
  if (slots[kEndSlot] != 0) return Max(slots[kEndSlot] - now, 0);
  const CountSlots counted = slots_of(static_cast<Step>(slots[kStepSlot]));
  const int64 done = slots[counted.done], total = slots[counted.total];
  if (counted.done == kMarkSlot || done <= 1 || done > total) return -1;
  const auto taken = static_cast<float8>(Max(now - slots[kFirstSlot], 0));
  return static_cast<int64>(taken * static_cast<float8>(total - done) / static_cast<float8>(done));
}

}  // namespace bloomfilter
