// Keeps the names and values of a source until their chunks are written. If all chunks fit into
// maintenance_work_mem, it keeps bits in memory. Otherwise it keeps digests in temporary files, one
// file for each part of the filter, so that the source runs only once.
#include "pg.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "bloomfilter/add_queue.hpp"
#include "chunk_insert.hpp"
#include "huge_pages.hpp"
#include "item_key.hpp"
#include "source_spool.hpp"

namespace bloomfilter {
namespace {

// A temporary file that is written from its beginning to its end, and deleted when it is closed.
// Not the server's BufFile: BufFileClose writes the last page and may raise an error, and a rebuild
// closes its files while its transaction aborts. No buffer is needed either: each write is of many
// entries.
struct SpoolFile {
  File file;
  int64 size;
};

}  // namespace

// Digests are divided into parts by the first bits of the number that chooses the chunk. The
// digests of a part belong to neighboring chunks, whatever the number of chunks will be.
struct SourceSpool {
  MemoryContext context;
  Normalization normalization;
  int32 chunks;  // 0: not known yet
  bool outlives_transaction;

  // All chunks, in memory. Null if they do not fit, or if their number is not known.
  uint8 *bits;

  // Keys that wait to be hashed, eight at a time.
  std::array<md5::Block, md5::kLanes> keys;
  size_t keys_count;
  // Digests that wait to be moved to the bits or to the files. `ordered` is as much memory again,
  // to order them by part.
  Digest *pending;
  Digest *ordered;
  size_t pending_count;
  size_t max_pending;
  // Digests in files, one for each part. Null as long as all digests are in memory.
  SpoolFile *parts;
  int log2_parts;
  // The chunks of values, one value after the other. Each value is folded to the chunks of the
  // filter.
  SpoolFile *values;
  int64 values_count;

  // `names` counts all names, and `different` estimates how many of them differ. The second is used
  // only if the number of chunks is not known.
  int64 names;
  hyperLogLogState different;
};

namespace {

// The server's HyperLogLog has 2^14 bytes of registers then, and a standard error of 0.8 %.
constexpr uint8 kRegisterBits = 14;
// Its hashes have 32 bits. With more names than this, too many hashes are equal to count by them.
constexpr int64 kCountable = INT64CONST(1) << 30;

// 16 to 256 parts: as many as possible, as long as a write to a part has 256 digests (4 kB) on
// average.
constexpr int kMaxLog2Parts = 8, kMinLog2Parts = 4;
constexpr size_t kDigestsPerWrite = 256;

// At most 2^22 digests wait, 64 MB of them. With so many, the bits of one part are in the
// processor's cache while its digests are moved: 20 M names into 131072 chunks take 4 s. They took
// 5.4 s when each bit was set at once, with its cache line fetched ahead.
constexpr size_t kMaxPending = size_t{1} << 22;

// Values are folded, written and read in pieces of 64 chunks, which is 64 kB on the stack.
constexpr int32 kFoldedChunks = 64;

Header header_of(const SourceSpool *spool) {
  return table_header(spool->chunks, spool->normalization);
}

// The number of chunks that are in memory at once: three quarters of maintenance_work_mem, since a
// chunk is one kilobyte. Digests that wait take the other quarter.
int32 chunks_at_once() {
  return Max(maintenance_work_mem / 4 * 3, kFoldedChunks);
}

// The number of parts for so many digests that wait.
int log2_parts(size_t max_pending) {
  int log2 = kMaxLog2Parts;
  while (log2 > kMinLog2Parts && max_pending >> log2 < kDigestsPerWrite) --log2;
  return log2;
}

// Raises the error that errno tells of. `message` has a place for the reason.
[[noreturn]] void file_failed(const char *message) {
  const char *reason = strerror(errno);
  ereport(ERROR, (errcode_for_file_access(), errmsg(message, reason)));
  pg_unreachable();
}

[[noreturn]] void cut_short() {
  ereport(ERROR,
          (errcode(ERRCODE_IO_ERROR), errmsg("temporary file of a Bloom filter was truncated")));
  pg_unreachable();
}

// The server puts a file that outlives its transaction into the default tablespace, and any other
// file into temp_tablespaces.
SpoolFile make_file(const SourceSpool *spool) {
  PrepareTempTablespaces();
  return {OpenTemporaryFile(spool->outlives_transaction), 0};
}

// Appends to the file. Raises an error unless all bytes were written.
void append_to_file(SpoolFile *file, const void *bytes, Size size) {
  if (size == 0) return;
  errno = 0;
  const auto written =
      FileWrite(file->file, const_cast<char *>(static_cast<const char *>(bytes)),
                static_cast<int>(size), static_cast<off_t>(file->size), WAIT_EVENT_BUFFILE_WRITE);
  if (static_cast<int64>(written) != static_cast<int64>(size))
    file_failed(gettext_noop("could not write to temporary file of a Bloom filter: %s"));
  file->size += static_cast<int64>(size);
}

// Reads `size` bytes from `offset` on. All of them were written before.
void read_at(const SpoolFile &file, int64 offset, void *bytes, Size size) {
  const auto got = FileRead(file.file, static_cast<char *>(bytes), static_cast<int>(size),
                            static_cast<off_t>(offset), WAIT_EVENT_BUFFILE_READ);
  if (got < 0) file_failed(gettext_noop("could not read temporary file of a Bloom filter: %s"));
  if (static_cast<int64>(got) != static_cast<int64>(size)) cut_short();
}

// The part of a digest: its first bits, which are also the first bits of the number that chooses
// the chunk. So parts lie in the order of chunks.
size_t part_of(const SourceSpool *spool, const Digest &digest) {
  return static_cast<size_t>(digest.hi >> (64 - spool->log2_parts));
}

// Sets the bits of a digest, if its chunk is in the range.
void set_bits(const ChunkRange &range, const Header &header, const Digest &digest) {
  uint8 *chunk = range.find(header, chunk_of(digest, header.chunks));
  if (chunk != nullptr) chunk_add(MutableChunkView(chunk, kChunkBytes), positions_of(digest));
}

void make_parts(SourceSpool *spool) {
  const size_t parts = size_t{1} << spool->log2_parts;
  MemoryContext caller = MemoryContextSwitchTo(spool->context);
  auto *files = static_cast<SpoolFile *>(palloc0(sizeof(SpoolFile) * parts));
  // Known to close_spool before the first file is made: making a later one may raise an error.
  spool->parts = files;
  for (size_t part = 0; part < parts; ++part) files[part] = make_file(spool);
  MemoryContextSwitchTo(caller);
}

// Moves the digests that wait to the bits, or to the files of their parts. A counting sort by part
// puts them in order first. So each file gets one write, and the bits of one part are set in a row.
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

// Hashes the keys that wait, and passes their digests on.
void hash_keys(SourceSpool *spool) {
  std::array<Digest, md5::kLanes> digests;
  md5::digest_lanes(spool->keys, digests);
  const size_t count = spool->keys_count;
  spool->keys_count = 0;
  for (size_t i = 0; i < count; ++i) spool_digest(spool, digests[i]);
}

// Sets the bits of those digests of a file that lie in the range.
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

// ORs the same range of the chunks of every value into it.
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

// Sets the bits of everything that was spooled and lies in the range.
void fill_range(SourceSpool *spool, const ChunkRange &range) {
  const Header header = header_of(spool);
  for (size_t i = 0; i < spool->pending_count; ++i) set_bits(range, header, spool->pending[i]);
  if (spool->parts != nullptr) {
    // Only the parts that overlap the range, by their share of all digests. The part at the border
    // of two ranges is read for both.
    const int64 parts = INT64CONST(1) << spool->log2_parts, end = range.first + range.count;
    const int64 last = (end * parts - 1) / header.chunks;
    for (int64 part = static_cast<int64>(range.first) * parts / header.chunks; part <= last; ++part)
      fill_from_file(spool->parts[part], range, header);
  }
  if (spool->values != nullptr) fill_from_values(spool, range);
}

// Hashes the keys that still wait. If digests are in bits or files already, moves the rest there
// and frees their memory, which the chunks may need. A few digests that never left memory stay
// there.
void finish_spool(SourceSpool *spool) {
  hash_keys(spool);
  if (spool->bits == nullptr && spool->parts == nullptr) return;
  move_pending(spool);
  pfree(spool->ordered);
  pfree(spool->pending);
  spool->ordered = spool->pending = nullptr;
}

// Folds chunks [first, first + count) of the filter out of a value. `factor` chunks of the value
// make one of the filter.
void fold_part(const ValueView &value, int32 factor, int32 first, int32 count, uint8 *target) {
  Header part = value.header;
  part.chunks = count * factor;
  fold(part, value.bits().subspan(chunk_offset(first * factor), part.bits_bytes()), count, target);
}

}  // namespace

SourceSpool *open_spool(Normalization normalization, int32 chunks, bool outlives_transaction) {
  // The memory of a rebuild has to outlive its transactions. close_spool frees it, also after an
  // error.
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
  // An eighth of maintenance_work_mem for digests that wait, and an eighth to order them.
  spool->max_pending =
      Min(kMaxPending, static_cast<size_t>(maintenance_work_mem) * 1024 / 8 / sizeof(Digest));
  spool->log2_parts = log2_parts(spool->max_pending);
  spool->pending = static_cast<Digest *>(palloc(spool->max_pending * sizeof(Digest)));
  spool->ordered = static_cast<Digest *>(palloc(spool->max_pending * sizeof(Digest)));
  MemoryContextSwitchTo(caller);
  return spool;
}

void close_spool(SourceSpool *spool) {
  // The server has no file 0. If making a file failed, that file and those after it are 0.
  for (int part = 0; spool->parts != nullptr && part < 1 << spool->log2_parts; ++part)
    if (spool->parts[part].file > 0) FileClose(spool->parts[part].file);
  if (spool->values != nullptr && spool->values->file > 0) FileClose(spool->values->file);
  MemoryContextDelete(spool->context);
}

void spool_name(SourceSpool *spool, std::string_view name) {
  Assert(spool->keys_count < md5::kLanes);
  // Only keys of at most 55 bytes can be hashed eight at a time. A longer one is hashed alone.
  if (write_short_key(spool->normalization, name, md5::kMaxKeyBytes,
                      spool->keys[spool->keys_count]) == kNoShortKey)
    return spool_digest(spool, hash_item(spool->normalization, name));
  if (++spool->keys_count == md5::kLanes) hash_keys(spool);
}

void spool_digest(SourceSpool *spool, const Digest &digest) {
  Assert(spool->pending_count < spool->max_pending);
  ++spool->names;
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
  // The estimate may be higher than the number of names that were seen.
  return std::min(names, std::round(estimateHyperLogLog(&spool->different)));
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
