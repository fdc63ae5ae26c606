// The aggregates that make a filter value: bloom_agg, bloom_agg_chunks, bloom_union_agg.
#include "pg.hpp"

#include <cstring>

#include "arguments.hpp"
#include "bloomfilter/add_queue.hpp"
#include "item_key.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

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
constexpr Size kQueueWorthIt = Size{16} << 10;

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
Building *finish_building(Building *building) {
  if (building->queue != nullptr) building->queue->flush();
  return building;
}

void add_item(Building *building, std::string_view item) {
  const Header &header = building->header;
  AddQueue *queue = building->queue;
  if (queue != nullptr &&
      write_short_key(header.normalization, item, queue->max_key_bytes(), queue->block()))
    return queue->push(item.size());
  const ItemBits bits = hash_to_bits(header, item);
  chunk_add(building->bits() + header.chunk_offset(bits.chunk), bits);
}

Normalization normalization_argument(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument)) null_argument("normalization");
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
Building *merge_into(MemoryContext context, Building *building, const ValueView &value) {
  if (building == nullptr) {
    MemoryContext caller = MemoryContextSwitchTo(context);
    building = start_building(value.header, new_value(value.header));
    MemoryContextSwitchTo(caller);
    std::memcpy(building->bits(), value.bits().data(), value.bits().size());
    return building;
  }
  require_same_shape(building->header, value.header);
  merge_bits(building->bits(), value.bits());
  return building;
}

}  // namespace

extern "C" {

// Transition of bloom_agg(item text, capacity float8, fp_rate float8, normalization text): rows
// without an item count for the parameters.
PG_FUNCTION_INFO_V1(bloom_agg_add);
PGDLLEXPORT Datum bloom_agg_add(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(2)) null_argument("capacity");
  if (PG_ARGISNULL(3)) null_argument("fp_rate");
  const Parameters parameters = {PG_GETARG_FLOAT8(2), PG_GETARG_FLOAT8(3), 0,
                                 normalization_argument(fcinfo, 4)};
  return add_row(fcinfo, parameters, [&] {
    require_size_arguments(parameters.capacity, parameters.fp_rate);
    return new_header(value_geometry_for(parameters.capacity, parameters.fp_rate),
                      parameters.normalization);
  });
}

// Transition of bloom_agg_chunks(item text, chunks int, normalization text): k = 7.
PG_FUNCTION_INFO_V1(bloom_agg_chunks_add);
PGDLLEXPORT Datum bloom_agg_chunks_add(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(2)) null_argument("chunks");
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
PG_FUNCTION_INFO_V1(bloom_union_agg_add);
PGDLLEXPORT Datum bloom_union_agg_add(PG_FUNCTION_ARGS) {
  MemoryContext context = aggregate_context(fcinfo);
  Building *building = PG_ARGISNULL(0) ? nullptr : building_argument(fcinfo, 0);
  if (PG_ARGISNULL(1))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("a Bloom filter to be united is NULL"),
                    errdetail("Its members would be missing."),
                    errhint("Leave it out with: filter (where ... is not null).")));
  PG_RETURN_POINTER(merge_into(context, building, value_argument(fcinfo, 1)));
}

// Combines two states into the first.
PG_FUNCTION_INFO_V1(bloom_building_combine);
PGDLLEXPORT Datum bloom_building_combine(PG_FUNCTION_ARGS) {
  MemoryContext context = aggregate_context(fcinfo);
  Building *building = PG_ARGISNULL(0) ? nullptr : finish_building(building_argument(fcinfo, 0));
  if (PG_ARGISNULL(1)) {
    if (building == nullptr) PG_RETURN_NULL();
    PG_RETURN_POINTER(building);
  }
  const Building *other = finish_building(building_argument(fcinfo, 1));
  PG_RETURN_POINTER(
      merge_into(context, building, view_value(PointerGetDatum(other->expanded.value))));
}

// State to bytea: the value itself, not a copy. Strict.
PG_FUNCTION_INFO_V1(bloom_building_serialize);
PGDLLEXPORT Datum bloom_building_serialize(PG_FUNCTION_ARGS) {
  aggregate_context(fcinfo);
  return PointerGetDatum(finish_building(building_argument(fcinfo, 0))->expanded.value);
}

// Bytea to state, validated; around the bytes that came, which a combine reads at once. Strict.
PG_FUNCTION_INFO_V1(bloom_building_deserialize);
PGDLLEXPORT Datum bloom_building_deserialize(PG_FUNCTION_ARGS) {
  aggregate_context(fcinfo);
  varlena *value = PG_DETOAST_DATUM(PG_GETARG_DATUM(0));
  const ValueView view =
      require_value({reinterpret_cast<const uint8 *>(VARDATA(value)), VARSIZE(value) - VARHDRSZ});
  PG_RETURN_POINTER(start_building(view.header, value));
}

// State to value; over no rows null. May be called again, and rows may follow.
PG_FUNCTION_INFO_V1(bloom_building_value);
PGDLLEXPORT Datum bloom_building_value(PG_FUNCTION_ARGS) {
  aggregate_context(fcinfo);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  return expanded_result(&finish_building(building_argument(fcinfo, 0))->expanded);
}

}  // extern "C"

}  // namespace bloomfilter
