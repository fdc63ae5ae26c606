// Between filter tables and values: bloom_merge, bloom_value, bloom_chunks.
#include "pg.hpp"

#include <algorithm>
#include <cstring>

#include "arguments.hpp"
#include "chunk_estimate.hpp"
#include "chunk_update.hpp"
#include "chunk_varbit.hpp"
#include "item_key.hpp"
#include "rebuild_phase.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// Raises where a filter's bits, or bits to be added to it, are not what this server would make.
void require_agreement(const OpenFilter &filter) {
  if (filter.table->agreement == Agreement::kFull && !filter.settings().canary_lost) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("normalization \"%s\" has changed since Bloom filter \"%s\" was built",
                         normalization_name(filter.settings().normalization), filter.name()),
                  errhint("Rebuild the filter with bloom_rebuild.")));
}

// A chunk of full size in the bits of a value.
ChunkView chunk_at(std::span<const uint8> bits, int32 chunk) {
  return bits.subspan(chunk_offset(chunk)).first<kChunkBytes>();
}

}  // namespace

extern "C" {

// bloom_merge(filter regclass, value bloomfilter) -> bigint: ORs a value into a filter table, all
// or nothing; the value's chunks are as many as the table's, or a multiple, which is folded. How
// many bits were not set before. Writes only the rows that change, in ascending order.
PG_FUNCTION_INFO_V1(bloom_merge);
PGDLLEXPORT Datum bloom_merge(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_for_add(fcinfo, "bloom_merge()");
  const ValueView value = value_argument(fcinfo, 1);
  if (rebuild_runs(*filter.table))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot merge into Bloom filter \"%s\" while it is being rebuilt",
                           filter.name()),
                    errdetail("The rebuilt filter would lack the new bits."),
                    errhint("Merge after the rebuild, or use bloom_add_many.")));
  require_agreement(filter);
  const int32 factor = require_mergeable(value.header, filter.settings().chunks,
                                         filter.settings().normalization, filter.name());
  int64 added = 0;
  for (int32 chunk = 0; chunk < filter.settings().chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    uint8 source[kChunkBytes];
    std::memcpy(source, chunk_at(value.bits(), chunk * factor).data(), kChunkBytes);
    for (int32 i = 1; i < factor; ++i)
      merge_bits(source, chunk_at(value.bits(), chunk * factor + i));
    added += change_chunk(
        filter, chunk, nullptr, [&](ChunkView bits) { return chunk_covers(bits, source); },
        [&](MutableChunkView bits) {
          const uint64 before = popcount(bits);
          merge_bits(bits.data(), source);
          return static_cast<int64>(popcount(bits) - before);
        });
  }
  finish_add(filter, added);
  close_filter(filter);
  PG_RETURN_INT64(added);
}

// bloom_value(filter regclass) -> bloomfilter: the table as one value, with every name whose add
// had committed when the call began. Raises 55000 where the filter may lack names: the value would
// deny them. Needs SELECT.
PG_FUNCTION_INFO_V1(bloom_value);
PGDLLEXPORT Datum bloom_value(PG_FUNCTION_ARGS) {
  if (PG_ARGISNULL(0)) null_filter();
  const OpenFilter filter = open_filter(PG_GETARG_OID(0), AccessShareLock, ACL_SELECT);
  const Settings &settings = filter.settings();
  if (const char *why = suspension_reason(*filter.table))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("Bloom filter \"%s\" may lack names", filter.name()),
                    errdetail("Its status is \"%s\".  A value made from it would answer "
                              "\"definitely not\" for those names.",
                              why),
                    errhint("Rebuild the filter with bloom_rebuild, or call bloom_resume.  By "
                            "calling bloom_resume you confirm that every name has been added.")));
  require_agreement(filter);
  if (settings.chunks > kMaxValueChunks)
    ereport(ERROR,
            (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
             errmsg("Bloom filter \"%s\" is too large for a bloomfilter value", filter.name()),
             errdetail("It has %d chunks, and a value has at most %d.", settings.chunks,
                       kMaxValueChunks)));
  varlena *value =
      new_value(new_header({settings.chunks, kChunkBits, kTableHashes}, settings.normalization));
  uint8 *bits = value_bits(value);
  for (int32 chunk = 0; chunk < settings.chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    ChunkRow row = require_chunk(filter, chunk, nullptr, Access::kRead);
    const ChunkView source = stored_chunk(filter, &row);
    std::memcpy(bits + chunk_offset(chunk), source.data(), kChunkBytes);
    row.release();
  }
  close_filter(filter);
  return PointerGetDatum(value);
}

// bloom_chunks(value) -> setof (chunk int, bits bit(8192)): its chunks as the rows of a filter
// table. Raises 55000 where they could not be one's, or this server would not find its members.
// Strict.
PG_FUNCTION_INFO_V1(bloom_chunks);
PGDLLEXPORT Datum bloom_chunks(PG_FUNCTION_ARGS) {
  InitMaterializedSRF(fcinfo, 0);
  const ValueView value = value_argument(fcinfo, 0);
  require_table_chunks(value.header);
  auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
  VarBit *bits = new_chunk_value();
  for (int32 chunk = 0; chunk < value.header.chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    std::ranges::copy(chunk_at(value.bits(), chunk), VARBITS(bits));
    Datum values[2] = {Int32GetDatum(chunk), VarBitPGetDatum(bits)};
    bool nulls[2] = {false, false};
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return Datum{0};
}

}  // extern "C"

}  // namespace bloomfilter
