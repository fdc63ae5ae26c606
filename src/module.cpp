// What the server looks for when it loads the library: the magic block and _PG_init.
#include "pg.hpp"

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

// Runs once in each backend, at the first call of any function of the extension. It may read no
// catalog: with shared_preload_libraries it runs outside a transaction, in the postmaster.
void _PG_init(void) {
  bloomfilter::watch_relations();
  bloomfilter::watch_transactions();
}
