// What the server looks for when it loads the library: the magic block and _PG_init.
#include "pg.hpp"

#include "filter_counters.hpp"
#include "filter_table.hpp"
#include "standby_wait.hpp"

extern "C" {
#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "bloomfilter", .version = BLOOMFILTER_VERSION);
#else
PG_MODULE_MAGIC;
#endif

PGDLLEXPORT void _PG_init(void);
}

// Runs once, when the library is loaded. With shared_preload_libraries that is in the postmaster
// and outside a transaction, so it must not read a catalog.
void _PG_init(void) {
  bloomfilter::watch_relations();
  bloomfilter::watch_transactions();
  bloomfilter::start_counting();
}
