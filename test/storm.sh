#!/bin/bash
# The promise under random faults. See usage.
set -euo pipefail
# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"

usage() {
  cat <<'TEXT'
usage: test/storm.sh [--minutes N] [--seed S]

Builds bloomfilter, installs it into PostgreSQL, and has a storm of N minutes (10): a primary with a
synchronous and an asynchronous standby; clients that add names in every way and keep a record
outside the database of each whose commit was acknowledged; others that ask for what was on record
before they asked; and beside them, at random, whatever befalls filters and servers: rebuilds,
rewrites, cancels, kills, crashes, failovers, a full disk. S chooses what happens in which order, not
the moment.

What is missing is installed with apt-get. As root it mounts three small file systems where nobody
else sees them; otherwise the full disk is left out, and pg_repack is where it cannot be had.
Servers run in a temporary folder and listen on sockets there.

It ends at the first wrong "no", or when the time is up. The last line is
"storm seed=S seconds=… names=… checks=… faults=… wrong=… broken=…"; the exit code is 0 if no "no" was
wrong, and nothing else broke either.
TEXT
}

MINUTES=10
SEED=
WITHOUT=()  # kinds of faults that cannot be had here

# An end, for end_with: where it failed by itself, the servers' logs and the record stay.
keep_record() {
  # from 129 on: a signal
  if [ "$1" = 0 ] || [ "$1" -ge 129 ]; then
    remove_work
  elif [ -n "$WORK" ]; then
    keep_only "$LOGS" "$WORK/record"
  fi
  return "$1"
}

# Sets WITHOUT, and installs what is missing.
prepare() {
  local major
  choose_postgres
  need_build_tools
  need libdbd-pg-perl has_module DBD::Pg
  major=$("$PG_CONFIG" --version 2>/dev/null | sed 's/^PostgreSQL \([0-9]*\).*/\1/') || true
  [ ${#PACKAGES[@]} = 0 ] || { say "installing ${PACKAGES[*]}"; install_packages; }
  if ! has_repack && [ "$PG_CONFIG" = "/usr/lib/postgresql/$major/bin/pg_config" ]; then
    PACKAGES=("postgresql-$major-repack")
    install_packages >"$LOGS/repack.log" 2>&1 || true
  fi
  has_repack || { WITHOUT+=(pg_repack); say "without pg_repack: it is not installed"; }
  prepare_source
}

# Whether the PostgreSQL that was chosen has pg_repack.
has_repack() {
  [ -x "$("$PG_CONFIG" --bindir)/pg_repack" ] &&
    [ -e "$("$PG_CONFIG" --sharedir)/extension/pg_repack.control" ]
}

# Runs the storm and shows what it says. Small file systems are
# mounted in a name space of its own, and are gone with its last process.
run_storm() {
  local status=0 command=("${AS_SERVER[@]}" perl "$WORK/src/test/storm/driver.pl" "$WORK")
  # shellcheck disable=SC2016
  local mount='
    owner=$1 folder=$2
    shift 2
    for server in a b c; do
      mkdir -p "$folder/$server"
      mount -t tmpfs -o "size=48m,mode=0700,uid=$owner" bloomfilter "$folder/$server"
    done
    exec "$@"'
  if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    mkdir -p "$WORK/small"
    chown "$(stat -c %u "$WORK")" "$WORK/small"
    command=(unshare --mount sh -ec "$mount" storm "$(stat -c %u "$WORK")" "$WORK/small"
      "${command[@]}")
  else
    WITHOUT+=("full disk")
    say "without a full disk: only root can mount a small file system"
  fi
  run_limited "$((60 * MINUTES + 600))" "${command[@]}" "$MINUTES" "$SEED" "${WITHOUT[@]}" \
    2>"$LOGS/driver.log" || status=$?
  [ "$TIMED_OUT" = 0 ] || say "TIMED OUT after $((60 * MINUTES + 600)) s"
  [ "$status" = 0 ] || { tail -n 20 "$LOGS/driver.log"; say "logs: $LOGS; the record: $WORK/record"; }
  return "$status"
}

main() {
  while [ $# -gt 0 ]; do
    case $1 in
      --minutes) MINUTES=${2:?} ;;
      --seed) SEED=${2:?} ;;
      -h | --help) usage; return ;;
      *) usage >&2; return 2 ;;
    esac
    shift 2
  done
  [[ $MINUTES =~ ^[1-9][0-9]*$ && ${SEED:=$((RANDOM * 32768 + RANDOM))} =~ ^[0-9]+$ ]] ||
    { usage >&2; return 2; }
  end_with keep_record
  make_work /tmp
  prepare
  need_extension
  say "storm: seed $SEED, $MINUTES minutes"
  run_storm
}

main "$@"
