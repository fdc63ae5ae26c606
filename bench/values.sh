#!/usr/bin/env bash
# Filter values: how fast they are built, merged and asked, what they take, and how often they are
# wrong, beside the bounds that the project sets itself.
#
#   bench/values.sh            prints the table; takes some 10 minutes and 4 GB of temporary disk
#   bench/values.sh --save     writes it to bench/RESULTS.md too, with the raw lines
#
# Contestants alternate, and figures are medians over rounds. Ends with 1 if a bound is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ROUNDS=${ROUNDS:-5}   # of each alternation
NAMES=${NAMES:-10000000}

SETTINGS=(
  'shared_buffers = 3GB' 'maintenance_work_mem = 1GB' 'work_mem = 256MB' 'max_wal_size = 64GB'
  'checkpoint_timeout = 1d' 'fsync = off' 'jit = off' 'max_parallel_workers_per_gather = 0'
  'parallel_setup_cost = 0' 'parallel_tuple_cost = 0' 'autovacuum = off'
)

prepare() {
  note "making tables of $NAMES names"
  run_psql >/dev/null <<SQL
create table names with (parallel_workers = 1) as
select 'user' || i as name from generate_series(1, $NAMES) i;
create table million as select * from names limit 1000000;
create table vals (mib int, v bloomfilter);
vacuum analyze;
select count(*) from names;
SQL
}

building() {
  note 'building'
  run_psql <<SQL
call alternate(
    array['md5', 'agg chunks', 'scan', 'article'],
    array['select count(md5(lower(name))) from names',
          'select bloom_value_info(bloom_agg_chunks(name, 131072, ''lower'')) from names',
          'select count(name) from names',
          'select count(*) from (select u.chunk, bit_or(u.mask) from million m,
                                 article.username_bits(m.name) u group by u.chunk) s'],
    array[$NAMES, $NAMES, $NAMES, 1e6], $ROUNDS);
SQL
  figure "count(md5(lower(name))) of $NAMES names, a name" "spread('md5')"
  figure '… bloom_agg_chunks into 131072 chunks, a name' "spread('agg chunks')"
  figure '… ratio' "round((median('agg chunks') / median('md5'))::numeric, 3)" "'at most 0.45 ×'" \
    "median('agg chunks') <= 0.45 * median('md5')"
  figure '… the scan alone, a name' "spread('scan')"
  figure 'bit_or of the masks of the article, 1 M names, a name' "spread('article')"
  figure '… times slower' "round((median('article') / median('agg chunks'))::numeric, 1)" \
    "'at least 25 ×'" "median('article') >= 25 * median('agg chunks')"
  note 'building in parallel'
  local round
  for ((round = 0; round < ROUNDS; round++)); do
    run_psql -c "call alternate(array['serial'], array['select bloom_value_info(bloom_agg(name, $NAMES, 0.01, ''lower'')) from names'], array[$NAMES], 1)"
    run_psql -c "set max_parallel_workers_per_gather = 1" \
      -c "call alternate(array['parallel'], array['select bloom_value_info(bloom_agg(name, $NAMES, 0.01, ''lower'')) from names'], array[$NAMES], 1)"
  done
  figure "bloom_agg sized for the $NAMES names, serial, a name" "spread('serial')"
  figure '… with one parallel worker, a name' "spread('parallel')"
  figure '… times faster' "round((median('serial') / median('parallel'))::numeric, 2)" \
    "'at least 1.5 ×'" "median('serial') >= 1.5 * median('parallel')"
}

transfer() {
  note 'between table and value'
  run_psql -c "insert into vals select 128, bloom_agg_chunks(name, 131072, 'lower') from names" \
    -c "insert into vals select 16, bloom_agg_chunks(name, 16384, 'lower') from names"
  local round
  for ((round = 0; round < ROUNDS; round++)); do
    run_psql >/dev/null <<'SQL'
drop table if exists f;
select bloom_create('f', 1e8, chunks => 131072, ready => true);
checkpoint;
call alternate(array['merge', 'value'],
    array['select bloom_merge(''f'', v) from vals where mib = 128', 'select bloom_value(''f'') is null'],
    array[1, 1], 1);
SQL
  done
  figure 'bloom_merge of 128 MiB into an empty table' "$(seconds merge)" "'at most 3 s'" "median('merge') <= 3e6"
  figure 'bloom_value of it' "$(seconds value)" "'at most 0.5 s'" "median('value') <= 0.5e6"
}

checks() {
  note 'checks'
  # The names in no order that the value's chunks know.
  run_psql <<SQL
create table asked as select name from million order by md5(name) limit 200000;
vacuum analyze asked;
call alternate(
    array['check 128', 'check 16', 'no check'],
    array['select count(*) from asked, vals where mib = 128 and v @> name',
          'select count(*) from asked, vals where mib = 16 and v @> name',
          'select count(*) from asked, vals where mib = 16 and octet_length(name) > 0'],
    array[2e5, 2e5, 2e5], $ROUNDS * 3);
SQL
  figure 'check on a stored value of 128 MiB' "spread('check 128')" "'at most 6 µs'" "median('check 128') <= 6"
  figure '… of 16 MiB' "spread('check 16')"
  figure '… ratio' "round((median('check 128') / median('check 16'))::numeric, 3)" "'at most 1.2 ×'" \
    "median('check 128') <= 1.2 * median('check 16')"
  figure '… the query without a check' "spread('no check')"
}

# peak [QUERY]: the largest resident memory that a backend had, in kB, after the query.
peak() {
  run_psql -c "${1:-select 1}" \
    -c "select (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]" | tail -n 1
}

memory() {
  note 'memory'
  local query="select bloom_value_info(bloom_agg_chunks('user' || i, CHUNKS, 'lower')) from (select generate_series(1, 1000000) i) s"
  local idle serial workers=$WORK/workers
  idle=$(peak "${query/CHUNKS/128}")
  serial=$(peak "${query/CHUNKS/131072}")
  figure 'peak memory of a serial build of 128 MiB, over an idle backend' \
    "format('128 MiB + %s MiB', round(($serial - $idle) / 1024.0 - 128, 1))" "'128 MiB + 4 MB'" \
    "$serial - $idle <= 131072 + 4e6 / 1024"
  # Of a parallel one: the leader and its worker, sampled. They read the table through shared
  # memory, which counts as theirs.
  (
    while sleep 0.05; do
      for status in /proc/[0-9]*/status; do
        grep -qs 'parallel worker' "${status%status}cmdline" && sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "$status"
      done
    done 2>/dev/null >"$workers"
  ) &
  local sampler=$!
  local leader
  leader=$(run_psql -c 'set max_parallel_workers_per_gather = 1' \
    -c "select bloom_value_info(bloom_agg_chunks(name, 131072, 'lower')) from names" \
    -c "select (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]::int
             - (regexp_match(pg_read_file('/proc/self/status'), 'RssShmem:\s+(\d+)'))[1]::int" | tail -n 1)
  kill "$sampler"
  wait "$sampler" 2>/dev/null || true
  local worker
  worker=$(sort -n "$workers" | tail -n 1 | grep . || echo 0)
  figure '… of a parallel one, leader and worker' \
    "format('%s MiB and %s MiB', $leader / 1024, $worker / 1024)" "'at most 530 and 262 MiB'" \
    "$leader <= 530 * 1024 and $worker <= 262 * 1024"
}

# rate CAPACITY ITEMS FP_RATE ABSENT: the share of absent names that a value of ITEMS answers maybe.
rate() {
  run_psql <<SQL
select count(*) / $4::float8
from (select bloom_agg('user' || i, $1, $3, 'lower') v from (select generate_series(1, $2) i) s) b,
     (select generate_series(1, $4) i) a
where v @> ('absent' || i)
SQL
}

rates() {
  note 'sizes and rates'
  local target absent measured
  for target in 0.01 0.001 0.0001; do
    absent=$([[ $target == 0.01 ]] && echo 1000000 || echo 20000000)
    figure "2 M names at $target: bits, by -n ln p / (ln 2)^2" \
      "round(((octet_length(bloom_empty(2e6, $target)::bytea) * 8) / (-2e6 * ln($target) / ln(2)^2))::numeric, 4)" \
      "'at most 1.01 ×'" "octet_length(bloom_empty(2e6, $target)::bytea) * 8 <= 1.01 * -2e6 * ln($target) / ln(2)^2"
    measured=$(rate 2e6 2000000 "$target" "$absent")
    figure "… false positives among $absent absent" "format('%s %%', round((100 * $measured)::numeric, 4))"
  done
  figure '2 M names at 0.01, filled with 3 M (published 5.78 %)' \
    "format('%s %%', round((100 * $(rate 2e6 3000000 0.01 1000000))::numeric, 2))"
  figure '… with 4 M (published 15.76 %)' \
    "format('%s %%', round((100 * $(rate 2e6 4000000 0.01 1000000))::numeric, 2))"
  figure '100 names at 0.01, bytes on disk' 'pg_column_size(bloom_empty(100))' "'at most 160'" \
    'pg_column_size(bloom_empty(100)) <= 160'
}

main() {
  begin_bench "$@"
  prepare_results
  prepare_article
  prepare
  building
  transfer
  checks
  memory
  rates
  print_figures
  [[ ${1:-} != --save ]] || document bench/values.sh 'in microseconds an item' | save_section values
  all_met
}

main "$@"
