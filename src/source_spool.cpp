
#include "pg.hpp"

extern "C" {
#include "lib/hyperloglog.h"
}

#include <array>
#include <cstring>

#include "bloomfilter/add_queue.hpp"
#include "chunk_insert.hpp"
#include "huge_pages.hpp"
#include "item_key.hpp"
#include "source_spool.hpp"

namespace bloomfilter {
namespace {

// A temporary file that is written to its end, and deleted when it is closed. Not the server's
// BufFile: closing that writes its last page, and may raise an error; a rebuild closes its files
// while its transaction aborts. What is written here comes in kilobytes.
struct SpoolFile {
  File file;
  int64 size;
};

}  // namespace

// Digests are divided by the first bits of the number that chooses a chunk: whatever the number of
// chunks comes to be, those of a part belong to neighboring chunks.
struct SourceSpool {
  MemoryContext context;
  Normalization normalization;
  int32 chunks;  // 0: not known yet
  bool outlives_transaction;

  // All chunks, in memory; null where they do not fit, or are not known.
  uint8 *bits;

  // Keys that wait to be hashed, eight at a time.
  std::array<md5::Block, md5::kLanes> keys;
  size_t keys_count;
  // Digests that wait to be moved to bits or files, and as much memory again to order them by part.
  Digest *pending;
  Digest *ordered;
  size_t pending_count;
  size_t max_pending;
  // Digests in files, one a part; null as long as all are in memory.
  SpoolFile *parts;
  int log2_parts;
  // Chunks of values, each value folded to the filter's chunks, one after the other.
  SpoolFile *values;
  int64 values_count;

  int64 names;
  hyperLogLogState different;
};

namespace {

// Of the server's HyperLogLog, which takes 2^14 bytes: an error of 0.8 %.
constexpr uint8 kRegisterBits = 14;
// Beyond so many its hashes of 32 bits meet too often to count by.
constexpr int64 kCountable = INT64CONST(1) << 30;

// So many that what goes to a part at once is worth a write.
constexpr int kMaxLog2Parts = 8, kMinLog2Parts = 4;
constexpr size_t kDigestsPerWrite = 256;

// With so many, those of a part find its bits in the processor's cache: 20 M names into 131072
// chunks take 4 s, and took 5.4 when each was set as it came, its bits fetched ahead.
constexpr size_t kMaxPending = size_t{1} << 22;

// Values are folded and written so many chunks at a time.
constexpr int32 kFoldedChunks = 64;

Header header_of(const SourceSpool *spool) {
  return table_header(spool->chunks, spool->normalization);
}

// Chunks that are held in memory at once while digests take the rest of maintenance_work_mem.
int32 chunks_at_once() {
  return Max(maintenance_work_mem / 4 * 3, kFoldedChunks);
}

int log2_parts(size_t max_pending) {
  int log2 = kMaxLog2Parts;
  while (log2 > kMinLog2Parts && max_pending >> log2 < kDigestsPerWrite) --log2;
  return log2;
}

[[noreturn]] void file_failed(const char *action) {
  const char *reason = strerror(errno);
  ereport(ERROR, (errcode_for_file_access(),
                  errmsg("could not %s temporary file of a Bloom filter: %s", action, reason)));
  pg_unreachable();
}

[[noreturn]] void cut_short() {
  ereport(ERROR, (errcode_for_file_access(),
                  errmsg("temporary file of a Bloom filter is shorter than was written")));
  pg_unreachable();
}

SpoolFile make_file(const SourceSpool *spool) {
  PrepareTempTablespaces();
  return {OpenTemporaryFile(spool->outlives_transaction), 0};
}

void append_to_file(SpoolFile *file, const void *bytes, Size size) {
  if (size == 0) return;
  errno = 0;
  const auto written =
      FileWrite(file->file, const_cast<char *>(static_cast<const char *>(bytes)),
                static_cast<int>(size), static_cast<off_t>(file->size), WAIT_EVENT_BUFFILE_WRITE);
  if (static_cast<int64>(written) != static_cast<int64>(size)) file_failed("write to");
  file->size += static_cast<int64>(size);
}

// Reads `size` bytes from `offset` on, all of which were written.
void read_at(const SpoolFile &file, int64 offset, void *bytes, Size size) {
  const auto got = FileRead(file.file, static_cast<char *>(bytes), static_cast<int>(size),
                            static_cast<off_t>(offset), WAIT_EVENT_BUFFILE_READ);
  if (got < 0) file_failed("read");
  if (static_cast<int64>(got) != static_cast<int64>(size)) cut_short();
}

size_t part_of(const SourceSpool *spool, const Digest &digest) {
  return static_cast<size_t>(digest.hi >> (64 - spool->log2_parts));
}

void set_bits(const ChunkRange &range, const Header &header, const Digest &digest) {
  uint8 *chunk = range.find(header, chunk_of(digest, header.chunks));
  if (chunk != nullptr) chunk_add(MutableChunkView(chunk, kChunkBytes), positions_of(digest));
}

void make_parts(SourceSpool *spool) {
  const size_t parts = size_t{1} << spool->log2_parts;
  MemoryContext caller = MemoryContextSwitchTo(spool->context);
  auto *files = static_cast<SpoolFile *>(palloc0(sizeof(SpoolFile) * parts));
  spool->parts = files;
  for (size_t part = 0; part < parts; ++part) files[part] = make_file(spool);
  MemoryContextSwitchTo(caller);
}

// Moves the digests that wait to the bits, or to the files of their parts, part by part.
void move_pending(SourceSpool *spool) {
  CHECK_FOR_INTERRUPTS();
  const size_t parts = size_t{1} << spool->log2_parts;
  std::array<size_t, (size_t{1} << kMaxLog2Parts) + 1> starts{};
  for (size_t i = 0; i < spool->pending_count; ++i) ++starts[part_of(spool, spool->pending[i]) + 1];
  for (size_t part = 0; part < parts; ++part) starts[part + 1] += starts[part];
  std::array<size_t, size_t{1} << kMaxLog2Parts> next;
  std::memcpy(next.data(), starts.data(), sizeof next);
  for (size_t i = 0; i < spool->pending_count; ++i)
    spool->ordered[next[part_of(spool, spool->pending[i])]++] = spool->pending[i];
  if (spool->bits != nullptr) {
    const ChunkRange all = {spool->bits, 0, spool->chunks};
    for (size_t i = 0; i < spool->pending_count; ++i)
      set_bits(all, header_of(spool), spool->ordered[i]);
  } else {
    if (spool->parts == nullptr) make_parts(spool);
    for (size_t part = 0; part < parts; ++part)
      append_to_file(&spool->parts[part], spool->ordered + starts[part],
                     (starts[part + 1] - starts[part]) * sizeof(Digest));
  }
  spool->pending_count = 0;
}

void hash_keys(SourceSpool *spool) {
  std::array<Digest, md5::kLanes> digests;
  md5::digest_lanes(spool->keys, digests);
  const size_t count = spool->keys_count;
  spool->keys_count = 0;
  for (size_t i = 0; i < count; ++i) spool_digest(spool, digests[i]);
}

// Sets the bits of a file's digests that lie in the range.
void fill_from_file(const SpoolFile &file, const ChunkRange &range, const Header &header) {
  std::array<Digest, 4096> digests;
  for (int64 offset = 0; offset < file.size;) {
    CHECK_FOR_INTERRUPTS();
    const auto bytes =
        static_cast<Size>(Min(static_cast<int64>(sizeof digests), file.size - offset));
    read_at(file, offset, digests.data(), bytes);
    for (size_t i = 0; i < bytes / sizeof(Digest); ++i) set_bits(range, header, digests[i]);
    offset += static_cast<int64>(bytes);
  }
}

// ORs a range of every value's chunks into it.
void fill_from_values(SourceSpool *spool, const ChunkRange &range) {
  std::array<uint8, chunk_offset(kFoldedChunks)> chunks;
  for (int64 value = 0; value < spool->values_count; ++value) {
    const int64 first = value * spool->chunks + range.first;
    for (int32 done = 0; done < range.count;) {
      CHECK_FOR_INTERRUPTS();
      const int32 count = Min(kFoldedChunks, range.count - done);
      const Size bytes = chunk_offset(count);
      read_at(*spool->values, (first + done) * kChunkBytes, chunks.data(), bytes);
      merge_bits(range.bits + chunk_offset(done), {chunks.data(), bytes});
      done += count;
    }
  }
}

// Sets the bits of all that was spooled and lies in the range.
void fill_range(SourceSpool *spool, const ChunkRange &range) {
  const Header header = header_of(spool);
  for (size_t i = 0; i < spool->pending_count; ++i) set_bits(range, header, spool->pending[i]);
  if (spool->parts != nullptr) {
    // The parts whose share of all digests meets the range's share of all chunks; two ranges may
    // meet in one.
    const int64 parts = INT64CONST(1) << spool->log2_parts, end = range.first + range.count;
    const int64 last = (end * parts - 1) / header.chunks;
    for (int64 part = static_cast<int64>(range.first) * parts / header.chunks; part <= last; ++part)
      fill_from_file(spool->parts[part], range, header);
  }
  if (spool->values != nullptr) fill_from_values(spool, range);
}

// Hashes what still waits for that, and gives the memory of digests that are in bits or files back.
void finish_spool(SourceSpool *spool) {
  hash_keys(spool);
  if (spool->bits == nullptr && spool->parts == nullptr) return;
  move_pending(spool);
  pfree(spool->ordered);
  pfree(spool->pending);
  spool->ordered = spool->pending = nullptr;
}

// Folds chunks [first, first + count) of the filter out of a value's, `factor` of which make one.
void fold_part(const ValueView &value, int32 factor, int32 first, int32 count, uint8 *target) {
  Header part = value.header;
  part.chunks = count * factor;
  fold(part, value.bits().subspan(chunk_offset(first * factor), part.bits_bytes()), count, target);
}

}  // namespace

SourceSpool *open_spool(Normalization normalization, int32 chunks, bool outlives_transaction) {
  MemoryContext context =
      AllocSetContextCreate(outlives_transaction ? TopMemoryContext : CurrentMemoryContext,
                            "bloomfilter source", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(context);
  auto *spool = static_cast<SourceSpool *>(palloc0(sizeof(SourceSpool)));
  spool->context = context;
  spool->normalization = normalization;
  spool->chunks = chunks;
  spool->outlives_transaction = outlives_transaction;
  // One chunk is one kilobyte, the unit of maintenance_work_mem.
  if (chunks != 0 && chunks <= chunks_at_once())
    spool->bits = static_cast<uint8 *>(allocate_zeroed(chunk_offset(chunks)));
  if (chunks == 0) initHyperLogLog(&spool->different, kRegisterBits);
  spool->max_pending =
      Min(kMaxPending, static_cast<size_t>(maintenance_work_mem) * 1024 / 8 / sizeof(Digest));
  spool->log2_parts = log2_parts(spool->max_pending);
  spool->pending = static_cast<Digest *>(palloc(spool->max_pending * sizeof(Digest)));
  spool->ordered = static_cast<Digest *>(palloc(spool->max_pending * sizeof(Digest)));
  MemoryContextSwitchTo(caller);
  return spool;
}

void close_spool(SourceSpool *spool) {
  // Where making one failed, those from it on were not made.
  for (int part = 0; spool->parts != nullptr && part < 1 << spool->log2_parts; ++part)
    if (spool->parts[part].file > 0) FileClose(spool->parts[part].file);
  if (spool->values != nullptr && spool->values->file > 0) FileClose(spool->values->file);
  MemoryContextDelete(spool->context);
}

void spool_name(SourceSpool *spool, std::string_view name) {
  Assert(spool->keys_count < md5::kLanes);
  ++spool->names;
  if (!write_short_key(spool->normalization, name, md5::kMaxKeyBytes,
                       spool->keys[spool->keys_count]))
    return spool_digest(spool, hash_item(spool->normalization, name));
  if (++spool->keys_count == md5::kLanes) hash_keys(spool);
}

void spool_digest(SourceSpool *spool, const Digest &digest) {
  Assert(spool->pending_count < spool->max_pending);
  if (spool->chunks == 0) addHyperLogLog(&spool->different, static_cast<uint32>(digest.lo >> 32));
  spool->pending[spool->pending_count++] = digest;
  if (spool->pending_count == spool->max_pending) move_pending(spool);
}

void spool_value(SourceSpool *spool, const ValueView &value, const char *filter) {
  Assert(spool->chunks > 0);
  const int32 factor = require_mergeable(value.header, spool->chunks, spool->normalization, filter);
  if (spool->bits != nullptr) {
    fold_part(value, factor, 0, spool->chunks, spool->bits);
    return;
  }
  if (spool->values == nullptr) {
    spool->values =
        static_cast<SpoolFile *>(MemoryContextAllocZero(spool->context, sizeof(SpoolFile)));
    *spool->values = make_file(spool);
  }
  for (int32 first = 0; first < spool->chunks; first += kFoldedChunks) {
    CHECK_FOR_INTERRUPTS();
    std::array<uint8, chunk_offset(kFoldedChunks)> folded{};
    const int32 count = Min(kFoldedChunks, spool->chunks - first);
    fold_part(value, factor, first, count, folded.data());
    append_to_file(spool->values, folded.data(), chunk_offset(count));
  }
  ++spool->values_count;
}

float8 spooled_names(SourceSpool *spool) {
  hash_keys(spool);
  const auto names = static_cast<float8>(spool->names);
  if (spool->names > kCountable) return names;
  return Min(names, std::round(estimateHyperLogLog(&spool->different)));
}

float8 write_spooled_rows(Relation relation, SourceSpool *spool, int32 chunks) {
  Assert(spool->chunks == 0 || spool->chunks == chunks);
  spool->chunks = chunks;
  finish_spool(spool);
  if (spool->bits == nullptr)
    return write_rows_by_range(relation, chunks, chunks_at_once(),
                               [&](const ChunkRange &range) { fill_range(spool, range); });
  const ChunkRange all = {spool->bits, 0, chunks};
  write_rows(relation, all);
  return items_in(all);
}

}  // namespace bloomfilter
