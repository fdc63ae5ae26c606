// What a long command has done so far: shown to other sessions by the view bloom_progress, and told
// to the caller by a notice every ten seconds.
#ifndef BLOOMFILTER_PROGRESS_HPP
#define BLOOMFILTER_PROGRESS_HPP

#include "pg.hpp"

#include <limits>

namespace bloomfilter {

enum class LongCommand : int64 { kCreate, kRegister, kRebuild, kGrow, kMerge };

// What a long command is doing.
enum class Step : int64 {
  kOpening,
  kGrace,
  kReadingNames,
  kReadingValues,
  kScanning,
  kWriting,
  kIndexing,
  kJournal,
  kSwapping,
  kMerging
};

// Who a command waits for: the ID of a process, or one of these.
inline constexpr int kWaitsForNobody = -1;
inline constexpr int kWaitsForPrepared = 0;

// Begins to show the command for the relation, in its first step. A command that runs inside
// another one takes its place, and the other one is not shown any more. Nothing is shown while the
// session shows the progress of a command of the server, a COPY for example.
void begin_progress(LongCommand command, Oid relid, const char *name, Step step, int64 total);

// Begins the next step. `total` is how many rows or chunks it will count; 0 if that is not known.
void enter_step(Step step, int64 total);

// The step that has begun will count about so many.
void expect_total(int64 total);

// The step that has begun ends after so many milliseconds, whatever it counts.
void expect_end_after(int64 milliseconds);

// Shows who the command waits for, until the next step.
void show_waiting_for(int pid);

// Ends what begin_progress began. The server ends it too when a transaction or a subtransaction
// aborts; a command that goes on after the abort of a subtransaction is shown again with its next
// step or count.
void end_progress();

// How much the step has counted, and when that is shown again.
struct StepCount {
  int64 done;
  int64 next;
};
inline constexpr int64 kNever = std::numeric_limits<int64>::max();
extern StepCount step_count;

// Shows the count of the step, and tells it by a notice if ten seconds have passed since the last
// one. For count_progress alone.
void report_progress();

// Counts a row or a chunk. Most calls only add to a number, since this runs for every name. The
// caller holds no lock of a buffer.
inline void count_progress() {
  if (unlikely(++step_count.done >= step_count.next)) report_progress();
}

// The numbers that the server keeps for a session in shared memory, as this module uses them.
enum ProgressSlot {
  kMarkSlot,
  kCommandSlot,
  kStepSlot,
  kStartedSlot,
  kStepStartedSlot,
  kFirstSlot,  // when the step counted its first row or chunk; 0: not yet
  kEndSlot,    // when the step ends; 0: not known
  kNamesSlot,  // these three: -1 before the command counts any
  kValuesSlot,
  kChunksSlot,
  kRowsExpectedSlot,  // names or values; 0: not known
  kChunksTotalSlot,   // 0: not known
  kWaitsForSlot,
  kProgressSlots
};
static_assert(kProgressSlots <= PGSTAT_NUM_PROGRESS_PARAM);

// In kMarkSlot: tells these numbers from those of another extension. A session may still run an
// older library, so each change of the slots, commands or steps needs another mark.
inline constexpr int64 kProgressMark = 0x626C6F6F6D0001;  // "bloom", 1

// The slots of what a step counts, and of how many there will be. Both are kMarkSlot if it counts
// nothing.
struct CountSlots {
  ProgressSlot done;
  ProgressSlot total;
};
CountSlots slots_of(Step step);

// About how many microseconds of the step are left; -1 if that cannot be told.
int64 step_time_left(const int64 *slots, TimestampTz now);

}  // namespace bloomfilter

#endif
