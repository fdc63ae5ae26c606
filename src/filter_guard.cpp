// The guard: a row trigger that sees to it that nothing clears a bit of a filter table.
#include "pg.hpp"

#include "filter_table.hpp"
#include "rebuild_phase.hpp"
#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

[[noreturn]] void refuse(Relation relation, const char *message) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg(message, RelationGetRelationName(relation)),
                  errdetail("Checks would answer \"definitely not\" for names that were added."),
                  errhint("To remove names, rebuild the filter with bloom_rebuild.")));
  pg_unreachable();
}

// An update comes with a chunk number that somebody else found. It may be of a rebuild's past, or
// of a future that the rebuild under way would not know.
void require_updatable(Relation relation, const FilterTable &table) {
  if (rebuild_runs(table))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot update Bloom filter \"%s\" while it is being rebuilt",
                           RelationGetRelationName(relation)),
                    errdetail("The rebuilt filter would lack the new bits."),
                    errhint("Use bloom_add.  The rebuild keeps the names that it adds.")));
  if (table.settings.updates_refused)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("cannot update resized Bloom filter \"%s\"", RelationGetRelationName(relation)),
             errdetail(
                 "The number of chunks has changed, and the statement may go to the wrong chunk."),
             IsLogicalWorker()
                 ? errhint("Replicate the names instead of the chunks, and add them by a trigger.")
                 : errhint("Use bloom_add, which knows the number of chunks.")));
}

// What a subscriber replays may be older than what was added on it: keep both.
HeapTuple merge_versions(Relation relation, const Shape &shape, HeapTuple old, HeapTuple changed) {
  HeapTuple merged = heap_copytuple(changed);
  merge_bits(writable_chunk(relation, shape, merged).data(), stored_chunk(relation, shape, old));
  return merged;
}

}  // namespace

extern "C" {

// bloom_guard() -> trigger: before update or delete for each row, and before truncate. Refuses
// deletes, truncation, changed chunk numbers and cleared bits with 55000; an update on a logical
// replication subscriber is ORed.
PG_FUNCTION_INFO_V1(bloom_guard);
PGDLLEXPORT Datum bloom_guard(PG_FUNCTION_ARGS) {
  if (!CALLED_AS_TRIGGER(fcinfo))
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("function \"bloom_guard\" was not called by trigger manager")));
  const auto *data = reinterpret_cast<TriggerData *>(fcinfo->context);
  Relation relation = data->tg_relation;
  if (TRIGGER_FIRED_BEFORE(data->tg_event) && TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
    refuse(relation, gettext_noop("cannot truncate Bloom filter \"%s\""));
  if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
      TRIGGER_FIRED_BY_INSERT(data->tg_event))
    ereport(
        ERROR,
        (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
         errmsg("function \"bloom_guard\" must be fired before update or delete for each row")));
  if (!TRIGGER_FIRED_BY_UPDATE(data->tg_event))
    refuse(relation, gettext_noop("cannot delete a chunk of Bloom filter \"%s\""));

  const FilterTable *table = require_filter(relation);
  require_updatable(relation, *table);
  const Shape &shape = table->rows.shape;
  HeapTuple old = data->tg_trigtuple;
  HeapTuple changed = data->tg_newtuple;
  if (chunk_number(relation, shape, old) != chunk_number(relation, shape, changed))
    refuse(relation, gettext_noop("cannot change the number of a chunk of Bloom filter \"%s\""));
  if (heap_attisnull(changed, shape.bits_attribute, RelationGetDescr(relation)))
    refuse(relation, gettext_noop("cannot clear the bits of a chunk of Bloom filter \"%s\""));
  if (!chunk_covers(stored_chunk(relation, shape, changed), stored_chunk(relation, shape, old))) {
    if (!IsLogicalWorker())
      refuse(relation, gettext_noop("cannot clear a bit of Bloom filter \"%s\""));
    changed = merge_versions(relation, shape, old, changed);
  }
  // An add that finds these bits returns at once, and relies on their being durable.
  ForceSyncCommit();
  if (table->settings.trust_failover) wait_for_standbys();
  return PointerGetDatum(changed);
}

}  // extern "C"

}  // namespace bloomfilter
