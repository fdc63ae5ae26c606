// The journal of a rebuild as a file: its path, its entries, and what happens when a write or a
// read fails.
#include "pg.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "rebuild_journal.hpp"
#include "rebuild_phase.hpp"

namespace bloomfilter {
namespace {

// The path of a journal, in the folder where the server keeps its temporary files. The name begins
// with the prefix of those files, so the server removes a journal that is left over when it starts.
struct JournalPath {
  char text[MAXPGPATH + 64];  // a folder, and a name of at most 60 characters
  JournalPath(Oid relid, uint32 journal) {
    char folder[MAXPGPATH];
    TempTablespacePath(folder, DEFAULTTABLESPACE_OID);
    snprintf(text, sizeof text, "%s/%s.bloom.%u.%u.%u", folder, PG_TEMP_FILE_PREFIX, MyDatabaseId,
             relid, journal);
  }
};

// Raises the error that errno tells of. `message` has places for the path and for the reason.
[[noreturn]] void journal_failed(const char *message, const char *path) {
  const char *reason = strerror(errno);
  ereport(ERROR, (errcode_for_file_access(), errmsg(message, path, reason)));
  pg_unreachable();
}

// Raises 55000. A filter without these entries would answer "definitely not" for names that were
// added.
[[noreturn]] void entries_missing(const char *path) {
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("entries may be missing from journal file \"%s\"", path),
           errdetail("The file was removed or truncated."), errhint("Start the rebuild again.")));
  pg_unreachable();
}

// An entry is the MD5 digest, with its bytes in the order in which md5() prints them. 16 divides
// the size of a page. So a write that stops at a page, because the disk is full, ends between two
// entries.
constexpr Size kEntryBytes = 16;

void write_entry(const Digest &digest, uint8 *entry) {
  for (int i = 0; i < 8; ++i) {
    entry[i] = static_cast<uint8>(digest.hi >> (56 - 8 * i));
    entry[i + 8] = static_cast<uint8>(digest.lo >> (56 - 8 * i));
  }
}

// Appends to the file. Returns false if the file does not exist. The file is opened with O_APPEND,
// so the bytes of one write stay together beside other writers, and the writers need no lock among
// themselves.
bool append_to_file(const char *path, const uint8 *bytes, Size size) {
  const int file = OpenTransientFile(path, O_WRONLY | O_APPEND | PG_BINARY);
  if (file < 0 && errno == ENOENT) return false;
  if (file < 0) journal_failed(gettext_noop("could not open journal file \"%s\": %s"), path);
  errno = 0;
  const ssize_t written = write(file, bytes, size);
  if (written != static_cast<ssize_t>(size)) {
    const int error = written < 0 || errno != 0 ? errno : ENOSPC;
    // Part of an entry would shift all entries behind it. Without the file the rebuild fails, and
    // the filter stays as it is.
    if (written > 0 && static_cast<Size>(written) % kEntryBytes != 0) unlink(path);
    CloseTransientFile(file);
    errno = error;
    journal_failed(gettext_noop("could not write to journal file \"%s\": %s"), path);
  }
  if (CloseTransientFile(file) != 0)
    journal_failed(gettext_noop("could not close journal file \"%s\": %s"), path);
  return true;
}

}  // namespace

void write_journal(const OpenFilter &filter, std::span<const Digest> digests) {
  const uint32 journal = filter.settings().journal;
  // The settings may still name the journal of a rebuild that broke off. Nobody reads that one.
  if (likely(journal == 0) || !rebuild_runs(*filter.table)) return;
  // The rebuild reads the rest of the journal under AccessExclusiveLock. This lock stays until the
  // commit, so no entry can come after that read.
  Assert(CheckRelationLockedByMe(filter.relation, RowExclusiveLock, true));
  const JournalPath path(filter.table->relid, journal);
  // One write for 64 entries, one kilobyte on the stack.
  constexpr size_t kBatch = 64;
  std::array<uint8, kBatch * kEntryBytes> entries;
  for (size_t first = 0; first < digests.size(); first += kBatch) {
    const size_t count = Min(kBatch, digests.size() - first);
    for (size_t i = 0; i < count; ++i)
      write_entry(digests[first + i], entries.data() + i * kEntryBytes);
    if (append_to_file(path.text, entries.data(), count * kEntryBytes)) continue;
    // A rebuild that breaks off releases its lock before it removes the file. So a missing file is
    // an error only while the lock is held.
    if (!rebuild_runs(*filter.table)) return;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("the rebuild journal of Bloom filter \"%s\" does not exist", filter.name()),
             errdetail("The rebuilt filter would lack the name."),
             errhint("Cancel the rebuild and start it again.")));
  }
}

uint32 make_journal(Oid relid) {
  uint32 journal = 0;
  // A random number. With a counter, a later rebuild could get the number that the settings of a
  // restored dump still name. 0 means "no journal" in the settings.
  while (journal == 0)
    if (!pg_strong_random(&journal, sizeof journal))
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random number")));
  char folder[MAXPGPATH];
  TempTablespacePath(folder, DEFAULTTABLESPACE_OID);
  // The server makes this folder only when it needs it.
  if (MakePGDirectory(folder) < 0 && errno != EEXIST)
    journal_failed(gettext_noop("could not create directory \"%s\": %s"), folder);
  const JournalPath path(relid, journal);
  // Neither the file nor its entries are flushed to the disk. After a crash of the server the
  // rebuild no longer runs, and nobody reads them.
  const int file = OpenTransientFile(path.text, O_CREAT | O_EXCL | O_WRONLY | PG_BINARY);
  if (file < 0) journal_failed(gettext_noop("could not create journal file \"%s\": %s"), path.text);
  CloseTransientFile(file);
  lock_journal(relid, journal);
  return journal;
}

void remove_journal(Oid relid, uint32 journal) {
  const JournalPath path(relid, journal);
  if (unlink(path.text) == 0 || errno == ENOENT) return;
  // Not an error: this also runs while a transaction aborts.
  const char *reason = strerror(errno);
  ereport(LOG, (errcode_for_file_access(),
                errmsg("could not remove journal file \"%s\": %s", path.text, reason)));
}

int64 read_journal(Oid relid, uint32 journal, int64 *position,
                   FunctionRef<void(const Digest &)> apply) {
  Assert(*position >= 0 && *position % static_cast<int64>(kEntryBytes) == 0);
  const JournalPath path(relid, journal);
  const int file = OpenTransientFile(path.text, O_RDONLY | PG_BINARY);
  if (file < 0 && errno == ENOENT) entries_missing(path.text);
  if (file < 0) journal_failed(gettext_noop("could not open journal file \"%s\": %s"), path.text);
  struct stat status;
  if (fstat(file, &status) != 0)
    journal_failed(gettext_noop("could not read journal file \"%s\": %s"), path.text);
  const auto size = static_cast<int64>(status.st_size);
  // A file that shrank, or that does not end between two entries, has lost some. The rebuild fails
  // then.
  if (size < *position || size % kEntryBytes != 0) entries_missing(path.text);
  const int64 first = *position;
  std::array<uint8, 512 * kEntryBytes> entries;
  // Only up to the size that fstat saw. Entries that come meanwhile are for the next call.
  while (*position < size) {
    CHECK_FOR_INTERRUPTS();
    const auto wanted =
        static_cast<size_t>(Min(static_cast<int64>(entries.size()), size - *position));
    const ssize_t got = pread(file, entries.data(), wanted, static_cast<off_t>(*position));
    if (got < 0) journal_failed(gettext_noop("could not read journal file \"%s\": %s"), path.text);
    if (static_cast<size_t>(got) != wanted) entries_missing(path.text);
    for (size_t i = 0; i < wanted; i += kEntryBytes)
      apply(
          digest_from_bytes(std::span<const unsigned char, kEntryBytes>(&entries[i], kEntryBytes)));
    *position += got;
  }
  CloseTransientFile(file);
  return (size - first) / static_cast<int64>(kEntryBytes);
}

}  // namespace bloomfilter
