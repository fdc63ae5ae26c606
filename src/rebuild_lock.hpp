// How a rebuild comes by its locks without anybody waiting for long behind it.
#ifndef BLOOMFILTER_REBUILD_LOCK_HPP
#define BLOOMFILTER_REBUILD_LOCK_HPP

#include "pg.hpp"

#include "function_ref.hpp"

namespace bloomfilter {

// Commits, and goes on in a transaction that may write and sees what others commit, whatever the
// session's defaults are. The commit waits for no standby: locks that others need may be held.
void next_transaction();

// Waits until a standby has what was committed last, as far as the session's synchronous_commit
// says.
void wait_for_last_commit();

// Waits without a snapshot; ends early for nothing but an interrupt.
void pause_for(int64 milliseconds);

// Tries for a lock on a relation, each time with more patience: how long others may have to wait
// behind a request for it.
class LockTries {
 public:
  // `strongest` is the lock that will be asked for in the end.
  LockTries(Oid relid, const char *name, LOCKMODE strongest)
      : relid_(relid), name_(name), strongest_(strongest) {}

  // Runs work() in a subtransaction that holds `mode`. False where that lock, or one that work()
  // asks for, did not come in time, and where somebody holds the relation in the way of the
  // strongest for longer than anybody should wait: then nothing was done.
  bool attempt(LOCKMODE mode, FunctionRef<void()> work);

  // After an attempt that failed: tells once a minute who is in the way, and pauses. Raises 55P03
  // after ten minutes.
  void pause();

 private:
  int lasting_holder() const;
  bool attempt_in_subtransaction(LOCKMODE mode, FunctionRef<void()> work) const;

  Oid relid_;
  const char *name_;
  LOCKMODE strongest_;
  int64 patience_ = kFirstPatience;
  int holder_ = 0;  // 0 nobody; -1 a prepared transaction
  TimestampTz began_ = GetCurrentTimestamp();
  TimestampTz notified_ = 0;

  static constexpr int64 kFirstPatience = 50;  // milliseconds
};

}  // namespace bloomfilter

#endif
