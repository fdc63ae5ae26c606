// Reads and writes the settings of a filter, which are the arguments of its guard trigger, and
// compares them with this server: its origin, and how it normalizes names.
#include "pg.hpp"

#include <charconv>
#include <cstring>
#include <string_view>

#include "bloomfilter/layout.hpp"
#include "bloomfilter/sizing.hpp"
#include "filter_settings.hpp"
#include "function_ref.hpp"

namespace bloomfilter {
namespace {

// The settings in the order in which they are written. They are trigger arguments, not rows of a
// registry table of the extension. So a dump of the filter contains them (also with pg_dump -t), a
// rename or DROP of the filter needs no work, and the relation cache tells every session of a
// change.
enum Key {
  kLayout,
  kChunks,
  kNormalization,
  kState,
  kCanary,
  kCanaryAscii,
  kStamp,
  kCapacity,
  kFpRate,
  kItems,
  kBuiltAt,
  kSystem,
  kTimeline,
  kDatabase,
  kRelation,
  kFailover,
  kExcess,
  kJournal,
  kUpdates,
  kColumns,
  kKeys
};

// Stored in every filter: a name here never changes. The order is that of Key.
constexpr const char *kKeyNames[] = {
    "layout",   "chunks",   "normalization", "state",    "canary",  "canary_ascii", "stamp",
    "capacity", "fp_rate",  "items",         "built_at", "system",  "timeline",     "database",
    "relation", "failover", "excess",        "journal",  "updates", "columns"};
static_assert(lengthof(kKeyNames) == kKeys);

// Each list has the order of its enum, or is for a bool: false first.
constexpr const char *kStateNames[] = {"loading", "ready", "suspended"};
constexpr const char *kFailoverNames[] = {"suspend", "trust"};
constexpr const char *kUpdatesNames[] = {"allowed", "refused"};

// Written in the place of the canary. It is not a number, so no server's canary can equal it.
constexpr std::string_view kCanaryLost = "lost";

// Reads an integer. False unless the whole text is one that the type can hold. strtol and atoi
// would accept white space in front, and do not know the range of each type.
template <typename Number>
bool parse_number(std::string_view text, Number *number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Reads a float8. False if the whole text is not one, or the number is negative or NaN.
bool parse_number(std::string_view text, float8 *number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= 0;
}

// Finds the text among the names, and sets the value to its index. False if it is none of them. The
// comparison is exact: the extension alone writes these names.
template <size_t N, typename Value>
bool parse_name(std::string_view text, const char *const (&names)[N], Value *value) {
  for (size_t i = 0; i < N; ++i)
    if (text == names[i]) {
      *value = static_cast<Value>(i);
      return true;
    }
  return false;
}

// Reads the value of one setting into its member of *settings. False if the value is malformed or
// out of range; the member may have changed nevertheless. Ranges are checked only where a wrong
// number would lead to a wrong answer or a wrong address. The other numbers are for display, or are
// compared with something that the server says.
bool parse_setting(Key key, std::string_view text, Settings *settings) {
  switch (key) {
    case kLayout: {
      // There is one layout so far. This version cannot read the bits of a later one.
      int layout;
      return parse_number(text, &layout) && layout == kLayoutVersion;
    }
    case kChunks:
      return parse_number(text, &settings->chunks) && settings->chunks >= kMinTableChunks;
    case kNormalization:
      // Not normalization_named: that raises errors, and this function must not.
      return find_normalization(text, &settings->normalization);
    case kState:
      return parse_name(text, kStateNames, &settings->state);
    case kCanary:
      // If it is lost, settings->canary keeps its old value, which nobody looks at.
      settings->canary_lost = text == kCanaryLost;
      return settings->canary_lost || parse_number(text, &settings->canary, 16);
    case kCanaryAscii:
      settings->canary_ascii_lost = text == kCanaryLost;
      return settings->canary_ascii_lost || parse_number(text, &settings->canary_ascii, 16);
    case kStamp:
      // A longer one is refused and not cut off: cut off, it could equal the stamp of another
      // locale.
      if (text.size() >= kStampBytes) return false;
      std::memcpy(settings->stamp, text.data(), text.size());
      settings->stamp[text.size()] = '\0';
      return true;
    case kCapacity:
      return parse_number(text, &settings->capacity);
    case kFpRate:
      return parse_number(text, &settings->fp_rate);
    case kItems:
      return parse_number(text, &settings->items_at_build);
    case kBuiltAt:
      return parse_number(text, &settings->built_at);
    case kSystem:
      return parse_number(text, &settings->origin.system);
    case kTimeline:
      return parse_number(text, &settings->origin.timeline);
    case kDatabase:
      return parse_number(text, &settings->origin.database);
    case kRelation:
      return parse_number(text, &settings->origin.relation);
    case kFailover:
      return parse_name(text, kFailoverNames, &settings->trust_failover);
    case kExcess:
      return parse_number(text, &settings->excess_items);
    case kJournal:
      return parse_number(text, &settings->journal);
    case kUpdates:
      return parse_name(text, kUpdatesNames, &settings->updates_refused);
    case kColumns: {
      const size_t colon = text.find(':');
      return colon != std::string_view::npos &&
             parse_number(text.substr(0, colon), &settings->columns.chunk) &&
             parse_number(text.substr(colon + 1), &settings->columns.bits);
    }
    case kKeys:
      break;
  }
  return false;
}

// Calls write(text) with each setting as key=value, in the order of Key. parse_settings gets the
// same values back, except that numbers of items are rounded. It leaves its texts in the current
// memory context, about a kilobyte.
void write_settings(const Settings &settings, FunctionRef<void(const char *)> write) {
  // The shortest text that is read back as the same double. %g would keep six digits only.
  char fp_rate[DOUBLE_SHORTEST_DECIMAL_LEN];
  double_to_shortest_decimal_buf(settings.fp_rate, fp_rate);
  const char *const values[] = {
      psprintf("%d", kLayoutVersion),
      psprintf("%d", settings.chunks),
      normalization_name(settings.normalization),
      kStateNames[static_cast<int>(settings.state)],
      settings.canary_lost ? kCanaryLost.data() : psprintf("%08x", settings.canary),
      settings.canary_ascii_lost ? kCanaryLost.data() : psprintf("%08x", settings.canary_ascii),
      settings.stamp,
      psprintf("%.0f", settings.capacity),
      fp_rate,
      psprintf("%.0f", settings.items_at_build),
      psprintf(INT64_FORMAT, settings.built_at),
      psprintf(UINT64_FORMAT, settings.origin.system),
      psprintf("%u", settings.origin.timeline),
      psprintf("%u", settings.origin.database),
      psprintf("%u", settings.origin.relation),
      kFailoverNames[settings.trust_failover],
      psprintf("%.0f", settings.excess_items),
      psprintf("%u", settings.journal),
      kUpdatesNames[settings.updates_refused],
      psprintf("%d:%d", settings.columns.chunk, settings.columns.bits),
  };
  // The compiler checks only how many values there are. Their order must be that of Key: otherwise
  // a value is written under the name of another.
  static_assert(lengthof(values) == kKeys);
  for (int key = 0; key < kKeys; ++key) write(psprintf("%s=%s", kKeyNames[key], values[key]));
}

// Whether this server makes the same keys of ASCII items as every server on which such an item was
// added.
bool agrees_on_ascii(const Settings &settings) {
  return !settings.canary_ascii_lost &&
         settings.canary_ascii == server_canary(settings.normalization, CanaryPart::kAscii);
}

}  // namespace

Origin origin_here(Oid relid) {
  // On a standby it is the timeline that is being replayed: the adds in this copy come from there.
  TimeLineID timeline;
  if (RecoveryInProgress())
    GetXLogReplayRecPtr(&timeline);
  else
    timeline = GetWALInsertionTimeLine();
  return {GetSystemIdentifier(), timeline, MyDatabaseId, relid};
}

// The timeline is left out: after a failover the table is the same one, with the same columns.
// OIDs may be equal in a dump that was restored on another server. The system identifier is not.
bool is_original(const Origin &made, const Origin &here) {
  return made.system == here.system && made.database == here.database &&
         made.relation == here.relation;
}

// A column that does not exist has the number 0, which parse_settings accepts and no column has.
Columns columns_of(Oid relid) {
  return {get_attnum(relid, "chunk"), get_attnum(relid, "bits")};
}

Agreement agreement_with_server(const Settings &settings) {
  // The cheap comparisons come first. The whole canary takes 25 to 160 ms, once per backend.
  if (!agrees_on_ascii(settings)) return Agreement::kNone;
  if (!settings.canary_lost &&
      std::strcmp(settings.stamp, server_stamp(settings.normalization)) == 0)
    return Agreement::kFull;
  return agreement_by_canaries(settings);
}

// bloom_resume asks this. It then writes a new stamp, so it must not trust the old one.
Agreement agreement_by_canaries(const Settings &settings) {
  if (!agrees_on_ascii(settings)) return Agreement::kNone;
  return !settings.canary_lost &&
                 settings.canary == server_canary(settings.normalization, CanaryPart::kAll)
             ? Agreement::kFull
             : Agreement::kAsciiOnly;
}

// It is strict. It does not ignore an unknown setting, which may change what the bits mean. It has
// no defaults, since a setting that is missing may have been removed by hand. Both would risk a
// wrong "no". An error means "maybe" to whoever checks.
const char *parse_settings(const Trigger &guard, Settings *settings) {
  bool seen[kKeys] = {};
  for (int i = 0; i < guard.tgnargs; ++i) {
    const std::string_view argument = guard.tgargs[i];
    // The first one: a stamp may contain others.
    const size_t equals = argument.find('=');
    int key;
    if (equals == std::string_view::npos ||
        !parse_name(argument.substr(0, equals), kKeyNames, &key) || seen[key] ||
        !parse_setting(static_cast<Key>(key), argument.substr(equals + 1), settings))
      return psprintf(
          "Its setting \"%s\" is malformed or comes from another version of the extension.",
          guard.tgargs[i]);
    // A setting that comes twice is an error: neither of the two is known to be the right one.
    seen[key] = true;
  }
  for (int key = 0; key < kKeys; ++key)
    if (!seen[key]) return psprintf("Its setting \"%s\" is missing.", kKeyNames[key]);
  return nullptr;
}

// For create or replace trigger, in store_settings.
char *settings_arguments(const Settings &settings) {
  StringInfoData arguments;
  initStringInfo(&arguments);
  write_settings(settings, [&](const char *text) {
    appendStringInfo(&arguments, "%s%s", arguments.len == 0 ? "" : ", ", quote_literal_cstr(text));
  });
  return arguments.data;
}

// For overwrite_settings, which changes pg_trigger without the statement.
bytea *settings_stored(const Settings &settings, int16 *count) {
  StringInfoData stored;
  initStringInfo(&stored);
  *count = 0;
  // The same bytes as CREATE TRIGGER stores.
  write_settings(settings, [&](const char *text) {
    appendBinaryStringInfo(&stored, text, static_cast<int>(std::strlen(text)) + 1);
    ++*count;
  });
  const Size size = VARHDRSZ + static_cast<Size>(stored.len);
  auto *bytes = static_cast<bytea *>(palloc(size));
  SET_VARSIZE(bytes, size);
  std::memcpy(VARDATA(bytes), stored.data, static_cast<Size>(stored.len));
  return bytes;
}

Settings new_settings(Oid relid, int32 chunks, Normalization normalization, float8 capacity,
                      float8 fp_rate) {
  // Members that are not set below are zero or false: no journal, no excess items, no trust in
  // failovers, plain updates allowed. Callers that know better change the result.
  Settings settings{};
  settings.chunks = chunks;
  settings.normalization = normalization;
  settings.state = State::kReady;
  settings.canary = server_canary(normalization, CanaryPart::kAll);
  settings.canary_ascii = server_canary(normalization, CanaryPart::kAscii);
  strlcpy(settings.stamp, server_stamp(normalization), kStampBytes);
  settings.capacity = capacity;
  settings.fp_rate = fp_rate;
  settings.built_at = timestamptz_to_time_t(GetCurrentTimestamp());
  settings.origin = origin_here(relid);
  settings.columns = columns_of(relid);
  return settings;
}

}  // namespace bloomfilter
