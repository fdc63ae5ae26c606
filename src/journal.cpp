#include "pg.hpp"

#include <cstring>

#include "filter_ddl.hpp"
#include "journal.hpp"

namespace bloomfilter {
namespace {

// Lock tags: objects of pg_class with a subobject that no column has. Of the filter the first is
// the rebuild itself, the others are its phases; of the journal the first says that its rebuild
// runs. Not that of the filter: the journal that a restored dump names is another's.
constexpr uint16 kRebuildLock = 0x7B00;

constexpr const char *kPhaseNames[] = {"opening", "waiting for sign-ups under way",
                                       "reading the source", "writing", "swapping"};

LOCKTAG rebuild_tag(Oid relid, int which) {
  LOCKTAG tag;
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, relid,
                     static_cast<uint16>(kRebuildLock + which));
  return tag;
}

LOCKTAG phase_tag(Oid relid, Phase phase) {
  return rebuild_tag(relid, 1 + static_cast<int>(phase));
}

// Whether some session, this one perhaps, holds the lock.
bool is_held(const LOCKTAG &tag) {
  if (compat_lock_held_by_me(tag, ExclusiveLock)) return true;
  if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL) return true;
  LockRelease(&tag, ShareLock, false);
  return false;
}

void release_phases(Oid relid) {
  for (int phase = 0; phase <= static_cast<int>(Phase::kSwapping); ++phase) {
    const LOCKTAG tag = phase_tag(relid, static_cast<Phase>(phase));
    if (compat_lock_held_by_me(tag, ExclusiveLock)) LockRelease(&tag, ExclusiveLock, true);
  }
}

Datum digest_datum(const Digest &digest, pg_uuid_t *uuid) {
  for (int i = 0; i < 8; ++i) {
    uuid->data[i] = static_cast<uint8>(digest.hi >> (56 - 8 * i));
    uuid->data[i + 8] = static_cast<uint8>(digest.lo >> (56 - 8 * i));
  }
  return UUIDPGetDatum(uuid);
}

TransactionId *copy_xids(MemoryContext context, const TransactionId *xids, Size count) {
  auto *copy = static_cast<TransactionId *>(
      MemoryContextAlloc(context, sizeof(TransactionId) * Max(count, 1)));
  if (count > 0) std::memcpy(copy, xids, sizeof(TransactionId) * count);
  return copy;
}

void move_mark(JournalMark *mark, MemoryContext context, Snapshot snapshot) {
  if (mark->valid) {
    pfree(mark->snapshot.xip);
    pfree(mark->snapshot.subxip);
  }
  mark->snapshot = *snapshot;
  // Where they overflowed a copy has no subtransactions, whatever it counts.
  if (snapshot->suboverflowed) mark->snapshot.subxcnt = 0;
  mark->snapshot.xip = copy_xids(context, snapshot->xip, snapshot->xcnt);
  mark->snapshot.subxip =
      copy_xids(context, snapshot->subxip, static_cast<Size>(mark->snapshot.subxcnt));
  mark->valid = true;
}

// Whether the entry had committed when the mark was set. Where a transaction's children overflowed
// its snapshot that is not to be told: applied again, an entry does no harm.
bool was_applied(const JournalMark &mark, TransactionId writer) {
  if (!mark.valid || mark.snapshot.suboverflowed) return false;
  auto *snapshot = const_cast<SnapshotData *>(&mark.snapshot);
  return !XidInMVCCSnapshot(writer, snapshot);
}

}  // namespace

bool begin_rebuild(Oid relid) {
  const LOCKTAG tag = rebuild_tag(relid, 0);
  if (compat_lock_held_by_me(tag, ExclusiveLock)) return false;
  return LockAcquire(&tag, ExclusiveLock, true, true) != LOCKACQUIRE_NOT_AVAIL;
}

void enter_phase(Oid relid, Phase phase) {
  release_phases(relid);
  // A moment's look by another session at what it is may be in the way: wait for that.
  const LOCKTAG tag = phase_tag(relid, phase);
  LockAcquire(&tag, ExclusiveLock, true, false);
}

void end_rebuild(Oid relid, Oid journal) {
  release_phases(relid);
  for (const Oid locked : {relid, journal}) {
    const LOCKTAG tag = rebuild_tag(locked, 0);
    LockRelease(&tag, ExclusiveLock, true);
  }
}

bool rebuild_runs(const FilterTable &table) {
  const Oid journal = table.settings.journal;
  return OidIsValid(journal) && !RecoveryInProgress() && is_held(rebuild_tag(journal, 0));
}

const char *running_rebuild(const FilterTable &table) {
  if (RecoveryInProgress() || !is_held(rebuild_tag(table.relid, 0))) return nullptr;
  for (int phase = 0; phase <= static_cast<int>(Phase::kSwapping); ++phase)
    if (is_held(phase_tag(table.relid, static_cast<Phase>(phase))))
      return psprintf("rebuilding: %s", kPhaseNames[phase]);
  return "rebuilding";
}

const char *broken_rebuild(const FilterTable &table) {
  if (!OidIsValid(table.settings.journal)) return nullptr;
  // The primary's locks are not to be seen on a standby.
  return RecoveryInProgress() ? "ready: a rebuild runs on the primary, or broke off"
                              : "rebuild broken off";
}

void write_journal(const OpenFilter &filter, std::span<const Digest> digests) {
  if (likely(!OidIsValid(filter.settings().journal)) || !rebuild_runs(*filter.table)) return;
  if (compat_lock_held_by_me(rebuild_tag(filter.settings().journal, 0), ExclusiveLock))
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_IN_USE),
             errmsg("cannot add to Bloom filter \"%s\" from within its rebuild", filter.name()),
             errhint("The source of a rebuild should only read.")));
  Relation journal = try_relation_open(filter.settings().journal, RowExclusiveLock);
  if (journal == nullptr)
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("the journal of the rebuild of Bloom filter \"%s\" is gone", filter.name()),
             errdetail("An add could not be kept."),
             errhint("Cancel the rebuild, and begin it again.")));
  for (const Digest &digest : digests) {
    pg_uuid_t uuid;
    Datum values[1] = {digest_datum(digest, &uuid)};
    bool nulls[1] = {false};
    HeapTuple entry = heap_form_tuple(RelationGetDescr(journal), values, nulls);
    heap_insert(journal, entry, GetCurrentCommandId(true), 0, nullptr);
    heap_freetuple(entry);
  }
  relation_close(journal, NoLock);
}

Oid make_journal(Oid relid) {
  const Oid schema = get_rel_namespace(relid);
  const char *name = work_table_name(relid, "journal");
  // Unlogged: after a crash there is no rebuild that it could be of.
  execute(
      psprintf("create unlogged table %s (digest pg_catalog.uuid not null) using heap "
               "with (autovacuum_enabled = false)",
               quote_qualified_identifier(get_namespace_name(schema), name)));
  return get_relname_relid(name, schema);
}

void hold_journal(Oid journal) {
  const LOCKTAG tag = rebuild_tag(journal, 0);
  LockAcquire(&tag, ExclusiveLock, true, false);
}

int64 read_journal(Oid journal_relid, JournalMark *mark, MemoryContext context, ApplyDigest apply,
                   void *argument) {
  Relation journal = table_open(journal_relid, AccessShareLock);
  if (mark->valid && mark->file != compat_file_number(journal))
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("journal \"%s\" was rewritten or emptied", RelationGetRelationName(journal)),
             errdetail("What was added meanwhile may be missing from it."),
             errhint("Begin the rebuild again.")));
  mark->file = compat_file_number(journal);
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = compat_table_beginscan(journal, snapshot);
  TupleTableSlot *slot = table_slot_create(journal, nullptr);
  int64 applied = 0;
  while (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    CHECK_FOR_INTERRUPTS();
    HeapTuple entry = ExecFetchSlotHeapTuple(slot, false, nullptr);
    // The raw one: an entry that was frozen since has come since all the same.
    if (was_applied(*mark, HeapTupleHeaderGetRawXmin(entry->t_data))) continue;
    bool is_null;
    const pg_uuid_t *uuid = DatumGetUUIDP(slot_getattr(slot, 1, &is_null));
    apply(argument, digest_from_bytes(std::span<const unsigned char, 16>(uuid->data, 16)));
    ++applied;
  }
  ExecDropSingleTupleTableSlot(slot);
  table_endscan(scan);
  move_mark(mark, context, snapshot);
  UnregisterSnapshot(snapshot);
  table_close(journal, NoLock);
  return applied;
}

}  // namespace bloomfilter
