// bloom_rebuild and bloom_grow: a filter made anew from its source, or twice as large from itself,
// beside checks and adds. See DESIGN.md, section 8.
#include "pg.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "bloomfilter/chunk.hpp"
#include "bloomfilter/layout.hpp"
#include "bloomfilter/sizing.hpp"
#include "chunk_row.hpp"
#include "filter_ddl.hpp"
#include "filter_table.hpp"
#include "journal.hpp"
#include "load.hpp"
#include "popcount.hpp"
#include "size_arguments.hpp"

using namespace bloomfilter;

namespace {

// A lock that does not come in this time is given up, so that nobody queues behind the request for
// longer.
constexpr const char *kLockTimeout = "50ms";
// Between tries, at first and at most.
constexpr int kFirstRetryMilliseconds = 100;
constexpr int kRetryMilliseconds = 1000;
constexpr int kGiveUpSeconds = 600;

// Who holds a lock through so many looks, so far apart, is not waited for in the queue at all. On a
// busy machine a transaction may take long for being pushed aside.
constexpr int kLooks = 6;
constexpr int kLookMilliseconds = 20;

// As long as more entries than this come while the journal is applied, it is applied again before
// adds are locked out.
constexpr int64 kFewEntries = 1000;
constexpr int kDrains = 10;

// From this saturation on a filter gets larger unless a capacity is given.
constexpr float8 kNearlyFull = 0.8;

struct Rebuild {
  Oid relid;
  Oid caller;          // the SQL function
  const char *source;  // null: the filter itself, grown
  float8 capacity;     // 0: as it is
  float8 fp_rate;      // 0: as it is
  float8 min_share;
  const char *name;
  float8 old_items;  // about how many the filter holds
  float8 old_tale;   // how many its bits tell of: more where it has grown
  int32 old_chunks;
  State old_state;
  int32 chunks;
  Normalization normalization;
  Oid journal;
  Oid shadow;
  JournalMark mark;
  MemoryContext context;  // lives as long as the call
};

// ---- Transactions and locks

// Commits, and goes on in a transaction that sees what others commit.
void next_transaction() {
  SPI_commit();
  XactIsoLevel = XACT_READ_COMMITTED;
}

// Waits without a snapshot; ends early for nothing but an interrupt.
void pause_for(int64 milliseconds) {
  const TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds);
  for (;;) {
    CHECK_FOR_INTERRUPTS();
    const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);
    if (left <= 0) return;
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
  }
}

// Autovacuum gives way to whoever has waited for its lock for deadlock_timeout. A rebuild never
// waits that long, and so asks for it, as the server does.
void ask_autovacuum_to_give_way(const PGPROC *process) {
  if (process == nullptr) return;
  LWLockAcquire(ProcArrayLock, LW_SHARED);
  const uint8 flags = ProcGlobal->statusFlags[process->pgxactoff];
  const int pid = process->pid;
  LWLockRelease(ProcArrayLock);
  if ((flags & PROC_IS_AUTOVACUUM) && !(flags & PROC_VACUUM_FOR_WRAPAROUND) && pid != 0)
    kill(pid, SIGINT);
}

// The transactions that hold the relation in the way of `mode`, *count of them.
const VirtualTransactionId *holders_of(Oid relid, LOCKMODE mode, int *count) {
  LOCKTAG tag;
  SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
  return GetLockConflicts(&tag, mode, count);
}

bool is_among(const VirtualTransactionId &one, const VirtualTransactionId *others, int count) {
  return std::any_of(others, others + count, [&](const VirtualTransactionId &other) {
    return VirtualTransactionIdEquals(one, other);
  });
}

// The process of a transaction that holds the relation in the way of `mode` and does not let go of
// it soon; -1 for a prepared one, 0 for none.
int lasting_holder(Oid relid, LOCKMODE mode) {
  int count;
  auto *lasting = const_cast<VirtualTransactionId *>(holders_of(relid, mode, &count));
  for (int look = 1; look < kLooks && count > 0; ++look) {
    pause_for(kLookMilliseconds);
    int now_count;
    const VirtualTransactionId *now = holders_of(relid, mode, &now_count);
    count = static_cast<int>(std::remove_if(lasting, lasting + count,
                                            [&](const VirtualTransactionId &one) {
                                              return !is_among(one, now, now_count);
                                            }) -
                             lasting);
  }
  if (count == 0) return 0;
  const PGPROC *process = compat_process_of(lasting[0]);
  ask_autovacuum_to_give_way(process);
  return process == nullptr || process->pid == 0 ? -1 : process->pid;
}

// Runs work() in a subtransaction that holds the lock. False if that lock, or one that work() asks
// for, did not come in time: then nothing was done.
template <typename Work>
bool attempt(Oid relid, LOCKMODE mode, Work work) {
  MemoryContext caller = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  volatile bool done = false;
  BeginInternalSubTransaction(nullptr);
  MemoryContextSwitchTo(caller);
  PG_TRY();
  {
    set_config_option("lock_timeout", kLockTimeout, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL,
                      true, 0, false);
    LockRelationOid(relid, mode);
    work();
    ReleaseCurrentSubTransaction();
    done = true;
  }
  PG_CATCH();
  {
    MemoryContextSwitchTo(caller);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE) ReThrowError(error);
    FreeErrorData(error);
  }
  PG_END_TRY();
  MemoryContextSwitchTo(caller);
  CurrentResourceOwner = owner;
  return done;
}

// Has work() done under the lock, trying until it comes; each try is short, and none makes anybody
// wait behind who holds the relation for long in the way of `strongest`, which work() will ask for.
// meanwhile() is done between tries. Raises 55P03 after ten minutes.
template <typename Work, typename Meanwhile>
void under_lock(const Rebuild &rebuild, LOCKMODE mode, LOCKMODE strongest, Work work,
                Meanwhile meanwhile) {
  const TimestampTz end =
      TimestampTzPlusMilliseconds(GetCurrentTimestamp(), kGiveUpSeconds * INT64CONST(1000));
  int told = 0;
  int64 retry = kFirstRetryMilliseconds;
  for (;;) {
    const int holder = lasting_holder(rebuild.relid, strongest);
    if (holder == 0 && attempt(rebuild.relid, mode, work)) return;
    const char *who = holder > 0   ? psprintf("process %d", holder)
                      : holder < 0 ? "a prepared transaction"
                                   : "others";
    if (GetCurrentTimestamp() > end)
      ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
                      errmsg("could not lock Bloom filter \"%s\" within %d seconds", rebuild.name,
                             kGiveUpSeconds),
                      errdetail("It is held by %s.", who),
                      errhint("End what holds it, and call the procedure again.")));
    if (holder != 0 && holder != told) {
      told = holder;
      ereport(NOTICE,
              (errmsg("waiting for %s, which holds Bloom filter \"%s\"", who, rebuild.name)));
    }
    next_transaction();
    pause_for(retry);
    retry = Min(2 * retry, kRetryMilliseconds);
    meanwhile();
  }
}

// ---- The parts of a rebuild

[[noreturn]] void runs_already(const char *name) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
                  errmsg("Bloom filter \"%s\" is being rebuilt already", name)));
  pg_unreachable();
}

void take_rebuild_lock(const Rebuild &rebuild) {
  // An add that looks whether a rebuild that broke off still runs is in the way for a moment.
  for (int look = 0; look < 20; ++look) {
    if (begin_rebuild(rebuild.relid)) return;
    pause_for(10);
  }
  runs_already(rebuild.name);
}

bool exists(const char *query) {
  const int result = SPI_execute(query, true, 1);
  if (result != SPI_OK_SELECT) elog(ERROR, "SPI_execute: %s", SPI_result_code_string(result));
  return SPI_processed > 0;
}

// A subscriber would not learn of the exchange, and go on with other rows.
void refuse_published(const Rebuild &rebuild) {
  if (exists(psprintf("select from pg_catalog.pg_publication where puballtables union all "
                      "select from pg_catalog.pg_publication_rel "
                      "where prrelid operator(pg_catalog.=) %u::pg_catalog.oid union all "
                      "select from pg_catalog.pg_publication_namespace "
                      "where pnnspid operator(pg_catalog.=) %u::pg_catalog.oid",
                      rebuild.relid, get_rel_namespace(rebuild.relid))))
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("Bloom filter \"%s\" is published", rebuild.name),
             errdetail("Subscribers would not learn of the exchange."),
             errhint("Take it out of the publication, and rebuild subscribers' filters too.")));
}

// Drops a table of ours, whoever owns it: it hangs on the filter, which the caller owns.
void drop_table(Oid relid) {
  ObjectAddress table;
  ObjectAddressSet(table, RelationRelationId, relid);
  performDeletion(&table, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

// The journal and the shadow of a rebuild that broke off, if they still hang on the filter.
void drop_leftovers(const Rebuild &rebuild) {
  const int result =
      SPI_execute(psprintf("select c.oid from pg_catalog.pg_depend d join pg_catalog.pg_class c "
                           "on c.oid operator(pg_catalog.=) d.objid "
                           "where d.classid operator(pg_catalog.=) %u::pg_catalog.oid "
                           "and d.refclassid operator(pg_catalog.=) d.classid "
                           "and d.refobjid operator(pg_catalog.=) %u::pg_catalog.oid "
                           "and d.deptype operator(pg_catalog.=) 'a'::pg_catalog.\"char\" "
                           "and c.relkind operator(pg_catalog.=) 'r'::pg_catalog.\"char\" "
                           "and c.relname operator(pg_catalog.~) '^bloom_[0-9]+_(journal|shadow)'",
                           RelationRelationId, rebuild.relid),
                  false, 0);
  if (result != SPI_OK_SELECT) elog(ERROR, "SPI_execute: %s", SPI_result_code_string(result));
  const uint64 count = SPI_processed;
  const SPITupleTable *rows = SPI_tuptable;
  for (uint64 i = 0; i < count; ++i) {
    bool is_null;
    drop_table(DatumGetObjectId(SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &is_null)));
  }
  CommandCounterIncrement();
}

// Has the table vanish with the filter.
void hang_on(Oid table, Oid filter) {
  ObjectAddress dependent, referenced;
  ObjectAddressSet(dependent, RelationRelationId, table);
  ObjectAddressSet(referenced, RelationRelationId, filter);
  recordDependencyOn(&dependent, &referenced, DEPENDENCY_AUTO);
}

// About how many items the filter's bits tell of. A chunk that is missing is no reason not to make
// it anew.
float8 items_of(const OpenFilter &filter) {
  float8 items = 0;
  for (int32 chunk = 0; chunk < filter.settings().chunks; ++chunk) {
    CHECK_FOR_INTERRUPTS();
    ChunkRow row;
    if (!find_chunk(filter.relation, filter.table, chunk, nullptr, Access::kRead, &row)) continue;
    const auto set =
        static_cast<float8>(popcount(chunk_bits(filter.relation, filter.table->shape, &row.tuple)));
    row.release();
    items += estimated_items(set, kChunkBits, kTableHashes);
  }
  return items;
}

// A capacity with a zero too many should not fill the disk.
constexpr float8 kMaxUnaskedBytes = 16.0 * 1024 * 1024 * 1024;

// Decides on capacity, rate and chunks of the new filter, from what is asked for and what there is.
void decide_size(Rebuild *rebuild, const Settings &old) {
  rebuild->normalization = old.normalization;
  rebuild->old_chunks = old.chunks;
  rebuild->old_state = old.state;
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
  if (rebuild->capacity == 0 && old.capacity > 0 &&
      rebuild->old_tale > kNearlyFull * old.capacity) {
    rebuild->capacity = std::ceil(2 * rebuild->old_items);
    ereport(NOTICE, (errmsg("Bloom filter \"%s\" holds about %.0f of %.0f items: it is rebuilt for "
                            "%.0f",
                            rebuild->name, rebuild->old_items, old.capacity, rebuild->capacity)));
  }
  const bool keeps_size = rebuild->capacity == 0 && keeps_rate;
  if (rebuild->capacity == 0) rebuild->capacity = old.capacity;
  if (!keeps_size && rebuild->capacity == 0)
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("the capacity of Bloom filter \"%s\" is not known", rebuild->name),
                    errhint("Give capacity with fp_rate.")));
  rebuild->chunks = keeps_size ? old.chunks : table_chunks(rebuild->capacity, rebuild->fp_rate);
  const float8 bytes = table_bytes_on_disk(rebuild->chunks);
  if (bytes > kMaxUnaskedBytes && rebuild->chunks / 2 > old.chunks)
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("a filter for %.0f items at a rate of %g takes %.0f GB on disk",
                           rebuild->capacity, rebuild->fp_rate, bytes / 1e9),
                    errhint("If that is what you want, call bloom_grow first, until it is half as "
                            "large.")));
}

[[noreturn]] void made_anew(const Rebuild &rebuild) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("Bloom filter \"%s\" was made anew during its rebuild", rebuild.name)));
  pg_unreachable();
}

// From the commit of this on every add is written to the journal.
void open_journal(Rebuild *rebuild) {
  const auto open = [&] {
    const OpenFilter filter = open_filter(rebuild->relid, ShareRowExclusiveLock, ACL_NO_RIGHTS);
    Settings settings = filter.settings();
    require_one_index(filter);
    close_filter(filter);
    if (settings.chunks != rebuild->old_chunks || settings.normalization != rebuild->normalization)
      made_anew(*rebuild);
    drop_leftovers(*rebuild);
    rebuild->journal = make_journal(rebuild->relid);
    hang_on(rebuild->journal, rebuild->relid);
    rebuild->old_state = settings.state;
    settings.journal = rebuild->journal;
    store_settings(rebuild->relid, settings, rebuild->caller);
  };
  under_lock(*rebuild, ShareRowExclusiveLock, ShareRowExclusiveLock, open, [] {});
  hold_journal(rebuild->journal);
  next_transaction();
}

// The settings, under a lock of the filter; raises where they are not those that open_journal
// wrote: somebody has made another filter of it.
Settings settings_meanwhile(const Rebuild &rebuild, LOCKMODE mode) {
  const OpenFilter filter = open_filter(rebuild.relid, mode, ACL_NO_RIGHTS);
  const Settings settings = filter.settings();
  if (mode != AccessShareLock) require_one_index(filter);
  close_filter(filter);
  if (settings.journal != rebuild.journal) made_anew(rebuild);
  return settings;
}

// Copies chunks of the filter into a range of one with twice as many: chunk c to 2c and 2c + 1.
void read_old_chunks(const Rebuild &rebuild, const ChunkRange &range) {
  const OpenFilter filter = open_filter(rebuild.relid, AccessShareLock, ACL_NO_RIGHTS);
  for (int32 i = 0; i < range.count; ++i) {
    CHECK_FOR_INTERRUPTS();
    ChunkRow row = require_chunk(filter, (range.first + i) / 2, nullptr, Access::kRead);
    const ChunkView bits = chunk_bits(filter.relation, filter.table->shape, &row.tuple);
    std::memcpy(range.bits + static_cast<Size>(i) * kChunkBytes, bits.data(), kChunkBytes);
    row.release();
  }
  close_filter(filter);
}

struct RangeTarget {
  const Header &header;
  const ChunkRange &range;
};

void apply_to_range(void *argument, const Digest &digest) {
  const auto *target = static_cast<const RangeTarget *>(argument);
  uint8 *chunk = target->range.find(target->header, chunk_of(digest, target->header.chunks));
  if (chunk != nullptr) chunk_add(MutableChunkView(chunk, kChunkBytes), positions_of(digest));
}

void require_enough(const Rebuild &rebuild, float8 items) {
  if (rebuild.source == nullptr || rebuild.min_share == 0) return;
  if (items > 0 && items >= rebuild.min_share * rebuild.old_items) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("the source of Bloom filter \"%s\" yields too few names", rebuild.name),
                  errdetail("It yields about %.0f names; the filter holds about %.0f. Nothing was "
                            "exchanged.",
                            items, rebuild.old_items),
                  errhint("Where so many have left, say min_share => %.2f.",
                          rebuild.old_items > 0 ? std::floor(100 * items / rebuild.old_items) / 100
                                                : 0.0)));
}

// The primary key of a relation that is locked, if weakly.
Oid primary_key_of(Oid relid) {
  Relation relation = table_open(relid, AccessShareLock);
  const Oid index = compat_primary_key(relation);
  table_close(relation, NoLock);
  return index;
}

// The name, quoted, of the tablespace that a relation is in.
const char *tablespace_of(Oid relid) {
  const Oid tablespace = get_rel_tablespace(relid);
  return quote_identifier(
      get_tablespace_name(OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace));
}

// Makes the shadow table, with all that the source yields and all that was added until now. Returns
// about how many items it holds.
float8 write_shadow(Rebuild *rebuild) {
  settings_meanwhile(*rebuild, AccessShareLock);
  const Oid schema = get_rel_namespace(rebuild->relid);
  const char *name = work_table_name(rebuild->relid, "shadow");
  // Where the filter is, whatever the session's defaults say.
  make_chunk_table(quote_qualified_identifier(get_namespace_name(schema), name),
                   psprintf(" tablespace %s", tablespace_of(rebuild->relid)));
  // While it is vacuumed it could not be exchanged. The option does not go over to the filter.
  execute(psprintf("alter table %s set (autovacuum_enabled = false)",
                   quote_qualified_identifier(get_namespace_name(schema), name)));
  rebuild->shadow = get_relname_relid(name, schema);
  hang_on(rebuild->shadow, rebuild->relid);
  Relation shadow = table_open(rebuild->shadow, AccessExclusiveLock);
  const Header header = table_header(rebuild->chunks, rebuild->normalization);
  // The first range's mark is the oldest, and so holds for all.
  const float8 items = load_rows(shadow, header, [&](const ChunkRange &range) {
    if (rebuild->source == nullptr)
      read_old_chunks(*rebuild, range);
    else
      read_source(rebuild->source, rebuild->caller, rebuild->name, header, range);
    JournalMark mark{};
    RangeTarget target = {header, range};
    read_journal(rebuild->journal, range.first == 0 ? &rebuild->mark : &mark, rebuild->context,
                 apply_to_range, &target);
  });
  table_close(shadow, NoLock);
  require_enough(*rebuild, items);
  enter_phase(rebuild->relid, Phase::kWriting);
  execute(psprintf("alter table %s add primary key (chunk) using index tablespace %s",
                   qualified_name(rebuild->shadow), tablespace_of(primary_key_of(rebuild->relid))));
  next_transaction();
  return items;
}

// A shadow table, whose rows are to be changed.
struct ShadowTarget {
  Relation relation;
  FilterTable table;
};

// Sets an item's bits in its row of the shadow where it lies: no version is made, so that every
// snapshot, however old, sees the bits, and no row ever leaves its place. Nobody else has the
// table.
void apply_to_shadow(void *argument, const Digest &digest) {
  auto *target = static_cast<ShadowTarget *>(argument);
  Relation relation = target->relation;
  const Positions positions = positions_of(digest);
  const int32 chunk = chunk_of(digest, target->table.settings.chunks);
  ChunkRow row;
  if (!find_chunk(relation, &target->table, chunk, &positions, Access::kRead, &row))
    ereport(ERROR,
            (errcode(ERRCODE_DATA_CORRUPTED), errmsg("chunk %d of table \"%s\" is missing", chunk,
                                                     RelationGetRelationName(relation))));
  const ChunkView bits = chunk_bits(relation, target->table.shape, &row.tuple);
  if (!chunk_contains(bits, positions)) {
    LockBuffer(row.buffer, BUFFER_LOCK_EXCLUSIVE);
    GenericXLogState *state = GenericXLogStart(relation);
    Page page = GenericXLogRegisterBuffer(state, row.buffer, 0);
    chunk_add(writable_chunk(relation, target->table.shape, row, page), positions);
    GenericXLogFinish(state);
    LockBuffer(row.buffer, BUFFER_LOCK_UNLOCK);
  }
  row.release();
}

// Applies what has come to the journal since to the shadow. Returns how many entries.
int64 drain_journal(Rebuild *rebuild) {
  ShadowTarget target{table_open(rebuild->shadow, RowExclusiveLock), {}};
  require_filter_shape(target.relation, &target.table.shape);
  target.table.relid = rebuild->shadow;
  target.table.settings.chunks = rebuild->chunks;
  find_row_order(target.relation, &target.table);
  const int64 entries =
      read_journal(rebuild->journal, &rebuild->mark, rebuild->context, apply_to_shadow, &target);
  forget_row_order(&target.table);
  table_close(target.relation, NoLock);
  return entries;
}

// Exchanges the files of two relations, and what pg_class says of them.
void exchange_files(Oid one_relid, Oid other_relid) {
  Relation catalog = table_open(RelationRelationId, RowExclusiveLock);
  HeapTuple one = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(one_relid));
  HeapTuple other = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(other_relid));
  if (!HeapTupleIsValid(one) || !HeapTupleIsValid(other))
    elog(ERROR, "cache lookup failed for relation %u or %u", one_relid, other_relid);
  auto *a = reinterpret_cast<Form_pg_class>(GETSTRUCT(one));
  auto *b = reinterpret_cast<Form_pg_class>(GETSTRUCT(other));
  std::swap(a->relfilenode, b->relfilenode);
  std::swap(a->reltablespace, b->reltablespace);
  std::swap(a->relpages, b->relpages);
  std::swap(a->reltuples, b->reltuples);
  std::swap(a->relallvisible, b->relallvisible);
  compat_swap_all_frozen(a, b);
  std::swap(a->relfrozenxid, b->relfrozenxid);
  std::swap(a->relminmxid, b->relminmxid);
  CatalogTupleUpdate(catalog, &one->t_self, one);
  CatalogTupleUpdate(catalog, &other->t_self, other);
  heap_freetuple(one);
  heap_freetuple(other);
  table_close(catalog, RowExclusiveLock);
  CommandCounterIncrement();
}

// Puts the shadow's files in the place of the filter's. The filter's own lock comes last: nobody is
// to wait behind it while another of these does not come.
void exchange(const Rebuild &rebuild) {
  const Oid index = primary_key_of(rebuild.relid), shadow_index = primary_key_of(rebuild.shadow);
  for (const Oid relid : {rebuild.shadow, shadow_index, rebuild.journal, rebuild.relid, index})
    LockRelationOid(relid, AccessExclusiveLock);
  Relation relation = table_open(rebuild.relid, NoLock);
  CheckTableNotInUse(relation, "rebuild");
  table_close(relation, NoLock);
  exchange_files(rebuild.relid, rebuild.shadow);
  exchange_files(index, shadow_index);
}

// The settings of the filter as it is from the swap on.
Settings settings_after(const Rebuild &rebuild, const Settings &before, float8 items) {
  if (rebuild.source == nullptr) {
    // What a filter lacks it lacks when it has grown, too.
    Settings settings = before;
    settings.chunks = rebuild.chunks;
    settings.capacity = rebuild.capacity;
    settings.excess_items = 2 * rebuild.old_tale - rebuild.old_items;
    settings.journal = InvalidOid;
    return settings;
  }
  Settings settings = new_settings(rebuild.relid, rebuild.chunks, rebuild.normalization,
                                   rebuild.capacity, rebuild.fp_rate);
  settings.trust_failover = before.trust_failover;
  settings.items_at_build = std::round(items);
  // Who suspended it while it was rebuilt may have had a reason that the rebuild does not cure.
  if (before.state == State::kSuspended && rebuild.old_state != State::kSuspended) {
    settings.state = State::kSuspended;
    settings.canary_lost = before.canary_lost;
  }
  return settings;
}

// Exchanges files and settings. Adds are locked out first, for the rest of the journal; checks only
// for the exchange itself.
void swap(Rebuild *rebuild, float8 items) {
  const auto exchange_all = [&] {
    const Settings before = settings_meanwhile(*rebuild, ShareRowExclusiveLock);
    refuse_published(*rebuild);
    drain_journal(rebuild);
    exchange(*rebuild);
    const Settings after = settings_after(*rebuild, before, items);
    store_settings(rebuild->relid, after, rebuild->caller);
    drop_table(rebuild->shadow);
    drop_table(rebuild->journal);
    if (after.state == State::kSuspended)
      ereport(NOTICE, (errmsg("Bloom filter \"%s\" stays suspended", rebuild->name),
                       errhint("Once every name is in, call bloom_resume.")));
  };
  const auto drain = [&] {
    drain_journal(rebuild);
    next_transaction();
  };
  under_lock(*rebuild, ShareRowExclusiveLock, AccessExclusiveLock, exchange_all, drain);
  next_transaction();
}

void say_phase(const Rebuild &rebuild, Phase phase, const char *message) {
  enter_phase(rebuild.relid, phase);
  ereport(NOTICE, (errmsg("Bloom filter \"%s\": %s", rebuild.name, message)));
}

void require_top_level(FunctionCallInfo fcinfo, const char *function) {
  PreventCommandIfReadOnly(function);
  PreventCommandDuringRecovery(function);
  const Node *context = fcinfo->context;
  if (context == nullptr || !IsA(context, CallContext) ||
      reinterpret_cast<const CallContext *>(context)->atomic)
    ereport(ERROR, (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                    errmsg("%s cannot run inside a transaction block", function),
                    errdetail("It commits several times."),
                    errhint("Call it alone, outside a transaction block and a function.")));
}

float8 seconds_of(const Interval *interval) {
  constexpr float8 kSecondsADay = 86400;
  return static_cast<float8>(interval->time) / USECS_PER_SEC +
         (interval->day + 30.0 * interval->month) * kSecondsADay;
}

// What a filter that grows must be: as it is, it is what counts.
void require_growable(const OpenFilter &filter) {
  if (filter.table->agreement == Agreement::kFull && !filter.settings().canary_lost &&
      (filter.settings().state != State::kReady || suspension_reason(*filter.table) == nullptr))
    return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot grow Bloom filter \"%s\"", filter.name()),
                  errdetail("It is %s.", suspension_reason(*filter.table) != nullptr
                                             ? suspension_reason(*filter.table)
                                             : "of another normalisation than this server's"),
                  errhint("Rebuild it from its source.")));
}

// The shadow's columns are (chunk, bits) and no others, and its rows take the filter's place.
void require_plain_columns(const OpenFilter &filter) {
  const Shape &shape = filter.table->shape;
  if (shape.chunk_attribute == 1 && shape.bits_attribute == 2) return;
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot rebuild \"%s\"", filter.name()),
                  errdetail("Its columns are not (chunk, bits) in this order from the first on."),
                  errhint("Make another filter with bloom_create.")));
}

void run(Rebuild *rebuild, int64 grace_milliseconds) {
  SPI_connect_ext(SPI_OPT_NONATOMIC);
  rebuild->context = CurrentMemoryContext;
  require_owner(rebuild->relid);
  if (rebuild->source != nullptr) require_source(rebuild->source, rebuild->caller);
  next_transaction();
  const OpenFilter filter = open_filter(rebuild->relid, AccessShareLock, ACL_NO_RIGHTS);
  require_owner(rebuild->relid);
  rebuild->name = pstrdup(filter.name());
  require_plain_columns(filter);
  if (rebuild->source == nullptr) require_growable(filter);
  refuse_published(*rebuild);
  take_rebuild_lock(*rebuild);
  enter_phase(rebuild->relid, Phase::kOpening);
  rebuild->old_tale = items_of(filter);
  rebuild->old_items = Max(rebuild->old_tale - filter.settings().excess_items, 0.0);
  decide_size(rebuild, filter.settings());
  close_filter(filter);
  next_transaction();

  open_journal(rebuild);
  if (rebuild->source != nullptr) {
    say_phase(*rebuild, Phase::kWaiting, "waiting for sign-ups under way");
    pause_for(grace_milliseconds);
    next_transaction();
  }
  say_phase(*rebuild, Phase::kReading,
            rebuild->source != nullptr ? "reading the source" : "reading its chunks");
  float8 items = write_shadow(rebuild);
  // Of a filter that has grown each half of a chunk has the bits of both.
  if (rebuild->source == nullptr) items = rebuild->old_items;
  for (int drain = 0; drain < kDrains; ++drain) {
    const int64 entries = drain_journal(rebuild);
    next_transaction();
    if (entries < kFewEntries) break;
  }
  say_phase(*rebuild, Phase::kSwapping, "swapping");
  swap(rebuild, items);
  end_rebuild(rebuild->relid, rebuild->journal);
  ereport(NOTICE, (errmsg("Bloom filter \"%s\" holds about %.0f items in %d chunks", rebuild->name,
                          items, rebuild->chunks)));
  SPI_finish();
}

}  // namespace

// call bloom_rebuild(filter regclass, source text, capacity float8, fp_rate float8, grace interval,
// min_share float8): makes a filter anew from what a query yields, beside checks and adds, and
// loses no add that commits meanwhile. grace is longer than a sign-up takes from its add to the
// commit of its user; a source that yields fewer names than min_share of what the filter holds is
// an error.
BLOOM_SQL_FUNCTION(bloom_rebuild) {
  require_top_level(fcinfo, "bloom_rebuild()");
  if (PG_ARGISNULL(0)) null_filter();
  if (PG_ARGISNULL(1))
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("source must not be null")));
  Rebuild rebuild{};
  rebuild.relid = PG_GETARG_OID(0);
  rebuild.caller = fcinfo->flinfo->fn_oid;
  rebuild.source = text_to_cstring(PG_GETARG_TEXT_PP(1));
  if (!PG_ARGISNULL(2)) rebuild.capacity = PG_GETARG_FLOAT8(2);
  if (!PG_ARGISNULL(3)) rebuild.fp_rate = PG_GETARG_FLOAT8(3);
  require_size_arguments(PG_ARGISNULL(2) ? 1 : rebuild.capacity,
                         PG_ARGISNULL(3) ? 0.01 : rebuild.fp_rate);
  const float8 grace = PG_ARGISNULL(4) ? 60 : seconds_of(PG_GETARG_INTERVAL_P(4));
  if (!(grace >= 0 && grace <= 86400))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("grace must be from 0 to 1 day, not %g seconds", grace)));
  rebuild.min_share = PG_ARGISNULL(5) ? 0.97 : PG_GETARG_FLOAT8(5);
  if (!(rebuild.min_share >= 0 && rebuild.min_share <= 1))
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("min_share must be from 0 to 1, not %g", rebuild.min_share)));
  run(&rebuild, static_cast<int64>(grace * 1000));
  PG_RETURN_VOID();
}

// call bloom_grow(filter regclass): twice the chunks and the capacity, without a source; the same
// members, and about the rate of before until more are added.
BLOOM_SQL_FUNCTION(bloom_grow) {
  require_top_level(fcinfo, "bloom_grow()");
  if (PG_ARGISNULL(0)) null_filter();
  Rebuild rebuild{};
  rebuild.relid = PG_GETARG_OID(0);
  rebuild.caller = fcinfo->flinfo->fn_oid;
  run(&rebuild, 0);
  PG_RETURN_VOID();
}
