// The settings of a filter table, and their text: the arguments of its guard trigger.
#ifndef BLOOMFILTER_FILTER_SETTINGS_HPP
#define BLOOMFILTER_FILTER_SETTINGS_HPP

#include "pg.hpp"

#include "canary.hpp"
#include "item_key.hpp"

namespace bloomfilter {

enum class State : uint8 {
  kLoading,    // never loaded: checks answer maybe
  kReady,      // checks may deny
  kSuspended,  // may lack adds: checks answer maybe
};

// The table that every add reached, on the server where that was so. A restored dump has another
// relation. A copied database has another database. A promoted standby and a recovered backup have
// another timeline.
struct Origin {
  uint64 system;
  TimeLineID timeline;
  Oid database;
  Oid relation;
};

// The origin of a relation of this database as it is now, on this server.
Origin origin_here(Oid relid);

// Whether this is the table that the settings were written for. The timeline does not matter.
bool is_original(const Origin &made, const Origin &here);

// The attribute numbers of a filter table's columns.
struct Columns {
  AttrNumber chunk;
  AttrNumber bits;
};

Columns columns_of(Oid relid);

// The content of the guard's arguments. settings_arguments and settings_stored write it,
// parse_settings reads it.
struct Settings {
  int32 chunks;
  Normalization normalization;
  State state;
  // Names were added under another normalization than that of the canaries: the first is about
  // names beyond ASCII, which are never denied from then on, the second about all names. A filter
  // of the second kind can only be suspended.
  bool canary_lost, canary_ascii_lost;
  bool trust_failover;  // a new timeline of the same system does not suspend
  uint32 canary;
  uint32 canary_ascii;
  char stamp[kStampBytes];
  float8 capacity;  // 0 if the filter was registered without one
  float8 fp_rate;
  float8 items_at_build;
  TimestampTz built_at;  // in seconds since 1970, not in the microseconds of the type
  Origin origin;
  // How many items the bits show that were never added. After bloom_grow the bits of each old item
  // are in two chunks.
  float8 excess_items;
  uint32 journal;  // number of the journal of the rebuild that runs or broke off; 0 if none
  // Whether the number of chunks ever changed. Then a statement that brings its own number may be
  // wrong, and plain updates are refused for good.
  bool updates_refused;
  Columns columns;  // in the table of `origin`
};

// For which items this server makes the same keys as the server that built the filter.
enum class Agreement : uint8 { kNone, kAsciiOnly, kFull };

// How far this server agrees with the filter. It computes the whole canary only if the stamps
// differ.
Agreement agreement_with_server(const Settings &settings);

// The same by the canaries alone, whatever the stamp says.
Agreement agreement_by_canaries(const Settings &settings);

// Above this share of its capacity a filter is nearly full, and a rebuild makes it larger.
inline constexpr float8 kNearlyFull = 0.8;

// Reads the arguments of a guard trigger. Returns null, or the detail of an error message that says
// what is wrong. A setting that is unknown, repeated, missing or out of range may come from a newer
// version of the extension. Then this version does not know what the bits mean.
const char *parse_settings(const Trigger &guard, Settings *settings);

// The settings as arguments for CREATE TRIGGER: quoted, with commas between them.
char *settings_arguments(const Settings &settings);

// The settings as pg_trigger.tgargs stores them: *count of them, each followed by a zero byte.
bytea *settings_stored(const Settings &settings, int16 *count);

// The settings of a filter that is built now, on this server. Its state is ready.
Settings new_settings(Oid relid, int32 chunks, Normalization normalization, float8 capacity,
                      float8 fp_rate);

}  // namespace bloomfilter

#endif
