// The shadow of a rebuild: the table that gets the new rows, the journal's entries that are added
// to it, and the exchange of its files with the filter's.
#include "pg.hpp"

#include <utility>

#include "bloomfilter/chunk.hpp"
#include "bloomfilter/layout.hpp"
#include "chunk_row.hpp"
#include "filter_command.hpp"
#include "filter_ddl.hpp"
#include "rebuild_journal.hpp"
#include "rebuild_shadow.hpp"

namespace bloomfilter {
namespace {

// The primary key of a relation on which the caller has any lock.
Oid primary_key_of(Oid relid) {
  Relation relation = table_open(relid, NoLock);
  const Oid index = compat_primary_key(relation);
  table_close(relation, NoLock);
  return index;
}

// The tablespace of a relation. pg_class has 0 for the default tablespace of the database.
Oid tablespace_of(Oid relid) {
  const Oid tablespace = get_rel_tablespace(relid);
  return OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace;
}

const char *tablespace_name_of(Oid relid) {
  return quote_identifier(get_tablespace_name(tablespace_of(relid)));
}

// The primary key of the filter. The lock of the filter is not kept: DDL would wait for it, and
// checks would wait behind that DDL.
Oid filter_index(Oid filter) {
  LockRelationOid(filter, AccessShareLock);
  const Oid index = primary_key_of(filter);
  UnlockRelationOid(filter, AccessShareLock);
  return index;
}

// Sets the bits of an item in its row, in the page itself. No new version is made: every snapshot,
// however old, sees the bits, no row leaves its place, and the bits stay if an attempt to swap is
// rolled back. That is allowed because nobody else has the table. The change goes to the WAL by the
// server's generic WAL; write_in_place of the adds writes such a record by hand, because there its
// cost counts.
void add_in_place(Relation shadow, RowMap *map, const Digest &digest) {
  const Positions positions = positions_of(digest);
  const int32 chunk = chunk_of(digest, map->chunks);
  ChunkRow row;
  if (!find_chunk(shadow, map, chunk, &positions, Access::kRead, &row))
    ereport(ERROR,
            (errcode(ERRCODE_DATA_CORRUPTED), errmsg("chunk %d of table \"%s\" is missing", chunk,
                                                     RelationGetRelationName(shadow))));
  const ChunkView bits = stored_chunk(shadow, map->shape, &row.tuple);
  // Reading needs no lock of the page, since only this session writes it.
  if (!chunk_contains(bits, positions)) {
    LockBuffer(row.buffer, BUFFER_LOCK_EXCLUSIVE);
    GenericXLogState *state = GenericXLogStart(shadow);
    Page page = GenericXLogRegisterBuffer(state, row.buffer, 0);
    // The bits go into the copy of the page. GenericXLogFinish logs the difference and puts the
    // copy back.
    chunk_add(writable_chunk(shadow, map->shape, row, page), positions);
    GenericXLogFinish(state);
    LockBuffer(row.buffer, BUFFER_LOCK_UNLOCK);
  }
  row.release();
}

// Exchanges the files of two relations, and what pg_class says about the files. Not by the server's
// finish_heap_swap, which builds the index again: 132 to 235 ms with 131072 chunks, while everybody
// is locked out. Exchanging the files of heap and index takes 2 ms.
void exchange_files(Oid one_relid, Oid other_relid) {
  Assert(one_relid != other_relid);
  Relation catalog = table_open(RelationRelationId, RowExclusiveLock);
  HeapTuple one = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(one_relid));
  HeapTuple other = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(other_relid));
  if (!HeapTupleIsValid(one) || !HeapTupleIsValid(other))
    elog(ERROR, "cache lookup failed for relation %u or %u", one_relid, other_relid);
  auto *a = reinterpret_cast<Form_pg_class>(GETSTRUCT(one));
  auto *b = reinterpret_cast<Form_pg_class>(GETSTRUCT(other));
  std::swap(a->relfilenode, b->relfilenode);
  std::swap(a->reltablespace, b->reltablespace);
  std::swap(a->relpages, b->relpages);
  std::swap(a->reltuples, b->reltuples);
  std::swap(a->relallvisible, b->relallvisible);
  compat_swap_all_frozen(a, b);
  // These two say how old the transaction IDs in the files may be, so they go with the files.
  std::swap(a->relfrozenxid, b->relfrozenxid);
  std::swap(a->relminmxid, b->relminmxid);
  CatalogTupleUpdate(catalog, &one->t_self, one);
  CatalogTupleUpdate(catalog, &other->t_self, other);
  heap_freetuple(one);
  heap_freetuple(other);
  table_close(catalog, RowExclusiveLock);
  // The relation cache has to see the new files before the next statement of this transaction.
  CommandCounterIncrement();
}

// Exchanges the files of two relations that are locked against everybody, and tells the relation
// cache which of the files are new. With wal_level = minimal the server does not log changes of a
// new file.
void exchange_and_tell(Oid one_relid, Oid other_relid) {
  Relation one = relation_open(one_relid, NoLock), other = relation_open(other_relid, NoLock);
  Assert(CheckRelationLockedByMe(one, AccessExclusiveLock, false));
  Assert(CheckRelationLockedByMe(other, AccessExclusiveLock, false));
  compat_tell_exchanged(one, other);
  relation_close(other, NoLock);
  relation_close(one, NoLock);
  exchange_files(one_relid, other_relid);
}

// Raises 55000. `what` is a sentence about the change.
[[noreturn]] void unlike(Relation filter, const char *what) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("Bloom filter \"%s\" was changed during its rebuild",
                         RelationGetRelationName(filter)),
                  errdetail("%s", what),
                  errhint("The filter was not rebuilt.  Start the rebuild again.")));
  pg_unreachable();
}

// Whether each of two relations could have the other's files: the same kind, access method,
// persistence and columns, byte for byte. Dropped columns do not count as the same, since the
// shadow has none.
bool alike(Relation one, Relation other) {
  const FormData_pg_class *a = one->rd_rel, *b = other->rd_rel;
  if (a->relkind != b->relkind || a->relam != b->relam || a->relpersistence != b->relpersistence ||
      RelationGetDescr(one)->natts != RelationGetDescr(other)->natts)
    return false;
  for (int i = 0; i < RelationGetDescr(one)->natts; ++i) {
    const FormData_pg_attribute *p = TupleDescAttr(RelationGetDescr(one), i);
    const FormData_pg_attribute *q = TupleDescAttr(RelationGetDescr(other), i);
    if (p->attisdropped || q->attisdropped || p->atttypid != q->atttypid ||
        p->atttypmod != q->atttypmod || p->attlen != q->attlen || p->attalign != q->attalign)
      return false;
  }
  return true;
}

// The same for two primary keys of one column. RelationGetIndexPredicate and rd_opfamily are
// compared too, because both decide which entries the file has, and in which order.
bool indexes_alike(Relation one, Relation other) {
  const FormData_pg_index *a = one->rd_index, *b = other->rd_index;
  return alike(one, other) && a->indnatts == b->indnatts && a->indnkeyatts == b->indnkeyatts &&
         a->indkey.values[0] == b->indkey.values[0] && a->indisprimary && b->indisprimary &&
         a->indisvalid && b->indisvalid && one->rd_opfamily[0] == other->rd_opfamily[0] &&
         one->rd_indoption[0] == other->rd_indoption[0] && RelationGetIndexPredicate(one) == NIL &&
         RelationGetIndexPredicate(other) == NIL;
}

// Raises 55000 unless the files of filter and shadow may be exchanged. Both tables and both indexes
// are locked against everybody, so nothing changes between this check and the exchange.
void require_exchangeable(Oid filter_relid, Oid index_relid, Oid shadow_relid,
                          Oid shadow_index_relid) {
  Relation filter = table_open(filter_relid, NoLock), shadow = table_open(shadow_relid, NoLock);
  Relation index = index_open(index_relid, NoLock);
  Relation shadow_index = index_open(shadow_index_relid, NoLock);
  // As in the server's ALTER TABLE: a lock does not stop this session itself from using the filter.
  CheckTableNotInUse(filter, "rebuild");
  require_plain_columns(filter);
  require_plain_columns(shadow);
  if (!alike(filter, shadow)) unlike(filter, "Its columns, access method or persistence changed.");
  if (!indexes_alike(index, shadow_index)) unlike(filter, "Its primary key changed.");
  if (tablespace_of(filter_relid) != tablespace_of(shadow_relid) ||
      tablespace_of(index_relid) != tablespace_of(shadow_index_relid))
    unlike(filter, "It was moved to another tablespace.");
  index_close(shadow_index, NoLock);
  index_close(index, NoLock);
  table_close(shadow, NoLock);
  table_close(filter, NoLock);
}

}  // namespace

Shadow make_shadow(Oid filter, int32 chunks) {
  const Oid schema = get_rel_namespace(filter);
  // Without a schema, the shadow would be made in a schema of the caller, and the lock of relation
  // 0 would be logged.
  if (!OidIsValid(schema))
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("Bloom filter with OID %u was dropped during its rebuild", filter)));
  const char *name = work_table_name(filter, "shadow");
  // In the tablespace of the filter, whatever the session's defaults are.
  return {make_chunk_table(schema, name, psprintf(" tablespace %s", tablespace_name_of(filter))),
          chunks};
}

// After the rows: building an index once is faster than adding each entry, and leaves it in order.
void index_shadow(const Shadow &shadow, Oid filter) {
  execute_sql(psprintf("alter table %s add primary key (chunk) using index tablespace %s",
                       qualified_name(shadow.relid), tablespace_name_of(filter_index(filter))));
}

// Outside any cache: the shadow is no filter, and its row map lives for this call alone.
int64 apply_journal(const Shadow &shadow, Oid filter, uint32 journal, int64 *position) {
  Relation relation = table_open(shadow.relid, RowExclusiveLock);
  RowMap map{};
  require_filter_shape(relation, &map.shape);
  map_rows(relation, &map, shadow.chunks);
  const int64 entries = read_journal(filter, journal, position, [&](const Digest &digest) {
    add_in_place(relation, &map, digest);
  });
  forget_rows(&map);
  table_close(relation, NoLock);
  return entries;
}

void exchange_with_shadow(const Shadow &shadow, Oid filter) {
  const Oid index = primary_key_of(filter), shadow_index = primary_key_of(shadow.relid);
  // LockTries has locked the filter already, and nobody else can have the shadow. So only the
  // filter's index may have to be waited for, and not for longer than the lock_timeout that
  // LockTries has set.
  for (const Oid relid : {shadow.relid, shadow_index, filter, index})
    LockRelationOid(relid, AccessExclusiveLock);
  require_exchangeable(filter, index, shadow.relid, shadow_index);
  exchange_and_tell(filter, shadow.relid);
  exchange_and_tell(index, shadow_index);
  // The shadow now has the old files of the filter, and removes them with the commit.
  ObjectAddress table;
  ObjectAddressSet(table, RelationRelationId, shadow.relid);
  performDeletion(&table, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
}

}  // namespace bloomfilter
