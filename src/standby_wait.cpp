// Makes the commit of a transaction wait for the synchronous standbys. A filter that trusts
// failovers relies on it: a standby that takes over must have every name that anybody saw.
#include "pg.hpp"

#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// Whether the running transaction has to wait. Rolling back to a savepoint does not reset it. Then
// a commit may wait without need, which is harmless.
constinit bool must_wait = false;

// The server waits for a standby only if the transaction has an ID and has written WAL. An add that
// finds all its bits has neither. But the bits may be those of another transaction whose commit did
// not wait. So this one takes an ID and writes a record that does nothing.
void write_something() {
  GetTopTransactionId();
  if (XactLastRecEnd != 0) return;
  // A server with assertions demands data in every record except that of a WAL switch.
  char nothing = 0;
  XLogBeginInsert();
  XLogRegisterData(&nothing, sizeof nothing);
  XLogInsert(RM_XLOG_ID, XLOG_NOOP);
}

// Called right before the commit, since no user's code runs after that which could lower the
// setting again. ForceSyncCommit is not enough: it waits for this server's own disk and for no
// standby.
void raise_synchronous_commit() {
  if (synchronous_commit >= SYNCHRONOUS_COMMIT_REMOTE_FLUSH) return;
  set_config_option("synchronous_commit", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true,
                    0, false);
}

[[noreturn]] void refuse_prepare() {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot prepare a transaction that has changed a Bloom filter that trusts "
                         "failovers"),
                  errdetail("Its commit must wait for the synchronous standbys, and the session "
                            "that commits a prepared transaction may not wait."),
                  errhint("Add names in a separate transaction, and commit it.")));
  pg_unreachable();
}

// The server calls it at the end of every transaction of the backend. Nearly all leave at once.
void at_transaction_event(XactEvent event, void *) {
  if (likely(!must_wait)) return;
  switch (event) {
    case XACT_EVENT_PRE_COMMIT:
      raise_synchronous_commit();
      break;
    case XACT_EVENT_PRE_PREPARE:
      refuse_prepare();
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_ABORT:
      must_wait = false;
      break;
    default:
      break;
  }
}

}  // namespace

void wait_for_standbys() {
  Assert(!RecoveryInProgress());
  write_something();
  must_wait = true;
}

bool has_synchronous_standbys() {
  return max_wal_senders > 0 && SyncRepStandbyNames != nullptr && SyncRepStandbyNames[0] != '\0';
}

void watch_transactions() {
  RegisterXactCallback(at_transaction_event, nullptr);
}

}  // namespace bloomfilter
