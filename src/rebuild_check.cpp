// The checks that stop a rebuild with an error. All of them run before anything is exchanged.
#include "pg.hpp"

#include <cmath>

#include "filter_ddl.hpp"
#include "rebuild_check.hpp"

namespace bloomfilter {
namespace {

// Whether the query yields a row. Inside an SPI connection.
bool query_has_rows(const char *query) {
  const int result = SPI_execute(query, true, 1);
  if (result != SPI_OK_SELECT) elog(ERROR, "SPI_execute: %s", SPI_result_code_string(result));
  return SPI_processed > 0;
}

}  // namespace

void require_top_level(FunctionCallInfo fcinfo, const char *function) {
  PreventCommandDuringRecovery(function);
  // A procedure may commit only if CALL says that its context is not atomic. The check comes first,
  // so that a call in a transaction block fails at once and not after minutes, at the first commit.
  const Node *context = fcinfo->context;
  if (context == nullptr || !IsA(context, CallContext) ||
      reinterpret_cast<const CallContext *>(context)->atomic)
    ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                    errmsg("%s cannot run inside a transaction block", function),
                    errdetail("It commits several times."),
                    errhint("Call it alone, outside a transaction block and a function.")));
}

void refuse_replicated(const Rebuild &rebuild) {
  // Names and operators are qualified, because a procedure that commits cannot have its own
  // search_path. A publication of all tables or of the schema counts too. An exchange of files is
  // not a change of rows, so a publisher sends nothing for it.
  if (query_has_rows(psprintf("select from pg_catalog.pg_publication where puballtables union all "
                              "select from pg_catalog.pg_publication_rel "
                              "where prrelid operator(pg_catalog.=) %u::pg_catalog.oid union all "
                              "select from pg_catalog.pg_publication_namespace "
                              "where pnnspid operator(pg_catalog.=) %u::pg_catalog.oid",
                              rebuild.relid, get_rel_namespace(rebuild.relid))))
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("Bloom filter \"%s\" is published", rebuild.name),
             errdetail("Subscribers would not learn of the exchange."),
             errhint("Take it out of the publication, rebuild it and its subscribers' filters, and "
                     "publish it again.")));
  // The publisher sends rows by chunk number. After a rebuild the same number may stand for other
  // names.
  if (is_subscribed(rebuild.relid))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("Bloom filter \"%s\" is a subscriber's", rebuild.name),
                    errdetail("What its publisher sends would go into the wrong chunks."),
                    errhint("Take it out of the subscription first. To keep two filters alike, "
                            "replicate names instead of chunks.")));
}

void require_growable(const OpenFilter &filter) {
  // A filter that is not ready, or that was suspended by hand, may grow: it stays so. A filter that
  // its origin suspends (another server, a copy, a failover) may not, because its bits may lack
  // adds and a larger copy of them would lack the same.
  if (filter.table->agreement == Agreement::kFull && !filter.settings().canary_lost &&
      (filter.settings().state != State::kReady || suspension_reason(*filter.table) == nullptr))
    return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot grow Bloom filter \"%s\"", filter.name()),
                  errdetail("It is %s.", suspension_reason(*filter.table) != nullptr
                                             ? suspension_reason(*filter.table)
                                             : "of another normalization than this server's"),
                  errhint("Rebuild it from its source.")));
}

void require_enough(const Rebuild &rebuild, float8 items) {
  // bloom_grow, or a caller who expects a small or empty source.
  if (rebuild.min_share == 0) return;
  if (rebuild.rows > 0 && items >= rebuild.min_share * rebuild.old_items) return;
  // The items may be names that were added meanwhile. An empty source yields none of them.
  if (rebuild.rows == 0) items = 0;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("the source of Bloom filter \"%s\" yields too few names", rebuild.name),
                  errdetail("It yields about %.0f names; the filter holds about %.0f. Nothing was "
                            "exchanged.",
                            items, rebuild.old_items),
                  errhint("Where so many have left, say min_share => %.2f.",
                          rebuild.old_items > 0 ? std::floor(100 * items / rebuild.old_items) / 100
                                                : 0.0)));
}

}  // namespace bloomfilter
