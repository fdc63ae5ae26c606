// What a relation must be to serve as a filter table: its kind, columns, index and triggers.
#ifndef BLOOMFILTER_FILTER_SHAPE_HPP
#define BLOOMFILTER_FILTER_SHAPE_HPP

#include "pg.hpp"

#include "bloomfilter/layout.hpp"

namespace bloomfilter {

// The row trigger whose arguments are the settings, and the second guard, against TRUNCATE, for
// which PostgreSQL has statement triggers only.
inline constexpr const char *kGuardTrigger = "bloom_filter";
inline constexpr const char *kTruncateTrigger = "bloom_filter_truncate";

// The columns and the index of a filter table. They are read again only after the relation changed.
struct Shape {
  AttrNumber chunk_attribute;
  AttrNumber bits_attribute;
  Oid index;  // the primary key
};

// Why a relation cannot be used as a filter. Without a detail there is no problem.
struct Problem {
  int sqlstate = 0;
  const char *detail = nullptr;
  const char *hint = nullptr;
  const char *command = nullptr;  // repairs it; null if no single command does
  explicit operator bool() const { return detail != nullptr; }
};

// A problem with errcode 55000, one with 55000 that a command repairs, and two with XX001: damaged
// contents, and damaged settings.
Problem unusable(const char *detail, const char *hint = nullptr);
Problem mendable(const char *detail, const char *command);
Problem damaged(const char *detail);
Problem damaged_settings(const char *detail);

// Raises the problem as an error that names the relation.
[[noreturn]] void raise_problem(Relation relation, const Problem &problem);

// The trigger of that name that runs bloom_guard, or null. `triggers` has to be a copy of the
// relation's: each access to a catalog may process invalidations, on which the server frees the
// relation's own triggers and builds them again.
const Trigger *find_guard(const TriggerDesc *triggers, const char *name);

// Whether a trigger has the name of one of the two guards.
bool is_guard_name(const char *name);

// No problem if both guards exist, are enabled always, and fire as they were made to. `triggers` is
// a copy of the relation's.
Problem guard_problem(Relation relation, const TriggerDesc *triggers);

// A problem if Citus keeps the relation's rows in shards.
Problem citus_problem(Relation relation);

// Why the relation cannot be a filter table. If it can, fills in its shape. `guarded` says whether
// it already is one.
Problem shape_problem(Relation relation, bool guarded, Shape *shape);

// Raises 42809 unless the relation, which has no guard yet, can become a filter table. Fills in its
// shape.
void require_filter_shape(Relation relation, Shape *shape);

// Whether the relation's columns are (chunk, bits), in this order and without dropped ones. Code
// that forms tuples itself, without the executor, relies on that.
bool has_plain_columns(Relation relation);

// Raises 55000 unless they are.
void require_plain_columns(Relation relation);

// Whether the relation has the guard trigger, whatever its state.
bool has_guard(Relation relation);

}  // namespace bloomfilter

#endif
