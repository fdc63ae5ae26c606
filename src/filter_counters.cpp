// The counts of all filters, in shared memory: a table of fixed size. With
// shared_preload_libraries it is part of the server's main shared memory. Without, from PostgreSQL
// 17 on, it is a segment that the first backend makes which uses a filter. A crash of the server
// sets all counts to zero.
#include "pg.hpp"

#include "filter_counters.hpp"

namespace bloomfilter {
namespace {

constexpr int32 kSlots = 1024;

// The counts of one filter: a cache line.
struct Slot {
  pg_atomic_uint64 since;
  std::array<pg_atomic_uint64, kCounters> counts;
};

static_assert(sizeof(Slot) == 64);

// Keys that no filter has, since no database has the OID 0. Behind a slot that was never used,
// there is none that is.
constexpr uint64 kUnused = 0, kFreed = 1;

// Which filter has which slot. Keys are written under `lock`, so that no filter has two slots. They
// are read without it.
struct CounterTable {
  LWLock lock;
  int32 tranche;
  TimestampTz since;  // when the table was made
  std::array<pg_atomic_uint64, kSlots> keys;
  alignas(64) std::array<Slot, kSlots> slots;
};

// The name of the segment says its version: another version of the library may have another layout.
constexpr const char *kSegment = "bloomfilter counters 1";
constexpr const char *kTranche = "bloomfilter counters";

// Null if there is none. `attach_tried` says that this backend need not try again.
constinit CounterTable *table = nullptr;
constinit bool attach_tried = false;

// What this backend has counted in its transaction.
constinit PendingCounts *first_pending = nullptr;

constinit shmem_request_hook_type next_request_hook = nullptr;
constinit shmem_startup_hook_type next_startup_hook = nullptr;

// The OID of a relation is unique in its database only.
uint64 key_of(Oid relid) {
  return static_cast<uint64>(MyDatabaseId) << 32 | relid;
}

// Makes the table empty. Called once, before others can see it.
void make_table(void *memory) {
  auto *made = static_cast<CounterTable *>(memory);
  made->tranche = compat_new_tranche(kTranche);
  LWLockInitialize(&made->lock, made->tranche);
  made->since = GetCurrentTimestamp();
  for (pg_atomic_uint64 &key : made->keys) pg_atomic_init_u64(&key, kUnused);
  for (Slot &slot : made->slots) {
    pg_atomic_init_u64(&slot.since, 0);
    for (pg_atomic_uint64 &count : slot.counts) pg_atomic_init_u64(&count, 0);
  }
}

void request_memory() {
  if (next_request_hook != nullptr) next_request_hook();
  RequestAddinShmemSpace(MAXALIGN(sizeof(CounterTable)) + alignof(CounterTable));
}

// Takes a place in the server's main shared memory. The server calls it at each start, also after a
// crash, and every process that it forks has the pointer.
void take_memory() {
  if (next_startup_hook != nullptr) next_startup_hook();
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  bool found;
  table = static_cast<CounterTable *>(ShmemInitStruct(kSegment, sizeof(CounterTable), &found));
  if (!found) make_table(table);
  LWLockRelease(AddinShmemInitLock);
  compat_register_tranche(table->tranche, kTranche);
}

// Maps the segment, or makes it. An error in that, as of a full /dev/shm, must not fail the check
// of a name. Only the abort of a subtransaction releases what such an error leaves. A cancel has to
// wait until it is done, since it would be lost with the error.
CounterTable *map_segment() {
  MemoryContext context = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  void *volatile found = nullptr;
  BeginInternalSubTransaction(nullptr);
  MemoryContextSwitchTo(context);
  hold_interrupts();
  PG_TRY();
  {
    found = compat_named_segment(kSegment, sizeof(CounterTable), make_table);
    ReleaseCurrentSubTransaction();
    resume_interrupts();
  }
  PG_CATCH();
  {
    // The error has set the count of holders to zero, so there is nothing to resume.
    MemoryContextSwitchTo(context);
    FlushErrorState();
    RollbackAndReleaseCurrentSubTransaction();
    found = nullptr;
  }
  PG_END_TRY();
  MemoryContextSwitchTo(context);
  CurrentResourceOwner = owner;
  return static_cast<CounterTable *>(found);
}

// Whether this backend has the table. Tries once to get it.
bool has_table() {
  if (likely(table != nullptr)) return true;
  if (likely(attach_tried)) return false;
  attach_tried = true;
  if (!kHasNamedSegments || !IsUnderPostmaster) return false;
  table = map_segment();
  if (table == nullptr) return false;
  compat_register_tranche(table->tranche, kTranche);
  return true;
}

// The slot of a filter, else a free one, else -1.
int32 locate(uint64 key) {
  int32 free = -1;
  for (int32 i = 0; i < kSlots; ++i) {
    const uint64 found = pg_atomic_read_u64(&table->keys[i]);
    if (found == key) return i;
    if (free < 0 && (found == kUnused || found == kFreed)) free = i;
    if (found == kUnused) break;
  }
  return free;
}

bool is_slot_of(int32 slot, uint64 key) {
  return pg_atomic_read_u64(&table->keys[slot]) == key;
}

// Whether a filter of this database, or a database, is gone. One that another transaction has just
// made looks as if it were gone, too; it takes another slot then.
bool is_gone(uint64 key) {
  const Oid database = static_cast<Oid>(key >> 32), relid = static_cast<Oid>(key);
  if (database == MyDatabaseId) return !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid));
  return !SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database));
}

// Frees the slots of filters that were dropped. It asks the catalog for every slot, so it does that
// no more than once a minute.
void free_slots() {
  constexpr int kEveryMs = 60 * 1000;
  static constinit TimestampTz freed = 0;
  const TimestampTz now = GetCurrentTimestamp();
  if (!TimestampDifferenceExceeds(freed, now, kEveryMs)) return;
  freed = now;
  for (pg_atomic_uint64 &key : table->keys) {
    const uint64 found = pg_atomic_read_u64(&key);
    // The lock comes after the look, since the look reads the catalog.
    if (found == kUnused || found == kFreed || !is_gone(found)) continue;
    LWLockAcquire(&table->lock, LW_EXCLUSIVE);
    if (pg_atomic_read_u64(&key) == found) pg_atomic_write_u64(&key, kFreed);
    LWLockRelease(&table->lock);
  }
}

void clear(Slot *slot) {
  for (pg_atomic_uint64 &count : slot->counts) pg_atomic_write_u64(&count, 0);
  pg_atomic_write_u64(&slot->since, static_cast<uint64>(GetCurrentTimestamp()));
}

// The slot of a filter, a new one if it has none. -1 if the table is full.
int32 slot_for(uint64 key) {
  int32 slot = locate(key);
  if (slot >= 0 && is_slot_of(slot, key)) return slot;
  if (slot < 0) {
    free_slots();
    if (locate(key) < 0) return -1;
  }
  LWLockAcquire(&table->lock, LW_EXCLUSIVE);
  slot = locate(key);
  if (slot >= 0 && !is_slot_of(slot, key)) {
    clear(&table->slots[slot]);
    pg_atomic_write_u64(&table->keys[slot], key);
  }
  LWLockRelease(&table->lock);
  return slot;
}

// Adds what was counted to shared memory. An abort may have ended calls half-way.
void add_to_shared(const PendingCounts &pending) {
  if (pending.slot < 0 || !is_slot_of(pending.slot, pending.key)) return;
  std::array<uint64, kCounters> counts = pending.counts;
  counts[kErrors] += pending.open_calls;
  for (size_t i = 0; i < kCounters; ++i)
    if (counts[i] != 0)
      pg_atomic_fetch_add_u64(&table->slots[pending.slot].counts[i], static_cast<int64>(counts[i]));
}

// The server calls it at the end of every transaction of the backend, while it still holds its
// locks. It must not raise an error.
void at_transaction_event(XactEvent event, void *) {
  if (likely(first_pending == nullptr)) return;
  if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT ||
      event == XACT_EVENT_PRE_PREPARE)
    return;
  for (PendingCounts *pending = first_pending; pending != nullptr; pending = pending->next) {
    add_to_shared(*pending);
    pending->listed = false;
  }
  first_pending = nullptr;
}

}  // namespace

void list_pending(PendingCounts *pending, Oid relid) {
  if (!pgstat_track_counts || !has_table()) return;
  pending->counts = {};
  pending->open_calls = 0;
  pending->key = key_of(relid);
  if (pending->slot < 0 || !is_slot_of(pending->slot, pending->key))
    pending->slot = slot_for(pending->key);
  pending->listed = true;
  pending->next = first_pending;
  first_pending = pending;
}

std::optional<FilterCounts> counts_of(Oid relid) {
  if (!has_table()) return {};
  const uint64 key = key_of(relid);
  const int32 slot = locate(key);
  if (slot < 0) return {};
  FilterCounts result = {{}, table->since};
  if (!is_slot_of(slot, key)) return result;
  Slot &shared = table->slots[slot];
  for (size_t i = 0; i < kCounters; ++i) result.counts[i] = pg_atomic_read_u64(&shared.counts[i]);
  result.since = static_cast<TimestampTz>(pg_atomic_read_u64(&shared.since));
  return result;
}

void reset_counts(Oid relid) {
  if (!has_table()) return;
  // A filter without a slot gets one, since the slot keeps the time.
  const int32 slot = slot_for(key_of(relid));
  if (slot >= 0) clear(&table->slots[slot]);
}

void reset_all_counts() {
  if (!has_table()) return;
  for (int32 i = 0; i < kSlots; ++i)
    if (pg_atomic_read_u64(&table->keys[i]) >> 32 == MyDatabaseId) clear(&table->slots[i]);
}

void start_counting() {
  RegisterXactCallback(at_transaction_event, nullptr);
  if (!process_shared_preload_libraries_in_progress) return;
  next_request_hook = shmem_request_hook;
  shmem_request_hook = request_memory;
  next_startup_hook = shmem_startup_hook;
  shmem_startup_hook = take_memory;
}

}  // namespace bloomfilter
