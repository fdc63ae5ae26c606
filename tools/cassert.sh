#!/bin/bash
# Builds a PostgreSQL with assertions from the distribution's source, to test the extension against.
# See usage.
set -euo pipefail

MAJOR=15
SOURCE=    # a tarball of the source, or nothing: fetch one
FOLDER=    # where the server is installed
BUILD=     # where it is built; gone at the end
JOBS=$(nproc)

# What a build takes: Debian's packages, on a machine that can build the extension already. Release
# tarballs up to 16 carry what bison and flex make, later ones do not.
PACKAGES=(bison flex perl pkg-config dpkg-dev bzip2 make gcc
  libicu-dev libssl-dev zlib1g-dev liblz4-dev libipc-run-perl)

usage() {
  cat <<'TEXT'
usage: tools/cassert.sh [--major N] [--source TARBALL] FOLDER

Builds PostgreSQL with --enable-cassert, --enable-debug and --enable-tap-tests at -O1, installs it
into FOLDER and prints the PG_CONFIG to use. FOLDER must be empty or not exist, and must be readable
by the user that the tests run as: /opt/pgcassert is a good place.

  --major N         the major version to fetch, 15 unless given
  --source TARBALL  this source (postgresql-N.M.tar.bz2 or .tar.gz) instead of fetching one

The source comes from the distribution's archive with "apt-get source". The package lists that this
needs lie in a temporary folder: the machine's own sources and lists stay as they are. What a build
needs and the machine lacks is installed with apt-get, so run this as root. It takes about 3
minutes on two cores, and 1 GB while it builds.

Then:

  PG_CONFIG=FOLDER/bin/pg_config test/run.sh
TEXT
}

die() { printf 'cassert.sh: %s\n' "$*" >&2; exit 1; }

# Installs those of PACKAGES that the machine lacks.
install_packages() {
  local package missing=()
  command -v dpkg-query >/dev/null || return 0
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || die "install these first, or run this as root: ${missing[*]}"
  apt-get -q update
  DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends "${missing[@]}"
}

# The machine's package sources, as sources of source packages, in the folder $1.
source_lists() {
  local list
  mkdir -p "$1"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -e "$list" ] || sed -n 's/^deb /deb-src /p' "$list" >"$1/$(basename "${list%.list}").list"
  done
  for list in /etc/apt/sources.list.d/*.sources; do
    [ ! -e "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"$1/$(basename "$list")"
  done
}

# Sets SOURCE to a tarball fetched from the archive. The newest version that is listed may be gone
# from a mirror, so each older one is tried after it.
fetch_source() {
  local apt=$BUILD/apt version options
  command -v apt-get >/dev/null || die "no apt-get here: give --source TARBALL"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/source"
  source_lists "$apt/parts"
  options=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$apt/parts"
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  apt-get -q "${options[@]}" update
  while read -r version; do
    (cd "$apt/source" &&
      apt-get -q "${options[@]}" source --download-only "postgresql-$MAJOR=$version") || continue
    SOURCE=$(echo "$apt"/source/*.orig.tar.*[2z])
    return
  done < <(apt-cache "${options[@]}" showsrc "postgresql-$MAJOR" |
    sed -n 's/^Version: //p' | sort -rVu)
  die "the archive has no source of postgresql-$MAJOR: give --source TARBALL"
}

# Builds and installs the tarball. contrib is there for the tests: amcheck, pageinspect and
# postgres_fdw. At -O1 a stack in a core file still has its variables, and the tests take twice as
# long as with Debian's server, not five times as at -O0.
build_server() {
  mkdir "$BUILD/postgresql"
  tar -xf "$SOURCE" -C "$BUILD/postgresql" --strip-components=1
  cd "$BUILD/postgresql"
  nice ./configure --quiet --prefix="$FOLDER" --enable-cassert --enable-debug --enable-tap-tests \
    --with-icu --with-openssl --with-lz4 --without-readline \
    CFLAGS="-O1 -g -fno-omit-frame-pointer"
  nice make -s -j "$JOBS"
  nice make -s -j "$JOBS" -C contrib
  nice make -s install
  nice make -s -C contrib install
}

main() {
  while [ $# -gt 0 ]; do
    case $1 in
      --major | --source) [ $# -gt 1 ] || { usage >&2; return 2; } ;;&
      --major) MAJOR=$2; shift 2 ;;
      --source) SOURCE=$(realpath -- "$2"); shift 2 ;;
      -h | --help) usage; return ;;
      -*) usage >&2; return 2 ;;
      *) [ -z "$FOLDER" ] || { usage >&2; return 2; }; FOLDER=$(realpath -m -- "$1"); shift ;;
    esac
  done
  [ -n "$FOLDER" ] || { usage >&2; return 2; }
  [ -z "$(ls -A "$FOLDER" 2>/dev/null)" ] || die "$FOLDER is not empty"
  install_packages
  BUILD=$(mktemp -d)
  trap 'rm -rf --one-file-system "$BUILD"' EXIT
  [ -n "$SOURCE" ] || fetch_source
  build_server
  "$FOLDER/bin/postgres" --version
  printf 'PG_CONFIG=%s/bin/pg_config\n' "$FOLDER"
}

main "$@"
