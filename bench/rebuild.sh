#!/usr/bin/env bash
# Rebuilding a filter of 131072 chunks from 10 M names: how long it takes beside its parts measured
# apart, how long checks and adds wait for it, and what memory a large one takes.
#
#   bench/rebuild.sh            prints the table; takes some 5 minutes and 6 GB of temporary disk
#   bench/rebuild.sh --save     writes it to bench/RESULTS.md too, with the raw lines
#
# Ends with 1 if a bound is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ROUNDS=${ROUNDS:-5}
NAMES=${NAMES:-10000000}

SETTINGS=(
  'shared_buffers = 3GB' 'maintenance_work_mem = 1GB' 'max_wal_size = 64GB'
  'checkpoint_timeout = 1d' 'fsync = off' 'jit = off' 'max_parallel_workers_per_gather = 0'
)

prepare() {
  note "making a table of $NAMES names"
  run_psql >/dev/null <<SQL
create table names as select 'user' || i as name from generate_series(1, $NAMES) i;
select bloom_create('f', 1e8, chunks => 131072, source => 'select name from names');
vacuum analyze;
select count(*) from names;
select bloom_info('f');
SQL
}

# stopwatch NAME SQL...: seconds of psql, into sample; a procedure cannot be called by another.
stopwatch() {
  local name=$1 start
  shift
  start=$(date +%s.%N)
  run_psql "${@/#/-c}" >/dev/null 2>&1
  run_psql -c "insert into sample values ('$name', ($(date +%s.%N) - $start) * 1e6)"
}

speed() {
  note 'speed'
  local round
  for ((round = 0; round < ROUNDS; round++)); do
    stopwatch scan 'select count(name) from names'
    stopwatch build "select bloom_value_info(bloom_agg_chunks(name, 131072, 'lower')) from names"
    stopwatch write "select bloom_create('empty', 1e8, chunks => 131072, ready => true)"
    run_psql -c 'drop table empty'
    stopwatch rebuild "call bloom_rebuild('f', 'select name from names', grace => '0')"
    stopwatch grow "call bloom_grow('f')"
    run_psql -c "call bloom_rebuild('f', 'select name from names', 1e8, grace => '0', min_share => 0)" 2>/dev/null
  done
  figure "bloom_rebuild of $NAMES names into as many chunks as 1e8 take" "$(seconds rebuild)"
  figure '… the scan, the build (with another scan) and the write apart' \
    "format('%s s + %s s + %s s', round((median('scan') / 1e6)::numeric, 2), round((median('build') / 1e6)::numeric, 2), round((median('write') / 1e6)::numeric, 2))"
  figure '… ratio' \
    "round((median('rebuild') / (median('scan') + median('build') + median('write')))::numeric, 2)" "'at most 2 ×'" \
    "median('rebuild') <= 2 * (median('scan') + median('build') + median('write'))"
  figure 'bloom_grow of that filter' "$(seconds grow)"
}

# What checks and adds of eight clients wait while rebuilds run, by the longest statement of each.
waits() {
  note 'waits'
  run_psql -c "select bloom_create('w', 1e8, chunks => 131072, source => 'select name from names')" \
    -c "select bloom_info('w')" >/dev/null
  sed "s/'f'/'w'/" "$BENCH/pgbench/check.sql" >"$WORK/check.sql"
  sed "s/f_add/w/" "$BENCH/pgbench/add.sql" >"$WORK/add.sql"
  (cd "$WORK" && run_program pgbench -n -M prepared -c 4 -T 40 -f check.sql -l --log-prefix=check >/dev/null) &
  local checks=$!
  (cd "$WORK" && run_program pgbench -n -M prepared -c 4 -T 40 -f add.sql -l --log-prefix=add >/dev/null) &
  local adds=$! done=0 end=$((SECONDS + 36))
  sleep 1
  while ((SECONDS < end)); do
    run_psql -c "call bloom_rebuild('w', 'select name from names', grace => '0', min_share => 0)" 2>/dev/null
    done=$((done + 1))
  done
  wait "$checks" "$adds"
  local check add
  check=$(awk '$3 > most { most = $3 } END { printf "%.1f", most / 1000 }' "$WORK"/check.[0-9]*)
  add=$(awk '$3 > most { most = $3 } END { printf "%.1f", most / 1000 }' "$WORK"/add.[0-9]*)
  figure "longest check of four clients through $done rebuilds" "'$check ms'" "'at most 100 ms'" "$check <= 100"
  figure '… longest add of four others' "'$add ms'"
}

memory() {
  note 'memory'
  run_psql >/dev/null <<'SQL'
create table few as select * from names limit 100000;
select bloom_create('large', 1e8, chunks => 1 << 20, source => 'select name from few');
SQL
  local limit idle peak
  for limit in 64 256; do
    read -r idle _ < <(peaks 0.01 'select 1')
    read -r peak _ < <(peaks 0.01 "set maintenance_work_mem = '${limit}MB'" "call bloom_rebuild('large', 'select name from few', grace => '0')")
    figure "memory of a rebuild of 2^20 chunks from 100,000 names, maintenance_work_mem = $limit MB, over an idle backend" \
      "format('%s MiB', ($peak - $idle) / 1024)" "'at most $((limit + 64)) MiB'" "$peak - $idle <= ($limit + 64) * 1024"
  done
}

main() {
  begin_bench "$@"
  prepare_results
  prepare
  speed
  waits
  memory
  print_figures
  [[ ${1:-} != --save ]] || document bench/rebuild.sh 'in microseconds' | save_section rebuild
  all_met
}

main "$@"
