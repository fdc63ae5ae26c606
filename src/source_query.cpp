// Runs the query that a filter is loaded from, and gives its rows to a spool as they come.
#include "pg.hpp"

#include <cstring>

#include "arguments.hpp"
#include "item_key.hpp"
#include "source_query.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// How the one column of a source becomes names or values.
struct Column {
  SourceRows rows;
  bool casts;  // to_text makes text of its type
  FmgrInfo to_text;
};

// Receives the rows of a source.
struct Receiver {
  DestReceiver receiver;  // first: the executor knows the receiver by it
  SourceSpool *spool;
  const char *filter;
  Oid value_type;
  SourceRows expected;
  Column column;
  int64 rows;
  MemoryContext row_context;
};

// The extension's type bloomfilter; `function` is any of its functions.
Oid value_type_of(Oid function) {
  return GetSysCacheOid2(TYPENAMENSP, static_cast<AttrNumber>(Anum_pg_type_oid),
                         CStringGetDatum("bloomfilter"),
                         ObjectIdGetDatum(get_func_namespace(function)));
}

// Raises 42804 where the rows are neither names nor values.
Column column_of(TupleDesc descriptor, Oid value_type) {
  if (descriptor->natts != 1)
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("source must return one column, not %d", descriptor->natts)));
  Column column{};
  const Oid type = TupleDescAttr(descriptor, 0)->atttypid;
  if (getBaseType(type) == value_type) {
    column.rows = SourceRows::kValues;
    return column;
  }
  Oid function = InvalidOid;
  const CoercionPathType path =
      type == TEXTOID ? COERCION_PATH_RELABELTYPE
                      : find_coercion_pathway(TEXTOID, type, COERCION_IMPLICIT, &function);
  // Of casts by function the server's own alone, of name and char(n): another's would be called
  // without asking whether the caller may.
  const bool by_server =
      path == COERCION_PATH_FUNC && function < FirstNormalObjectId && get_func_nargs(function) == 1;
  if (path != COERCION_PATH_RELABELTYPE && !by_server)
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("source returns type %s, not text", format_type_be(type)),
                    errhint("Cast the column to text.")));
  column.casts = by_server;
  if (column.casts) fmgr_info(function, &column.to_text);
  return column;
}

// The plan may have been made anew since require_source looked: a table of the source can change
// its column's type meanwhile.
void start_rows(DestReceiver *receiver, int, TupleDesc descriptor) {
  auto *source = reinterpret_cast<Receiver *>(receiver);
  source->column = column_of(descriptor, source->value_type);
  if (source->column.rows != source->expected)
    ereport(
        ERROR,
        (errcode(ERRCODE_DATATYPE_MISMATCH),
         errmsg("the source of Bloom filter \"%s\" returns another type than when the call began",
                source->filter),
         errhint("Call the procedure again.")));
}

// Each row is detoasted and cast in a context of its own that is reset after it, so that a billion
// rows take no more memory than one.
bool receive_row(TupleTableSlot *slot, DestReceiver *receiver) {
  auto *source = reinterpret_cast<Receiver *>(receiver);
  const bool values = source->column.rows == SourceRows::kValues;
  bool is_null;
  Datum datum = slot_getattr(slot, 1, &is_null);
  if (is_null) {
    // Of a name that nobody has nothing is missing; of a filter all its names are.
    if (values) null_filter();
    return true;
  }
  ++source->rows;
  MemoryContext caller = MemoryContextSwitchTo(source->row_context);
  if (source->column.casts) datum = FunctionCall1(&source->column.to_text, datum);
  if (values)
    spool_value(source->spool, view_value(datum), source->filter);
  else
    spool_name(source->spool, text_view(DatumGetTextPP(datum)));
  MemoryContextSwitchTo(caller);
  MemoryContextReset(source->row_context);
  return true;
}

void end_rows(DestReceiver *) {}

// The source as a plan of one query that yields rows, which may be run in parallel.
SPIPlanPtr prepare_source(const char *source) {
  SPIPlanPtr plan = SPI_prepare_cursor(source, 0, nullptr, CURSOR_OPT_PARALLEL_OK);
  if (plan == nullptr)
    elog(ERROR, "SPI_prepare_cursor failed: %s", SPI_result_code_string(SPI_result));
  if (!SPI_is_cursor_plan(plan))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("source must be one query that returns rows"),
                    errdetail("The source is: %s", source)));
  return plan;
}

// SPI_is_cursor_plan has seen to it that there is exactly one.
const CachedPlanSource *plan_source_of(SPIPlanPtr plan) {
  return static_cast<CachedPlanSource *>(linitial(SPI_plan_get_plan_sources(plan)));
}

// Raises 22023 where the statement itself writes or locks rows.
void require_reading(const CachedPlanSource *plan) {
  const ListCell *cell;
  foreach (cell, plan->query_list) {
    const auto *query = static_cast<const Query *>(lfirst(cell));
    if (query->commandType == CMD_SELECT && !query->hasModifyingCTE && query->rowMarks == NIL)
      continue;
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("source must be a read-only query"),
             errdetail("If the load fails, names that the query has removed elsewhere are lost."),
             errhint("For example: select username from users")));
  }
}

// So that an error of a table or function of the source says which filter was being loaded.
void add_error_context(void *filter) {
  errcontext("source of Bloom filter \"%s\"", static_cast<const char *>(filter));
}

// Runs the source to its end. Row-level security is an error rather than a filter: hidden rows
// would be missing names. An error leaves transaction and settings to whoever rolls back.
void run_source(const char *source, Receiver *receiver) {
  ErrorContextCallback context = {error_context_stack, add_error_context,
                                  const_cast<char *>(receiver->filter)};
  error_context_stack = &context;
  const int nesting = NewGUCNestLevel();
  set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                    false);
  SPIPlanPtr plan = prepare_source(source);
  require_reading(plan_source_of(plan));
  // Not the setting transaction_read_only, which PostgreSQL 16 and later do not save and restore.
  const bool read_only = XactReadOnly;
  XactReadOnly = true;
  SPIExecuteOptions options{};
  options.dest = &receiver->receiver;
  const int result = SPI_execute_plan_extended(plan, &options);
  if (result < 0) elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
  XactReadOnly = read_only;
  SPI_freeplan(plan);
  AtEOXact_GUC(true, nesting);
  error_context_stack = context.previous;
}

}  // namespace

SourceRows require_source(const char *source, Oid caller) {
  // A lone word is a table's name given for a query.
  if (std::strpbrk(source, " \t\r\n(") == nullptr)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("source must be a query, not \"%s\"", source),
                    errhint("For example: select username from users")));
  SPIPlanPtr plan = prepare_source(source);
  const CachedPlanSource *plan_source = plan_source_of(plan);
  require_reading(plan_source);
  const Column column = column_of(plan_source->resultDesc, value_type_of(caller));
  SPI_freeplan(plan);
  return column.rows;
}

int64 read_source(const char *source, Oid caller, SourceRows rows, const char *filter,
                  SourceSpool *spool) {
  Receiver receiver{};
  receiver.receiver.receiveSlot = receive_row;
  receiver.receiver.rStartup = start_rows;
  receiver.receiver.rShutdown = end_rows;
  receiver.receiver.rDestroy = end_rows;
  receiver.spool = spool;
  receiver.filter = filter;
  receiver.expected = rows;
  receiver.value_type = value_type_of(caller);
  receiver.row_context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter row", ALLOCSET_SMALL_SIZES);
  run_source(source, &receiver);
  MemoryContextDelete(receiver.row_context);
  return receiver.rows;
}

}  // namespace bloomfilter
