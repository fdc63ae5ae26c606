#!/usr/bin/env bash
# The filter beside its rivals: the article's SQL, indexes of PostgreSQL, Redis and RedisBloom. Same
# names, same client, one run, in turn; with one and eight clients; at 10 and 100 million names.
#
#   bench/rivals.sh              every part, prints the tables; takes some 40 minutes, 45 GB of
#                                temporary disk and 20 GB of memory
#   bench/rivals.sh PART...      some parts: 10M, 100M, build, goals, curve, rates
#   --save                       keeps every round below bench/rivals/data, a file a part, and writes
#                                the tables and the pictures from all parts that are there
#   --quick                      one short round of each with 1 M names, to see that it works; its
#                                figures mean nothing
#   --huge-pages                 reserves huge pages for goals and curve, and gives them back. As root
#   --max-chunks N               the largest filter of curve, 2^22 chunks unless given. Sizes that do
#                                not fit into the memory are left out
#
# The client is bench/rivals/client.cpp, which is built with libpq and hiredis: blocking, one request
# at a time a connection, on Unix sockets. Redis is Debian's redis-server. RedisBloom takes part where
# REDISBLOOM_SO names its module, which bench/rivals/redisbloom.sh compiles from its source.
# Nothing is forced to the disk, neither by PostgreSQL (fsync off) nor by Redis (no log): a disk is not
# what is measured. A part that ends early leaves nothing behind, and is run again alone. Ends with 1
# if a goal is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
HERE=$BENCH/rivals
# shellcheck source=bench/rivals/parts.sh
source "$HERE/parts.sh"

PARTS=()
SAVE=
QUICK=
HUGE_PAGES=
MAX_POWER=22                          # of two: chunks of the largest filter of curve
ROUNDS=${ROUNDS:-5}                   # of each alternation
SECONDS_A_RUN=${SECONDS_A_RUN:-0.5}
MANY=1000000                          # names in one call of many checks
BUILT=10000000                        # names of a build
ADDED=10000                           # names that a run of adds adds one by one, and twice that in batches
CLIENT=                               # the client, built
DATA=                                 # folder with a file a part
REDISBLOOM_SO=${REDISBLOOM_SO:-}
REDIS_VERSIONS=

# Ends with how the script is called.
usage() {
  die 'usage: bench/rivals.sh [--save] [--quick] [--huge-pages] [--max-chunks N] [10M|100M|build|goals|curve|rates]...'
}

# Takes the options of the command line.
parse_options() {
  while (($#)); do
    case $1 in
      --save) SAVE=1 ;;
      --quick) QUICK=1 ;;
      --huge-pages) HUGE_PAGES=1 ;;
      --max-chunks)
        [[ ${2:-} =~ ^[0-9]{4,7}$ ]] || usage
        MAX_POWER=11
        while (((2 << MAX_POWER) <= $2)); do MAX_POWER=$((MAX_POWER + 1)); done
        shift
        ;;
      1M | 10M | 100M | build | goals | curve | rates) PARTS+=("$1") ;;
      *) usage ;;
    esac
    shift
  done
  if [[ -n $QUICK ]]; then
    [[ -z $SAVE ]] || die 'the figures of --quick are not worth saving'
    ROUNDS=1 SECONDS_A_RUN=0.2 BUILT=1000000 ADDED=2000 MANY=200000
    MAX_POWER=$((MAX_POWER > 14 ? 14 : MAX_POWER))
    [[ ${#PARTS[@]} -gt 0 ]] || PARTS=(1M build goals curve rates)
  fi
  [[ ${#PARTS[@]} -gt 0 ]] || PARTS=(10M 100M build goals curve rates)
}

# Builds the client, and finds out which rivals can take part.
prepare_client() {
  local include
  include=$("$PG_CONFIG" --includedir)
  [[ -e $include/libpq-fe.h ]] || include=/usr/include/postgresql
  CLIENT=$WORK/client
  "${CXX:-g++}" -O2 -std=c++20 -I"$ROOT/include" -isystem "$include" "$HERE/client.cpp" -o "$CLIENT" \
    -lpq -lhiredis -lcrypto -pthread 2>"$LOGS/client.log" || {
    head -n 5 "$LOGS/client.log" >&2
    die 'The client does not build: apt-get install g++ libpq-dev libhiredis-dev libssl-dev'
  }
  has_program redis-server || note 'without Redis: apt-get install redis-server'
  if ! has_program redis-server || [[ ! -e $REDISBLOOM_SO ]]; then
    REDISBLOOM_SO=
    note 'without RedisBloom: REDISBLOOM_SO names no module'
  fi
  has_program redis-server || return 0
  start_redis
  # 20820 is 2.8.20.
  REDIS_VERSIONS="Redis $(redis info server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')$(redis info modules |
    sed -n 's/^module:name=bf,ver=\([0-9]*\)\([0-9][0-9]\)\([0-9][0-9]\),.*/, RedisBloom \1.\2.\3/p' | sed 's/\.0\([0-9]\)/.\1/g')"
  stop_redis
}

# ---- Parts

# begin_part PART SETTING...: starts a server with the settings that all parts share, and these. What
# was measured goes to the file of the part when that has ended.
begin_part() {
  local huge=off
  PART=$1
  shift
  note "part $PART: $(date +%T)"
  [[ -z $HUGE_PAGES || ($PART != goals && $PART != curve) ]] || huge=on
  SETTINGS=(
    "huge_pages = $huge" 'maintenance_work_mem = 1GB' 'work_mem = 256MB' 'max_wal_size = 64GB'
    'checkpoint_timeout = 1d' 'fsync = off' 'jit = off' 'autovacuum = off'
    # So that tables and indexes are made without WAL. That of adds is the same at each level.
    'wal_level = minimal' 'max_wal_senders = 0'
    'max_parallel_workers_per_gather = 0' 'max_parallel_maintenance_workers = 0' "$@"
  )
  start_bench "${SETTINGS[@]}"
  prepare_results
  {
    printf '#date\t%s\n#machine\t%s; load average at the start %s\n' "$(date -u +%F)" "$(describe_machine)" "$LOAD"
    printf '#versions\t%s%s\n' "$(run_psql -c "select format('%s; bloomfilter %s', version(), extversion)
      from pg_extension where extname = 'bloomfilter'")" "${REDIS_VERSIONS:+; $REDIS_VERSIONS}"
    printf '#settings\t%s\n' "$(printf '%s\n' "${SETTINGS[@]}" | sed 's/ = /=/' | paste -sd' ')"
  } >"$WORK/$PART.tsv"
}

# Stops what the part started, and files what it measured.
end_part() {
  stop_redis
  stop_cluster bench immediate
  rm -rf --one-file-system "${WORK:?}/bench"
  mkdir -p "$DATA"
  cp "$WORK/$PART.tsv" "$DATA/$PART.tsv"
}

# record FIGURE CONTESTANT CLIENTS VALUE: a line of the part's file. Each round has its own.
record() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$WORK/$PART.tsv"; }

# record_samples FIGURE: what the procedure "alternate" of the server measured, and forgets it.
record_samples() {
  run_psql -F $'\t' -c "select '$1', contestant, 1, round(us::numeric, 4) from sample" -c 'truncate sample' \
    >>"$WORK/$PART.tsv"
}

# ---- Huge pages

HUGE_PAGES_FILE=/proc/sys/vm/nr_hugepages
HUGE_PAGES_BEFORE=

# reserve_huge_pages MB: so that a server with that much of shared buffers can have them.
reserve_huge_pages() {
  [[ -n $HUGE_PAGES ]] || return 0
  local wanted=$((($1 + $1 / 20 + 256) / 2))
  [[ -w $HUGE_PAGES_FILE ]] || die '--huge-pages needs root'
  HUGE_PAGES_BEFORE=${HUGE_PAGES_BEFORE:-$(<"$HUGE_PAGES_FILE")}
  echo 1 >/proc/sys/vm/compact_memory
  echo "$wanted" >"$HUGE_PAGES_FILE"
  (($(<"$HUGE_PAGES_FILE") >= wanted)) ||
    die "the system gives $(<"$HUGE_PAGES_FILE") of $wanted huge pages: leave out --huge-pages"
}

# Gives them back.
release_huge_pages() {
  [[ -z $HUGE_PAGES_BEFORE ]] || echo "$HUGE_PAGES_BEFORE" >"$HUGE_PAGES_FILE"
  HUGE_PAGES_BEFORE=
}

# An end, for end_with: nothing is left, huge pages neither.
leave_rivals() {
  release_huge_pages
  remove_work
  return "$1"
}

# ---- Redis

SOCKET=

# start_redis OPTION...: on a Unix socket, with RedisBloom where there is one. Ended with the part, or
# with the script, however that ends.
start_redis() {
  has_program redis-server || return 0
  SOCKET=$WORK/redis.sock
  local options=()
  [[ -z $REDISBLOOM_SO ]] || options=(--loadmodule "$REDISBLOOM_SO")
  rm -rf "$WORK/redis"
  mkdir "$WORK/redis"
  redis-server --port 0 --unixsocket "$SOCKET" --save '' --dir "$WORK/redis" "$@" "${options[@]}" >"$LOGS/redis.log" 2>&1 &
  CHILD=$!
  until redis ping >/dev/null 2>&1; do
    kill -0 "$CHILD" || die "Redis does not start: $(tail -n 1 "$LOGS/redis.log")"
    sleep 0.1
  done
}

# redis WORD...: a command.
redis() { redis-cli -s "$SOCKET" "$@"; }

# Stops it where it runs.
stop_redis() {
  [[ -n $CHILD ]] || return 0
  kill "$CHILD"
  wait "$CHILD" 2>/dev/null || true
  CHILD=
}

# Its memory, in bytes.
redis_memory() { redis info memory | sed -n 's/^used_memory:\([0-9]*\).*/\1/p'; }

main() {
  local part
  parse_options "$@"
  find_extension
  open_bench
  end_with leave_rivals
  prepare_client
  DATA=$WORK/data
  [[ -z $SAVE ]] || DATA=$HERE/data
  for part in "${PARTS[@]}"; do
    case $part in
      *M) "part_capacity" "$part" ;;
      *) "part_$part" ;;
    esac
  done
  note "tables: $(date +%T)"
  "$HERE/table.sh" "$DATA" >"$WORK/report"
  cat "$WORK/report"
  if [[ -n $SAVE ]]; then
    save_section rivals <"$WORK/report"
    "$BENCH/plots.sh"
  fi
  ! grep -q '\*\*missed\*\*' "$WORK/report"
}

main "$@"
