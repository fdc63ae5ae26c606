// The statements that make filter tables and change their settings; inside an SPI connection.
#ifndef BLOOMFILTER_FILTER_DDL_HPP
#define BLOOMFILTER_FILTER_DDL_HPP

#include "pg.hpp"

#include "filter_table.hpp"

namespace bloomfilter {

// Runs a statement; raises whatever it raises.
void execute(const char *command);

// The relation's name, qualified and quoted.
const char *qualified_name(Oid relid);

// Raises 42501 unless the current role owns the relation.
void require_owner(Oid relid);

// Makes an empty table of chunks under a name that is quoted already, without its primary key, in
// that tablespace or, where there is none, the default one. No rows: they come before the key.
void make_chunk_table(const char *quoted_name, Oid tablespace);

// Writes the guard with these settings; `caller` is any function of the extension. Every session
// learns of it through its relation cache.
void store_settings(Oid relid, const Settings &settings, Oid caller);

}  // namespace bloomfilter

#endif
