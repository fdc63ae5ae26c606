// How a rebuild gets its locks. Everybody who comes later queues behind a lock request that waits,
// checks too. So a request waits for a short time only, and is repeated.
#include "pg.hpp"

#include <algorithm>

#include "progress.hpp"
#include "rebuild_lock.hpp"

namespace bloomfilter {
namespace {

// What patience grows to, by half at each try. Transactions that hold the relation for a third of a
// second, of twenty clients, let a lock come at the sixth try; at 50 ms it never came.
constexpr int64 kMaxPatience = 1000;
constexpr int kGiveUpSeconds = 600;
constexpr int64 kRetryMilliseconds = 1000;
constexpr int64 kNoticeSeconds = 60;

// Do not queue behind a holder that is still there after this many checks, which take twice the
// patience. On a busy machine a short transaction may take long because it gets no processor.
constexpr int kLockProbes = 6;

// As SET LOCAL does: the value ends with the transaction.
void set_locally(const char *setting, const char *value) {
  set_config_option(setting, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
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
  set_locally("synchronous_commit", "local");
  SPI_commit();
  XactIsoLevel = XACT_READ_COMMITTED;
  XactReadOnly = false;
}

// Interrupts are held, as in the server's own commit: a cancel would leave the wait, not undo the
// commit.
void wait_for_last_commit() {
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
    WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
    ResetLatch(MyLatch);
  }
}

// Looks at the holders first. A request behind somebody who will not let go soon would only make
// others wait.
bool LockTries::attempt(LOCKMODE mode, FunctionRef<void()> work) {
  holder_ = lasting_holder();
  return holder_ == 0 && attempt_in_subtransaction(mode, work);
}

// The process of a transaction that holds a lock against the strongest one and keeps it for longer
// than the patience. -1 for a prepared transaction, or a process that has just ended; 0 for none.
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

// ConditionalLockRelationOid does not help: it never waits, so beside steady traffic there is
// always somebody who holds the relation, and it never gets the lock.
bool LockTries::attempt_in_subtransaction(LOCKMODE mode, FunctionRef<void()> work) const {
  MemoryContext caller = CurrentMemoryContext;
  ResourceOwner owner = CurrentResourceOwner;
  volatile bool done = false;
  BeginInternalSubTransaction(nullptr);
  MemoryContextSwitchTo(caller);
  PG_TRY();
  {
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

// The patience grows by half each time, so that a lock under steady short transactions comes at the
// sixth try, and nobody waits longer than a second.
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
  // After the abort of a subtransaction this shows the rebuild again.
  show_waiting_for(holder_ == 0 ? kWaitsForNobody : holder_ < 0 ? kWaitsForPrepared : holder_);
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
