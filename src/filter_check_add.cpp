// Check and add on filter tables: bloom_might_contain, bloom_add, and the same two for arrays.
// These are the two calls of a sign-up.
#include "pg.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>

#include "arguments.hpp"
#include "bloomfilter/chunk.hpp"
#include "bloomfilter/layout.hpp"
#include "chunk_update.hpp"
#include "filter_check_add.hpp"
#include "filter_table.hpp"
#include "item_key.hpp"
#include "rebuild_journal.hpp"

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

// Raises 55000 if the item has another key today than when the filter was built. Its bits would go
// to a place where no check looks once the server is as before. A filter whose canary is lost takes
// such items, because it can never be resumed.
void require_addable(const OpenFilter &filter, std::string_view item) {
  const Agreement agreement = filter.table->agreement;
  if (likely(agreement == Agreement::kFull) || filter.settings().canary_lost) return;
  if (agreement == Agreement::kAsciiOnly && is_ascii(item)) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot add \"%s\" to Bloom filter \"%s\"", item_for_message(item),
                         filter.name()),
                  errdetail("Normalization \"%s\" has changed since the filter was built.",
                            normalization_name(filter.settings().normalization)),
                  errhint("Call bloom_suspend, so that every check answers maybe.  Then rebuild "
                          "the filter with bloom_rebuild.")));
}

// Where one item is looked up: its chunk, the positions of its bits in the chunk, and its index in
// a batch.
struct Probe {
  int32 chunk;
  int32 ordinal;
  Positions positions;
};

// The probe of a digest, or of an item. `ordinal` is the index in a batch.
Probe probe_of(const OpenFilter &filter, const Digest &digest, int32 ordinal) {
  return {chunk_of(digest, filter.settings().chunks), ordinal, positions_of(digest)};
}

Probe probe_of(const OpenFilter &filter, std::string_view item) {
  return probe_of(filter, hash_item(filter.settings().normalization, item), 0);
}

// Memory for `count` probes, also for more than 1 GB of them. It is freed with the current context.
std::span<Probe> allocate_probes(size_t count) {
  return {static_cast<Probe *>(palloc_extended(sizeof(Probe) * Max(count, 1), MCXT_ALLOC_HUGE)),
          count};
}

// The probes of those array elements that are not null and for which `wanted` is true, in the order
// of the array. Calls hashed(digests) for each batch, before any bit is read or set.
template <typename Wanted, typename Hashed>
std::span<Probe> probe_items(const OpenFilter &filter, const Datum *items, const bool *nulls,
                             int count, Wanted wanted, Hashed hashed) {
  // hash_items hashes eight items at a time. A batch of 64 also makes one write to a journal.
  constexpr size_t kBatch = 64;
  std::array<std::string_view, kBatch> batch;
  std::array<int32, kBatch> ordinals;
  std::array<Digest, kBatch> digests;
  size_t pending = 0, probed = 0;
  const std::span<Probe> probes = allocate_probes(static_cast<size_t>(count));
  const auto flush = [&] {
    CHECK_FOR_INTERRUPTS();
    hash_items(filter.settings().normalization, {batch.data(), pending}, digests.data());
    hashed(std::span<const Digest>(digests.data(), pending));
    for (size_t i = 0; i < pending; ++i)
      probes[probed++] = probe_of(filter, digests[i], ordinals[i]);
    pending = 0;
  };
  for (int i = 0; i < count; ++i) {
    if (nulls[i]) continue;
    const std::string_view item = text_view(DatumGetTextPP(items[i]));
    if (!wanted(item)) continue;
    batch[pending] = item;
    ordinals[pending++] = i;
    if (pending == kBatch) flush();
  }
  flush();
  return probes.first(probed);
}

// The probes ordered by chunk. Those of one chunk keep their order. A radix sort, because it takes
// 60 ns an item where std::sort takes 177 (a million items, 131072 chunks). The memory of `probes`
// is used up.
std::span<Probe> sort_by_chunk(std::span<Probe> probes, int32 chunks) {
  if (probes.size() < 2) return probes;
  constexpr int kDigitBits = 9;
  constexpr size_t kDigits = 1 << kDigitBits;
  std::span<Probe> from = probes, to = allocate_probes(probes.size());
  for (int shift = 0; shift < 31 && (chunks - 1) >> shift != 0; shift += kDigitBits) {
    const auto digit = [&](const Probe &item) -> size_t {
      return static_cast<size_t>(item.chunk >> shift) % kDigits;
    };
    CHECK_FOR_INTERRUPTS();
    std::array<size_t, kDigits + 1> starts{};
    for (const Probe &item : from) ++starts[digit(item) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    for (const Probe &item : from) to[starts[digit(item)]++] = item;
    std::swap(from, to);
  }
  pfree(to.data());
  return from;
}

// Calls visit(items of one chunk) for each chunk, in ascending order. So each row is found once,
// pages are read in order, and two batches of adds cannot deadlock. In order of arrival they did:
// 19 deadlocks and 8 commits in 15 s, against 4,168 commits in this order (16 clients, 500 names a
// transaction).
template <typename Visit>
void visit_by_chunk(const OpenFilter &filter, std::span<Probe> probes, Visit visit) {
  const std::span<Probe> sorted = sort_by_chunk(probes, filter.settings().chunks);
  for (auto first = sorted.begin(); first != sorted.end();) {
    CHECK_FOR_INTERRUPTS();
    const auto last = std::find_if(first, sorted.end(),
                                   [&](const Probe &item) { return item.chunk != first->chunk; });
    visit(std::span<const Probe>(first, last));
    first = last;
  }
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

// The answer for one item. A filter that may not deny is not read at all.
bool might_contain(const OpenFilter &filter, std::string_view item) {
  if (!may_deny(filter, item)) return true;
  const Probe probe = probe_of(filter, item);
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
  for (size_t i = 0; i < probed; ++i)
    check_in_chunk(filter_of(i), {&probes[i], 1}, Access::kReadOfMany,
                   [&](const Probe &probe, bool maybe) { maybes[probe.ordinal] = maybe; });
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

// Whether a bit that was missing means that its name was missing. It does not while the filter may
// lack names. Tells that once in a session when something was added: a user who loads names would
// take the result 0 for a mistake.
bool knows_new_names(const OpenFilter &filter, int64 added) {
  const char *reason = suspension_reason(*filter.table);
  if (likely(reason == nullptr)) return true;
  if (added > 0 && !filter.table->told_new_names) {
    filter.table->told_new_names = true;
    ereport(NOTICE, (errmsg("new names of Bloom filter \"%s\" are not counted", filter.name()),
                     errdetail("Its status is \"%s\".  The filter may lack names, so a missing bit "
                               "does not prove that a name is new.",
                               reason)));
  }
  return false;
}

}  // namespace

Digest digest_to_add(const OpenFilter &filter, std::string_view item) {
  require_addable(filter, item);
  return hash_item(filter.settings().normalization, item);
}

void add_digests(const OpenFilter &filter, std::span<const Digest> digests) {
  write_journal(filter, digests);
  const std::span<Probe> probes = allocate_probes(digests.size());
  for (size_t i = 0; i < digests.size(); ++i) probes[i] = probe_of(filter, digests[i], 0);
  int64 added = 0;
  visit_by_chunk(filter, probes,
                 [&](std::span<const Probe> in_chunk) { added += add_to_chunk(filter, in_chunk); });
  finish_add(filter, added);
}

extern "C" {

// bloom_might_contain(filter regclass, item text) -> boolean: false means definitely not. Null for
// a null item. It needs SELECT, and works on a standby. A filter that is missing or damaged is an
// error.
PG_FUNCTION_INFO_V1(bloom_might_contain);
PGDLLEXPORT Datum bloom_might_contain(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock, ACL_SELECT);
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  const bool maybe = might_contain(filter, text_view(PG_GETARG_TEXT_PP(1)));
  close_filter(filter);
  PG_RETURN_BOOL(maybe);
}

// bloom_might_contain_many(filter regclass, items text[]) -> boolean[]: the answers have the order,
// bounds and length of the items; null for null. It takes 0.35 us an item, and one check in a query
// 1.43 us (bench/RESULTS.md): items of one chunk share the look-up of their row.
PG_FUNCTION_INFO_V1(bloom_might_contain_many);
PGDLLEXPORT Datum bloom_might_contain_many(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock, ACL_SELECT);
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  ArrayType *array = PG_GETARG_ARRAYTYPE_P(1);
  Datum *items;
  bool *nulls;
  int count = deconstruct_texts(array, &items, &nulls);
  const std::span<Probe> probes = probe_items(
      filter, items, nulls, count, [&](std::string_view item) { return may_deny(filter, item); },
      [](std::span<const Digest>) {});
  // The answer for an item that is not looked up, because the filter may not deny it.
  std::fill_n(items, count, BoolGetDatum(true));
  visit_by_chunk(filter, probes, [&](std::span<const Probe> in_chunk) {
    check_in_chunk(filter, in_chunk, Access::kRead, [&](const Probe &item, bool maybe) {
      items[item.ordinal] = BoolGetDatum(maybe);
    });
  });
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
  if (!PG_ARGISNULL(1)) find_maybes(filters, text_view(PG_GETARG_TEXT_PP(1)), maybes);
  for (const OpenFilter &filter : filters) close_filter(filter);
  if (PG_ARGISNULL(1)) PG_RETURN_NULL();
  auto *answer = static_cast<Datum *>(palloc(sizeof(Datum) * size));
  int count = 0;
  for (size_t i = 0; i < size; ++i)
    if (maybes[i]) answer[count++] = ObjectIdGetDatum(relids[i]);
  PG_RETURN_ARRAYTYPE_P(
      construct_array(answer, count, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT));
}

// bloom_add(filter regclass, item text) -> boolean: true means that the item was definitely new.
// Null for a null item. It needs SELECT and INSERT, not UPDATE: who may add can never clear a bit.
PG_FUNCTION_INFO_V1(bloom_add);
PGDLLEXPORT Datum bloom_add(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_for_add(fcinfo, "bloom_add()");
  if (PG_ARGISNULL(1)) {
    close_filter(filter);
    PG_RETURN_NULL();
  }
  const std::string_view item = text_view(PG_GETARG_TEXT_PP(1));
  require_addable(filter, item);
  const Digest digest = hash_item(filter.settings().normalization, item);
  // Before the look at the bits. An item whose bits are all set has to be in the journal too: they
  // may be the bits of names that leave with the rebuild.
  write_journal(filter, {&digest, 1});
  const Probe probe = probe_of(filter, digest, 0);
  const int64 added = add_to_chunk(filter, {&probe, 1});
  const bool is_new = knows_new_names(filter, added) && added > 0;
  finish_add(filter, added);
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
  Datum *items;
  bool *nulls;
  const int count = deconstruct_texts(PG_GETARG_ARRAYTYPE_P(1), &items, &nulls);
  const std::span<Probe> probes = probe_items(
      filter, items, nulls, count,
      [&](std::string_view item) {
        require_addable(filter, item);
        return true;
      },
      [&](std::span<const Digest> digests) { write_journal(filter, digests); });
  int64 added = 0;
  visit_by_chunk(filter, probes,
                 [&](std::span<const Probe> in_chunk) { added += add_to_chunk(filter, in_chunk); });
  const bool known = knows_new_names(filter, added);
  finish_add(filter, added);
  close_filter(filter);
  PG_RETURN_INT64(known ? added : 0);
}

}  // extern "C"

}  // namespace bloomfilter
