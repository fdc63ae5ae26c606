// The rows of the view bloom_progress.
#include "pg.hpp"

#include "progress.hpp"

namespace bloomfilter {
namespace {

// The columns of bloom_get_progress, in the order of sql/bloomfilter.sql.
enum Column {
  kPid,
  kDatname,
  kFilter,
  kCommand,
  kPhase,
  kNamesRead,
  kValuesRead,
  kRowsExpected,
  kChunksDone,
  kChunksTotal,
  kWaitingFor,
  kPhaseTimeLeft,
  kPhaseStartedAt,
  kStartedAt,
  kColumns
};

// In the order of LongCommand.
constexpr const char *kCommandNames[] = {"bloom_create", "bloom_register", "bloom_rebuild",
                                         "bloom_grow", "bloom_merge"};

// In the order of Step. Where bloom_filters shows a phase too, it is the same.
constexpr const char *kPhaseNames[] = {"opening",
                                       "waiting for sign-ups under way",
                                       "reading the source",
                                       "reading the source",
                                       "reading the chunks",
                                       "writing",
                                       "building the primary key",
                                       "adding names that came meanwhile",
                                       "swapping",
                                       "merging"};

static_assert(lengthof(kCommandNames) == static_cast<size_t>(LongCommand::kMerge) + 1);
static_assert(lengthof(kPhaseNames) == static_cast<size_t>(Step::kMerging) + 1);

// One row, whose columns are null until they are set.
struct Row {
  Datum values[kColumns];
  bool nulls[kColumns];
  Row() : values{}, nulls{} {
    for (bool &null : nulls) null = true;
  }
  void set(Column column, Datum value) {
    values[column] = value;
    nulls[column] = false;
  }
};

// As the server's pg_stat_progress views decide it.
bool may_see(const PgBackendStatus &session) {
  return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
         has_privs_of_role(GetUserId(), session.st_userid);
}

// The name with the number; null where another version of this library, which its session has
// loaded before an upgrade, knows more of them.
template <size_t count>
const char *name_of(const char *const (&names)[count], int64 number) {
  return number >= 0 && number < static_cast<int64>(count) ? names[number] : nullptr;
}

// The time as an interval of whole seconds.
Datum interval_of(int64 microseconds) {
  auto *interval = static_cast<Interval *>(palloc0(sizeof(Interval)));
  interval->time = (microseconds + USECS_PER_SEC - 1) / USECS_PER_SEC * USECS_PER_SEC;
  return IntervalPGetDatum(interval);
}

// Sets the columns that only the session's role and monitors may see.
void set_details(Row *row, const PgBackendStatus &session, TimestampTz now) {
  const int64 *slots = session.st_progress_param;
  // A relation of another database has no name here.
  if (session.st_databaseid == MyDatabaseId)
    row->set(kFilter, ObjectIdGetDatum(session.st_progress_command_target));
  if (const char *command = name_of(kCommandNames, slots[kCommandSlot]))
    row->set(kCommand, CStringGetTextDatum(command));
  if (const char *phase = name_of(kPhaseNames, slots[kStepSlot]))
    row->set(kPhase, CStringGetTextDatum(phase));
  const auto set_count = [&](Column column, int64 count, int64 least) {
    if (count >= least) row->set(column, Int64GetDatum(count));
  };
  set_count(kNamesRead, slots[kNamesSlot], 0);
  set_count(kValuesRead, slots[kValuesSlot], 0);
  set_count(kRowsExpected, slots[kRowsExpectedSlot], 1);
  set_count(kChunksDone, slots[kChunksSlot], 0);
  set_count(kChunksTotal, slots[kChunksTotalSlot], 1);
  if (slots[kWaitsForSlot] != kWaitsForNobody)
    row->set(kWaitingFor, Int32GetDatum(static_cast<int32>(slots[kWaitsForSlot])));
  if (const int64 left = step_time_left(slots, now); left >= 0)
    row->set(kPhaseTimeLeft, interval_of(left));
  row->set(kPhaseStartedAt, TimestampTzGetDatum(slots[kStepStartedSlot]));
  row->set(kStartedAt, TimestampTzGetDatum(slots[kStartedSlot]));
}

}  // namespace

extern "C" {

// bloom_get_progress() -> setof record: a row for each session of the server in which a long
// command of this extension runs. Who may not see the session's statistics sees its process and
// database alone. Takes no lock of a filter, and works on a standby.
PG_FUNCTION_INFO_V1(bloom_get_progress);
PGDLLEXPORT Datum bloom_get_progress(PG_FUNCTION_ARGS) {
  InitMaterializedSRF(fcinfo, 0);
  auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
  const TimestampTz now = GetCurrentTimestamp();
  const int sessions = pgstat_fetch_stat_numbackends();
  for (int index = 1; index <= sessions; ++index) {
    const PgBackendStatus *session = compat_backend_status(index);
    // Without the mark, the command has not set its numbers yet.
    if (session == nullptr || compat_progress_command(*session) != kCompatProgressCommand ||
        session->st_progress_param[kMarkSlot] != kProgressMark)
      continue;
    Row row;
    row.set(kPid, Int32GetDatum(session->st_procpid));
    if (const char *database = get_database_name(session->st_databaseid))
      row.set(kDatname, DirectFunctionCall1(namein, CStringGetDatum(database)));
    if (may_see(*session)) set_details(&row, *session, now);
    tuplestore_putvalues(result->setResult, result->setDesc, row.values, row.nulls);
  }
  return Datum{0};
}

}  // extern "C"

}  // namespace bloomfilter
