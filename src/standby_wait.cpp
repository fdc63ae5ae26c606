#include "pg.hpp"

#include "standby_wait.hpp"

namespace bloomfilter {
namespace {

// Of the transaction that runs. A savepoint that is rolled back leaves it: a wait too many.
constinit bool must_wait = false;

// The server waits for a standby only where a transaction has an ID and wrote WAL. One that found
// everything there has neither, and stands on what another wrote, who may not have waited.
void write_something() {
  GetTopTransactionId();
  if (XactLastRecEnd != 0) return;
  // Every record but a switch has data: a server with assertions insists.
  char nothing = 0;
  XLogBeginInsert();
  XLogRegisterData(&nothing, sizeof nothing);
  XLogInsert(RM_XLOG_ID, XLOG_NOOP);
}

// Whoever lowers the setting does so before: from here to the commit no user's code runs.
void raise_synchronous_commit() {
  if (synchronous_commit >= SYNCHRONOUS_COMMIT_REMOTE_FLUSH) return;
  set_config_option("synchronous_commit", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true,
                    0, false);
}

[[noreturn]] void refuse_prepare() {
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
           errmsg("cannot prepare a transaction that has changed a Bloom filter that trusts "
                  "failovers"),
           errdetail("Its commit has to wait for the synchronous standbys, and whoever commits a "
                     "prepared transaction may not."),
           errhint("Add names in a transaction of their own, and commit it.")));
  pg_unreachable();
}

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
