// What a rebuild refuses. Each check raises an error that says what to do; none of them changes
// anything.
#include "pg.hpp"

#include <cmath>

#include "filter_ddl.hpp"
#include "rebuild_check.hpp"

namespace bloomfilter {
namespace {

// Whether the query yields a row. Not as a read-only query: that would take the snapshot of a
// transaction that began before the shadow was written, and miss a publication made since.
bool query_has_rows(const char *query) {
  const int result = SPI_execute(query, false, 1);
  if (result != SPI_OK_SELECT) elog(ERROR, "SPI_execute: %s", SPI_result_code_string(result));
  return SPI_processed > 0;
}

}  // namespace

// A procedure that is called from a function or inside a transaction block gets an atomic context,
// and SPI_commit would raise an error in the middle of the work.
void require_top_level(FunctionCallInfo fcinfo, const char *function) {
  PreventCommandDuringRecovery(function);
  const Node *context = fcinfo->context;
  if (context == nullptr || !IsA(context, CallContext) ||
      reinterpret_cast<const CallContext *>(context)->atomic)
    ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                    errmsg("%s cannot run inside a transaction block", function),
                    errdetail("The procedure commits several times."),
                    errhint("Call it as a single statement, outside a transaction block and "
                            "outside a function.")));
}

// The catalogs are asked anew before the swap, since a publication may be created while the source
// is read. Every name is qualified: the caller chooses the search path.
void refuse_replicated(const Rebuild &rebuild) {
  if (query_has_rows(psprintf("select from pg_catalog.pg_publication where puballtables union all "
                              "select from pg_catalog.pg_publication_rel "
                              "where prrelid operator(pg_catalog.=) %u::pg_catalog.oid union all "
                              "select from pg_catalog.pg_publication_namespace "
                              "where pnnspid operator(pg_catalog.=) %u::pg_catalog.oid",
                              rebuild.relid, get_rel_namespace(rebuild.relid))))
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("cannot rebuild Bloom filter \"%s\" because it is published", rebuild.name),
             errdetail("Subscribers would not receive the exchange of files."),
             errhint("Drop it from the publication, rebuild it and the filters of its "
                     "subscribers, and add it to the publication again.")));
  if (is_subscribed(rebuild.relid))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot rebuild Bloom filter \"%s\" because a subscription writes to it",
                           rebuild.name),
                    errdetail("Changes from the publisher would go to the wrong chunks."),
                    errhint("Drop it from the subscription first.  To keep two filters equal, "
                            "replicate names instead of chunks.")));
}

// A filter that is not ready or suspended by hand may grow: what it lacks now, it lacks afterwards,
// and its state says so. One that was restored or whose normalization has changed may not, because
// growing would hide that.
void require_growable(const OpenFilter &filter) {
  if (filter.table->agreement == Agreement::kFull && !filter.settings().canary_lost &&
      (filter.settings().state != State::kReady || suspension_reason(*filter.table) == nullptr))
    return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot grow Bloom filter \"%s\"", filter.name()),
                  suspension_reason(*filter.table) != nullptr
                      ? errdetail("Its status is \"%s\".", suspension_reason(*filter.table))
                      : errdetail("Its normalization differs from that of this server."),
                  errhint("Rebuild the filter with bloom_rebuild.")));
}

// A lost shard of sixteen leaves 93.75 % of the names, so the default share of 0.97 refuses it. The
// old count is estimated from bits too, so that both figures have the same kind of error.
void require_enough(const Rebuild &rebuild, float8 items) {
  if (rebuild.min_share == 0) return;
  if (rebuild.rows > 0 && items >= rebuild.min_share * rebuild.old_items) return;
  if (rebuild.rows == 0) items = 0;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("the source of Bloom filter \"%s\" returns too few names", rebuild.name),
                  errdetail("It returns about %.0f names, and the filter holds about %.0f.  The "
                            "filter was not changed.",
                            items, rebuild.old_items),
                  errhint("If so many users have left, pass min_share => %.2f.",
                          rebuild.old_items > 0 ? std::floor(100 * items / rebuild.old_items) / 100
                                                : 0.0)));
}

}  // namespace bloomfilter
