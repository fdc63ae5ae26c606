# What the scripts of test, bench and demo share: they find or install PostgreSQL and the tools, build
# the extension from a copy of the tree, and run throwaway clusters in one temporary folder, $WORK.
# Sourced by bash with "set -euo pipefail". Functions report failure by their exit code.
#
# Why not pg_virtualenv: it belongs to Debian and knows only servers under /usr/lib/postgresql, and
# PG_CONFIG may name any other. Why not "pg_regress --temp-instance": its server ends with the
# regression tests, and a demonstration, a benchmark or a storm needs one that goes on.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OLDEST_MAJOR=15

WORK=         # temporary folder: copy of the source, clusters, logs; gone at the end
LOGS=         # its folder of logs
LIMIT=900     # seconds that one step may take: ten times what the longest takes on two free cores
TIMED_OUT=0   # whether the last step took longer
PASSED=0      # checks, of a script that counts them, see sum_up
FAILED=0
FINISHED=0
CHILD=        # pid of the step that runs now
BIN=          # folder of the PostgreSQL that was chosen
PACKAGES=()   # what is to be installed
AS_ROOT=()    # prefix of every command that has to run as root
AS_SERVER=()  # prefix of every command that may not run as root
MAKE_ARGS=()  # what every make is given
LOCALE=(--locale=C.UTF-8)  # what initdb is told of the locale

# Settings of the caller's shell that would lead psql to another server, or make and the tests
# to other options, are dropped; messages are parsed, so they come in English. Clusters that TAP
# tests make go by LANG.
CHOSEN_PG_CONFIG=${PG_CONFIG:-}
unset "${!PG@}" MAKEFLAGS MAKELEVEL MFLAGS LANGUAGE
export LC_ALL=C.UTF-8 LANG=C.UTF-8
# a root shell made by a plain su lacks the folders of what dpkg calls
export PATH=$PATH:/usr/sbin:/sbin
umask 022

# Prints a line.
say() { printf '%s\n' "$*"; }

# Ends the script with a word of why.
die() { printf '%s\n' "$*" >&2; exit 1; }

# Sets AS_ROOT, or fails where the user cannot become root. A prefix, not a function: what a trap prints would go where a function's output is
# redirected.
become_root() {
  AS_ROOT=()
  [ "$(id -u)" != 0 ] || return 0
  has_program sudo || { say "this needs root, or a user with sudo" >&2; return 1; }
  AS_ROOT=(sudo)
}

# ---- PostgreSQL and the tools

# is_complete PG_CONFIG: whether it names a PostgreSQL that is new enough, has a server and can
# build extensions. (Debian's libpq-dev has a pg_config without a server, and its server package
# the files of PGXS without the headers.)
is_complete() {
  local bin pgxs include version
  bin=$("$1" --bindir 2>/dev/null) && pgxs=$("$1" --pgxs) &&
    include=$("$1" --includedir-server) && version=$("$1" --version) || return 1
  version=${version#PostgreSQL }
  [ -x "$bin/postgres" ] && [ -e "$pgxs" ] && [ -e "$include/postgres.h" ] &&
    [ "${version%%[!0-9]*}" -ge "$OLDEST_MAJOR" ]
}

# The major that this release of Debian or Ubuntu carries; known without package lists for those
# that a new machine has none of yet.
distribution_major() {
  local major
  major=$(apt-cache depends postgresql 2>/dev/null |
    sed -n 's/^ *Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1)
  if [ -z "$major" ]; then
    # shellcheck source=/dev/null
    case $(. /etc/os-release && echo "${ID:-}${VERSION_ID:-}") in
      debian12) major=15 ;;
      debian13) major=17 ;;
      *) return 1 ;;
    esac
  fi
  echo "$major"
}

# The newest major under /usr/lib/postgresql that has a server.
installed_major() {
  local server major newest=0
  for server in /usr/lib/postgresql/*/bin/postgres; do
    major=${server#/usr/lib/postgresql/}
    major=${major%%/*}
    [ -x "$server" ] && [ "$major" -gt "$newest" ] 2>/dev/null && newest=$major
  done
  [ "$newest" -ge "$OLDEST_MAJOR" ] && echo "$newest"
}

# Sets PG_CONFIG, and PACKAGES to what is missing for it.
choose_postgres() {
  local major
  if [ -n "$CHOSEN_PG_CONFIG" ]; then
    PG_CONFIG=$(command -v "$CHOSEN_PG_CONFIG") && is_complete "$PG_CONFIG" && return
    die "PG_CONFIG=$CHOSEN_PG_CONFIG has no server or PGXS, or is older than $OLDEST_MAJOR."
  fi
  PG_CONFIG=$(command -v pg_config) && is_complete "$PG_CONFIG" && return
  major=$(installed_major) || major=$(distribution_major) ||
    die "No PostgreSQL found, nor a package of it: set PG_CONFIG to the pg_config of yours."
  PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
  [ -x "/usr/lib/postgresql/$major/bin/postgres" ] || PACKAGES+=("postgresql-$major")
  is_complete "$PG_CONFIG" || PACKAGES+=("postgresql-server-dev-$major")
}

# Whether there is such a program.
has_program() { command -v "$1" >/dev/null; }

# Whether perl has such a module.
has_module() { perl "-M$1" -e1 2>/dev/null; }

# Whether the compiler finds such a header, or would once it is installed.
has_header() {
  [ -e "/usr/include/$1" ] || compgen -G "/usr/include/*/$1" >/dev/null ||
    { has_program g++ && g++ -E -x c++ -include "$1" /dev/null >/dev/null 2>&1; }
}

# need PACKAGE CHECK...: adds the package to PACKAGES where the check fails.
need() {
  local package=$1
  shift
  "$@" || PACKAGES+=("$package")
}

# Adds what the extension is built with, where it is missing, to PACKAGES.
need_build_tools() {
  need make has_program make
  need g++ has_program g++
  need libssl-dev has_header openssl/evp.h
  need libicu-dev has_header unicode/utypes.h
}

# As root. Debian's server package makes a cluster and starts it on port 5432 unless told not to;
# it is told so for the time of the installation, and the setting is put back.
# shellcheck disable=SC2016
INSTALL='
  set -eu
  export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1
  conf=/etc/postgresql-common/createcluster.conf
  template=/usr/share/postgresql-common/createcluster.conf
  saved=
  restore() {
    if [ -n "$saved" ]; then cp -p "$saved" "$conf"; rm -f "$saved"
    elif [ -e "$template" ]; then cp "$template" "$conf"
    else rm -f "$conf"; rmdir --ignore-fail-on-non-empty /etc/postgresql-common
    fi
  }
  apt-get -q -o DPkg::Lock::Timeout=300 update || echo "going on with the package lists there are"
  trap restore EXIT
  trap "exit 1" HUP INT TERM
  mkdir -p /etc/postgresql-common
  if [ -e "$conf" ]; then saved=$(mktemp); cp -p "$conf" "$saved"; fi
  printf "\ncreate_main_cluster = false\n" >> "$conf"
  apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
'

# Installs PACKAGES; the log is shown only where that fails.
install_packages() {
  local log=$LOGS/packages.log
  [ ${#PACKAGES[@]} -gt 0 ] || return 0
  has_program apt-get ||
    { say "missing, and no apt-get to install it: ${PACKAGES[*]}" >&2; return 1; }
  become_root || return
  "${AS_ROOT[@]}" bash -c "$INSTALL" install "${PACKAGES[@]}" </dev/null >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    say "could not install ${PACKAGES[*]}" >&2
    return 1
  }
  is_complete "$PG_CONFIG" || { say "$PG_CONFIG still lacks a server or PGXS" >&2; return 1; }
}

# ---- The temporary folder, and how a script ends

# end_with FUNCTION: from now on, whatever way the script ends, what it started is stopped, FUNCTION
# is called with the exit code that the script would have, and what FUNCTION returns is the exit code.
end_with() {
  # Now, since its argument is this function's.
  # shellcheck disable=SC2064
  trap "finish $1" EXIT
  # Some versions of bash skip the trap of EXIT on a signal that has none of its own.
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

# What end_with describes.
finish() {
  local status=$?
  trap - EXIT
  trap '' HUP INT TERM
  set +e
  stop_all
  cd /
  "$1" "$status"
  exit $?
}

# An end, for end_with: nothing is left.
leave_nothing() {
  remove_work
  return "$1"
}

# make_work PARENT: makes $WORK there. A short path: the clusters' sockets are in it, and a socket's
# path has at most 107 characters.
make_work() {
  WORK=$(mktemp -d "$1/bloomfilter.XXXXXX")
  LOGS=$WORK/logs
  mkdir "$LOGS" "$WORK/home" "$WORK/tmp" "$WORK/socket"
}

# Ends the step that runs and every server that was started in $WORK.
stop_all() {
  if [ -n "$CHILD" ]; then
    # timeout hands the signal on to all that it started
    kill -TERM "$CHILD" 2>/dev/null || true
    wait "$CHILD" 2>/dev/null || true
    end_group "$CHILD"
    CHILD=
  fi
  [ -z "$WORK" ] || stop_servers "$WORK"
}

# end_group GROUP: ends the processes of a group that was told to end: those that are still there after
# ten seconds, by force. timeout itself only waits for the first of them.
end_group() {
  local second
  for ((second = 0; second < 10; second++)); do
    kill -0 -- "-$1" 2>/dev/null || return 0
    sleep 1
  done
  kill -KILL -- "-$1" 2>/dev/null || true
}

# stop_servers FOLDER: at once, every server whose data is somewhere below.
stop_servers() {
  local pidfile
  [ -n "$BIN" ] || return 0
  while IFS= read -r pidfile; do
    "${AS_SERVER[@]}" "$BIN/pg_ctl" -s -w -t 60 -m immediate -D "${pidfile%/*}" stop || true
  done < <(find "$1" -name postmaster.pid 2>/dev/null)
}

# keep_only FOLDER...: of what is in $WORK.
keep_only() {
  local folder others=()
  for folder; do others+=(! -path "$folder"); done
  find "$WORK" -mindepth 1 -maxdepth 1 "${others[@]}" -exec rm -rf --one-file-system {} +
}

# Removes $WORK, where there is one.
remove_work() {
  [ -n "$WORK" ] || return 0
  rm -rf --one-file-system "$WORK"
}

# An end, for end_with, of a script that counts its checks in PASSED and FAILED, and sets FINISHED when it has
# run all of them: the last line is the sum. The exit code is 0 if something passed and nothing failed. Only
# where something failed by itself are the logs kept, and nothing else.
sum_up() {
  local status=$1
  if [ "$FINISHED" = 0 ]; then
    FAILED=$((FAILED + 1))
    [ "$status" != 0 ] || status=1
  fi
  if [ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]; then
    status=0
  elif [ "$status" = 0 ]; then
    status=1
  fi
  # from 129 on: a signal
  if [ "$status" = 0 ] || [ "$status" -ge 129 ]; then remove_work; else keep_logs; fi
  say "$PASSED passed, $FAILED failed"
  return "$status"
}

# Leaves $LOGS of $WORK, with what the suites wrote beside it.
keep_logs() {
  local name
  [ -n "$WORK" ] || return 0
  for name in regression.diffs results output_iso; do
    [ -e "$WORK/src/$name" ] && mv "$WORK/src/$name" "$LOGS/"
  done
  keep_only "$LOGS"
  # nothing was run yet
  if rmdir "$LOGS" 2>/dev/null; then rmdir "$WORK"; return; fi
  chown -R "$(id -u):$(id -g)" "$WORK"
  say "logs: $LOGS"
}

# ---- Building

# Tracked files and those that git does not ignore, as they are; without git or a repository,
# all but what a build makes.
list_source() {
  local file
  # safe.directory: root may test a tree that is another user's
  if [ -e "$ROOT/.git" ] && git -c safe.directory='*' -C "$ROOT" rev-parse 2>/dev/null; then
    git -c safe.directory='*' -C "$ROOT" ls-files -coz --exclude-standard |
      while IFS= read -r -d '' file; do
        if [ -e "$ROOT/$file" ] || [ -L "$ROOT/$file" ]; then printf '%s\0' "$file"; fi
      done
  else
    (cd "$ROOT" && find . \( -name .git -o -path ./build -o -path ./tmp_check \) -prune -o \
      \( -type f -o -type l \) ! -name '*.o' ! -name '*.bc' ! -name '*.so' -print0)
  fi
}

# Decides who builds and runs servers, and gives that user $WORK: PostgreSQL refuses to run as root.
choose_server_user() {
  local user
  BIN=$("$PG_CONFIG" --bindir)
  AS_SERVER=(env "HOME=$WORK/home" "TMPDIR=$WORK/tmp" "PATH=$BIN:$PATH")
  if [ "$(id -u)" = 0 ]; then
    user=postgres
    id -u "$user" >/dev/null 2>&1 || user=nobody
    chown -R "$user:" "$WORK"
    # not runuser, which stays between and ends a psql on Ctrl-C
    AS_SERVER=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --init-groups "${AS_SERVER[@]}")
  fi
  # The server's user may not enter the folder that the script was started in.
  cd "$WORK" || return
}

# Makes $WORK/src: the server's user may not be able to read, let alone write, the source tree.
prepare_source() {
  local llvm
  mkdir -p "$WORK/src"
  list_source | tar -c -C "$ROOT" --null --no-recursion -T - | tar -x --no-same-owner -C "$WORK/src"
  choose_server_user || return
  MAKE_ARGS=(-C "$WORK/src" "PG_CONFIG=$PG_CONFIG")
  # a PostgreSQL built with LLVM wants bitcode of its extensions, which only its clang can make
  # shellcheck disable=SC2016
  read -ra llvm < <(make_value '$(with_llvm) $(CLANG) $(LLVM_BINPATH)') || true
  if [ "${llvm[0]:-no}" = yes ] &&
    ! { has_program "${llvm[1]:-clang}" && has_program "${llvm[2]:-.}/llvm-lto"; }; then
    MAKE_ARGS+=(with_llvm=no)
  fi
}

# make_value EXPRESSION: what it comes to in the extension's Makefile.
make_value() {
  "${AS_SERVER[@]}" make "${MAKE_ARGS[@]}" -s --no-print-directory \
    --eval "bloom-value: ; @echo $1" bloom-value
}

# run_limited SECONDS COMMAND...: runs it for at most that long, and sets TIMED_OUT. In the background,
# since bash handles a signal only when what runs in the foreground has ended.
run_limited() {
  local limit=$1 since=$SECONDS status=0
  shift
  timeout -k 10 "$limit" "$@" </dev/null &
  CHILD=$!
  wait "$CHILD" || status=$?
  TIMED_OUT=0
  # Both are also what a command may end with by itself.
  if [[ $status = 124 || $status = 137 ]] && ((SECONDS - since >= limit)); then
    TIMED_OUT=1
    # timeout leads a group of its own
    end_group "$CHILD"
  fi
  CHILD=
  return "$status"
}

# run_step NAME COMMAND...: runs it with its output in a log, for at most $LIMIT seconds.
run_step() {
  local log=$LOGS/$1.log
  shift
  run_limited "$LIMIT" "$@" >"$log" 2>&1
}

# failure WORDS: how the last step failed: by its time, or else in these words.
failure() {
  if [ "$TIMED_OUT" = 1 ]; then echo "TIMED OUT after $LIMIT s"; else echo "FAILED: $1"; fi
}

# build_extension MAKE_WORD...: builds it in $WORK/src.
build_extension() {
  run_step build "${AS_SERVER[@]}" make "${MAKE_ARGS[@]}" -j"$(nproc)" "$@"
}

# Into the PostgreSQL that was chosen; as root only if it is not the user's own.
install_extension() {
  AS_ROOT=()
  if ! { [ -w "$("$PG_CONFIG" --pkglibdir)" ] && [ -w "$("$PG_CONFIG" --sharedir)/extension" ]; }
  then become_root || return
  fi
  "${AS_ROOT[@]}" make "${MAKE_ARGS[@]}" install >"$LOGS/install.log" 2>&1
}

# Builds and installs the extension, or ends the script with what went wrong.
need_extension() {
  build_extension all ||
    { tail -n 60 "$LOGS/build.log" >&2; die "building the extension: $(failure "it does not build")"; }
  install_extension ||
    { cat "$LOGS/install.log" >&2; die "The extension cannot be installed."; }
}

# ---- Throwaway clusters: superuser postgres, reached through a socket in $WORK and not otherwise.
# Authentication is "trust": only the server's own user and root may reach the socket.

# init_cluster NAME: a cluster for UTF8 in $WORK/NAME, with PostgreSQL's own settings.
init_cluster() {
  run_step "$1.initdb" "${AS_SERVER[@]}" "$BIN/initdb" -D "$WORK/$1" -U postgres -A trust -N \
    -E UTF8 "${LOCALE[@]}" || { cat "$LOGS/$1.initdb.log" >&2; return 1; }
}

# configure_cluster NAME PORT SETTING...: sets where its socket is, and the settings given as
# "name = value".
configure_cluster() {
  local data=$WORK/$1 port=$2
  shift 2
  printf '%s\n' "listen_addresses = ''" "port = $port" \
    "unix_socket_directories = '$WORK/socket'" "log_line_prefix = '%m [%p] %q%a '" "$@" \
    >>"$data/postgresql.conf"
}

# launch_clusters NAME...: starts these clusters, all at once, and waits for them. The log of each is
# $LOGS/NAME.server.log.
launch_clusters() {
  local name
  # shellcheck disable=SC2016
  run_step launch "${AS_SERVER[@]}" bash -c '
    for name in "${@:4}"; do
      "$1/pg_ctl" -s -w -t 300 -D "$2/$name" -l "$3/$name.server.log" start &
      started+=($!)
    done
    for pid in "${started[@]}"; do wait "$pid" || failed=1; done
    exit ${failed:-0}' launch "$BIN" "$WORK" "$LOGS" "$@" && return
  cat "$LOGS/launch.log" >&2
  for name; do cat "$LOGS/$name.server.log" >&2 || true; done
  return 1
}

# start_cluster NAME SETTING...: a cluster for UTF8 in $WORK/NAME, with the settings given as
# "name = value", and its log in $LOGS/NAME.server.log. Clients reach it. One at a time: several
# are made with the three functions above, each with a port of its own.
start_cluster() {
  init_cluster "$1" || return
  configure_cluster "$1" 5432 "${@:2}"
  launch_clusters "$1" || return
  export PGHOST=$WORK/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

# stop_cluster NAME [MODE]: stops it, "fast" unless another mode is given.
stop_cluster() {
  unset PGHOST PGPORT PGUSER PGDATABASE
  "${AS_SERVER[@]}" "$BIN/pg_ctl" -s -w -t 60 -m "${2:-fast}" -D "$WORK/$1" stop
}
