// Adds to filter tables: bloom_add, and the same for an array.
#include "pg.hpp"

#include <algorithm>
#include <span>

#include "arguments.hpp"
#include "bloomfilter/chunk.hpp"
#include "bloomfilter/layout.hpp"
#include "chunk_update.hpp"
#include "comparison.hpp"
#include "filter_add.hpp"
#include "filter_probe.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "rebuild_journal.hpp"

namespace bloomfilter {
namespace {

// Raises 55000 if the item has another key today than when the filter was built. Its bits would go
// to a place where no check looks once the server is as before. A filter whose canary is lost takes
// such items, because it never denies them again.
void require_addable(const OpenFilter &filter, std::string_view item) {
  const Agreement agreement = filter.table->agreement;
  if (likely(agreement == Agreement::kFull)) return;
  const Settings &settings = filter.settings();
  if (is_ascii(item) ? agreement == Agreement::kAsciiOnly || settings.canary_ascii_lost
                     : settings.canary_lost)
    return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot add \"%s\" to Bloom filter \"%s\"", item_for_message(item),
                         filter.name()),
                  errdetail("Normalization \"%s\" has changed since the filter was built.",
                            normalization_name(filter.settings().normalization)),
                  errhint("Call bloom_suspend, so that every check answers maybe.  Then rebuild "
                          "the filter with bloom_rebuild.")));
}

// Adds `items`, all of one chunk, to its row. Returns how many items set a bit, that is, were
// definitely new. If all bits are set already, the row is neither locked nor written.
int64 add_to_chunk(const OpenFilter &filter, std::span<const Probe> items) {
  const auto has_all = [&](ChunkView bits) {
    return std::all_of(items.begin(), items.end(),
                       [&](const Probe &item) { return chunk_contains(bits, item.positions); });
  };
  const auto add_to = [&](MutableChunkView bits) {
    int64 added = 0;
    for (const Probe &item : items)
      if (chunk_add(bits, item.positions)) ++added;
    return added;
  };
  return change_chunk(filter, items.front().chunk, &items.front().positions, has_all, add_to);
}

// Whether a check of the item may deny. If its key has changed since the filter was built, it may
// have been added with another one.
bool keeps_key(const OpenFilter &filter, std::string_view item) {
  return likely(filter.table->agreement == Agreement::kFull) ||
         (filter.table->agreement == Agreement::kAsciiOnly && is_ascii(item));
}

// Whether a bit that was missing means that its name was missing. It does not while the filter may
// lack names, nor if a name's key has changed (`keys_kept` is false), nor under a nondeterministic
// collation. Tells that once in a session when something was added: a user who loads names would
// take the result 0 for a mistake.
bool knows_new_names(const OpenFilter &filter, int64 added, bool keys_kept, Oid collation) {
  const char *reason = suspension_reason(*filter.table);
  if (likely(reason == nullptr && keys_kept && !is_loose(collation))) return true;
  if (added == 0 || filter.table->told_new_names) return false;
  filter.table->told_new_names = true;
  const char *detail =
      reason != nullptr
          ? psprintf(
                "Its status is \"%s\".  The filter may lack names, so a missing bit does not "
                "prove that a name is new.",
                reason)
      : !keys_kept
          ? "Its normalization has changed, so a name with non-ASCII characters may have been "
            "added "
            "with other bits."
          : psprintf(
                "Collation \"%s\" is nondeterministic.  A name that it calls equal may have "
                "been added with other bits.",
                get_collation_name(collation));
  ereport(NOTICE, (errmsg("new names of Bloom filter \"%s\" are not counted", filter.name()),
                   errdetail_internal("%s", detail)));
  return false;
}

}  // namespace

Digest digest_to_add(const OpenFilter &filter, std::string_view item) {
  require_addable(filter, item);
  return hash_item(filter.settings().normalization, item);
}

void add_digests(const OpenFilter &filter, std::span<const Digest> digests) {
  PendingCounts *counts = filter.begin_counted();
  write_journal(filter, digests);
  const std::span<Probe> probes = allocate_probes(digests.size());
  for (size_t i = 0; i < digests.size(); ++i) probes[i] = probe_of(filter, digests[i], 0);
  int64 added = 0;
  visit_by_chunk(filter, probes,
                 [&](std::span<const Probe> in_chunk) { added += add_to_chunk(filter, in_chunk); });
  finish_add(filter, added);
  // Which of the digests are of ASCII names is not known here.
  const bool known =
      suspension_reason(*filter.table) == nullptr && filter.table->agreement == Agreement::kFull;
  end_adds(counts, digests.size(), known ? static_cast<uint64>(added) : 0);
}

extern "C" {

// bloom_add(filter regclass, item text) -> boolean: true means that the item was definitely new.
// Null for a null item. It needs SELECT and INSERT, not UPDATE: who may add can never clear a bit.
PG_FUNCTION_INFO_V1(bloom_add);
PGDLLEXPORT Datum bloom_add(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_for_add(fcinfo, "bloom_add()");
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  PendingCounts *counts = filter.begin_counted();
  const std::string_view item = text_view(PG_GETARG_TEXT_PP(1));
  require_addable(filter, item);
  const Digest digest = hash_item(filter.settings().normalization, item);
  // Before the look at the bits. An item whose bits are all set has to be in the journal too: they
  // may be the bits of names that leave with the rebuild.
  write_journal(filter, {&digest, 1});
  const Probe probe = probe_of(filter, digest, 0);
  const int64 added = add_to_chunk(filter, {&probe, 1});
  const bool is_new =
      added > 0 && knows_new_names(filter, added, keeps_key(filter, item), PG_GET_COLLATION());
  finish_add(filter, added);
  end_adds(counts, 1, is_new);
  close_filter(filter);
  PG_RETURN_BOOL(is_new);
}

// bloom_add_many(filter regclass, items text[]) -> bigint: how many items were definitely new.
// Chunks are taken in ascending order, so that two calls cannot deadlock, and each row is written
// at most once. Nulls are skipped. Null for a null array.
PG_FUNCTION_INFO_V1(bloom_add_many);
PGDLLEXPORT Datum bloom_add_many(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_for_add(fcinfo, "bloom_add_many()");
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  PendingCounts *counts = filter.begin_counted();
  Datum *items;
  bool *nulls;
  const int count = deconstruct_texts(PG_GETARG_ARRAYTYPE_P(1), "items", &items, &nulls);
  bool keys_kept = true;
  const std::span<Probe> probes = probe_items(
      filter, items, nulls, count,
      [&](std::string_view item) {
        require_addable(filter, item);
        keys_kept = keys_kept && keeps_key(filter, item);
        return true;
      },
      [&](std::span<const Digest> digests) { write_journal(filter, digests); });
  int64 added = 0;
  visit_by_chunk(filter, probes,
                 [&](std::span<const Probe> in_chunk) { added += add_to_chunk(filter, in_chunk); });
  const bool known = knows_new_names(filter, added, keys_kept, PG_GET_COLLATION());
  finish_add(filter, added);
  end_adds(counts, probes.size(), known ? static_cast<uint64>(added) : 0);
  close_filter(filter);
  PG_RETURN_INT64(known ? added : 0);
}

}  // extern "C"

}  // namespace bloomfilter
