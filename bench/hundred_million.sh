#!/usr/bin/env bash
# A hundred million generated names in 131072 chunks, as the published article has it: how long the
# load takes, the error rate read from the bits, and the false positives among a million absent
# names, beside the published 0.0059 and 5,924.
#
#   bench/hundred_million.sh            prints the table; takes 8 minutes and 2 GB of temporary disk
#   bench/hundred_million.sh --save     writes it to bench/RESULTS.md too
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

NAMES=${NAMES:-100000000}

SETTINGS=(
  'shared_buffers = 1GB' 'maintenance_work_mem = 1GB' 'max_wal_size = 64GB'
  'checkpoint_timeout = 1d' 'jit = off' 'max_parallel_workers_per_gather = 0'
)

rate() { printf "(select round(bloom_fp_rate(bits)::numeric, 4) from %s)" "$1"; }

more() {
  note "$NAMES more"
  local table start
  for table in alone grown; do
    run_psql -c "select bloom_create('$table', 1e8, chunks => 131072, source => 'select bloom_value(''f'')')" >/dev/null
  done
  run_psql -c "call bloom_grow('grown')" 2>/dev/null
  run_psql -c "select bloom_merge('alone', bloom_agg_chunks(name, 131072, 'lower')) from ($(names "$((NAMES + 1))" "$((2 * NAMES))") as name) n" \
    -c "select bloom_merge('grown', bloom_agg_chunks(name, 262144, 'lower')) from ($(names "$((NAMES + 1))" "$((2 * NAMES))") as name) n" >/dev/null
  figure "$NAMES more, left alone: rate read from the bits" "$(rate alone)"
  figure '… grown before' "$(rate grown)"
  start=$(date +%s)
  run_psql -c "call bloom_rebuild('f', \$\$$(names 1 "$((2 * NAMES))")\$\$, 2e8, 0.00585, grace => '0')" 2>/dev/null
  figure "bloom_rebuild of $((2 * NAMES)) names" "'$(($(date +%s) - start)) s'"
  figure '… chunks' '(select count(*) from f)'
  figure '… rate read from the bits' "$(rate f)"
}

main() {
  begin_bench "$@"
  prepare_results
  note "loading $NAMES names"
  run_psql <<SQL
call alternate(array['load'], array['select bloom_create(''f'', 1e8, chunks => 131072, source =>
    ''select ''''user'''' || generate_series(1, $NAMES)'')'], array[1e6], 1);
SQL
  note 'asking for absent names'
  run_psql <<'SQL'
create table absent as
select count(*) as maybes
from (select generate_series(1, 1000000) i) a where bloom_might_contain('f', 'absent' || i);
SQL
  figure "bloom_create of $NAMES names into 131072 chunks" "format('%s s', round(median('load')::numeric, 1))"
  figure '… rate read from the bits (published: 0.0059)' '(select round(bloom_fp_rate(bits)::numeric, 5) from f)'
  figure '… rate expected' "round(bloom_expected_fp_rate($NAMES, 131072)::numeric, 5)"
  figure '… false positives among 1,000,000 absent names (published: 5,924)' \
    "(select to_char(maybes, 'FM9,999,999') from absent)"
  figure '… items estimated from the bits' "(select to_char(items, 'FM999,999,999') from bloom_info('f'))"
  more
  print_figures
  [[ ${1:-} != --save ]] || document bench/hundred_million.sh 'in seconds' | save_section hundred_million
}

main "$@"
