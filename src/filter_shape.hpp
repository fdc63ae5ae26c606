// What a relation must be to be a filter table: its kind, columns, index and triggers.
#ifndef BLOOMFILTER_FILTER_SHAPE_HPP
#define BLOOMFILTER_FILTER_SHAPE_HPP

#include "pg.hpp"

#include "bloomfilter/layout.hpp"

namespace bloomfilter {

// The row trigger whose arguments are the settings, and its companion against TRUNCATE, for which
// PostgreSQL has statement triggers only.
inline constexpr const char *kGuardTrigger = "bloom_filter";
inline constexpr const char *kTruncateTrigger = "bloom_filter_truncate";

// Where a filter table keeps what; found once a relcache entry.
struct Shape {
  AttrNumber chunk_attribute;
  AttrNumber bits_attribute;
  Oid index;  // the primary key
};

// Why a relation cannot be used as a filter; no detail means that it can.
struct Problem {
  int sqlstate = 0;
  const char *detail = nullptr;
  const char *hint = nullptr;
  const char *command = nullptr;  // that mends it
  explicit operator bool() const { return detail != nullptr; }
};

// A problem with errcode 55000, one that a command mends, and two with XX001.
// Settings that cannot be read keep bloom_rebuild from working, too.
Problem unusable(const char *detail, const char *hint = nullptr);
Problem mendable(const char *detail, const char *command);
Problem damaged(const char *detail);
Problem damaged_settings(const char *detail);

// Raises the problem.
[[noreturn]] void raise_problem(Relation relation, const Problem &problem);

// The trigger of that name that runs bloom_guard, or null; among a copy of the relation's
// triggers, since every look into a catalog may bring news on which the server builds the
// relation's own ones anew.
const Trigger *find_guard(const TriggerDesc *triggers, const char *name);

// Whether a trigger has the name of one of the two guards.
bool is_guard_name(const char *name);

// Both guards, as they were made and always on, or why not. `triggers` is a copy of the relation's.
Problem guard_problem(Relation relation, const TriggerDesc *triggers);

// Why the relation cannot be a filter table, if it cannot; else fills in its shape. `guarded` says
// whether it is one already.
Problem shape_problem(Relation relation, bool guarded, Shape *shape);

// Raises 42809 unless the relation, which has no guard yet, can be a filter table. Fills in its
// shape.
void require_filter_shape(Relation relation, Shape *shape);

// Raises 55000 unless the relation's columns are (chunk, bits), and never were others: what is
// written to it row by row, without the executor, has just these.
void require_plain_columns(Relation relation);

// Whether the relation has the guard trigger, whatever its state.
bool has_guard(Relation relation);

}  // namespace bloomfilter

#endif
