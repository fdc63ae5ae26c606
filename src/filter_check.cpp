// Checks of filter tables: bloom_might_contain, the same for an array of items, and for several
// filters.
#include "pg.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "arguments.hpp"
#include "bloomfilter/chunk.hpp"
#include "bloomfilter/layout.hpp"
#include "comparison.hpp"
#include "filter_probe.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"

namespace bloomfilter {
namespace {

// Tells once in a session why no check of this filter denies. Not at every check: a sign-up form
// checks at every keystroke.
void notice_suspended(const OpenFilter &filter, const char *reason) {
  if (filter.table->told_suspended) return;
  filter.table->told_suspended = true;
  ereport(NOTICE, (errmsg("checks of Bloom filter \"%s\" answer maybe", filter.name()),
                   errdetail("Its status is \"%s\".", reason),
                   errhint("Rebuild the filter with bloom_rebuild, or call bloom_resume.  By "
                           "calling bloom_resume you confirm that every name has been added.")));
}

// Warns once in a session that the server's normalization is not the filter's any more.
void warn_of_normalization(const OpenFilter &filter) {
  if (filter.table->told_normalization) return;
  filter.table->told_normalization = true;
  const Settings &settings = filter.settings();
  ereport(WARNING,
          (errmsg("normalization \"%s\" has changed since Bloom filter \"%s\" was built",
                  normalization_name(settings.normalization), filter.name()),
           filter.table->agreement == Agreement::kNone
               ? errdetail("The filter was built with \"%s\", and this server has \"%s\".  "
                           "Every check answers maybe.",
                           settings.stamp, server_stamp(settings.normalization))
               : errdetail("The filter was built with \"%s\", and this server has \"%s\".  "
                           "Checks of names with non-ASCII characters answer maybe.",
                           settings.stamp, server_stamp(settings.normalization)),
           errhint("Rebuild the filter with bloom_rebuild.")));
}

// Whether a check of this item may answer "definitely not". Two things have to hold: every name
// that was added is in the filter, and the item has the same key today as when the names were
// added.
bool may_deny(const OpenFilter &filter, std::string_view item) {
  if (const char *reason = suspension_reason(*filter.table)) {
    notice_suspended(filter, reason);
    return false;
  }
  const Agreement agreement = filter.table->agreement;
  if (likely(agreement == Agreement::kFull)) return true;
  if (agreement == Agreement::kAsciiOnly && is_ascii(item)) return true;
  warn_of_normalization(filter);
  return false;
}

// Calls answer(item, maybe) for each item. All items are of one chunk. Raises XX001 if the chunk is
// missing or damaged, because "no bits" must never read as "definitely not".
template <typename Answer>
void check_in_chunk(const OpenFilter &filter, std::span<const Probe> items, Access access,
                    Answer answer) {
  ChunkRow row =
      require_chunk(filter, items.front().chunk,
                    access == Access::kRead ? &items.front().positions : nullptr, access);
  const ChunkView bits = stored_chunk(filter, &row);
  for (const Probe &item : items) answer(item, chunk_contains(bits, item.positions));
  // Not by a destructor: an error above is a longjmp, which runs none. The abort releases the pin
  // then.
  row.release();
}

// A digest that was made before the filter was locked, and the normalization that it was made with.
struct EarlyDigest {
  bool known;
  Normalization normalization;
  Digest digest;
};

// Hashes the item and lets the processor fetch its row, so that the row arrives while the filter is
// locked and opened. It goes by what the filter was at its last use in this backend. Nothing if
// that is not known, or if the item takes more than a short hash.
EarlyDigest hash_early(Oid relid, std::string_view item) {
  const FilterTable *table = peek_filter(relid);
  if (table == nullptr) return {};
  const Normalization normalization = table->settings.normalization;
  md5::Block block;
  if (write_short_key(normalization, item, md5::kMaxKeyBytes, block) == kNoShortKey) return {};
  const Digest digest = md5::digest(block);
  fetch_ahead_as_loaded(table->rows, chunk_of(digest, table->settings.chunks),
                        positions_of(digest));
  return {true, normalization, digest};
}

// The answer for one item. A filter that may not deny is not read at all. An early digest counts
// only if the filter still has the normalization that it was made with.
bool might_contain(const OpenFilter &filter, std::string_view item, const EarlyDigest &early) {
  if (!may_deny(filter, item)) return true;
  const Probe probe = early.known && early.normalization == filter.settings().normalization
                          ? probe_of(filter, early.digest, 0)
                          : probe_of(filter, item);
  bool answer = true;
  check_in_chunk(filter, {&probe, 1}, Access::kRead,
                 [&](const Probe &, bool maybe) { answer = maybe; });
  return answer;
}

// Sets which of the filters may hold the item. It is hashed once for each normalization. A look-up
// mostly waits for memory, three times in turn. So all filters wait together: first for their
// pages, then for their rows.
void find_maybes(std::span<const OpenFilter> filters, std::string_view item, bool *maybes) {
  std::array<std::optional<Digest>, kLastNormalization + 1> digests;
  std::array<Positions, kLastNormalization + 1> positions;
  const std::span<Probe> probes = allocate_probes(filters.size());
  auto *rows = static_cast<ExpectedRow *>(palloc(sizeof(ExpectedRow) * filters.size()));
  size_t probed = 0;
  for (size_t i = 0; i < filters.size(); ++i) {
    const Settings &settings = filters[i].settings();
    maybes[i] = !may_deny(filters[i], item);
    if (maybes[i]) continue;
    const auto kind = static_cast<size_t>(settings.normalization);
    if (!digests[kind]) {
      digests[kind] = hash_item(settings.normalization, item);
      positions[kind] = positions_of(*digests[kind]);
    }
    probes[probed++] = {chunk_of(*digests[kind], settings.chunks), static_cast<int32>(i),
                        positions[kind]};
  }
  const auto filter_of = [&](size_t probe) -> const OpenFilter & {
    return filters[static_cast<size_t>(probes[probe].ordinal)];
  };
  for (size_t i = 0; i < probed; ++i)
    rows[i] = fetch_page_ahead(filter_of(i).table->rows, probes[i].chunk);
  for (size_t i = 0; i < probed; ++i) fetch_row_ahead(rows[i], probes[i].positions);
  for (size_t i = 0; i < probed; ++i) {
    CHECK_FOR_INTERRUPTS();
    check_in_chunk(filter_of(i), {&probes[i], 1}, Access::kReadOfMany,
                   [&](const Probe &probe, bool maybe) { maybes[probe.ordinal] = maybe; });
  }
}

}  // namespace

extern "C" {

// bloom_might_contain(filter regclass, item text) -> boolean: false means definitely not. Null for
// a null item. It needs SELECT, and works on a standby. A filter that is missing or damaged is an
// error.
PG_FUNCTION_INFO_V1(bloom_might_contain);
PGDLLEXPORT Datum bloom_might_contain(PG_FUNCTION_ARGS) {
  const Oid relid = filter_argument(fcinfo);
  std::string_view item;
  EarlyDigest early{};
  if (!PG_ARGISNULL(1)) {
    item = text_view(PG_GETARG_TEXT_PP(1));
    early = hash_early(relid, item);
  }
  const OpenFilter filter = open_filter(relid, AccessShareLock, ACL_SELECT);
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  PendingCounts *counts = filter.begin_counted();
  const bool maybe = must_be_maybe(PG_GET_COLLATION()) || might_contain(filter, item, early);
  end_checks(counts, 1, maybe);
  close_filter(filter);
  PG_RETURN_BOOL(maybe);
}

// bloom_might_contain_many(filter regclass, items text[]) -> boolean[]: the answers have the order,
// bounds and length of the items; null for null. An item takes a third of the time of a check in a
// query (bench/RESULTS.md): names are hashed eight at a time, and items of one chunk share the
// look-up of their row.
PG_FUNCTION_INFO_V1(bloom_might_contain_many);
PGDLLEXPORT Datum bloom_might_contain_many(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock, ACL_SELECT);
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  PendingCounts *counts = filter.begin_counted();
  ArrayType *array = PG_GETARG_ARRAYTYPE_P(1);
  Datum *items;
  bool *nulls;
  int count = deconstruct_texts(array, "items", &items, &nulls);
  const bool loose = must_be_maybe(PG_GET_COLLATION());
  const std::span<Probe> probes = probe_items(
      filter, items, nulls, count,
      [&](std::string_view item) { return !loose && may_deny(filter, item); },
      [](std::span<const Digest>) {});
  // The answer for an item that is not looked up, because the filter may not deny it.
  std::fill_n(items, count, BoolGetDatum(true));
  visit_by_chunk(filter, probes, [&](std::span<const Probe> in_chunk) {
    check_in_chunk(filter, in_chunk, Access::kRead, [&](const Probe &item, bool maybe) {
      items[item.ordinal] = BoolGetDatum(maybe);
    });
  });
  uint64 lookups = 0, maybes = 0;
  for (int i = 0; i < count; ++i) {
    lookups += !nulls[i];
    maybes += !nulls[i] && DatumGetBool(items[i]);
  }
  end_checks(counts, lookups, maybes);
  close_filter(filter);
  if (count == 0) PG_RETURN_ARRAYTYPE_P(construct_empty_array(BOOLOID));
  PG_RETURN_ARRAYTYPE_P(construct_md_array(items, nulls, 1, &count, ARR_LBOUND(array), BOOLOID, 1,
                                           true, TYPALIGN_CHAR));
}

// bloom_might_contain_any(filters regclass[], item text) -> regclass[]: which filters may hold the
// item, in the order given; {} means definitely none. Null for a null item. Each filter is opened
// as bloom_might_contain opens it, so that one that is missing or damaged is an error, and one that
// may not deny is among the answers.
PG_FUNCTION_INFO_V1(bloom_might_contain_any);
PGDLLEXPORT Datum bloom_might_contain_any(PG_FUNCTION_ARGS) {
  const std::span<const Oid> relids = filters_argument(fcinfo);
  const size_t size = relids.size();
  const std::span<OpenFilter> filters = {
      static_cast<OpenFilter *>(palloc(sizeof(OpenFilter) * size)), size};
  open_filters(relids, ACL_SELECT, filters);
  auto *maybes = static_cast<bool *>(palloc(size));
  if (!PG_ARGISNULL(1)) {
    for (const OpenFilter &filter : filters) filter.begin_counted();
    if (must_be_maybe(PG_GET_COLLATION()))
      std::fill_n(maybes, size, true);
    else
      find_maybes(filters, text_view(PG_GETARG_TEXT_PP(1)), maybes);
    for (size_t i = 0; i < size; ++i) end_checks(&filters[i].table->pending, 1, maybes[i]);
  }
  for (const OpenFilter &filter : filters) {
    CHECK_FOR_INTERRUPTS();
    close_filter(filter);
  }
  if (PG_ARGISNULL(1)) PG_RETURN_NULL();
  auto *answer = static_cast<Datum *>(palloc(sizeof(Datum) * size));
  int count = 0;
  for (size_t i = 0; i < size; ++i)
    if (maybes[i]) answer[count++] = ObjectIdGetDatum(relids[i]);
  PG_RETURN_ARRAYTYPE_P(
      construct_array(answer, count, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT));
}

}  // extern "C"

}  // namespace bloomfilter
