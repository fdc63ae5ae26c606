// bloom_register: a table that was made by hand becomes a filter, with the bits that it has.
#include "pg.hpp"

#include "arguments.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_estimate.hpp"
#include "filter_ddl.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "progress.hpp"

namespace bloomfilter {
namespace {

// Raises 55000 unless the table has exactly the rows 0 to n - 1, and XX001 if a row does not hold
// its bits. Returns n, and sets *items to the number of items that the bits show. The caller holds
// a lock that keeps writers out. It scans the table, not the index: the rows are needed for the
// estimate, and a damaged index could hide a row.
int32 count_chunks(Relation relation, const Shape &shape, float8 *items) {
  int64 rows = 0, highest = -1, lowest = 0;
  *items = 0;
  begin_progress(LongCommand::kRegister, RelationGetRelid(relation),
                 RelationGetRelationName(relation), Step::kScanning,
                 static_cast<int64>(Max(relation->rd_rel->reltuples, 0)));
  scan_chunk_rows(relation, [&](HeapTuple tuple) {
    const int64 chunk = chunk_number(relation, shape, tuple);
    *items += ChunkEstimate(stored_chunk(relation, shape, tuple)).items();
    lowest = Min(lowest, chunk);
    highest = Max(highest, chunk);
    ++rows;
    count_progress();
  });
  end_progress();
  // The primary key guarantees that no number occurs twice. So n rows from 0 to n - 1 are all rows.
  if (lowest < 0 || rows != highest + 1)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("table \"%s\" does not hold every chunk", RelationGetRelationName(relation)),
             errdetail("It has " INT64_FORMAT " rows, and their numbers go from " INT64_FORMAT
                       " to " INT64_FORMAT ".",
                       rows, lowest < 0 ? lowest : Min(highest, 0), highest),
             errhint("A filter of n chunks has one row for each number from 0 to n - 1, also for "
                     "empty chunks.")));
  // A smaller filter makes it likely that two transactions want the same rows.
  if (rows < kMinTableChunks)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("table \"%s\" has " INT64_FORMAT " chunks, but a Bloom filter has at least %d",
                    RelationGetRelationName(relation), rows, kMinTableChunks)));
  return static_cast<int32>(rows);
}

// Raises 55000 if a name that must be in the table is not. Then the bits were made in another way
// than this extension makes them, and every check would be wrong.
void require_known(const OpenFilter &filter, ArrayType *known) {
  Datum *items;
  bool *nulls;
  const int count = deconstruct_texts(known, "known", &items, &nulls);
  for (int i = 0; i < count; ++i) {
    CHECK_FOR_INTERRUPTS();
    if (nulls[i]) continue;
    text *item = DatumGetTextPP(items[i]);
    const Digest digest = hash_item(filter.settings().normalization, text_view(item));
    const Positions positions = positions_of(digest);
    ChunkRow row = require_chunk(filter, chunk_of(digest, filter.settings().chunks), &positions,
                                 Access::kRead);
    const bool known_here = chunk_contains(stored_chunk(filter, &row), positions);
    row.release();
    if (!known_here)
      ereport(
          ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("table \"%s\" does not contain \"%s\"", filter.name(), text_to_cstring(item)),
           errdetail("As a filter of %d chunks with normalization \"%s\", it would answer "
                     "\"definitely not\" for a known name.",
                     filter.settings().chunks, normalization_name(filter.settings().normalization)),
           errhint("Its bits may have another layout or another normalization.")));
  }
}

}  // namespace

extern "C" {

// bloom_register(filter regclass, normalization text, capacity float8, fp_rate float8, known
// text[]): makes a filter of a table that was made by hand, with its bits. Raises 55000 if an item
// of `known` is denied. Only the owner of the table may call it. The filter is ready at the commit:
// the caller promises that every name is in the table.
PG_FUNCTION_INFO_V1(bloom_register);
PGDLLEXPORT Datum bloom_register(PG_FUNCTION_ARGS) {
  PreventCommandIfReadOnly("bloom_register()");
  const Oid relid = filter_argument(fcinfo);
  const Normalization normalization =
      normalization_named(text_argument(fcinfo, 1, "normalization"));
  const float8 fp_rate = PG_ARGISNULL(3) ? kDefaultFpRate : PG_GETARG_FLOAT8(3);
  const float8 capacity = PG_ARGISNULL(2) ? 0 : PG_GETARG_FLOAT8(2);
  require_size_arguments(PG_ARGISNULL(2) ? 1 : capacity, fp_rate);

  // Before the lock: only the owner may stop the writers of the table.
  require_owner(relid);
  // The lock keeps writers out until the commit, and lets readers pass.
  Relation relation = relation_open(relid, ShareRowExclusiveLock);
  if (has_guard(relation))
    ereport(ERROR,
            (errcode(ERRCODE_DUPLICATE_OBJECT),
             errmsg("table \"%s\" is already a Bloom filter", RelationGetRelationName(relation)),
             errhint("To register it again, drop its triggers \"%s\" and \"%s\" first.",
                     kGuardTrigger, kTruncateTrigger)));
  Shape shape;
  require_filter_shape(relation, &shape);
  float8 items;
  const int32 chunks = count_chunks(relation, shape, &items);
  relation_close(relation, NoLock);

  // A capacity of 0 means that it is not known.
  Settings settings = new_settings(relid, chunks, normalization, capacity, fp_rate);
  settings.items_at_build = items;
  store_settings_alone(relid, settings, fcinfo->flinfo->fn_oid);
  comment_on_filter(relid);
  // Opened as every later check opens it. If it cannot be opened, or denies a known name, all is
  // rolled back.
  const OpenFilter filter = open_filter(relid, AccessShareLock, ACL_NO_RIGHTS);
  if (!PG_ARGISNULL(4)) require_known(filter, PG_GETARG_ARRAYTYPE_P(4));
  close_filter(filter);
  notice_ascii_only(normalization, get_rel_name(relid));
  warn_if_subscribed(relid, settings);
  PG_RETURN_VOID();
}

}  // extern "C"

}  // namespace bloomfilter
