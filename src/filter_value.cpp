// Converts between filter tables and filter values: bloom_merge, bloom_value, bloom_chunks.
#include "pg.hpp"

#include <algorithm>
#include <cstring>

#include "arguments.hpp"
#include "chunk_estimate.hpp"
#include "chunk_update.hpp"
#include "chunk_varbit.hpp"
#include "item_key.hpp"
#include "progress.hpp"
#include "rebuild_phase.hpp"
#include "value.hpp"

namespace bloomfilter {
namespace {

// Raises 55000 unless this server makes the same keys from all names as the filter was built with.
// A single check can go on with ASCII names; here names cannot be told apart, so all have to agree.
void require_agreement(const OpenFilter &filter) {
  if (filter.table->agreement == Agreement::kFull && !filter.settings().canary_lost) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("normalization \"%s\" has changed since Bloom filter \"%s\" was built",
                         normalization_name(filter.settings().normalization), filter.name()),
                  errhint("Rebuild the filter with bloom_rebuild.")));
}

// The bits of one chunk, of the size of a filter table's.
ChunkView chunk_at(std::span<const uint8> bits, int32 chunk) {
  return bits.subspan(chunk_offset(chunk)).first<kChunkBytes>();
}

}  // namespace

extern "C" {

// bloom_merge(filter regclass, value bloomfilter) -> bigint: ORs a value into a filter table, all
// or nothing. The value has as many chunks as the table, or a multiple, which is folded. Returns
// how many bits were not set before. Writes only the rows that change, in ascending order of chunks
// like bloom_add_many, so that the two cannot deadlock. All row locks are held to the commit, and
// each changed row leaves a dead version: a first load is better done by bloom_create with a
// source.
PG_FUNCTION_INFO_V1(bloom_merge);
PGDLLEXPORT Datum bloom_merge(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_for_add(fcinfo, "bloom_merge()");
  const ValueView value = value_argument(fcinfo, 1);
  // The journal of a rebuild holds digests of names, and a value has no names, only bits.
  if (rebuild_runs(*filter.table))
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("cannot merge into Bloom filter \"%s\" while it is being rebuilt",
                           filter.name()),
                    errdetail("The rebuilt filter would lack the new bits."),
                    errhint("Merge after the rebuild, or use bloom_add_many.")));
  require_agreement(filter);
  const int32 factor = require_mergeable(value.header, filter.settings().chunks,
                                         filter.settings().normalization, filter.name());
  begin_progress(LongCommand::kMerge, filter.table->relid, filter.name(), Step::kMerging,
                 filter.settings().chunks);
  int64 added = 0;
  for (int32 chunk = 0; chunk < filter.settings().chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    // Chunk c of the table corresponds to `factor` chunks of the value, from c * factor on.
    uint8 source[kChunkBytes];
    std::memcpy(source, chunk_at(value.bits(), chunk * factor).data(), kChunkBytes);
    for (int32 i = 1; i < factor; ++i)
      merge_bits(source, chunk_at(value.bits(), chunk * factor + i));
    added += change_chunk(
        filter, chunk, nullptr, [&](ChunkView bits) { return chunk_covers(bits, source); },
        [&](MutableChunkView bits) {
          // Called again if another add came first, each time for that one's version.
          const uint64 before = popcount(bits);
          merge_bits(bits.data(), source);
          return static_cast<int64>(popcount(bits) - before);
        });
    count_progress();
  }
  end_progress();
  finish_add(filter, added);
  close_filter(filter);
  PG_RETURN_INT64(added);
}

// bloom_value(filter regclass) -> bloomfilter: the table as one value, with every name whose add
// had committed when the call began. It may have some of those that commit meanwhile. Raises 55000
// if the filter may lack names: the value would deny them, and a value cannot be suspended. 54000
// if it would be larger than 256 MiB. Needs SELECT.
PG_FUNCTION_INFO_V1(bloom_value);
PGDLLEXPORT Datum bloom_value(PG_FUNCTION_ARGS) {
  const OpenFilter filter = open_filter(filter_argument(fcinfo), AccessShareLock, ACL_SELECT);
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
    // Row by row and not by a scan under the statement's snapshot: find_chunk also sees the adds
    // that committed since that snapshot was taken, and takes no predicate locks.
    ChunkRow row = require_chunk(filter, chunk, nullptr, Access::kRead);
    const ChunkView source = stored_chunk(filter, &row);
    std::memcpy(bits + chunk_offset(chunk), source.data(), kChunkBytes);
    row.release();
  }
  close_filter(filter);
  return PointerGetDatum(value);
}

// bloom_chunks(value) -> setof (chunk int, bits bit(8192)): the value's chunks as the rows of a
// filter table. Raises 55000 if its chunks cannot be those of a table, or if this server would not
// find its members there.
PG_FUNCTION_INFO_V1(bloom_chunks);
PGDLLEXPORT Datum bloom_chunks(PG_FUNCTION_ARGS) {
  InitMaterializedSRF(fcinfo, 0);
  const ValueView value = value_argument(fcinfo, 0);
  require_table_chunks(value.header);
  auto *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
  VarBit *bits = new_chunk_value();
  for (int32 chunk = 0; chunk < value.header.chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    // tuplestore_putvalues copies the row, so one bit string serves for all.
    std::ranges::copy(chunk_at(value.bits(), chunk), VARBITS(bits));
    Datum values[2] = {Int32GetDatum(chunk), VarBitPGetDatum(bits)};
    bool nulls[2] = {false, false};
    tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
  }
  return Datum{0};
}

}  // extern "C"

}  // namespace bloomfilter
