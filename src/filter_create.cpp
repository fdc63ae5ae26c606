// bloom_create makes a new filter table, empty or loaded from a source, in the caller's
// transaction.
#include "pg.hpp"

#include "arguments.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_insert.hpp"
#include "comparison.hpp"
#include "filter_command.hpp"
#include "filter_ddl.hpp"
#include "item_key.hpp"
#include "progress.hpp"
#include "source_query.hpp"

namespace bloomfilter {
namespace {

// The capacity; raises 22004 if it is null. There is no default: a guess would be wrong for most,
// and a filter that is too small answers maybe too often.
float8 capacity_argument(FunctionCallInfo fcinfo, int argument, const char *function) {
  if (PG_ARGISNULL(argument))
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("argument \"capacity\" of function %s must not be null", function),
                    errhint("Capacity is the number of items that the filter is meant to hold.")));
  return PG_GETARG_FLOAT8(argument);
}

// The number of chunks: as given, or computed from capacity and fp_rate. Only a computed number is
// limited to 16 GB on disk (54000), since a capacity may have a zero too many. A caller who gives
// the number has decided on the size. Raises 22023 for less than 128.
int32 table_chunks_argument(FunctionCallInfo fcinfo, int argument, float8 capacity,
                            float8 fp_rate) {
  if (PG_ARGISNULL(argument)) {
    const int32 chunks = table_chunks(capacity, fp_rate);
    const float8 bytes = table_bytes_on_disk(chunks);
    if (bytes > kMaxUnaskedBytes)
      ereport(
          ERROR,
          (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
           errmsg(
               "a Bloom filter for %.0f items at a false-positive rate of %g takes %.0f GB on disk",
               capacity, fp_rate, bytes / 1e9),
           errhint("If you want a filter of that size, pass chunks => %d.", chunks)));
    return chunks;
  }
  const int32 chunks = PG_GETARG_INT32(argument);
  if (chunks < kMinTableChunks)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("chunks must be at least %d, not %d", kMinTableChunks, chunks),
                    errhint("With fewer chunks, adds wait for each other.  Without this argument, "
                            "the number is computed from capacity and fp_rate.")));
  return chunks;
}

// Makes the empty table where CREATE TABLE would: in the schema that the name says, else in the
// first one of the search path. The caller owns it and needs CREATE on the schema. A temporary
// table is refused, as no other session would see its names.
Oid create_table(const char *name) {
  RangeVar *range = makeRangeVarFromNameList(compat_qualified_name_list(name));
  const Oid schema = RangeVarGetCreationNamespace(range);
  if (isTempNamespace(schema))
    ereport(ERROR, (errcode(ERRCODE_INVALID_TABLE_DEFINITION),
                    errmsg("a Bloom filter cannot be temporary")));
  return make_chunk_table(schema, range->relname, "");
}

// Runs the source once and writes all rows of a new table from what it yields. Returns about how
// many different items there are. The spool goes with the transaction if there is an error.
float8 load_source(Relation relation, const char *source, SourceRows rows, Oid caller, int32 chunks,
                   Normalization normalization) {
  SourceSpool *spool = open_spool(normalization, chunks, false);
  read_source(source, caller, rows, chunks, RelationGetRelationName(relation), spool);
  enter_step(Step::kWriting, chunks);
  const float8 items = write_spooled_rows(relation, spool, chunks);
  close_spool(spool);
  return items;
}

// Says what a user may not expect: a filter that does not deny yet, a source without names, more
// names than planned. Only notices and a warning: in all these cases the filter is correct.
void notice_outcome(const char *name, const Settings &settings, bool loaded) {
  notice_ascii_only(settings.normalization, name);
  if (settings.state == State::kLoading)
    ereport(NOTICE,
            (errmsg("Bloom filter \"%s\" is not ready: every check answers maybe", name),
             errhint("Let sign-ups call bloom_add, then load the existing names with "
                     "bloom_rebuild.  Or add them with bloom_add_many and call bloom_resume.  By "
                     "calling bloom_resume you confirm that every name has been added.")));
  else if (loaded && settings.items_at_build == 0)
    ereport(NOTICE, (errmsg("the source of Bloom filter \"%s\" returned no names", name)));
  if (settings.items_at_build > settings.capacity)
    ereport(WARNING, (errmsg("Bloom filter \"%s\" holds about %.0f items, more than its capacity "
                             "of %.0f",
                             name, settings.items_at_build, settings.capacity)));
}

}  // namespace

extern "C" {

// bloom_create(filter text, capacity float8, fp_rate float8, normalization text, source text,
// ready boolean, chunks int) -> regclass: makes a filter table. With a source it is loaded and
// ready. Without one it is not ready, and every check answers maybe, unless `ready` says that there
// are no names yet.
//
// The server has a function bloom_create in C. The server's compiler of queries would inline that
// one in the place of ours, and crash.
PG_FUNCTION_INFO_V1(bloom_create_filter);
PGDLLEXPORT Datum bloom_create_filter(PG_FUNCTION_ARGS) {
  PreventCommandIfReadOnly("bloom_create()");
  const char *name = text_argument(fcinfo, 0, "filter");
  const float8 capacity = capacity_argument(fcinfo, 1, "bloom_create");
  const float8 fp_rate = PG_ARGISNULL(2) ? kDefaultFpRate : PG_GETARG_FLOAT8(2);
  require_size_arguments(capacity, fp_rate);
  const Normalization normalization =
      normalization_named(text_argument(fcinfo, 3, "normalization"));
  const char *source = PG_ARGISNULL(4) ? nullptr : text_argument(fcinfo, 4, "source");
  const bool ready = source != nullptr || (!PG_ARGISNULL(5) && PG_GETARG_BOOL(5));
  const int32 chunks = table_chunks_argument(fcinfo, 6, capacity, fp_rate);

  const Oid caller = fcinfo->flinfo->fn_oid;
  // All arguments are checked by now. A source may take minutes, so its form is checked before the
  // table is made.
  SPI_connect();
  SourceForm form{};
  if (source != nullptr) form = require_source(source, caller);
  const Oid relid = create_table(name);
  // Rows first, then the primary key, then the guards. An index that is built once costs less than
  // an entry per row. The guards make the table a filter, and nobody sees it before the commit.
  Relation relation = table_open(relid, AccessExclusiveLock);
  begin_progress(LongCommand::kCreate, relid, RelationGetRelationName(relation),
                 source == nullptr ? Step::kWriting : Step::kOpening, chunks);
  Settings settings = new_settings(relid, chunks, normalization, capacity, fp_rate);
  settings.state = ready ? State::kReady : State::kLoading;
  if (source == nullptr)
    write_rows(relation, {nullptr, 0, chunks});
  else
    settings.items_at_build =
        load_source(relation, source, form.rows, caller, chunks, normalization);
  table_close(relation, NoLock);
  enter_step(Step::kIndexing, 0);
  execute_sql(psprintf("alter table %s add primary key (chunk)", qualified_name(relid)));
  store_settings(relid, settings, caller);
  comment_on_filter(relid);
  end_progress();
  SPI_finish();
  notice_outcome(get_rel_name(relid), settings, source != nullptr);
  if (source != nullptr && form.rows == SourceRows::kNames)
    warn_of_column(form.type, form.collation, normalization, get_rel_name(relid));
  PG_RETURN_OID(relid);
}

}  // extern "C"

}  // namespace bloomfilter
