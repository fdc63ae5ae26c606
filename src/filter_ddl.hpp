// The statements that make filter tables and change their settings; inside an SPI connection.
#ifndef BLOOMFILTER_FILTER_DDL_HPP
#define BLOOMFILTER_FILTER_DDL_HPP

#include "pg.hpp"

#include "filter_settings.hpp"

namespace bloomfilter {

// Runs a statement; raises whatever it raises.
void execute_sql(const char *command);

// A name that is free in the relation's schema, for a table that a rebuild of it needs for a while:
// bloom_OID_purpose, or with a number behind.
const char *work_table_name(Oid relid, const char *purpose);

// Gives the table of a filter a comment that says what it is, unless it has a comment. For whoever
// meets it in a list of tables, or has a tool write migrations.
void comment_on_filter(Oid relid);

// Raises 42501 unless the current role owns the relation.
void require_owner(Oid relid);

// Whether a subscription of this database writes to the relation.
bool is_subscribed(Oid relid);

// Warns where that is so: what a publisher's filter is cannot be seen here, and only its rows
// arrive.
void warn_if_subscribed(Oid relid, const Settings &settings);

// Makes an empty table of chunks under a name that is quoted already, with these words at the end
// of the statement. Without its primary key: the rows come first.
void make_chunk_table(const char *quoted_name, const char *options);

// Keeps others from writing the relation's settings until the end of the transaction, and makes
// what they wrote known: settings that are to be changed are read after this. The relation is
// locked already, if weakly.
void lock_settings(Oid relid);

// Writes the guard with these settings; `caller` is any function of the extension. Every session
// learns of it through its relation cache. Waits for adds under way, and they for it.
void store_settings(Oid relid, const Settings &settings, Oid caller);

// The same in an SPI connection of its own.
void store_settings_alone(Oid relid, const Settings &settings, Oid caller);

// Writes other settings into the guard of a filter, and waits for no add. Under lock_settings, and
// with no more than AccessShareLock; needs no SPI connection.
void overwrite_settings(Oid relid, const Settings &settings);

// The extension's schema, quoted; `function` is any function of the extension.
const char *extension_schema(Oid function);

}  // namespace bloomfilter

#endif
