#!/usr/bin/env bash
# Where the time of a check and an add goes, by sampling the backend with perf.
#
#   bench/profile.sh            prints a table; takes two minutes
#   bench/profile.sh --save     writes it to bench/RESULTS.md too
#
# Needs perf (linux-perf on Debian) and the right to sample the server's processes: root, or the
# server's user. Of each sample the frame nearest to the leaf that a rule knows says where the time
# went. The extension must have been built with -g, as Debian's PGXS does.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

HERTZ=997
SECONDS_A_PROFILE=${SECONDS_A_PROFILE:-8}

SETTINGS=(
  'shared_buffers = 3GB' 'maintenance_work_mem = 1GB' 'work_mem = 256MB' 'max_wal_size = 64GB'
  'checkpoint_timeout = 1d' 'fsync = off' 'jit = off' 'max_parallel_workers_per_gather = 0'
  'autovacuum = off'
)

# Rules in order, a category and the frames that belong to it; the first frame from the leaf on
# that any rule knows decides, and what only the server's frames are in is the server's.
RULES='
hash: lower, MD5, positions|md5::|hash_item|hash_any_key|write_short_key|lower_ascii|positions_of|chunk_of|place_items|place\(|libcrypto
order by chunk|sort_by_chunk
lock of the filter|LockRelationOid|LockAcquire|LockRelease|ResourceOwnerForgetLock
relation cache|RelationIdGetRelation|RelationClose|relation_open|table_open|try_relation_open
settings and privileges|open_filter|open_filters|require_filter|suspension_reason|may_deny|open_for_add|aclcheck|try_open
index descent|index_open|index_getnext|_bt_|find_by_index|index_insert
page: pin, lock, unpin|ReadBuffer|ReadRecentBuffer|ReleaseBuffer|PinBuffer|LockBuffer|LWLock|pin_block|BufTable|hash_search|smgr|RelationGetNumberOfBlocks
pruning the page|heap_page_prune
visibility|heap_hot_search_buffer|HeapTupleSatisfies|TransactionId
chunk row: offsets, prefetch|find_chunk|find_at|fetch_ahead|fetch_page_ahead|fetch_row_ahead|read_line_pointer|require_chunk|chunk_bits|chunk_number
bits|chunk_contains|check_in_chunk|chunk_add|set_bits|all_there
copy of the row|heap_copytuple
update: new version, WAL|heap_update|XLogInsert|XLogRecord|HeapSatisfiesHOT
array of answers|deconstruct_array|construct_md_array|deconstruct_texts
rest of the function|bloom_
'

# sample PID: shares of a backend's time, as lines "samples category".
sample() {
  perf record -q -e cpu-clock -F "$HERTZ" --call-graph dwarf,8192 -o "$WORK/perf.data" -p "$1" \
    -- sleep "$SECONDS_A_PROFILE" >"$WORK/perf.log" 2>&1 ||
    die "perf cannot sample the server: $(tail -n 1 "$WORK/perf.log")"
  perf script -i "$WORK/perf.data" -F ip,sym,dso 2>/dev/null |
    RULES=$RULES awk '
      BEGIN {
        count = split(ENVIRON["RULES"], lines, "\n")
        for (i = 1; i <= count; i++)
          if (split(lines[i], parts, "|") > 1) {
            name[++rules] = parts[1]
            pattern[rules] = substr(lines[i], length(parts[1]) + 2)
          }
      }
      function finish() {
        if (seen) tally[ours && found != "" ? found : "server"]++
        seen = ours = 0
        found = ""
      }
      /^$/ { finish(); next }
      /bloomfilter\.so/ { ours = 1 }
      {
        seen = 1
        if (found != "") next
        for (i = 1; i <= rules; i++) if ($0 ~ pattern[i]) { found = name[i]; break }
      }
      END { finish(); for (category in tally) print tally[category], category }'
}

# backend APPLICATION: waits for its backend and prints the process.
backend() {
  local pid=
  until [[ -n $pid ]]; do
    pid=$(run_psql -c "select pid from pg_stat_activity where application_name = '$1' and state = 'active' limit 1")
  done
  sleep 1
  printf '%s' "$pid"
}

# table TITLE RATE: what was sampled, in nanoseconds of the backend's processor an item at RATE a
# second; standard input as sample prints it.
table() {
  printf '\n**%s**\n\n| where | ns | share |\n|---|---|---|\n' "$1"
  sort -rn | awk -v rate="$2" -v hertz="$HERTZ" -v seconds="$SECONDS_A_PROFILE" '
    { samples[NR] = $1; $1 = ""; name[NR] = substr($0, 2); total += samples[NR] }
    END {
      each = total / hertz / seconds / rate * 1e9
      for (i = 1; i <= NR; i++)
        if (samples[i] * 200 >= total)
          printf "| %s | %.0f | %.1f %% |\n", name[i], each * samples[i] / total, 100 * samples[i] / total
        else rest += samples[i]
      printf "| less than 0.5 %% each | %.0f | %.1f %% |\n", each * rest / total, 100 * rest / total
      printf "| all | %.0f | |\n", each
    }'
}

# statement TITLE SCRIPT CLIENTS: of a prepared statement; of one backend, where pgbench has several clients.
statement() {
  note "$1"
  PGAPPNAME=profiled run_program pgbench -n -M prepared -c "$3" -T "$((SECONDS_A_PROFILE + 5))" \
    -f "$BENCH/pgbench/$2.sql" >"$WORK/pgbench.log" &
  local client=$! pid
  pid=$(backend profiled)
  sample "$pid" >"$WORK/samples"
  wait "$client"
  table "$1" "$(awk -v clients="$3" '/^tps = / { print $3 / clients }' "$WORK/pgbench.log")" <"$WORK/samples"
}

# query TITLE QUERY: of a query over 1 M names, run again and again.
query() {
  note "$1"
  PGAPPNAME=profiled run_psql -c "do \$\$
    declare
        items text[] := array(select name from names);
        start timestamptz := clock_timestamp();
        runs int := 0;
    begin
        while clock_timestamp() < start + interval '$((SECONDS_A_PROFILE + 5)) s' loop
            perform $2;
            runs := runs + 1;
        end loop;
        insert into rate values (runs * 1e6 / extract(epoch from clock_timestamp() - start));
    end \$\$" &
  local client=$! pid
  pid=$(backend profiled)
  sample "$pid" >"$WORK/samples"
  wait "$client"
  table "$1" "$(run_psql -c 'select rate from rate' -c 'delete from rate' | head -n 1)" <"$WORK/samples"
}

profiles() {
  query 'A check in a query over 1 M names' \
    "count(*) from names where not bloom_might_contain('f', name)"
  query 'A check in bloom_might_contain_many of 1 M names' "bloom_might_contain_many('f', items)"
  statement 'A prepared check, the whole statement' check 1
  statement 'A prepared check, one of eight clients' check 8
  statement 'A prepared select that asks nothing, one of eight clients' floor 8
  statement 'A prepared add, the whole transaction' add 1
}

main() {
  require perf 'apt-get install linux-perf'
  begin_bench "$@"
  note 'making tables'
  run_psql >/dev/null <<'SQL'
create table names as select 'user' || i as name from generate_series(1, 1000000) i;
create table rate (rate float8);
select bloom_create('f', 1e8, chunks => 131072, source => 'select name from names');
select bloom_create('f_add', 1e8, chunks => 131072, source => 'select name from names');
vacuum analyze;
select bloom_info('f'), bloom_info('f_add');
SQL
  {
    printf '## bench/profile.sh\n\nNanoseconds of the backend on a processor, by %s samples a second of ' "$HERTZ"
    printf 'perf. Filter of 131072 chunks\nwith 1 M names, warm.\n\n- date: %s\n- machine: %s\n- versions: %s\n' \
      "$(date -u +%F)" "$(describe_machine)" "$(run_psql -c 'select version()')"
    profiles
  } >"$WORK/report"
  cat "$WORK/report"
  [[ ${1:-} != --save ]] || save_section profile <"$WORK/report"
}

main "$@"
