// The statements that make filter tables and change their settings. The caller has an SPI
// connection open, unless a comment says otherwise.
#ifndef BLOOMFILTER_FILTER_DDL_HPP
#define BLOOMFILTER_FILTER_DDL_HPP

#include "pg.hpp"

#include "filter_settings.hpp"

namespace bloomfilter {

// Runs a statement. Raises what the statement raises.
void execute_sql(const char *command);

// A free name in the relation's schema, for a table that a rebuild needs for a while:
// bloom_OID_purpose, with a number at the end if that is taken.
const char *work_table_name(Oid relid, const char *purpose);

// Gives the table of a filter a comment that says what it is, unless it has one. For people who see
// it in a list of tables, or whose tool writes migrations.
void comment_on_filter(Oid relid);

// Raises 42501 unless the current role owns the relation.
void require_owner(Oid relid);

// Whether a subscription of this database writes to the relation.
bool is_subscribed(Oid relid);

// Warns if that is so. The settings of the publisher's filter cannot be seen here, only its rows
// arrive.
void warn_if_subscribed(Oid relid, const Settings &settings);

// Makes an empty table of chunks in the schema, and returns it. `options` are added to the end of
// the statement. The primary key is left out, since the rows are written first. Raises 55000 if the
// name finds a table that this transaction has not made.
Oid make_chunk_table(Oid schema, const char *name, const char *options);

// Keeps others from writing the relation's settings until the end of the transaction, and processes
// what they wrote. Read settings after this, if they are to be changed. The caller holds some lock
// on the relation, at least AccessShareLock.
void lock_settings(Oid relid);

// Writes the guards with these settings; `caller` is any function of the extension. Every session
// sees the change through its relation cache. It waits for adds under way, and later adds wait for
// it.
void store_settings(Oid relid, const Settings &settings, Oid caller);

// The same, in an SPI connection of its own.
void store_settings_alone(Oid relid, const Settings &settings, Oid caller);

// Writes other settings into the guard of a filter, without waiting for adds. The caller has called
// lock_settings and needs no more than AccessShareLock. Needs no SPI connection.
void overwrite_settings(Oid relid, const Settings &settings);

// The extension's schema, quoted; `function` is any function of the extension.
const char *extension_schema(Oid function);

}  // namespace bloomfilter

#endif
