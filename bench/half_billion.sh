#!/usr/bin/env bash
# Half a billion generated names in one filter at 1 %: how long a load and a rebuild take, and how
# much memory, disk and WAL; the rate read from the bits beside the rate among absent names; checks
# and adds beside those of a filter for a million names.
#
#   bench/half_billion.sh               prints the table; takes half an hour, 20 GB of temporary disk
#                                       and 8 GB of memory
#   bench/half_billion.sh --names N     with N names instead
#   bench/half_billion.sh --save        writes it to bench/RESULTS.md too, with the raw lines
#
# A load and a rebuild run once. In the rest, the large and the small filter alternate, and figures
# are medians over rounds. Ends with 1 if a bound is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

NAMES=500000000
SMALL=1000000
ASKED=10000000        # absent names that are asked, and present ones
BATCH=1000000         # names in one call of bloom_might_contain_many
RATE=1000             # checks and adds a second beside a rebuild
MUCH=1GB              # maintenance_work_mem that holds all chunks
LITTLE=${LITTLE:-64MB}   # … and one that does not, so that names go to temporary files
ROUNDS=${ROUNDS:-5}   # of each alternation
SECONDS_A_RUN=${SECONDS_A_RUN:-5}
SAVE=

SETTINGS=(
  'shared_buffers = 3GB' 'maintenance_work_mem = 1GB' 'max_wal_size = 64GB'
  'checkpoint_timeout = 1d' 'fsync = off' 'jit = off' 'max_parallel_workers_per_gather = 0'
  # Its WAL would count as that of adds.
  'autovacuum = off'
)

# Takes the options of the command line, or ends with how they are given.
parse_options() {
  while (($#)); do
    case $1 in
      --save) SAVE=--save ;;
      --names)
        NAMES=${2:-}
        (($# < 2)) || shift
        ;;
      *) NAMES= ;;
    esac
    [[ $NAMES =~ ^[1-9][0-9]{5,9}$ ]] ||
      die 'usage: bench/half_billion.sh [--names N] [--save], with N of six to ten digits'
    shift
  done
}

# grouped NUMBER: 500,000,000.
grouped() { printf '%s' "$1" | sed -E ':again; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; t again'; }

# create FILTER N: the statement that makes a filter for N names, with N names in it.
create() { printf "select bloom_create('%s', %s, source => \$\$%s\$\$)" "$1" "$2" "$(names 1 "$2")"; }

# The statement that rebuilds the large filter. Without the capacity it would become twice as large.
# Added names are not in the source, so it has too few for the usual min_share.
rebuild() { printf "call bloom_rebuild('large', \$\$%s\$\$, %s, grace => '0', min_share => 0)" "$(names 1 "$NAMES")" "$NAMES"; }

# The scripts of pgbench, and the tables of what is measured.
prepare() {
  sed "s/'f'/'large'/; s/2000000/$((2 * NAMES))/" "$BENCH/pgbench/check.sql" >"$WORK/check.large.sql"
  sed "s/'f'/'small'/; s/2000000/$((2 * SMALL))/" "$BENCH/pgbench/check.sql" >"$WORK/check.small.sql"
  sed "s/f_add/large/" "$BENCH/pgbench/add.sql" >"$WORK/add.large.sql"
  sed "s/f_add/small/" "$BENCH/pgbench/add.sql" >"$WORK/add.small.sql"
  run_psql <<'SQL'
create table moment (name text, at timestamptz default clock_timestamp(), lsn pg_lsn default pg_current_wal_insert_lsn());
create table cost (name text, memory float8, disk float8, temporary float8, wal float8);
create table asked (names text, maybe bigint, denied bigint, neither bigint);
SQL
}

# ---- Loads and rebuilds

# The bytes of all temporary files that backends have written and closed.
temporary_bytes() { run_psql -c "select temp_bytes from pg_stat_database where datname = 'bench'"; }

# measure NAME MEMORY SQL: runs it with that maintenance_work_mem. Its time goes into sample, the
# memory of its backend and what it took on disk into cost. What was there before does not count.
measure() {
  note "$1"
  local memory disk before temporary
  run_psql -c checkpoint
  before=$(du -sk "$WORK/bench/base" | cut -f 1)
  temporary=$(temporary_bytes)
  read -r memory disk < <(peaks 0.2 "set maintenance_work_mem = '$2'" "insert into moment values ('$1')" "$3" \
    "insert into moment values ('$1')" 'select pg_stat_force_next_flush()')
  run_psql -c "insert into sample
      select name, extract(epoch from max(at) - min(at)) * 1e6 from moment where name = '$1' group by name" \
    -c "insert into cost
      select name, $memory * 1024.0, ($disk - $before) * 1024.0, $(temporary_bytes) - $temporary, max(lsn) - min(lsn)
      from moment where name = '$1' group by name"
}

# costs NAME: its figures.
costs() {
  figure "$1" "$(seconds "$1")"
  figure '… private memory of its backend at most, sampled' \
    "(select format('%s MiB', round((memory / 1048576)::numeric)) from cost where name = '$1')"
  figure '… disk beyond what was there at most, sampled' \
    "(select format('%s GB, of it temporary files %s GB', round((disk / 1e9)::numeric, 2), round((temporary / 1e9)::numeric, 2)) from cost where name = '$1')"
  figure '… WAL of the whole server' "(select format('%s GB', round((wal / 1e9)::numeric, 2)) from cost where name = '$1')"
}

# Loads the large filter, with much and with little memory.
load() {
  local name memory
  name="bloom_create of $(grouped "$NAMES") names, maintenance_work_mem ="
  for memory in "$LITTLE" "$MUCH"; do
    run_psql -c 'drop table if exists large' 2>/dev/null
    measure "$name $memory" "$memory" "$(create large "$NAMES")"
  done
  costs "$name $MUCH"
  costs "$name $LITTLE"
  figure 'chunks of the filter' "(select to_char(chunks, 'FM9,999,999,999') from bloom_info('large'))"
  figure '… on disk, with its index' \
    "(select format('%s GB, %s bits a name', round(bytes / 1e9, 2), round(bytes * 8.0 / $NAMES, 2)) from bloom_info('large'))"
  figure '… by bloom_size' \
    "(select format('%s GB', round(disk_bytes / 1e9, 2)) from bloom_size($NAMES) where storage = 'table')"
}

# Rebuilds it: alone, and beside traffic.
rebuilds() {
  local name kind traffic times
  name="bloom_rebuild of $(grouped "$NAMES") names, maintenance_work_mem = $MUCH"
  measure "$name" "$MUCH" "$(rebuild)"
  costs "$name"
  traffic &
  traffic=$!
  measure "$name, beside $RATE checks and $RATE adds a second" "$MUCH" "$(rebuild)"
  touch "$WORK/rebuilt"
  wait "$traffic"
  costs "$name, beside $RATE checks and $RATE adds a second"
  for kind in check add; do
    times=$(latencies "beside.$kind" | in_milliseconds)
    figure "… $kind meanwhile: p50, p99 and the longest" "'$times'"
  done
}

# Checks and adds of one client each, until the rebuild has ended or the server stops. pgbench ends
# by its own clock only, so it runs for five seconds again and again. Latencies count from the moment
# when a statement was due.
traffic() {
  local kind
  for kind in check add; do
    while [[ ! -e $WORK/rebuilt ]] && run_program pgbench -n -M prepared -c 1 -T 5 -R "$RATE" \
      -f "$WORK/$kind.large.sql" -l --log-prefix="beside.$kind" >/dev/null 2>>"$LOGS/traffic.log"; do :; done &
  done
  wait
}

# ---- Right and wrong answers

# ask WHICH EXPRESSION: asks the large filter for so many names, in batches; i numbers them. The
# answers go into asked, the time of one into sample.
ask() {
  note "asking for $ASKED names: $1"
  run_psql <<SQL
call alternate(array['$1'], array[\$query\$
    insert into asked
    select '$1', sum(maybe), sum(denied), sum(neither)
    from generate_series(0, $((ASKED / BATCH - 1))) batch,
        lateral (select count(*) filter (where answer) as maybe, count(*) filter (where not answer) as denied,
                        count(*) filter (where answer is null) as neither
                 from unnest(bloom_might_contain_many('large', array(
                     select $2 from generate_series(batch * $BATCH + 1, (batch + 1) * $BATCH) i))) answer) counted
    \$query\$], array[$ASKED], 1);
SQL
}

# denied WHICH: how many names that are there were denied, or got no answer.
denied() {
  ask "$1" "'user' || floor(1 + random() * $NAMES)::bigint"
  figure "denied of $(grouped "$ASKED") names that are there, $1" \
    "(select to_char(denied + neither, 'FM9,999,990') from asked where names = '$1')" "'none'" \
    "(select denied + neither = 0 from asked where names = '$1')"
}

# The rate that the bits say, and the rate that absent names meet.
rates() {
  ask absent "'absent' || i"
  run_psql <<SQL
create table rate as
select maybe::float8 / $ASKED as measured, fp_rate as read, sqrt(fp_rate * (1 - fp_rate) / $ASKED) as error
from asked, bloom_info('large') where names = 'absent';
SQL
  figure 'rate read from the bits' "(select format('%s %%', round(100 * read::numeric, 4)) from rate)"
  figure '… expected' "format('%s %%', round(100 * bloom_expected_fp_rate($NAMES, (bloom_info('large')).chunks)::numeric, 4))"
  figure "… measured on $(grouped "$ASKED") absent names, and the standard error" \
    "(select format('%s %% ± %s %%', round(100 * measured::numeric, 4), round(100 * error::numeric, 4)) from rate)" \
    "'within 3 errors of the rate read'" '(select abs(measured - read) <= 3 * error from rate)'
  figure '… items estimated from the bits' "(select to_char(items, 'FM9,999,999,999') from bloom_info('large'))"
  figure '… one check in bloom_might_contain_many, with making the name' "format('%s µs', round(median('absent')::numeric, 2))"
}

# ---- Speed

# latencies PREFIX: p50, p99 and the longest of the transactions that pgbench logged there, in
# microseconds.
latencies() {
  awk '{ print $3 }' "$WORK/$1".[0-9]* | sort -n |
    awk '{ us[NR] = $1 } END { print us[int((NR + 1) / 2)], us[int((99 * NR + 99) / 100)], us[NR] }'
}

# Three microseconds as milliseconds.
in_milliseconds() { awk '{ printf "%.2f ms, %.2f ms, %.1f ms", $1 / 1000, $2 / 1000, $3 / 1000 }'; }

# run_clients NAME KIND SIZE CLIENTS: checks or adds of one filter, as fast as they go. Their number
# a second, p50 and p99 go into sample.
run_clients() {
  local name="$1 $3 $4" rate p50 p99
  rm -f "$WORK"/latency.*
  rate=$(run_program pgbench -n -M prepared -c "$4" -j "$4" -T "$SECONDS_A_RUN" -f "$WORK/$2.$3.sql" \
    -l --log-prefix=latency | awk '/^tps = / { print $3 }')
  read -r p50 p99 _ < <(latencies latency)
  run_psql -c "insert into sample values ('$name rate', $rate), ('$name p50', $p50), ('$name p99', $p99)"
}

# alternate NAME KIND: rounds of the small and the large filter, with one and two clients. Adds fill
# the small filter, so each round makes it again.
alternate() {
  local round size clients
  note "$1"
  for ((round = 0; round < ROUNDS; round++)); do
    run_psql >/dev/null <<SQL
set client_min_messages = warning;
drop table if exists small;
$(create small "$SMALL");
select bloom_info('small');
SQL
    for clients in 1 2; do
      for size in small large; do run_clients "$1" "$2" "$size" "$clients"; done
    done
  done
  for clients in 1 2; do
    speed_of "$1" large "$clients" "$(grouped "$NAMES")"
    speed_of "$1" small "$clients" "$(grouped "$SMALL")"
  done
}

# speed_of NAME SIZE CLIENTS NAMES: its figure.
speed_of() {
  figure "$1, $3 client(s), filter for $4: a second, p50, p99" \
    "format('%s, %s µs, %s µs', to_char(median('$1 $2 $3 rate'), 'FM999,999'), median('$1 $2 $3 p50'), median('$1 $2 $3 p99'))"
}

# What a backend keeps of the large filter, once it has checked names all over it.
memory_of_checks() {
  local idle peak
  read -r idle _ < <(peaks 0.05 'select 1')
  read -r peak _ < <(peaks 0.05 "select count(*) from (select generate_series(1, 1000000) i) n where bloom_might_contain('large', 'user' || i)")
  figure 'private memory of a backend after 1,000,000 single checks, over an idle one' \
    "format('%s MiB', round(($peak - $idle) / 1024.0, 1))"
}

# Every figure of single checks and adds. Without fsync first, since a disk is not what is measured.
speed() {
  run_psql -c "select bloom_info('large')" >/dev/null
  memory_of_checks
  alternate check check
  figure '… p50 with 1 client, large by small' \
    "round((median('check large 1 p50') / median('check small 1 p50'))::numeric, 2)" "'at most 1.3 ×'" \
    "median('check large 1 p50') <= 1.3 * median('check small 1 p50')"
  alternate add add
  wal_of_adds 'WAL an add to the large filter, pages touched since the checkpoint'
  run_psql -c checkpoint
  wal_of_adds '… right after a checkpoint'
  run_psql -c 'alter system set fsync = on' -c 'select pg_reload_conf()' -c 'select pg_sleep(1)' >/dev/null
  alternate 'add with fsync' add
}

# wal_of_adds NAME: of 20,000 adds.
wal_of_adds() {
  local start
  start=$(run_psql -c 'select pg_current_wal_insert_lsn()')
  run_program pgbench -n -M prepared -c 1 -t 20000 -f "$WORK/add.large.sql" >/dev/null
  figure "$1" "format('%s bytes', round((pg_current_wal_insert_lsn() - '$start') / 20000))"
}

main() {
  parse_options "$@"
  begin_bench ${SAVE:+"$SAVE"}
  prepare_results
  prepare
  load
  rates
  denied 'after the load'
  rebuilds
  denied 'after two rebuilds'
  speed
  print_figures
  [[ -z $SAVE ]] || document bench/half_billion.sh \
    'in microseconds; a second for rate' | save_section half_billion
  all_met
}

main "$@"
