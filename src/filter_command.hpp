// The commands that bloom_info advises and that hints name: complete, to be run as they are but for
// a source, which only the user knows.
#ifndef BLOOMFILTER_FILTER_COMMAND_HPP
#define BLOOMFILTER_FILTER_COMMAND_HPP

#include "pg.hpp"

namespace bloomfilter {

// The relation's name, qualified and quoted. All results are in the current context.
const char *qualified_name(Oid relid);

// call bloom_rebuild('schema.filter', '<source>'). As it stands bloom_rebuild refuses it, and says
// what a source is.
const char *rebuild_command(Oid relid);

// select bloom_resume('schema.filter')
const char *resume_command(Oid relid);

// Makes another filter that is to take the place of one that bloom_rebuild does not take:
// select bloom_create('schema.filter_new', <capacity>, source => '<source>')
const char *replacement_command(Oid relid);

// alter table schema.filter `change`
const char *alter_command(Relation relation, const char *change);

// Shows who holds a lock of the relation.
const char *show_lock_holders_command(Oid relid);

// Lets the current role read the relation.
const char *grant_command(Oid relid);

// Removes a trigger of the relation, or an index in its schema.
const char *drop_trigger_command(Relation relation, const char *name);
const char *drop_index_command(Relation relation, const char *name);

}  // namespace bloomfilter

#endif
