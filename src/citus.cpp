// Reads the catalog of Citus. In a table that Citus knows, the rows are in shards, which are other
// tables, and on other servers. The table itself is empty, or it holds what it held when it was
// distributed: a check that read it would deny names that were added since.
#include "pg.hpp"

#include "citus.hpp"

namespace bloomfilter {
namespace {

// One row for each table that Citus knows. Its columns have been the same since Citus 10.
constexpr const char *kPartitions = "pg_dist_partition";

// The column of a row, by name; `missing` if there is none or it is null. The numbers of columns
// may change with a version of Citus.
Datum column_of(Relation catalog, HeapTuple row, const char *name, Datum missing) {
  const AttrNumber number = get_attnum(RelationGetRelid(catalog), name);
  if (number == InvalidAttrNumber) return missing;
  bool is_null;
  const Datum value = heap_getattr(row, number, RelationGetDescr(catalog), &is_null);
  return is_null ? missing : value;
}

// What the row says about its table. "n" means that all rows are in one shard. "t" marks the tables
// that have a copy of it on each node. A table of one shard that is placed with others belongs to a
// distributed schema, or was distributed without a column.
const char *kind_of(Relation catalog, HeapTuple row) {
  if (DatumGetChar(column_of(catalog, row, "partmethod", CharGetDatum('n'))) != 'n')
    return "a distributed table of Citus";
  if (DatumGetChar(column_of(catalog, row, "repmodel", CharGetDatum('s'))) == 't')
    return "a reference table of Citus";
  return DatumGetUInt32(column_of(catalog, row, "colocationid", UInt32GetDatum(0))) != 0
             ? "a distributed table of Citus"
             : "a local table that Citus manages";
}

}  // namespace

// Only superusers can make tables in pg_catalog, so nobody else can pretend. The scan takes no
// index: a session asks once for each change of a filter, and the catalog is small. The catalog's
// lock cannot be waited for longer than one of PostgreSQL's own.
const char *citus_kind(Oid relid) {
  const Oid partitions = get_relname_relid(kPartitions, PG_CATALOG_NAMESPACE);
  if (!OidIsValid(partitions)) return nullptr;
  // Null if the extension was dropped at this moment.
  Relation catalog = try_relation_open(partitions, AccessShareLock);
  if (catalog == nullptr) return nullptr;
  const char *kind = nullptr;
  const AttrNumber table = get_attnum(partitions, "logicalrelid");
  if (table != InvalidAttrNumber && catalog->rd_rel->relkind == RELKIND_RELATION) {
    ScanKeyData key;
    ScanKeyInit(&key, table, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
    SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, nullptr, 1, &key);
    HeapTuple row = systable_getnext(scan);
    if (HeapTupleIsValid(row)) kind = kind_of(catalog, row);
    systable_endscan(scan);
  }
  relation_close(catalog, AccessShareLock);
  return kind;
}

}  // namespace bloomfilter
