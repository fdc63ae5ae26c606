#!/usr/bin/env bash
# What a filter writes to the WAL: bytes of an add, a bulk, a load, a rebuild, a growth, a merge, a restore.
#
#   bench/wal.sh            prints the table; takes two minutes
#   bench/wal.sh --save     writes it to bench/RESULTS.md too
#
# The filter is as full as it should be. wal_log_hints is on, so that a page counts as on a server with data
# checksums.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

POWER=${POWER:-14}      # the filter has 2^POWER chunks
NAMES=${NAMES:-13950000}  # about as many as 2^14 chunks hold at 1 %
ADDS=${ADDS:-300}       # single adds of a run: few enough that two seldom meet in a page

SETTINGS=(
  'shared_buffers = 1GB' 'maintenance_work_mem = 1GB' 'max_wal_size = 16GB' 'checkpoint_timeout = 1d' 'fsync = off'
  'jit = off' 'max_parallel_workers_per_gather = 0' 'autovacuum = off' 'wal_log_hints = on'
)

# The next names that were never added begin after this number.
LAST=$NAMES

# bytes_of SQL...: how much WAL these statements write, without that of a checkpoint before them.
bytes_of() {
  local before
  before=$(run_psql -c 'select pg_current_wal_insert_lsn()')
  run_psql -c 'set client_min_messages = error' "${@/#/-c}" >/dev/null
  run_psql -c "select (pg_current_wal_insert_lsn() - '$before')::bigint"
}

# adds FIRST: a statement that adds that many names, each in a transaction of its own.
adds() {
  # shellcheck disable=SC2016
  printf 'do $$ begin for i in %s..%s loop perform bloom_add('\''f'\'', '\''user'\'' || i); commit; end loop; end $$' \
    "$1" "$(($1 + ADDS - 1))"
}

# array FIRST COUNT: names as an array.
array() { printf 'array(%s)' "$(names "$1" "$(($1 + $2 - 1))")"; }

# each NAME BYTES COUNT WHAT: a row: bytes for each of them.
each() { figure "$1" "format('%s bytes a%s $4', to_char(round($2::numeric / $3), 'FM999,999,999'), case when '$4' ~ '^[aeiou]' then 'n' end)"; }

# set_server SETTING: for all sessions that begin later.
set_server() {
  run_psql -c "alter system set $1" -c 'select pg_reload_conf()' -c 'select pg_sleep(0.5)' >/dev/null
}

# records FIRST: adds that many names, and makes a row for each kind of record that this writes.
records() {
  local before kind bytes
  before=$(run_psql -c 'select pg_current_wal_insert_lsn()')
  run_psql -c "$(adds "$1")"
  while IFS='|' read -r kind bytes; do
    each "… of which $kind" "$bytes" "$ADDS" add
  done < <(run_psql -c "select \"resource_manager/record_type\", combined_size
      from pg_get_wal_stats('$before', pg_current_wal_flush_lsn(), true) where count > 0 order by 2 desc")
}

# Single adds: of pages that were changed since the checkpoint, and of pages that were not.
single_adds() {
  note 'adds'
  local method
  # The bulk changes every page.
  run_psql -c checkpoint -c "select bloom_add_many('f', $(array "$((LAST + 1))" 200000))" >/dev/null
  LAST=$((LAST + 200000))
  each 'bloom_add of a new name, its page changed since the checkpoint' "$(bytes_of "$(adds $((LAST + 1)))")" "$ADDS" add
  records $((LAST + ADDS + 1))
  each '… of a name that is there' "$(bytes_of "$(adds $((LAST + 1)))")" "$ADDS" add
  LAST=$((LAST + 2 * ADDS))
  # A bulk leaves rows in other pages than their dead versions. After a rebuild an add changes one page.
  bytes_of "$REBUILD" >/dev/null
  run_psql -c checkpoint
  each 'bloom_add of a new name, its page not changed since the checkpoint' "$(bytes_of "$(adds $((LAST + 1)))")" "$ADDS" add
  run_psql -c checkpoint
  each '… the first check of each of these names, after another checkpoint' "$(bytes_of "select bloom_might_contain('f', 'user' || i) from generate_series($((LAST + 1)), $((LAST + ADDS))) i")" "$ADDS" check
  each '… the second check' "$(bytes_of "select bloom_might_contain('f', 'user' || i) from generate_series($((LAST + 1)), $((LAST + ADDS))) i")" "$ADDS" check
  LAST=$((LAST + ADDS))
  for method in pglz lz4 zstd; do
    # Not every server is built with all of them.
    run_psql -c "set wal_compression = $method" 2>/dev/null || continue
    set_server "wal_compression = $method"
    run_psql -c checkpoint
    each "bloom_add, page not changed since the checkpoint, wal_compression = $method" "$(bytes_of "$(adds $((LAST + 1)))")" "$ADDS" add
    LAST=$((LAST + ADDS))
    set_server 'wal_compression = off'
  done
  set_server 'full_page_writes = off'
  run_psql -c checkpoint
  each 'bloom_add, page not changed since the checkpoint, full_page_writes = off' "$(bytes_of "$(adds $((LAST + 1)))")" "$ADDS" add
  LAST=$((LAST + ADDS))
  set_server 'full_page_writes = on'
}

# Many names in one call.
bulks() {
  note 'bulks'
  bytes_of "$REBUILD" >/dev/null
  run_psql -c checkpoint
  each 'bloom_add_many of 1,000 names, right after a checkpoint' \
    "$(bytes_of "select bloom_add_many('f', $(array "$((LAST + 1))" 1000))")" 1000 name
  LAST=$((LAST + 1000))
  run_psql -c 'vacuum f' -c checkpoint
  each 'bloom_add_many of 1,000,000 names, right after a checkpoint' \
    "$(bytes_of "select bloom_add_many('f', $(array "$((LAST + 1))" 1000000))")" "$(chunks)" chunk
  LAST=$((LAST + 1000000))
  run_psql -c 'vacuum f' -c "create table value as select bloom_agg_chunks(name, $(chunks), 'lower') v
      from ($(names $((LAST + 1)) $((LAST + 1000000)))) n (name)" -c checkpoint
  each 'bloom_merge of a value that changes every chunk, right after a checkpoint' \
    "$(bytes_of "select bloom_merge('f', v) from value")" "$(chunks)" chunk
  each '… vacuum after it' "$(bytes_of 'vacuum f')" "$(chunks)" chunk
}

# What writes a whole table.
whole() {
  note 'loads'
  local method before
  run_psql -c 'drop table f'
  each 'bloom_create with source' "$(bytes_of "select bloom_create('f', $NAMES, chunks => $CHUNKS,
      source => \$\$$(names 1 "$NAMES")\$\$)")" "$CHUNKS" chunk
  run_psql -c checkpoint
  each '… bloom_create of an empty filter' "$(bytes_of "select bloom_create('empty', $NAMES, chunks => $CHUNKS, ready => true)")" "$CHUNKS" chunk
  for method in lz4 zstd; do
    run_psql -c "set wal_compression = $method" 2>/dev/null || continue
    set_server "wal_compression = $method"
    each "bloom_rebuild, wal_compression = $method" "$(bytes_of "$REBUILD")" "$(chunks)" chunk
    set_server 'wal_compression = off'
  done
  each 'bloom_rebuild' "$(bytes_of "$REBUILD")" "$(chunks)" chunk
  run_psql -c checkpoint
  run_program pg_dump --format=custom --table=f --file="$WORK/tmp/f.dump"
  run_psql -c 'create database restored'
  PGDATABASE=restored run_psql -c 'create extension bloomfilter' -c checkpoint
  before=$(run_psql -c 'select pg_current_wal_insert_lsn()')
  run_program pg_restore --dbname=restored "$WORK/tmp/f.dump"
  each 'pg_restore' "$(run_psql -c "select pg_current_wal_insert_lsn() - '$before'")" "$(chunks)" chunk
  each 'bloom_grow, a chunk of the new table' "$(bytes_of "call bloom_grow('f')")" "$(chunks)" chunk
  each 'bloom_suspend and bloom_resume' "$(bytes_of "select bloom_suspend('f')" "select bloom_resume('f')")" 1 pair
}

# The chunks of f as it is now.
chunks() { run_psql -c "select chunks from bloom_info_sampled('f', 1)"; }

# The report, with what it was measured on.
report() {
  printf '## bench/wal.sh\n\n'
  describe_run
  run_psql -c "select format(e'The filter has 2^%s chunks and holds %s names.\n', $POWER, to_char($NAMES, 'FM999,999,999'))"
  print_figures
}

begin_bench "$@"
CHUNKS=$((1 << POWER))
REBUILD="call bloom_rebuild('f', \$\$$(names 1 "$NAMES")\$\$, capacity => $NAMES, grace => '0', min_share => 0)"
prepare_results
run_psql -c 'create extension pg_walinspect'
run_psql -c 'set client_min_messages = error' -c "select bloom_create('f', $NAMES, chunks => $CHUNKS, source => \$\$$(names 1 "$NAMES")\$\$)" >/dev/null
single_adds
bulks
whole
report >"$WORK/report"
cat "$WORK/report"
[[ $* != --save ]] || save_section wal <"$WORK/report"
