// The functions, operators and aggregates for hand-written SQL over rows (chunk int, bits
// bit(8192)). The normalization is always lower and k is 7. They know no filter and no settings.
#include "pg.hpp"

#include "arguments.hpp"
#include "chunk_estimate.hpp"
#include "chunk_varbit.hpp"
#include "comparison.hpp"
#include "item_key.hpp"

namespace bloomfilter {
namespace {

// The size of the filter in the article "Bloom Filters in Postgres": 128 MiB for a hundred million
// names. username_bits uses it if it is called with one argument.
constexpr int32 kArticleChunks = 131072;

Digest hash_lower(const text *item) {
  return hash_item(Normalization::kLower, text_view(item));
}

// The chunk argument of an operator. Raises 55000 for NULL: an outer join that found no chunk has
// no filter to ask, and an answer of NULL could be read as "no".
VarBit *chunk_argument(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument)) null_filter();
  return require_chunk_value(PG_GETARG_VARBIT_P(argument));
}

// Whether all of the item's bits are set.
bool chunk_has(VarBit *bits, text *item) {
  return chunk_contains(chunk_view(bits), positions_of(hash_lower(item)));
}

}  // namespace

extern "C" {

// username_bits(name [, chunks int]) -> (chunk int, mask bit(8192)): the function of the article,
// for any number of chunks. Null for a null name.
PG_FUNCTION_INFO_V1(username_bits);
PGDLLEXPORT Datum username_bits(PG_FUNCTION_ARGS) {
  const int32 chunks = PG_NARGS() == 1 ? kArticleChunks : chunks_argument(fcinfo, 1);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  const Digest digest = hash_lower(PG_GETARG_TEXT_PP(0));
  VarBit *mask = new_chunk_value();
  chunk_add(mutable_chunk_view(mask), positions_of(digest));
  Datum values[2] = {Int32GetDatum(chunk_of(digest, chunks)), VarBitPGetDatum(mask)};
  bool nulls[2] = {false, false};
  return row_result(fcinfo, values, nulls);
}

// bloom_chunk(item text, chunks int) -> int: the item's chunk. Null for a null item.
PG_FUNCTION_INFO_V1(bloom_chunk);
PGDLLEXPORT Datum bloom_chunk(PG_FUNCTION_ARGS) {
  const int32 chunks = chunks_argument(fcinfo, 1);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  PG_RETURN_INT32(chunk_of(hash_lower(PG_GETARG_TEXT_PP(0)), chunks));
}

// bit + text -> bit(8192): a copy of the chunk with the item's bits set. For a null item it returns
// the chunk itself.
PG_FUNCTION_INFO_V1(bloom_bits_add);
PGDLLEXPORT Datum bloom_bits_add(PG_FUNCTION_ARGS) {
  VarBit *bits = chunk_argument(fcinfo, 0);
  if (PG_ARGISNULL(1)) PG_RETURN_VARBIT_P(bits);
  VarBit *result = copy_chunk_value(bits);
  chunk_add(mutable_chunk_view(result), positions_of(hash_lower(PG_GETARG_TEXT_PP(1))));
  PG_RETURN_VARBIT_P(result);
}

// bit @> text -> boolean: whether all of the item's bits are set. Null for a null item.
PG_FUNCTION_INFO_V1(bloom_bits_contain);
PGDLLEXPORT Datum bloom_bits_contain(PG_FUNCTION_ARGS) {
  VarBit *bits = chunk_argument(fcinfo, 0);
  if (PG_ARGISNULL(1)) PG_RETURN_NULL();
  PG_RETURN_BOOL(must_be_maybe(PG_GET_COLLATION()) || chunk_has(bits, PG_GETARG_TEXT_PP(1)));
}

// text <@ bit -> boolean: the same with the arguments exchanged.
PG_FUNCTION_INFO_V1(bloom_bits_contained);
PGDLLEXPORT Datum bloom_bits_contained(PG_FUNCTION_ARGS) {
  VarBit *bits = chunk_argument(fcinfo, 1);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  PG_RETURN_BOOL(must_be_maybe(PG_GET_COLLATION()) || chunk_has(bits, PG_GETARG_TEXT_PP(0)));
}

// Transition of bloom_bits_agg(item text): sets the item's bits in the state. The state is a chunk
// that belongs to the aggregate, so it is changed in place. A null item sets no bits, but it starts
// the state if it is the first.
PG_FUNCTION_INFO_V1(bloom_bits_agg_add);
PGDLLEXPORT Datum bloom_bits_agg_add(PG_FUNCTION_ARGS) {
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

// Transition of bloom_fp_rate(bits bit): adds (bits set / bits)^7 to the state. The state is that
// of the server's float8_accum, {count, sum, sum of squares}, so that the server's functions
// combine and finish it. The sum of squares stays 0: no average needs it. Strict, so nulls are
// skipped.
PG_FUNCTION_INFO_V1(bloom_fp_rate_add);
PGDLLEXPORT Datum bloom_fp_rate_add(PG_FUNCTION_ARGS) {
  aggregate_context(fcinfo);
  ArrayType *state = PG_GETARG_ARRAYTYPE_P(0);
  // The state is written in place, and any user may create an aggregate with another initial state.
  if (ARR_NDIM(state) != 1 || ARR_DIMS(state)[0] != 3 || ARR_HASNULL(state) ||
      ARR_ELEMTYPE(state) != FLOAT8OID)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("state of bloom_fp_rate_add must be an array of three numbers")));
  const VarBit *bits = require_chunk_value(PG_GETARG_VARBIT_P(1));
  auto *values = reinterpret_cast<float8 *>(ARR_DATA_PTR(state));
  values[0] += 1;
  values[1] += ChunkEstimate(chunk_view(bits)).fp_rate();
  PG_RETURN_ARRAYTYPE_P(state);
}

}  // extern "C"

}  // namespace bloomfilter
