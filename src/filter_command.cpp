// The commands that bloom_info advises and that hints show. All names are qualified and quoted.
#include "pg.hpp"

#include "filter_command.hpp"

namespace bloomfilter {
namespace {

// The relation's name, quoted as an identifier and then as a string, for an argument of type
// regclass.
const char *regclass_literal(Oid relid) {
  return quote_literal_cstr(qualified_name(relid));
}

}  // namespace

// Always with the schema. regclassout would leave it out where the search_path of this session
// finds the table, and the session that runs the command may have another one.
const char *qualified_name(Oid relid) {
  const char *name = get_rel_name(relid);
  // A relation that was dropped at this moment has its number alone, which regclass takes too.
  if (name == nullptr) return psprintf("%u", relid);
  return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
}

// Run without a source filled in, it raises an error that shows an example, and changes nothing.
const char *rebuild_command(Oid relid) {
  return psprintf("call bloom_rebuild(%s, '<source>')", regclass_literal(relid));
}

const char *enlarge_command(Oid relid, double capacity) {
  return psprintf("call bloom_rebuild(%s, '<source>', capacity => %.0f)", regclass_literal(relid),
                  capacity);
}

const char *suspend_command(Oid relid) {
  return psprintf("select bloom_suspend(%s)", regclass_literal(relid));
}

const char *resume_command(Oid relid) {
  return psprintf("select bloom_resume(%s)", regclass_literal(relid));
}

// It drops nothing: advice that is run without thought must not destroy a filter. A name of 63
// bytes is cut off before "_new", since the server would cut "_new" off and find the name taken.
// Null if the relation was dropped at this moment.
const char *replacement_command(Oid relid) {
  const char *old = get_rel_name(relid);
  if (old == nullptr) return nullptr;
  const char *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                                makeObjectName(old, nullptr, "new"));
  return psprintf("select bloom_create(%s, <capacity>, source => '<source>')",
                  quote_literal_cstr(name));
}

// `change` is SQL and goes in as it is: the caller quotes the names in it.
const char *alter_command(Relation relation, const char *change) {
  return psprintf("alter table %s %s", qualified_name(RelationGetRelid(relation)), change);
}

// Shows waiting sessions too. The lock that is in the way may also be one on the index.
const char *show_lock_holders_command(Oid relid) {
  return psprintf("select pid, mode, granted from pg_locks where relation = %s::regclass",
                  regclass_literal(relid));
}

// For the owner to run. The grantee is the role that was refused, which is the current one.
const char *grant_command(Oid relid) {
  return psprintf("grant select on %s to %s", qualified_name(relid),
                  quote_identifier(GetUserNameFromId(GetUserId(), false)));
}

const char *drop_trigger_command(Relation relation, const char *name) {
  return psprintf("drop trigger %s on %s", quote_identifier(name),
                  qualified_name(RelationGetRelid(relation)));
}

const char *drop_index_command(Relation relation, const char *name) {
  return psprintf("drop index %s", quote_qualified_identifier(
                                       get_namespace_name(RelationGetNamespace(relation)), name));
}

}  // namespace bloomfilter
