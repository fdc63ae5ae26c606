// How a rebuild gets its locks while others use the filter. Whoever asks for a lock that conflicts
// with a waiting request waits behind it, so every request of a rebuild is short.
#include "pg.hpp"

#include <algorithm>

#include "rebuild_lock.hpp"

namespace bloomfilter {
namespace {

// The patience grows by half at each try, up to this, in milliseconds. With twenty clients whose
// transactions hold the relation for a third of a second, a lock is granted at the sixth try. With
// a patience that stayed at 50 ms it never was.
constexpr int64 kMaxPatience = 1000;
constexpr int kGiveUpSeconds = 600;
// The longest pause between two tries, and how often a notice names who is in the way.
constexpr int64 kRetryMilliseconds = 1000;
constexpr int64 kNoticeSeconds = 60;

// How often to look who holds the relation. The five pauses between the looks take twice the
// patience. Whoever is seen at each look will not release the relation within the patience. One
// look would not do: on a busy machine, a transaction may take long only because it gets no
// processor.
constexpr int kLockProbes = 6;

// Sets a setting until the end of the transaction, or until the subtransaction is rolled back.
void set_locally(const char *setting, const char *value) {
  set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

// Cancels an autovacuum that holds the relation, unless it prevents wraparound. The server does
// this for whoever has waited for deadlock_timeout, one second by default. A rebuild gives up
// before that, so it has to do it itself, in the same way.
void ask_autovacuum_to_give_way(const PGPROC *process) {
  if (process == nullptr) return;
  LWLockAcquire(ProcArrayLock, LW_SHARED);
  const uint8 flags = ProcGlobal->statusFlags[process->pgxactoff];
  const int pid = process->pid;
  LWLockRelease(ProcArrayLock);
  if ((flags & PROC_IS_AUTOVACUUM) && !(flags & PROC_VACUUM_FOR_WRAPAROUND) && pid != 0)
    kill(pid, SIGINT);
}

// The transactions whose locks of the relation conflict with `mode`; *count of them. They are only
// looked at. Nothing is queued, so nobody waits.
VirtualTransactionId *holders_of(Oid relid, LOCKMODE mode, int *count) {
  LOCKTAG tag;
  SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
  return GetLockConflicts(&tag, mode, count);
}

// Virtual transaction IDs are compared and not processes: a session that has begun another
// transaction has let go of its locks.
bool is_among(const VirtualTransactionId &one, const VirtualTransactionId *others, int count) {
  return std::any_of(others, others + count, [&](const VirtualTransactionId &other) {
    return VirtualTransactionIdEquals(one, other);
  });
}

}  // namespace

// synchronous_commit is lowered for this commit alone. The wait for a standby comes after the locks
// are gone; see wait_for_last_commit.
void next_transaction() {
  // A commit that waited for a standby would keep its locks all the while. wait_for_last_commit
  // waits later, without locks.
  set_locally("synchronous_commit", "local");
  SPI_commit();
  // SPI_commit starts the next transaction with the session's defaults. With "repeatable read", the
  // grace period and the source had the same snapshot, and a name inserted during the grace period
  // was missed.
  XactIsoLevel = XACT_READ_COMMITTED;
  XactReadOnly = false;
}

// Interrupts are held, as in the server's own commit: a cancel would leave the wait, not undo the
// commit.
void wait_for_last_commit() {
  // SyncRepWaitForLSN expects its caller to hold interrupts off, and handles a cancel itself.
  hold_interrupts();
  SyncRepWaitForLSN(XactLastCommitEnd, true);
  resume_interrupts();
}

void pause_for(int64 milliseconds) {
  const TimestampTz end = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds);
  for (;;) {
    CHECK_FOR_INTERRUPTS();
    const long left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), end);
    if (left <= 0) return;
    // Not pg_usleep, which a cancel would not end.
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
  }
}

// Does not even ask for the lock while somebody keeps the relation: others would wait behind a
// request that cannot succeed.
bool LockTries::attempt(LOCKMODE mode, FunctionRef<void()> work) {
  holder_ = lasting_holder();
  return holder_ == 0 && attempt_in_subtransaction(mode, work);
}

// The process of a transaction that conflicts with the strongest lock and does not release the
// relation soon. -1 for a prepared transaction, 0 if there is none.
int LockTries::lasting_holder() const {
  int count;
  VirtualTransactionId *lasting = holders_of(relid_, strongest_, &count);
  for (int probe = 1; probe < kLockProbes && count > 0; ++probe) {
    pause_for(patience_ * 2 / 5);
    int now_count;
    const VirtualTransactionId *now = holders_of(relid_, strongest_, &now_count);
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

// Not by the server's ConditionalLockRelationOid: a request that does not wait is never granted
// beside steady traffic. Not by a plain wait either: with one session idle after a check, checks
// stalled for 4,007 ms. With a lock_timeout in a subtransaction that is rolled back, it was 101 ms
// at worst.
bool LockTries::attempt_in_subtransaction(LOCKMODE mode, FunctionRef<void()> work) const {
  MemoryContext caller = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  // It is set inside PG_TRY and read behind it, so it has to be volatile.
  volatile bool done = false;
  BeginInternalSubTransaction(nullptr);
  MemoryContextSwitchTo(caller);
  PG_TRY();
  {
    // The timeout also holds for each lock that work() asks for.
    set_locally("lock_timeout", psprintf(INT64_FORMAT "ms", patience_));
    LockRelationOid(relid_, mode);
    work();
    ReleaseCurrentSubTransaction();
    done = true;
  }
  PG_CATCH();
  {
    MemoryContextSwitchTo(caller);
    ErrorData *error = CopyErrorData();
    FlushErrorState();
    // This releases the lock of the relation, and everybody behind it goes on.
    RollbackAndReleaseCurrentSubTransaction();
    if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
        error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED)
      ReThrowError(error);
    FreeErrorData(error);
  }
  PG_END_TRY();
  MemoryContextSwitchTo(caller);
  CurrentResourceOwner = owner;
  return done;
}

const char *LockTries::describe_holders() const {
  if (holder_ < 0) return "a prepared transaction";
  return holder_ > 0 ? psprintf("process %d", holder_) : "transactions that come and go";
}

// A pause of up to twice the patience lets those pass who waited behind the last request.
void LockTries::pause() {
  const TimestampTz now = GetCurrentTimestamp();
  if (TimestampDifferenceExceeds(began_, now, kGiveUpSeconds * 1000))
    ereport(ERROR,
            (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
             errmsg("could not lock Bloom filter \"%s\" within %d seconds", name_, kGiveUpSeconds),
             holder_ < 0   ? errdetail("A prepared transaction holds a lock on it.")
             : holder_ > 0 ? errdetail("Process %d holds a lock on it.", holder_)
                           : errdetail("Other transactions hold locks on it, one after another."),
             errhint("End the transactions that hold the lock, and call the procedure again.")));
  if (holder_ != 0 &&
      (notified_ == 0 || TimestampDifferenceExceeds(notified_, now, kNoticeSeconds * 1000))) {
    notified_ = now;
    int count;
    holders_of(relid_, strongest_, &count);
    ereport(
        NOTICE,
        (holder_ < 0
             ? errmsg("rebuild of Bloom filter \"%s\" is waiting for a prepared transaction", name_)
             : errmsg("rebuild of Bloom filter \"%s\" is waiting for process %d", name_, holder_),
         errdetail("Transactions that hold a lock on the filter: %d.  Other sessions wait "
                   "behind the rebuild's lock request for at most " INT64_FORMAT " ms.",
                   count, patience_)));
  }
  pause_for(Min(2 * patience_, kRetryMilliseconds));
  patience_ = Min(patience_ + patience_ / 2, kMaxPatience);
}

}  // namespace bloomfilter
