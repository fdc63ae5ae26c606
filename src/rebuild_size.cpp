// How large a rebuild makes the filter. It keeps the size, unless the items need more or the caller
// asks for another one, and it refuses a size that would fill the disk by mistake.
#include "pg.hpp"

#include <cmath>

#include "arguments.hpp"
#include "bloomfilter/sizing.hpp"
#include "rebuild_size.hpp"

namespace bloomfilter {
namespace {

// Raises 54000 for a filter of more than 16 GiB that is also more than twice as large as before.
// Such a capacity is likely a mistake, and the filter would fill the disk.
void require_reasonable_size(const Rebuild &rebuild) {
  const float8 bytes = table_bytes_on_disk(rebuild.chunks);
  if (bytes <= kMaxUnaskedBytes || rebuild.chunks / 2 <= rebuild.old.chunks) return;
  ereport(
      ERROR,
      (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
       errmsg("a Bloom filter for %.0f items at a false-positive rate of %g takes %.0f GB on disk",
              rebuild.capacity, rebuild.fp_rate, bytes / 1e9),
       errhint("If you want a filter of that size, call bloom_grow until it is half as large, and "
               "then rebuild it.")));
}

}  // namespace

// Twice the items, not twice the old capacity: a filter that was far too small gets the right size
// in one rebuild.
void size_by_items(Rebuild *rebuild, float8 items) {
  const Settings &old = rebuild->old;
  rebuild->capacity = old.capacity;
  // Room for twice the items, so that the next rebuild is not due soon.
  if (items > kNearlyFull * old.capacity) {
    rebuild->capacity = std::ceil(2 * items);
    ereport(
        NOTICE,
        (errmsg("Bloom filter \"%s\" is rebuilt for %.0f items", rebuild->name, rebuild->capacity),
         errdetail("It will hold about %.0f items, more than %.0f %% of its capacity of %.0f.",
                   items, 100 * kNearlyFull, old.capacity)));
  }
  const bool keeps_rate = rebuild->fp_rate == old.fp_rate;
  // The number of chunks is kept and not computed: a filter may have been made with another number.
  if (keeps_rate && rebuild->capacity == old.capacity)
    rebuild->chunks = old.chunks;
  else
    rebuild->chunks = table_chunks(rebuild->capacity, rebuild->fp_rate);
  // A filter that was made or grown with more chunks keeps them.
  if (keeps_rate) rebuild->chunks = Max(rebuild->chunks, old.chunks);
  require_reasonable_size(*rebuild);
}

// A given capacity or rate decides at once. Otherwise names are counted while they are read, and
// the number of chunks stays 0 until then.
void decide_size(Rebuild *rebuild) {
  const Settings &old = rebuild->old;
  // Twice the chunks, and no other number: only then does each old chunk become two whole new ones.
  if (rebuild->source == nullptr) {
    if (old.chunks > kMaxChunks / 2)
      ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                      errmsg("Bloom filter \"%s\" cannot grow beyond %d chunks", rebuild->name,
                             kMaxChunks)));
    rebuild->chunks = old.chunks * 2;
    rebuild->capacity = old.capacity * 2;
    rebuild->fp_rate = old.fp_rate;
    return;
  }
  const bool keeps_rate = rebuild->fp_rate == 0 || rebuild->fp_rate == old.fp_rate;
  if (rebuild->fp_rate == 0) rebuild->fp_rate = old.fp_rate;
  if (rebuild->capacity == 0 && old.capacity == 0) {
    // The chunks would have to follow from the new rate, and that takes a capacity.
    if (!keeps_rate)
      ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                      errmsg("the capacity of Bloom filter \"%s\" is not known", rebuild->name),
                      errhint("Pass capacity together with fp_rate.")));
    rebuild->chunks = old.chunks;
  } else if (rebuild->capacity == 0) {
    // Names are counted while they are read. The names in values cannot be counted, so the old bits
    // have to say how many there are. Values also have a number of chunks already, which their
    // builder chose. The same for a source that is told the number of chunks: it has to be known
    // before the first row.
    if (rebuild->form.rows == SourceRows::kValues || rebuild->form.takes_chunks)
      size_by_items(rebuild, rebuild->old_items);
  } else {
    rebuild->chunks = keeps_rate && rebuild->capacity == old.capacity
                          ? old.chunks
                          : table_chunks(rebuild->capacity, rebuild->fp_rate);
    require_reasonable_size(*rebuild);
  }
}

void warn_if_nearly_full(const Rebuild &rebuild, float8 items) {
  if (!rebuild.form.takes_chunks || rebuild.capacity == 0) return;
  if (items <= kNearlyFull * rebuild.capacity) return;
  ereport(WARNING,
          (errmsg("Bloom filter \"%s\" holds about %.0f items, more than %.0f %% of its capacity "
                  "of %.0f",
                  rebuild.name, items, 100 * kNearlyFull, rebuild.capacity),
           errdetail("The source uses $1, so the number of chunks was decided before it was read."),
           errhint("Call bloom_rebuild again, without a capacity.  It makes room for twice as many "
                   "items.")));
}

}  // namespace bloomfilter
