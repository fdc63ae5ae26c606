// The commands that bloom_info advises and that hints show. Each can be run as it is, except that
// the user fills in the source (and a capacity), which only they know.
#ifndef BLOOMFILTER_FILTER_COMMAND_HPP
#define BLOOMFILTER_FILTER_COMMAND_HPP

#include "pg.hpp"

namespace bloomfilter {

// The relation's name, qualified and quoted. This and all other results are allocated in the
// current memory context.
const char *qualified_name(Oid relid);

// call bloom_rebuild('schema.filter', '<source>'). Run without a source filled in, bloom_rebuild
// refuses it and says what a source is.
const char *rebuild_command(Oid relid);

// call bloom_rebuild('schema.filter', '<source>', capacity => 1000000)
const char *enlarge_command(Oid relid, double capacity);

// select bloom_suspend('schema.filter')
const char *suspend_command(Oid relid);

// select bloom_resume('schema.filter')
const char *resume_command(Oid relid);

// Makes another filter, to replace one that bloom_rebuild cannot rebuild. Null if the relation is
// gone.
// select bloom_create('schema.filter_new', <capacity>, source => '<source>')
const char *replacement_command(Oid relid);

// alter table schema.filter `change`
const char *alter_command(Relation relation, const char *change);

// Shows which sessions hold a lock on the relation.
const char *show_lock_holders_command(Oid relid);

// Lets the current role read the relation.
const char *grant_command(Oid relid);

// Removes a trigger of the relation, or an index of the relation, which is in the same schema.
const char *drop_trigger_command(Relation relation, const char *name);
const char *drop_index_command(Relation relation, const char *name);

}  // namespace bloomfilter

#endif
