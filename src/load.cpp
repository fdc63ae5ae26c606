#include "pg.hpp"

#include <cstring>
#include <string_view>

#include "bloomfilter/add_queue.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_value.hpp"
#include "load.hpp"
#include "normalize.hpp"
#include "popcount.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// Receives the rows of a source query, names or values, and sets their bits.
struct Loader {
  DestReceiver receiver;  // first: the executor knows the loader by it
  Header header;          // of the filter, as if it were a value
  const char *filter;     // its name
  ChunkRange range;       // in memory
  AddQueue queue;
  Oid value_type;
  bool takes_values;
  bool casts;  // to_text makes text of the source's type
  FmgrInfo to_text;
  MemoryContext row_context;
};

// Learns how the source's one column becomes names or values. Raises 42804 where it cannot.
void understand(Loader *loader, TupleDesc descriptor) {
  if (descriptor->natts != 1)
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("source must yield one column, not %d", descriptor->natts)));
  const Oid type = TupleDescAttr(descriptor, 0)->atttypid;
  loader->takes_values = getBaseType(type) == loader->value_type;
  if (loader->takes_values) return;
  Oid function = InvalidOid;
  const CoercionPathType path =
      type == TEXTOID ? COERCION_PATH_RELABELTYPE
                      : find_coercion_pathway(TEXTOID, type, COERCION_IMPLICIT, &function);
  if (path != COERCION_PATH_RELABELTYPE && path != COERCION_PATH_FUNC)
    ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                    errmsg("source yields type %s, not text", format_type_be(type)),
                    errhint("Cast the column to text.")));
  loader->casts = path == COERCION_PATH_FUNC;
  if (loader->casts) fmgr_info(function, &loader->to_text);
}

void start_source(DestReceiver *receiver, int, TupleDesc descriptor) {
  understand(reinterpret_cast<Loader *>(receiver), descriptor);
}

void receive_name(Loader *loader, std::string_view name) {
  const Header &header = loader->header;
  if (write_short_key(header.normalization, name, loader->queue.max_key_bytes(),
                      loader->queue.block()))
    return loader->queue.push(name.size());
  const ItemBits placed = place_item(header, name);
  if (uint8 *chunk = loader->range.find(header, placed.chunk); chunk != nullptr)
    chunk_add(chunk, placed);
}

void receive_value(Loader *loader, const ValueView &value) {
  const ChunkRange &range = loader->range;
  const auto factor = static_cast<Size>(require_mergeable(
      value.header, loader->header.chunks, loader->header.normalization, loader->filter));
  Header part = value.header;
  part.chunks = range.count * static_cast<int32>(factor);
  fold(part,
       value.bits().subspan(static_cast<Size>(range.first) * factor * kChunkBytes,
                            part.bits_bytes()),
       range.count, range.bits);
}

bool receive_row(TupleTableSlot *slot, DestReceiver *receiver) {
  auto *loader = reinterpret_cast<Loader *>(receiver);
  bool is_null;
  Datum datum = slot_getattr(slot, 1, &is_null);
  if (is_null) {
    // Of a name that nobody has nothing is missing; of a filter all its names are.
    if (loader->takes_values) null_filter();
    return true;
  }
  MemoryContext caller = MemoryContextSwitchTo(loader->row_context);
  if (loader->casts) datum = FunctionCall1(&loader->to_text, datum);
  if (loader->takes_values)
    receive_value(loader, view_value(datum));
  else
    receive_name(loader, text_view(DatumGetTextPP(datum)));
  MemoryContextSwitchTo(caller);
  MemoryContextReset(loader->row_context);
  return true;
}

void end_source(DestReceiver *) {}

// The source as a plan of one query that yields rows, which may be run in parallel.
SPIPlanPtr prepare_source(const char *source) {
  SPIPlanPtr plan = SPI_prepare_cursor(source, 0, nullptr, CURSOR_OPT_PARALLEL_OK);
  if (plan == nullptr)
    elog(ERROR, "SPI_prepare_cursor failed: %s", SPI_result_code_string(SPI_result));
  if (!SPI_is_cursor_plan(plan))
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("source must be one query that yields rows"), errdetail("It is: %s", source)));
  return plan;
}

// Runs the source to its end into the loader. Row-level security is an error rather than a
// filter: hidden rows would be missing names.
void run_source(const char *source, Loader *loader) {
  const int nesting = NewGUCNestLevel();
  set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
                    false);
  SPIPlanPtr plan = prepare_source(source);
  SPIExecuteOptions options{};
  options.dest = &loader->receiver;
  const int result = SPI_execute_plan_extended(plan, &options);
  if (result < 0) elog(ERROR, "SPI_execute_plan failed: %s", SPI_result_code_string(result));
  SPI_freeplan(plan);
  AtEOXact_GUC(true, nesting);
}

// The extension's type bloomfilter; `function` is any of its functions.
Oid value_type_of(Oid function) {
  return GetSysCacheOid2(TYPENAMENSP, static_cast<AttrNumber>(Anum_pg_type_oid),
                         CStringGetDatum("bloomfilter"),
                         ObjectIdGetDatum(get_func_namespace(function)));
}

}  // namespace

void require_source(const char *source, Oid caller) {
  // A lone word is a table's name given for a query.
  if (std::strpbrk(source, " \t\r\n(") == nullptr)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("source must be a query, not \"%s\"", source),
                    errhint("For example: select username from users")));
  SPIPlanPtr plan = prepare_source(source);
  Loader loader{};
  loader.value_type = value_type_of(caller);
  understand(
      &loader,
      static_cast<CachedPlanSource *>(linitial(SPI_plan_get_plan_sources(plan)))->resultDesc);
  SPI_freeplan(plan);
}

void read_source(const char *source, Oid caller, const char *filter, const Header &header,
                 const ChunkRange &range) {
  Loader loader{};
  loader.receiver.receiveSlot = receive_row;
  loader.receiver.rStartup = start_source;
  loader.receiver.rShutdown = end_source;
  loader.receiver.rDestroy = end_source;
  loader.header = header;
  loader.filter = filter;
  loader.range = range;
  loader.value_type = value_type_of(caller);
  loader.row_context =
      AllocSetContextCreate(CurrentMemoryContext, "bloomfilter row", ALLOCSET_SMALL_SIZES);
  loader.queue.start(header, range);
  run_source(source, &loader);
  loader.queue.flush();
  MemoryContextDelete(loader.row_context);
}

Header table_header(int32 chunks, Normalization normalization) {
  return {kTableHashes, log2_of_chunk_bits(kChunkBits), normalization, chunks, 0};
}

void write_rows(Relation relation, const ChunkRange &range, BulkInsertState bulk) {
  Datum values[2];
  bool nulls[2] = {false, false};
  VarBit *bits = new_chunk_value();
  values[1] = VarBitPGetDatum(bits);
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    values[0] = Int32GetDatum(range.first + i);
    if (range.bits != nullptr)
      std::memcpy(VARBITS(bits), range.bits + static_cast<Size>(i) * kChunkBytes, kChunkBytes);
    HeapTuple tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
    heap_insert(relation, tuple, GetCurrentCommandId(true),
                HEAP_INSERT_SKIP_FSM | HEAP_INSERT_FROZEN, bulk);
    heap_freetuple(tuple);
  }
  pfree(bits);
}

void write_empty_rows(Relation relation, int32 chunks) {
  BulkInsertState bulk = GetBulkInsertState();
  write_rows(relation, {nullptr, 0, chunks}, bulk);
  FreeBulkInsertState(bulk);
  CommandCounterIncrement();
}

float8 items_in(const ChunkRange &range) {
  float8 items = 0;
  for (int32 i = 0; i < range.count; ++i) {
    const ChunkView chunk(range.bits + static_cast<Size>(i) * kChunkBytes, kChunkBytes);
    items += estimated_items(static_cast<float8>(popcount(chunk)), kChunkBits, kTableHashes);
  }
  return items;
}

}  // namespace bloomfilter
