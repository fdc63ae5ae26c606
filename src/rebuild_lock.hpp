// How a rebuild gets its locks without making others wait for long behind it.
#ifndef BLOOMFILTER_REBUILD_LOCK_HPP
#define BLOOMFILTER_REBUILD_LOCK_HPP

#include "pg.hpp"

#include "function_ref.hpp"

namespace bloomfilter {

// Commits, and begins a transaction that may write and that sees what others commit, whatever the
// defaults of the session are. The commit waits for no standby, since it may hold locks that others
// need.
void next_transaction();

// Waits until a standby has the last commit, as the session's synchronous_commit asks.
void wait_for_last_commit();

// Waits, and takes no snapshot for it. Only an interrupt ends the wait early.
void pause_for(int64 milliseconds);

// Tries to lock a relation, with more patience each time. The patience is how long others may have
// to wait behind the request.
class LockTries {
 public:
  // `strongest` is the strongest lock that will be asked for.
  LockTries(Oid relid, const char *name, LOCKMODE strongest)
      : relid_(relid), name_(name), strongest_(strongest) {}

  // Runs work() in a subtransaction that holds `mode`. Returns false if that lock, or one that
  // work() asks for, was not granted in time, or if somebody keeps the relation, against the
  // strongest lock, for longer than anybody should wait. The subtransaction is rolled back then, or
  // was never begun.
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
  int holder_ = 0;  // 0: nobody; -1: a prepared transaction
  TimestampTz began_ = GetCurrentTimestamp();
  TimestampTz notified_ = 0;

  static constexpr int64 kFirstPatience = 50;  // in milliseconds
};

}  // namespace bloomfilter

#endif
