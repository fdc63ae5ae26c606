# shellcheck shell=bash
# What the benchmarks share beyond tools/cluster.sh: a server to measure, and tables of figures.
# Sourced, after `set -euo pipefail`. PG_CONFIG chooses the PostgreSQL, in which the extension must be
# installed.

# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"
BENCH=$ROOT/bench
RESULTS=$BENCH/RESULTS.md

# Says on standard error what is measured now.
note() { printf -- '-- %s\n' "$*" >&2; }

# require COMMAND HOW: ends with how to get a command that is missing.
require() {
  has_program "$1" || die "$1 is missing: $2"
}

# Sets PG_CONFIG, and checks that the extension is installed there.
find_extension() {
  choose_postgres
  [ ${#PACKAGES[@]} = 0 ] || die "PostgreSQL is missing: ${PACKAGES[*]}"
  [ -e "$("$PG_CONFIG" --sharedir)/extension/bloomfilter.control" ] ||
    die "The extension bloomfilter is missing: run make && make install."
}

# Makes $WORK, under $TMPDIR, where there may be more room than in /tmp. Whatever ends the script, the
# server stops and the folder goes.
open_bench() {
  end_with leave_nothing
  make_work "${TMPDIR:-/tmp}"
  choose_server_user
}

# start_bench SETTING...: a cluster with these settings; run_psql reaches its database "bench".
start_bench() {
  start_cluster bench "$@" || die "The server does not start."
  run_program createdb bench
  export PGDATABASE=bench
  run_psql -c 'create extension bloomfilter'
}

# begin_bench [--save]: what a script with no other options begins with: checks them, and starts the
# server with SETTINGS.
begin_bench() {
  [[ $# == 0 || $* == --save ]] || die "usage: bench/${0##*/} [--save]"
  find_extension
  open_bench
  start_bench "${SETTINGS[@]}"
}

# run_program NAME OPTION...: one of PostgreSQL's programs, on the cluster's database.
run_program() { "$BIN/$1" "${@:2}"; }

# run_psql OPTION...: stops at the first error, prints values alone.
run_psql() { run_program psql -XqAt -v ON_ERROR_STOP=1 "$@"; }

# ---- Figures

# Makes the tables sample, of every round, and result, of every figure, and what reads them.
prepare_results() {
  LOAD=$(uptime | sed 's/.*load average[s]*: *//')
  run_psql <<'SQL'
create table result (id int generated always as identity, figure text, value text, bound text, ok boolean);
create table sample (contestant text, us float8);
create function median(text) returns float8 language sql
return (select percentile_cont(0.5) within group (order by us) from sample where contestant = $1);
-- 30.1 us (29.8-33.0)
create function spread(text) returns text language sql
return (select format('%s µs (%s–%s)', round(median($1)::numeric, 2), round(min(us)::numeric, 2),
                      round(max(us)::numeric, 2)) from sample where contestant = $1);
-- Runs the queries in turn, rounds times over; the microseconds of each go into sample under its
-- name, divided by its number of items.
create procedure alternate(names text[], queries text[], items float8[], rounds int)
language plpgsql as $$
declare
    start timestamptz;
begin
    for round in 1..rounds loop
        for i in 1..cardinality(queries) loop
            start := clock_timestamp();
            execute queries[i];
            insert into sample
            values (names[i], extract(epoch from clock_timestamp() - start) * 1e6 / items[i]);
        end loop;
    end loop;
end $$;
SQL
}

# Makes article.username_bits, as the published article has it.
prepare_article() {
  run_psql <<'SQL'
create schema article;
create function article.username_bits(name text, out chunk int, out mask bit(8192))
language plpgsql immutable as $$
declare
    h bit(128) := ('x' || md5(lower(name)))::bit(128);
begin
    chunk := substring(h from 1 for 17)::int;
    mask := 0::bit(8192);
    for i in 0..6 loop
        mask := set_bit(mask, substring(h from 18 + 13 * i for 13)::int, 1);
    end loop;
end $$;
SQL
}

# seconds CONTESTANT: its median, of queries that count as one item.
seconds() { printf "format('%%s s', round((median('%s') / 1e6)::numeric, 2))" "$1"; }

# figure NAME VALUE [BOUND OK]: a row of the result; expressions of SQL.
figure() {
  run_psql -c "insert into result (figure, value, bound, ok) values ('$1', $2, ${3:-null}, ${4:-null})"
}

# names FIRST LAST: a query of generated names, which yields them one by one and stores none.
names() { printf "select 'user' || generate_series(%s, %s)" "$1" "$2"; }

# peaks INTERVAL SQL...: two numbers in kB, sampled each INTERVAL seconds: the largest private memory
# of the backend that runs the SQL, and the most that the tables and temporary files of the cluster
# took meanwhile. Pages that the backend sees through shared memory do not count as its memory.
peaks() {
  local interval=$1 samples=$WORK/samples pid='' client memory disk
  shift
  : >"$samples"
  PGAPPNAME=measured run_psql "${@/#/-c}" -c 'select pg_sleep(0.3)' >/dev/null 2>"$LOGS/peaks.log" &
  client=$!
  until [[ -n $pid ]]; do
    kill -0 "$client" 2>/dev/null || break
    pid=$(run_psql -c "select pid from pg_stat_activity where application_name = 'measured'")
  done
  while memory=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null) && [[ -n $memory ]]; do
    # A temporary file may go while du reads its folder.
    disk=$(du -sk "$WORK/bench/base" 2>/dev/null | cut -f 1) || true
    printf '%s %s\n' "$memory" "${disk:-0}" >>"$samples"
    sleep "$interval"
  done
  wait "$client" || { cat "$LOGS/peaks.log" >&2; return 1; }
  awk '$1 > memory { memory = $1 } $2 > disk { disk = $2 } END { print memory + 0, disk + 0 }' "$samples"
}

# The figures as a table.
print_figures() {
  printf '| figure | value | bound | |\n|---|---|---|---|\n'
  run_psql -c "select format('| %s | %s | %s | %s |', figure, value, coalesce(bound, ''),
      case when ok then 'met' when not ok then '**missed**' else '' end) from result order by id"
}

# What a report was measured on: date, machine, versions, settings.
describe_run() {
  printf -- '- date: %s\n- machine: %s; load average at the start %s\n' "$(date -u +%F)" \
    "$(describe_machine)" "$LOAD"
  printf -- '- versions: %s\n' "$(run_psql -c "select format('%s; bloomfilter %s', version(), extversion)
      from pg_extension where extname = 'bloomfilter'")"
  printf -- '- settings: %s\n\n' "$(printf '%s\n' "${SETTINGS[@]}" | sed 's/ = /=/' | paste -sd' ')"
}

# document SCRIPT UNITS: the report with what it was measured on, and every round in those units.
document() {
  printf '## %s\n\nMedians of alternating runs; in parentheses the least and the most.\n\n' "$1"
  describe_run
  print_figures
  printf '\nEach round, %s:\n\n' "$2"
  run_psql -c "select format('- %s: %s', contestant, string_agg(round(us::numeric, 3)::text, ' '))
      from sample group by contestant order by contestant"
}

# Whether every bound was met.
all_met() { [[ $(run_psql -c 'select count(*) from result where not ok') == 0 ]]; }

# One line on the hardware: processor, cores, memory.
describe_machine() {
  local model=unknown memory=0
  if [[ -r /proc/cpuinfo ]]; then
    model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    memory=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
  fi
  printf '%s, %s cores, %s GiB' "${model:-unknown processor}" "$(getconf _NPROCESSORS_ONLN)" "$memory"
}

# save_section NAME: puts standard input in the place of that section of RESULTS.md, or at its end.
save_section() {
  local file=$RESULTS new
  new=$(mktemp)
  [[ -e $file ]] || printf '# Results\n\nThe last runs of the scripts beside this page, each as it was printed.\n' >"$file"
  {
    sed "/^<!-- $1 -->\$/,\$d" "$file"
    printf '<!-- %s -->\n' "$1"
    cat
    printf '<!-- /%s -->\n' "$1"
    sed "1,/^<!-- \\/$1 -->\$/d" "$file"
  } >"$new"
  cat "$new" >"$file"
  rm -f "$new"
}
