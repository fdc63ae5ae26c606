// Aggregates over names and over chunks.
#include "pg.hpp"

#include "bloomfilter/sizing.hpp"
#include "chunk_value.hpp"
#include "popcount.hpp"

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
