# shellcheck shell=bash
# What the benchmarks share: a throwaway cluster in a temporary folder. Sourced, after
# `set -euo pipefail`. PG_CONFIG chooses the PostgreSQL.

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

say() { printf -- '-- %s\n' "$*" >&2; }

# need COMMAND HOW: ends with how to get a command that is missing.
need() {
  command -v "$1" >/dev/null || die "$1 is missing: $2"
}

# Sets PG_BIN and checks that the extension is installed there.
find_postgres() {
  PG_CONFIG=${PG_CONFIG:-pg_config}
  need "$PG_CONFIG" "install PostgreSQL's server headers, or set PG_CONFIG"
  PG_BIN=$("$PG_CONFIG" --bindir)
  local program
  for program in initdb pg_ctl psql; do
    need "$PG_BIN/$program" "install the PostgreSQL server that $PG_CONFIG describes"
  done
  [[ -e $("$PG_CONFIG" --sharedir)/extension/bloomfilter.control ]] ||
    die "the extension bloomfilter is missing: run make && make install"
}

# Sets WORK to a new folder. Whatever ends the script, the server stops and the folder goes.
make_work_folder() {
  WORK=$(mktemp -d "${TMPDIR:-/tmp}/bloomfilter-bench.XXXXXX")
  trap clean_up EXIT
  # Without these an interrupt would end bash with the trap skipped on some versions.
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

clean_up() {
  local status=$?
  [[ -z ${REDIS:-} ]] || kill "$REDIS" 2>/dev/null || true
  stop_cluster
  rm -rf -- "$WORK"
  exit "$status"
}

# Runs a command as the user of the server, which may not be root.
as_server_user() {
  if ((EUID != 0)); then
    "$@"
  elif id -u postgres >/dev/null 2>&1; then
    runuser -u postgres -- "$@"
  else
    runuser -u nobody -- "$@"
  fi
}

# start_cluster SETTING...: a UTF8 cluster on a Unix socket alone, with the settings given as
# name=value; afterwards run_psql reaches its database "bench".
start_cluster() {
  CLUSTER=$WORK/cluster
  mkdir "$CLUSTER"
  if ((EUID == 0)); then
    chmod 711 "$WORK"
    chown "$(as_server_user id -u)" "$CLUSTER"
  fi
  # Authentication is "trust": only the server's own user and root may reach the socket.
  chmod 700 "$CLUSTER"
  (
    # The server's user may not enter the folder that the script was started in.
    cd "$WORK"
    as_server_user "$PG_BIN/initdb" -D "$CLUSTER/data" -U postgres -A trust --no-sync \
      --encoding=UTF8 --locale=C.UTF-8 >"$WORK/initdb.log" 2>&1
  ) || die "initdb failed: $(tail -n 3 "$WORK/initdb.log")"
  printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$CLUSTER'" "$@" \
    >>"$CLUSTER/data/postgresql.conf"
  (
    cd "$WORK"
    as_server_user "$PG_BIN/pg_ctl" -D "$CLUSTER/data" -l "$CLUSTER/log" -w start >/dev/null
  ) || die "the server did not start: $(tail -n 3 "$CLUSTER/log")"
  run_psql postgres -c 'create database bench'
  run_psql -c 'create extension bloomfilter'
}

stop_cluster() {
  [[ -e ${CLUSTER:-}/data/postmaster.pid ]] || return 0
  (cd "$WORK" && as_server_user "$PG_BIN/pg_ctl" -D "$CLUSTER/data" -m immediate -w stop) \
    >/dev/null || say 'the server did not stop'
}

# run_program NAME OPTION...: one of PostgreSQL's programs on the cluster's database.
run_program() {
  # The caller's PG* settings mean another server.
  env -u PGSERVICE -u PGOPTIONS -u PGHOSTADDR -u PGSSLMODE PGHOST="$CLUSTER" PGPORT=5432 \
    PGUSER=postgres PGDATABASE="${DATABASE:-bench}" PGCLIENTENCODING=UTF8 "$PG_BIN/$1" "${@:2}"
}

# run_psql [DATABASE] OPTION...: stops at the first error, prints values alone.
run_psql() {
  local DATABASE=bench
  if (($# > 0)) && [[ $1 != -* ]]; then
    DATABASE=$1
    shift
  fi
  run_program psql -XqAt -v ON_ERROR_STOP=1 "$@"
}

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

# figure NAME VALUE [BOUND OK]: a row of the result; expressions of SQL.
figure() {
  run_psql -c "insert into result (figure, value, bound, ok) values ('$1', $2, ${3:-null}, ${4:-null})"
}

report() {
  printf '| figure | value | bound | |\n|---|---|---|---|\n'
  run_psql -c "select format('| %s | %s | %s | %s |', figure, value, coalesce(bound, ''),
      case when ok then 'met' when not ok then '**missed**' else '' end) from result order by id"
}

# document SCRIPT UNITS: the report with what it was measured on, and every round in those units.
document() {
  printf '## %s\n\nMedians of alternating runs; in parentheses the least and the most.\n\n' "$1"
  printf -- '- date: %s\n- machine: %s; load average at the start %s\n' "$(date -u +%F)" \
    "$(describe_machine)" "$LOAD"
  printf -- '- versions: %s\n' "$(run_psql -c "select format('%s; bloomfilter %s', version(), extversion)
      from pg_extension where extname = 'bloomfilter'")"
  printf -- '- settings: %s\n\n' "$(printf '%s\n' "${SETTINGS[@]}" | sed 's/ = /=/' | paste -sd' ')"
  report
  printf '\nEach round, %s:\n\n' "$2"
  run_psql -c "select format('- %s: %s', contestant, string_agg(round(us::numeric, 3)::text, ' '))
      from sample group by contestant order by contestant"
}

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

RESULTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/RESULTS.md
