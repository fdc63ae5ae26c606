#!/bin/bash
# Draws docs/dashboard.svg: runs a filter, postgres_exporter and Prometheus for some minutes. See usage.
set -euo pipefail
# shellcheck source=demo/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../demo/lib.sh"

usage() {
  cat <<'TEXT'
usage: monitoring/picture.sh [-y] [--installed] [--seconds N] [--out FILE]

Loads two filters in a throwaway server for N seconds (300), lets a postgres_exporter with
postgres_exporter.yml and a Prometheus with alerts.yml watch them, and draws what dashboard.json asks
for. gnuplot draws it, where Grafana would; places, titles, queries, units and thresholds are the
dashboard's. One filter fills up and is rebuilt; the other is suspended for a while.

  -y           do not ask
  --installed  take the bloomfilter that is installed in PostgreSQL, and build none
  --seconds N  how long
  --out FILE   the picture, docs/dashboard.svg by default

It needs prometheus, prometheus-postgres-exporter, gnuplot and pgbench, and installs none of them:
Debian's packages start services. They listen on 127.0.0.1, on the ports $EXPORTER_PORT (19187) and
$PROMETHEUS_PORT (19090).
TEXT
}

HERE=$ROOT/monitoring
DURATION=300
OUT=$ROOT/docs/dashboard.svg
EXPORTER=127.0.0.1:${EXPORTER_PORT:-19187}
PROMETHEUS=127.0.0.1:${PROMETHEUS_PORT:-19090}
STARTED=()  # pids

# An end, for end_with: nothing is left but the picture.
tidy_up() {
  [ ${#STARTED[@]} = 0 ] || kill "${STARTED[@]}" 2>/dev/null || true
  wait
  remove_work
  return "$1"
}

# Reads the command line.
read_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      -y) YES=1 ;;
      --installed) INSTALLED=1 ;;
      --seconds) DURATION=${2:?--seconds takes a number}; shift ;;
      --out) OUT=$(realpath "${2:?--out takes a file}"); shift ;;
      --help) usage; exit ;;
      *) usage >&2; exit 2 ;;
    esac
    shift
  done
}

# Two filters: one that is six tenths full of the users, and one that stays as it is.
make_filters() {
  client -q <<'SQL' >"$LOGS/filters.log"
set client_min_messages = warning;
create extension bloomfilter;
create role exporter login in role pg_monitor;
create table users (username text primary key);
insert into users select 'name' || i * 5 from generate_series(1, 60000) i;
select bloom_create('username_filter', 1e5, source => 'select username from users');
select bloom_create('email_filter', 3e5, source => 'select username || ''@example.com'' from users');
-- Whoever asks for a free name signs up.
create function sign_up(name text) returns void language plpgsql as $$
begin
  if bloom_might_contain('username_filter', name) then
    if exists (select from users where username = name) then
      return;
    end if;
    perform bloom_report_false_positive('username_filter');
  end if;
  perform bloom_add('username_filter', name);
  insert into users values (name) on conflict do nothing;
end $$;
SQL
}

# launch NAME COMMAND...: starts a program that ends with this script, with its log in $LOGS.
launch() {
  local log=$LOGS/$1.log
  shift
  "${AS_SERVER[@]}" "$@" >"$log" 2>&1 &
  STARTED+=($!)
}

# Starts what watches, and waits until Prometheus is ready.
start_watchers() {
  local try
  cp "$HERE/postgres_exporter.yml" "$HERE/alerts.yml" "$WORK/tmp/"
  cat >"$WORK/tmp/prometheus.yml" <<YAML
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: postgres
    static_configs: [{targets: ["$EXPORTER"]}]
YAML
  launch exporter env "DATA_SOURCE_NAME=user=exporter host=$PGHOST port=$PGPORT dbname=postgres sslmode=disable" \
    prometheus-postgres-exporter --web.listen-address="$EXPORTER" --disable-settings-metrics \
    --extend.query-path="$WORK/tmp/postgres_exporter.yml"
  launch prometheus prometheus --config.file="$WORK/tmp/prometheus.yml" --web.listen-address="$PROMETHEUS" \
    --storage.tsdb.path="$WORK/tmp/prometheus"
  for ((try = 0; try < 60; try++)); do
    ! perl -MHTTP::Tiny -e 'exit !HTTP::Tiny->new->get($ARGV[0])->{success}' "http://$PROMETHEUS/-/ready" || return 0
    sleep 1
  done
  cat "$LOGS/exporter.log" "$LOGS/prometheus.log" >&2
  die "Prometheus does not start."
}

# Signs up and asks, at a steady rate, for as long as the picture shows. Returns at once.
start_load() {
  cat >"$WORK/tmp/sign_up.sql" <<'SQL'
\set n random(1, 300000)
select sign_up('name' || :n);
SQL
  cat >"$WORK/tmp/ask.sql" <<'SQL'
\set n random(1, 1500000)
select bloom_might_contain('email_filter', 'name' || :n || '@example.com');
SQL
  launch sign_up pgbench -n -c 2 --rate=500 -T "$DURATION" -f "$WORK/tmp/sign_up.sql"
  launch ask pgbench -n --rate=200 -T "$DURATION" -f "$WORK/tmp/ask.sql"
}

# What an operator does meanwhile.
operate() {
  sleep $((DURATION / 4))
  client -q -c "select bloom_suspend('email_filter')" >"$LOGS/operate.log"
  sleep $((DURATION / 6))
  client -q -c "set client_min_messages = warning" -c "select bloom_resume('email_filter')" >"$LOGS/operate.log"
  sleep $((DURATION / 4))
  client -q -c "delete from users where username like '%5'"
  client -q -c "set client_min_messages = warning" \
    -c "call bloom_rebuild('username_filter', 'select username from users', grace => '2 seconds', min_share => 0.4)"
  sleep $((DURATION - 2 * (DURATION / 4) - DURATION / 6 - 10))
}

main() {
  local program since
  read_options "$@"
  for program in prometheus prometheus-postgres-exporter gnuplot; do
    has_program "$program" || die "$program is missing."
  done
  find_postgres
  ask "runs a server, an exporter and a Prometheus in a temporary folder, which is removed at the end" \
    "writes $OUT"
  end_with tidy_up
  make_work /tmp
  get_extension
  start_cluster main "shared_preload_libraries = 'bloomfilter'"
  make_filters
  start_watchers
  say "Loading the filters for $DURATION seconds ..."
  since=$(date +%s)
  start_load
  operate
  perl "$HERE/picture.pl" "$HERE/dashboard.json" "http://$PROMETHEUS" "$since" "$(date +%s)" 20s >"$WORK/tmp/picture.svg"
  cp "$WORK/tmp/picture.svg" "$OUT"
  say "$OUT is drawn."
}

main "$@"
