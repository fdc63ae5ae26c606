#!/bin/bash
# Runs the tests with every major version of PostgreSQL at hand. See usage.
set -euo pipefail
# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"

usage() {
  cat <<'TEXT'
usage: test/matrix.sh [PG_CONFIG...]
       test/matrix.sh --chroot FOLDER SUITE[:MAJOR]...

Builds bloomfilter with warnings as errors, installs it, and runs the regression, isolation and TAP tests
and the demonstration (test/run.sh --server): with each PostgreSQL that is named by its pg_config, or else
with every one under /usr/lib/postgresql.

  --chroot  in Debian systems of their own, FOLDER/SUITE, with the PostgreSQL of the suite or the
            one named: "test/matrix.sh --chroot /srv/matrix bookworm trixie forky sid:19". Those that are
            missing are made by debootstrap (300 MB to begin with, 2 GB with all packages); all are
            kept for the next time. As root

One line for each PostgreSQL: its version, what each suite came to, and the result. The log of one that
fails is kept. The last line is "N passed, N failed", in versions; the exit code is 0 if something passed
and nothing failed.
TEXT
}

# row LOG RESULT: a line of the table, from what test/run.sh wrote.
row() {
  local version
  version=$(sed -nE 's/^postgresql +PostgreSQL ([^ ]+).*/\1/p' "$1")
  printf '%-10s %-8s %s\n' "${version:-?}" "$2" \
    "$(sed -nE 's/^(regress|isolation|tap|shards) +([0-9]+ of [0-9]+) .*/\1 \2/p' "$1" | paste -sd, | sed 's/,/, /g')"
}

# run_one NAME COMMAND...: one version: runs its tests, counts and reports what they came to.
run_one() {
  local log=$LOGS/$1.log
  shift
  if "$@" >"$log" 2>&1 </dev/null; then
    PASSED=$((PASSED + 1))
    row "$log" passed
  else
    FAILED=$((FAILED + 1))
    row "$log" FAILED
    tail -n 30 "$log" | sed 's/^/  | /'
  fi
}

# inside ROOT COMMAND...: runs it as root in another system. What it starts ends with it, and what is
# mounted for it is gone then.
# shellcheck disable=SC2016
inside() {
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    mount --make-rprivate /
    mount --rbind /dev "$1/dev"
    mount -t proc proc "$1/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    root=$1
    shift
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive "$@"' inside "$@"
}

# bootstrap SUITE ROOT: makes a minimal system that starts no service.
bootstrap() {
  local scripts=/usr/share/debootstrap/scripts script=()
  [ ! -e "$2/etc/debian_version" ] || return 0
  # an older debootstrap does not know the newest suites by name
  [ -e "$scripts/$1" ] || script=(http://deb.debian.org/debian "$scripts/sid")
  debootstrap --variant=minbase "$1" "$2" "${script[@]}" || { rm -rf --one-file-system "$2"; return 1; }
  printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d"
  chmod 755 "$2/usr/sbin/policy-rc.d"
  # enough for apt, which otherwise wants a user that may read what root may
  echo 'APT::Sandbox::User "root";' >"$2/etc/apt/apt.conf.d/90matrix"
}

# test_suite FOLDER SUITE[:MAJOR]: makes the system where it is missing, and runs the tests in it.
test_suite() {
  local suite=${2%%:*} major=${2#*:} root=$1/${2%%:*} source=/tmp/bloomfilter.source settings=()
  bootstrap "$suite" "$root" || return
  if [ "$major" != "$2" ]; then
    settings=("PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config")
    [ -x "$root/${settings[0]#*=}" ] || { inside "$root" apt-get -q update &&
      inside "$root" apt-get -q -y install --no-install-recommends "postgresql-$major" \
        "postgresql-server-dev-$major"; } || return
  fi
  rm -rf --one-file-system "${root:?}$source"
  mkdir -p "$root$source"
  list_source | tar -c -C "$ROOT" --null --no-recursion -T - | tar -x --no-same-owner -C "$root$source" || return
  inside "$root" env "${settings[@]}" "$source/test/run.sh" --server
}

# Every PostgreSQL under /usr/lib/postgresql that can build extensions.
installed() {
  local config
  for config in /usr/lib/postgresql/*/bin/pg_config; do
    if is_complete "$config"; then echo "$config"; fi
  done | sort -V
}

main() {
  local folder word configs=("$@")
  case ${1:-} in -h | --help) usage; exit ;; esac
  end_with sum_up
  make_work /tmp
  if [ "${1:-}" = --chroot ]; then
    [ $# -ge 3 ] || { usage >&2; exit 2; }
    [ "$(id -u)" = 0 ] || die "--chroot needs root"
    has_program debootstrap || die "debootstrap is not installed"
    folder=$2
    shift 2
    mkdir -p "$folder"
    for word; do run_one "${word%%:*}" test_suite "$folder" "$word"; done
    FINISHED=1
    return
  fi
  [ $# -gt 0 ] || mapfile -t configs < <(installed)
  [ ${#configs[@]} -gt 0 ] || die "there is no PostgreSQL under /usr/lib/postgresql; name a pg_config"
  for word in "${configs[@]}"; do
    is_complete "$word" || die "$word has no server or PGXS, or is older than $OLDEST_MAJOR"
    run_one "$(echo "$word" | tr / _)" env "PG_CONFIG=$word" "$ROOT/test/run.sh" --server
  done
  FINISHED=1
}

main "$@"
