// Chunk level: functions and operators over (chunk int, bits bit(8192)) rows, for hand-written
// SQL. Normalisation lower, k = 7.
#include "pg.hpp"

#include "chunk_value.hpp"

using namespace bloomfilter;

namespace {

// The article's filter: 128 MiB for a hundred million names.
constexpr int32 kArticleChunks = 131072;

int32 chunk_count(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument))
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("chunks must not be null")));
  const int32 chunks = PG_GETARG_INT32(argument);
  if (chunks < 1)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("chunks must be at least 1, not %d", chunks)));
  return chunks;
}

// The chunk argument of an operator: a row that an outer join did not find is a missing filter.
VarBit *chunk_argument(FunctionCallInfo fcinfo, int argument) {
  if (PG_ARGISNULL(argument)) null_filter();
  return require_chunk_value(PG_GETARG_VARBIT_P(argument));
}

bool contains(VarBit *bits, text *item) {
  return chunk_contains(chunk_view(bits), positions_of(hash_lower(item)));
}

}  // namespace

// username_bits(name [, chunks int]) -> (chunk int, mask bit(8192)): the article's function, for
// any number of chunks. Null for a null name.
BLOOM_SQL_FUNCTION(username_bits) {
  const int32 chunks = PG_NARGS() == 1 ? kArticleChunks : chunk_count(fcinfo, 1);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  TupleDesc descriptor;
  if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
    elog(ERROR, "username_bits does not return a row");
  const Digest digest = hash_lower(PG_GETARG_TEXT_PP(0));
  VarBit *mask = new_chunk_value();
  chunk_add(mutable_chunk_view(mask), positions_of(digest));
  Datum values[2] = {Int32GetDatum(chunk_of(digest, chunks)), VarBitPGetDatum(mask)};
  bool nulls[2] = {false, false};
  return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

// bloom_chunk(item text, chunks int) -> int: the item's chunk. Null for a null item.
BLOOM_SQL_FUNCTION(bloom_chunk) {
  const int32 chunks = chunk_count(fcinfo, 1);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  PG_RETURN_INT32(chunk_of(hash_lower(PG_GETARG_TEXT_PP(0)), chunks));
}

// bit + text -> bit(8192): a copy of the chunk with the item's bits set; the chunk itself for a
// null item.
BLOOM_SQL_FUNCTION(bloom_bits_add) {
  VarBit *bits = chunk_argument(fcinfo, 0);
  if (PG_ARGISNULL(1)) PG_RETURN_VARBIT_P(bits);
  VarBit *result = copy_chunk_value(bits);
  chunk_add(mutable_chunk_view(result), positions_of(hash_lower(PG_GETARG_TEXT_PP(1))));
  PG_RETURN_VARBIT_P(result);
}

// bit @> text -> boolean: whether all of the item's bits are set. Null for a null item.
BLOOM_SQL_FUNCTION(bloom_bits_contain) {
  VarBit *bits = chunk_argument(fcinfo, 0);
  if (PG_ARGISNULL(1)) PG_RETURN_NULL();
  PG_RETURN_BOOL(contains(bits, PG_GETARG_TEXT_PP(1)));
}

// text <@ bit -> boolean: the commutator.
BLOOM_SQL_FUNCTION(bloom_bits_contained) {
  VarBit *bits = chunk_argument(fcinfo, 1);
  if (PG_ARGISNULL(0)) PG_RETURN_NULL();
  PG_RETURN_BOOL(contains(bits, PG_GETARG_TEXT_PP(0)));
}
