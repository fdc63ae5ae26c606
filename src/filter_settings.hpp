// The settings of a filter table, and their text: the arguments of its guard trigger.
#ifndef BLOOMFILTER_FILTER_SETTINGS_HPP
#define BLOOMFILTER_FILTER_SETTINGS_HPP

#include "pg.hpp"

#include "canary.hpp"
#include "function_ref.hpp"
#include "item_key.hpp"

namespace bloomfilter {

enum class State : uint8 {
  kLoading,    // never loaded: checks answer maybe
  kReady,      // checks may deny
  kSuspended,  // may lack adds: checks answer maybe
};

// The one table, on the one server, that every add reached. A dump that is restored has another
// relation, a copied database another database, a standby that is promoted or a backup that is
// recovered another timeline.
struct Origin {
  uint64 system;
  TimeLineID timeline;
  Oid database;
  Oid relation;
};

// The origin of a relation of this database, on this server, today.
Origin origin_here(Oid relid);

// Whether this is the very table that the settings were written for, on whatever timeline.
bool is_original(const Origin &made, const Origin &here);

// The numbers of a filter table's columns.
struct Columns {
  AttrNumber chunk;
  AttrNumber bits;
};

Columns columns_of(Oid relid);

// What the guard's arguments say. Written by settings_arguments and settings_stored, read by
// parse_settings.
struct Settings {
  int32 chunks;
  Normalization normalization;
  State state;
  // Names were added under another normalization than the canary's: no state but suspended may
  // follow.
  bool canary_lost;
  bool trust_failover;  // a new timeline of the same system does not suspend
  uint32 canary;
  uint32 canary_ascii;
  char stamp[kStampBytes];
  float8 capacity;  // 0 where the filter was registered without one
  float8 fp_rate;
  float8 items_at_build;
  TimestampTz built_at;
  Origin origin;
  // How many items the bits tell of that are not there: where a filter has grown, each old item's
  // bits are there twice.
  float8 excess_items;
  uint32 journal;  // of the rebuild that runs, or that broke off; 0 where there is none
  // Whether the number of chunks is another than it was made with: then no statement that brings
  // its own can be trusted, for good.
  bool updates_refused;
  Columns columns;  // in the table of `origin`
};

// How far the server's normalization today is the filter's.
enum class Agreement : uint8 { kNone, kAsciiOnly, kFull };

// How far this server agrees with the filter. The whole canary is made only where the stamp
// differs.
Agreement agreement_with_server(const Settings &settings);

// Whether both canaries are those of this server, whatever the stamp says.
bool normalized_as_here(const Settings &settings);

// From this saturation on a filter is nearly full, and a rebuild gives it more room.
inline constexpr float8 kNearlyFull = 0.8;

// Reads the arguments of a guard trigger. Returns what is wrong with them, as a message's detail,
// or null. A setting that is unknown, twice, missing or out of range may come from a newer version
// of the extension: then this one cannot tell what the bits mean.
const char *parse_settings(const Trigger &guard, Settings *settings);

// The settings as the guard's arguments, quoted, comma separated.
char *settings_arguments(const Settings &settings);

// The same as pg_trigger stores them: each with a zero behind it, *count of them.
bytea *settings_stored(const Settings &settings, int16 *count);

// The settings of a filter that is built now, on this server.
Settings new_settings(Oid relid, int32 chunks, Normalization normalization, float8 capacity,
                      float8 fp_rate);

}  // namespace bloomfilter

#endif
