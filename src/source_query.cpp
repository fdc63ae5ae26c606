// Runs the query that a filter is loaded from, through SPI. It refuses every source that might
// write, and every row that is neither a name nor a filter value.
#include "pg.hpp"

#include <cstring>

#include "arguments.hpp"
#include "item_key.hpp"
#include "progress.hpp"
#include "source_query.hpp"
#include "source_snapshots.hpp"
#include "text_cast.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// How the one column of a source becomes names or values.
struct Column {
  SourceRows rows;
  TextCast cast;
};

// Receives the rows of a source one by one. SPI would otherwise collect all rows of the source in
// memory before the first is read.
struct Receiver {
  DestReceiver receiver;  // first: the executor has only a pointer to this member
  SourceSpool *spool;
  const char *filter;
  Oid value_type;
  SourceRows expected;
  Column column;
  int64 rows;
  MemoryContext row_context;
};

// The extension's type bloomfilter; `function` is any of its functions. The type is looked up in
// the schema of the extension, since the search_path of the caller may find another type of that
// name.
Oid value_type_of(Oid function) {
  return GetSysCacheOid2(TYPENAMENSP, static_cast<AttrNumber>(Anum_pg_type_oid),
                         CStringGetDatum("bloomfilter"),
                         ObjectIdGetDatum(get_func_namespace(function)));
}

// Raises 42804 if the rows are neither names nor values. A domain over bloomfilter counts as a
// value.
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
  if (!find_text_cast(type, &column.cast))
    ereport(ERROR,
            (errcode(ERRCODE_DATATYPE_MISMATCH),
             errmsg("source must return type text or bloomfilter, not %s", format_type_be(type)),
             errhint("Cast the column to text.")));
  return column;
}

// The executor calls this before the first row. The source was planned again since require_source,
// in another transaction, so its column may have another type now. Raises 42804 in that case.
void start_rows(DestReceiver *receiver, int, TupleDesc descriptor) {
  auto *source = reinterpret_cast<Receiver *>(receiver);
  source->column = column_of(descriptor, source->value_type);
  if (source->column.rows != source->expected)
    ereport(
        ERROR,
        (errcode(ERRCODE_DATATYPE_MISMATCH),
         errmsg("the source of Bloom filter \"%s\" returns another type than when the call began",
                source->filter),
         errhint("Run the command again.")));
}

// The executor calls this for each row. Returns true, which asks for the next row.
bool receive_row(TupleTableSlot *slot, DestReceiver *receiver) {
  auto *source = reinterpret_cast<Receiver *>(receiver);
  const bool values = source->column.rows == SourceRows::kValues;
  bool is_null;
  Datum datum = slot_getattr(slot, 1, &is_null);
  if (is_null) {
    // A null name is the name of nobody, so the filter lacks nothing. A null value stands for a
    // filter that is missing with all its names.
    if (values) null_filter();
    return true;
  }
  ++source->rows;
  // What the cast and detoasting allocate is freed after each row. A source may have 10^8 of them.
  MemoryContext caller = MemoryContextSwitchTo(source->row_context);
  if (values)
    spool_value(source->spool, view_value(datum), source->filter);
  else
    spool_name(source->spool, text_view(DatumGetTextPP(cast_to_text(&source->column.cast, datum))));
  MemoryContextSwitchTo(caller);
  MemoryContextReset(source->row_context);
  count_progress();
  return true;
}

// The executor requires these two calls. The receiver has nothing to free.
void end_rows(DestReceiver *) {}

// Makes the node of $1, an int, and tells `uses_chunks` of it. Raises 42P02 for every other
// parameter.
Node *chunks_parameter(ParseState *state, ParamRef *reference) {
  if (reference->number != 1)
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_PARAMETER),
                    errmsg("source has no parameter $%d", reference->number),
                    errhint("The only one is $1, the number of chunks that the filter gets."),
                    parser_errposition(state, reference->location)));
  *static_cast<bool *>(state->p_ref_hook_state) = true;
  auto *parameter = makeNode(Param);
  parameter->paramkind = PARAM_EXTERN;
  parameter->paramid = 1;
  parameter->paramtype = INT4OID;
  parameter->paramtypmod = -1;
  parameter->location = reference->location;
  return reinterpret_cast<Node *>(parameter);
}

// Lets the parser ask for parameters here.
void set_up_parser(ParseState *state, void *uses_chunks) {
  state->p_ref_hook_state = uses_chunks;
  state->p_paramref_hook = chunks_parameter;
}

// Names the type of $1 in the context of an error: it may be what an operator or function does not
// take.
void add_parameter_context(void *uses_chunks) {
  if (*static_cast<const bool *>(uses_chunks))
    errcontext("$1 in the source is the number of chunks, of type integer");
}

// Parses the source, which may run in parallel, and sets *uses_chunks if it uses $1. The plan keeps
// that pointer. Raises 22023 unless it is one query that yields rows. Inside an SPI connection.
SPIPlanPtr prepare_source(const char *source, bool *uses_chunks) {
  *uses_chunks = false;
  ErrorContextCallback context = {error_context_stack, add_parameter_context, uses_chunks};
  error_context_stack = &context;
  // A generic plan, so that the plan whose servers are opened is the one that runs.
  SPIPlanPtr plan = SPI_prepare_params(source, set_up_parser, uses_chunks,
                                       CURSOR_OPT_PARALLEL_OK | CURSOR_OPT_GENERIC_PLAN);
  error_context_stack = context.previous;
  if (plan == nullptr)
    elog(ERROR, "SPI_prepare_params failed: %s", SPI_result_code_string(SPI_result));
  if (!SPI_is_cursor_plan(plan))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("source must be one query that returns rows"),
                    errdetail("The source is: %s", source)));
  return plan;
}

// The value of $1 for a run.
ParamListInfo parameters_of(int32 chunks) {
  ParamListInfo parameters = makeParamList(1);
  parameters->params[0] = {Int32GetDatum(chunks), false, PARAM_FLAG_CONST, INT4OID};
  return parameters;
}

// The one statement of a plan. SPI_is_cursor_plan has checked that it is the only one.
const CachedPlanSource *plan_source_of(SPIPlanPtr plan) {
  return static_cast<CachedPlanSource *>(linitial(SPI_plan_get_plan_sources(plan)));
}

// Raises 22023 if the statement itself writes or locks rows. This sees only the statement;
// run_source stops functions that write.
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

// Names the filter in the context of every error of the source, which may come from any function.
void add_error_context(void *filter) {
  errcontext("source of Bloom filter \"%s\"", static_cast<const char *>(filter));
}

// Takes the snapshots of all remote servers that the plan reads. Returns how many rows the planner
// expects.
float8 open_servers(SPIPlanPtr plan, const char *source, ParamListInfo parameters) {
  PushActiveSnapshot(GetTransactionSnapshot());
  CachedPlan *cached = SPI_plan_get_cached_plan(plan);
  if (cached == nullptr) elog(ERROR, "source has no plan");
  PlannedStmt *planned = linitial_node(PlannedStmt, cached->stmt_list);
  const float8 rows = planned->planTree->plan_rows;
  open_remote_snapshots(planned, source, parameters);
  ReleaseCachedPlan(cached, nullptr);
  PopActiveSnapshot();
  return rows;
}

// Runs the source to its end. Row-level security raises an error here and does not filter: names in
// hidden rows would be missing from the filter. After an error, the abort of the transaction
// restores the settings and XactReadOnly.
void run_source(const char *source, int32 chunks, Receiver *receiver) {
  ErrorContextCallback context = {error_context_stack, add_error_context,
                                  const_cast<char *>(receiver->filter)};
  error_context_stack = &context;
  const int nesting = NewGUCNestLevel();
  set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                    false);
  bool uses_chunks;
  SPIPlanPtr plan = prepare_source(source, &uses_chunks);
  require_reading(plan_source_of(plan));
  Assert(chunks > 0 || !uses_chunks);
  // Functions that the source calls cannot write now. The variable, and not the setting
  // transaction_read_only: PostgreSQL 16 and later do not save and restore that setting.
  const bool read_only = XactReadOnly;
  XactReadOnly = true;
  SPIExecuteOptions options{};
  options.dest = &receiver->receiver;
  options.params = uses_chunks ? parameters_of(chunks) : nullptr;
  // The snapshot of this server comes last: SPI takes it when it runs the plan.
  const float8 rows = open_servers(plan, source, options.params);
  expect_total(static_cast<int64>(Min(rows, 1e15)));
  // No limit of rows: with a limit, SPI does not run a plan in parallel.
  const int result = SPI_execute_plan_extended(plan, &options);
  if (result < 0) elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
  XactReadOnly = read_only;
  SPI_freeplan(plan);
  AtEOXact_GUC(true, nesting);
  error_context_stack = context.previous;
}

}  // namespace

SourceForm require_source(const char *source, Oid caller) {
  // A single word is the name of a table, given in place of a query.
  if (std::strpbrk(source, " \t\r\n(") == nullptr)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("source must be a query, not \"%s\"", source),
                    errhint("For example: select username from users")));
  bool uses_chunks;
  SPIPlanPtr plan = prepare_source(source, &uses_chunks);
  const CachedPlanSource *plan_source = plan_source_of(plan);
  require_reading(plan_source);
  const Column column = column_of(plan_source->resultDesc, value_type_of(caller));
  const FormData_pg_attribute *attribute = TupleDescAttr(plan_source->resultDesc, 0);
  const SourceForm form = {column.rows, uses_chunks, attribute->atttypid, attribute->attcollation};
  SPI_freeplan(plan);
  return form;
}

void reach_servers(const char *source) {
  bool uses_chunks;
  SPIPlanPtr plan = prepare_source(source, &uses_chunks);
  open_servers(plan, source, uses_chunks ? parameters_of(kMinTableChunks) : nullptr);
  SPI_freeplan(plan);
}

int64 read_source(const char *source, Oid caller, SourceRows rows, int32 chunks, const char *filter,
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
  enter_step(rows == SourceRows::kNames ? Step::kReadingNames : Step::kReadingValues, 0);
  run_source(source, chunks, &receiver);
  MemoryContextDelete(receiver.row_context);
  return receiver.rows;
}

}  // namespace bloomfilter
