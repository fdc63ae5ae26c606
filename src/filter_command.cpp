// The commands that bloom_info advises and that hints show: complete statements, with every name
// qualified and quoted, so that they can be copied and run whatever the search_path is.
#include "pg.hpp"

#include "filter_command.hpp"

namespace bloomfilter {
namespace {

// The relation as a quoted literal for an argument of type regclass. The name is quoted twice, as
// an identifier and then as a string.
const char *regclass_literal(Oid relid) {
  return quote_literal_cstr(qualified_name(relid));
}

}  // namespace

// Always with the schema. regclassout would leave it out where the search_path of this session
// finds the table, and the session that runs the command may have another one.
const char *qualified_name(Oid relid) {
  return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                    get_rel_name(relid));
}

// The placeholder is one word, which require_source refuses with an example of a query. Pasted as
// it is, the command changes nothing.
const char *rebuild_command(Oid relid) {
  return psprintf("call bloom_rebuild(%s, '<source>')", regclass_literal(relid));
}

const char *resume_command(Oid relid) {
  return psprintf("select bloom_resume(%s)", regclass_literal(relid));
}

// Creates a second table and drops nothing: advice that is pasted without thought must not destroy
// a filter.
const char *replacement_command(Oid relid) {
  const char *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
                                                psprintf("%s_new", get_rel_name(relid)));
  return psprintf("select bloom_create(%s, <capacity>, source => '<source>')",
                  quote_literal_cstr(name));
}

// `change` is SQL and goes in as it is: the caller quotes the names in it.
const char *alter_command(Relation relation, const char *change) {
  return psprintf("alter table %s %s", qualified_name(RelationGetRelid(relation)), change);
}

// Who holds or waits for a lock of the table; the lock that is in the way may also be one of its
// index.
const char *show_lock_holders_command(Oid relid) {
  return psprintf("select pid, mode, granted from pg_locks where relation = %s::regclass",
                  regclass_literal(relid));
}

// The grantee is the role that was refused: the current one, which may be the owner of a security
// definer function and not the session's role.
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
