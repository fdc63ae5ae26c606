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

void _PG_init(void) {
  bloomfilter::watch_relations();
  bloomfilter::watch_transactions();
}
