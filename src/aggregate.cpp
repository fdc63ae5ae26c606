// Aggregates over names and over chunks.
#include "pg.hpp"

#include <cstring>
#include <optional>

#include "bloomfilter/add_queue.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_value.hpp"
#include "filter_table.hpp"
#include "popcount.hpp"
#include "size_arguments.hpp"
#include "value.hpp"

using namespace bloomfilter;

namespace {

MemoryContext aggregate_context(FunctionCallInfo fcinfo) {
  MemoryContext context;
  if (AggCheckCallContext(fcinfo, &context) == 0)
    ereport(ERROR,
            (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
             errmsg("%s was called outside an aggregate", get_func_name(fcinfo->flinfo->fn_oid))));
  return context;
}

// What the aggregate's parameters were in its first row.
struct Parameters {
  float8 capacity;
  float8 fp_rate;
  int32 chunks;
  Normalization normalization;
  friend bool operator==(const Parameters &, const Parameters &) = default;
};

// A value in the making: the state of bloom_agg, bloom_agg_chunks and bloom_union_agg.
struct Building {
  ExpandedValue expanded;  // first: what the executor is handed points to it
  Header header;
  Parameters parameters;
  AddQueue *queue;  // null where the filter is too small for it to be worth its memory

  uint8 *bits() const { return value_bits(expanded.value); }
};
static_assert(std::is_trivially_destructible_v<Building>);

// Filters of less than this are in the processor's cache as they are.
constexpr Size kQueueWorthIt = 16 * 1024;

// A building in the current context, around a value there.
Building *start_building(const Header &header, varlena *value) {
  auto *building = static_cast<Building *>(palloc0(sizeof(Building)));
  building->header = header;
  expand_value(&building->expanded, value, CurrentMemoryContext);
  return building;
}

Building *start_empty(MemoryContext context, const Header &header) {
  MemoryContext caller = MemoryContextSwitchTo(context);
  Building *building = start_building(header, new_value(header));
  if (header.bits_bytes() >= kQueueWorthIt) {
    building->queue = static_cast<AddQueue *>(palloc(sizeof(AddQueue)));
    building->queue->start(header, {building->bits(), 0, header.chunks});
  }
  MemoryContextSwitchTo(caller);
  return building;
}

Building *building_argument(FunctionCallInfo fcinfo, int argument) {
  return reinterpret_cast<Building *>(PG_GETARG_POINTER(argument));
}

// Sets the bits that are still queued.
Building *finish(Building *building) {
  if (building->queue != nullptr) building->queue->flush();
  return building;
}

void add_item(Building *building, std::string_view item) {
  const Header &header = building->header;
  AddQueue *queue = building->queue;
  if (queue != nullptr &&
      write_short_key(header.normalization, item, queue->max_key_bytes(), queue->block()))
    return queue->push(item.size());
  const ItemBits placed = place_item(header, item);
  chunk_add(building->bits() + static_cast<Size>(placed.chunk) * header.chunk_bytes(), placed);
}

[[noreturn]] void null_parameter(const char *name) {
  ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
  pg_unreachable();
}

Normalization normalization_argument(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument)) null_parameter("normalization");
  const std::string_view name = text_view(PG_GETARG_TEXT_PP(argument));
  if (name == "lower" && GetDatabaseEncoding() == PG_UTF8) return Normalization::kLower;
  return normalization_named(pnstrdup(name.data(), name.size()));
}

// Adds the row's item to the state, which is made from the parameters where there is none yet.
template <typename MakeHeader>
Datum add_row(FunctionCallInfo fcinfo, const Parameters &parameters, MakeHeader make_header) {
  MemoryContext context = aggregate_context(fcinfo);
  Building *building;
  if (PG_ARGISNULL(0)) {
    building = start_empty(context, make_header());
    building->parameters = parameters;
  } else {
    building = building_argument(fcinfo, 0);
    if (unlikely(building->parameters != parameters))
      ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                      errmsg("the parameters of an aggregate must be the same in every row"),
                      errhint("Group by them, to have a filter for each.")));
  }
  if (!PG_ARGISNULL(1)) add_item(building, text_view(PG_GETARG_TEXT_PP(1)));
  PG_RETURN_POINTER(building);
}

// ORs a value into the state, or makes a state that is a copy of it.
Building *unite_into(MemoryContext context, Building *building, const ValueView &value) {
  if (building == nullptr) {
    MemoryContext caller = MemoryContextSwitchTo(context);
    building = start_building(value.header, new_value(value.header));
    MemoryContextSwitchTo(caller);
    std::memcpy(building->bits(), value.bits().data(), value.bits().size());
    return building;
  }
  require_same_shape(building->header, value.header);
  unite(building->bits(), value.bits());
  return building;
}

}  // namespace

// Transition of bloom_bits_agg(item text): ORs the item's mask into the state, a chunk of the
// aggregate's own, in place. A null item makes an empty chunk where there is none yet.
BLOOM_SQL_FUNCTION(bloom_bits_agg_add) {
  MemoryContext context = aggregate_context(fcinfo);
  VarBit *state;
  if (PG_ARGISNULL(0)) {
    MemoryContext caller = MemoryContextSwitchTo(context);
    state = new_chunk_value();
    MemoryContextSwitchTo(caller);
  } else {
    state = require_chunk_value(PG_GETARG_VARBIT_P(0));
  }
  if (!PG_ARGISNULL(1))
    chunk_add(mutable_chunk_view(state), positions_of(hash_lower(PG_GETARG_TEXT_PP(1))));
  PG_RETURN_VARBIT_P(state);
}

// Transition of bloom_fp_rate(bits bit): adds (bits set / bits)^7 to a state of the server's
// float8_accum, {count, sum, sum of squares}, whose last is not kept. Strict: skips nulls.
BLOOM_SQL_FUNCTION(bloom_fp_rate_add) {
  aggregate_context(fcinfo);
  ArrayType *state = PG_GETARG_ARRAYTYPE_P(0);
  // It is written in place, and anybody may make an aggregate with another initial state.
  if (ARR_NDIM(state) != 1 || ARR_DIMS(state)[0] != 3 || ARR_HASNULL(state) ||
      ARR_ELEMTYPE(state) != FLOAT8OID)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("state of bloom_fp_rate_add must be an array of three numbers")));
  const VarBit *bits = require_chunk_value(PG_GETARG_VARBIT_P(1));
  auto *values = reinterpret_cast<float8 *>(ARR_DATA_PTR(state));
  const float8 fill = static_cast<float8>(popcount(chunk_view(bits))) / kChunkBits;
  values[0] += 1;
  values[1] += fill * fill * fill * fill * fill * fill * fill;
  PG_RETURN_ARRAYTYPE_P(state);
}

// Transition of bloom_agg(item text, capacity float8, fp_rate float8, normalization text): rows
// without an item count for the parameters.
BLOOM_SQL_FUNCTION(bloom_agg_add) {
  if (PG_ARGISNULL(2)) null_parameter("capacity");
  if (PG_ARGISNULL(3)) null_parameter("fp_rate");
  const Parameters parameters = {PG_GETARG_FLOAT8(2), PG_GETARG_FLOAT8(3), 0,
                                 normalization_argument(fcinfo, 4)};
  return add_row(fcinfo, parameters, [&] {
    require_size_arguments(parameters.capacity, parameters.fp_rate);
    return new_header(value_geometry_for(parameters.capacity, parameters.fp_rate),
                      parameters.normalization);
  });
}

// Transition of bloom_agg_chunks(item text, chunks int, normalization text): k = 7.
BLOOM_SQL_FUNCTION(bloom_agg_chunks_add) {
  if (PG_ARGISNULL(2)) null_parameter("chunks");
  const Parameters parameters = {0, 0, PG_GETARG_INT32(2), normalization_argument(fcinfo, 3)};
  return add_row(fcinfo, parameters, [&] {
    if (parameters.chunks < 1 || parameters.chunks > kMaxValueChunks)
      ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                      errmsg("chunks of a bloomfilter value must be from 1 to %d, not %d",
                             kMaxValueChunks, parameters.chunks)));
    return new_header({parameters.chunks, kChunkBits, kTableHashes}, parameters.normalization);
  });
}

// Transition of bloom_union_agg(value bloomfilter). A null value is a missing filter, and its
// members would be missing: an error.
BLOOM_SQL_FUNCTION(bloom_union_agg_add) {
  MemoryContext context = aggregate_context(fcinfo);
  Building *building = PG_ARGISNULL(0) ? nullptr : building_argument(fcinfo, 0);
  if (PG_ARGISNULL(1))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a Bloom filter to be united is NULL"),
                    errdetail("Its members would be missing."),
                    errhint("Leave it out with: filter (where ... is not null).")));
  PG_RETURN_POINTER(unite_into(context, building, value_argument(fcinfo, 1)));
}

// Combines two states into the first.
BLOOM_SQL_FUNCTION(bloom_building_combine) {
  MemoryContext context = aggregate_context(fcinfo);
  Building *building = PG_ARGISNULL(0) ? nullptr : finish(building_argument(fcinfo, 0));
  if (PG_ARGISNULL(1)) {
    if (building == nullptr) PG_RETURN_NULL();
    PG_RETURN_POINTER(building);
  }
  const Building *other = finish(building_argument(fcinfo, 1));
  PG_RETURN_POINTER(
      unite_into(context, building, view_value(PointerGetDatum(other->expanded.value))));
}

// State to bytea: the value itself, not a copy. Strict.
BLOOM_SQL_FUNCTION(bloom_building_serialize) {
  aggregate_context(fcinfo);
  return PointerGetDatum(finish(building_argument(fcinfo, 0))->expanded.value);
}

// Bytea to state, validated; around the bytes that came, which a combine reads at once. Strict.
BLOOM_SQL_FUNCTION(bloom_building_deserialize) {
  aggregate_context(fcinfo);
  varlena *value = PG_DETOAST_DATUM(PG_GETARG_DATUM(0));
  const ValueView view =
      require_value({reinterpret_cast<const uint8 *>(VARDATA(value)), VARSIZE(value) - VARHDRSZ});
  PG_RETURN_POINTER(start_building(view.header, value));
}

// State to value; over no rows null. May be called again, and rows may follow.
BLOOM_SQL_FUNCTION(bloom_building_value) {
  aggregate_context(fcinfo);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  return expanded_result(&finish(building_argument(fcinfo, 0))->expanded);
}
