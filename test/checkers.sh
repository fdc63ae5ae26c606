#!/bin/bash
# Compilers, sanitizers, random SQL and long fuzzing. See usage.
set -euo pipefail
# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"

usage() {
  cat <<'TEXT'
usage: test/checkers.sh [--minutes N] [--runs N] [PART...]

What test/run.sh has no time for. PART is one or more of these; without one, all of them:

  compilers   builds the extension with g++ and clang++, with and without bitcode
  core32      the core's unit tests on i386, in a folder that debootstrap fills (root only)
  sanitizers  regression and isolation tests with the extension built with ASan and UBSan
  sqlsmith    the same server, and random queries of SQLsmith for N minutes (30)
  fuzz        the fuzzer of the reader with N inputs (100000000), and that of values for N minutes

"sanitizers" and "sqlsmith" need a server without translations, since ASan blocks in those: that of
tools/cassert.sh, which checks the server's assertions too. Name it with PG_CONFIG:

  tools/cassert.sh /opt/pgcassert
  PG_CONFIG=/opt/pgcassert/bin/pg_config test/checkers.sh

They install the instrumented extension there, and the plain one again at their end. What else is
missing is installed with apt-get. Servers run in a temporary folder and listen on a socket there.
The last line is "N passed, N failed"; the exit code is 0 if something passed and nothing failed.
TEXT
}

MINUTES=30
RUNS=100000000
PARTS=()
SANITIZE="-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined"
INSTRUMENTED=0  # whether the instrumented extension is installed

# An end, for end_with: no instrumented extension stays installed.
restore_and_sum_up() {
  if [ "$INSTRUMENTED" = 1 ]; then
    install_plain || { say "the instrumented extension is still installed: make install"; FAILED=$((FAILED + 1)); }
  fi
  sum_up "$1"
}

# check NAME COMMAND...: runs it as one check, its output in a log, and counts.
check() {
  local name=$1 since=$SECONDS
  shift
  if "$@" >"$LOGS/$name.log" 2>&1; then
    PASSED=$((PASSED + 1))
    say "$name: ok ($((SECONDS - since)) s)"
  else
    FAILED=$((FAILED + 1))
    say "$name: FAILED"
    tail -n 30 "$LOGS/$name.log" | sed 's/^/  | /'
  fi
}

# is_part NAME: whether it was asked for.
is_part() { [[ " ${PARTS[*]} " = *" $1 "* ]]; }

# Adds what the parts take to PACKAGES.
prepare() {
  choose_postgres
  need_build_tools
  if is_part compilers || is_part fuzz; then need clang has_program clang++; fi
  if is_part compilers; then need llvm has_program llvm-lto; fi
  if is_part fuzz; then
    need cmake has_program cmake
    need libclang-rt-dev test -n "$(compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a' || true)"
  fi
  if is_part core32; then need debootstrap has_program debootstrap; fi
  if is_part sqlsmith; then need sqlsmith has_program sqlsmith; fi
  [ ${#PACKAGES[@]} = 0 ] || { say "installing ${PACKAGES[*]}"; install_packages; }
  prepare_source
}

# ---- Parts

# build_with COMPILER BITCODE: builds everything in a copy of the source, with warnings as errors. clang does
# not know all warnings of the gcc that the server was built with.
build_with() {
  local copy=$WORK/build.$1.$2 flags=-Werror
  if [ "$1" = clang++ ]; then flags+=' -Wno-unknown-warning-option'; fi
  "${AS_SERVER[@]}" cp -r "$WORK/src" "$copy"
  "${AS_SERVER[@]}" make -C "$copy" "PG_CONFIG=$PG_CONFIG" -j"$(nproc)" "CXX=$1" "with_llvm=$2" \
    CLANG=clang "COPT=$flags" all
}

compilers() {
  local compiler bitcode
  for compiler in g++ clang++; do
    for bitcode in no yes; do check "compilers.$compiler.bitcode_$bitcode" build_with "$compiler" "$bitcode"; done
  done
}

# The core's unit tests in a Debian for i386, which a 64-bit kernel runs.
# shellcheck disable=SC2016
test_core32() {
  local root=$WORK/i386
  debootstrap --variant=minbase --arch=i386 --include=g++,cmake,make,libssl-dev,libgtest-dev \
    bookworm "$root" http://deb.debian.org/debian
  cp -r "$WORK/src" "$root/src"
  chroot "$root" sh -ec '
    cmake -S /src -B /build -DBLOOM_BENCHMARKS=OFF -DBLOOM_WERROR=ON
    cmake --build /build --parallel "$1"
    ctest --test-dir /build --no-tests=error --output-on-failure' core32 "$(nproc)"
}

core32() {
  if [ "$(id -u)" = 0 ]; then check core32 test_core32; else say "core32: left out, it needs root"; fi
}

# make_extension MAKE_WORD...: builds it anew and installs it.
make_extension() {
  "${AS_SERVER[@]}" make "${MAKE_ARGS[@]}" -s clean && build_extension all with_llvm=no "$@" &&
    install_extension
}

# Builds the extension with the sanitizers and installs it.
install_instrumented() {
  INSTRUMENTED=1
  make_extension "COPT=$SANITIZE" 'SHLIB_LINK=-lcrypto -licui18n -licuuc -fsanitize=address,undefined'
}

# Builds and installs it as everybody does.
install_plain() {
  INSTRUMENTED=0
  make_extension
}

# start_instrumented NAME: a server with ASan's runtime. setarch: ASan wants its addresses to be free, and
# a kernel may put a library there. The server's own leaks are not looked for: it frees with its contexts.
start_instrumented() {
  local plain=("${AS_SERVER[@]}") status=0
  AS_SERVER+=("LD_PRELOAD=$(gcc -print-file-name=libasan.so)"
    "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:log_path=$LOGS/asan"
    "UBSAN_OPTIONS=print_stacktrace=1:log_path=$LOGS/ubsan" setarch -R)
  init_plain "$1" "${plain[@]}" && launch_clusters "$1" || status=$?
  AS_SERVER=("${plain[@]}")
  export PGHOST=$WORK/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
  return "$status"
}

# init_plain NAME PREFIX...: a cluster that is made without the sanitizers, and its settings.
init_plain() {
  local name=$1 AS_SERVER=("${@:2}")
  chown "$(stat -c %u "$WORK")" "$LOGS"
  init_cluster "$name" || return
  configure_cluster "$name" 5432 'fsync = off' 'wal_level = logical' 'max_prepared_transactions = 10' \
    'log_error_verbosity = verbose' "log_line_prefix = '%m [%p] %q%d %e '"
}

# no_reports NAME: fails, and shows them, where a sanitizer or the server's log tells of a fault.
no_reports() {
  ! grep -H . "$LOGS"/asan.* "$LOGS"/ubsan.* 2>/dev/null &&
    ! grep -E 'runtime error: |terminating any other active server processes|PANIC: |TRAP: ' "$LOGS/$1.server.log"
}

# no_internal_errors NAME: fails where the extension said what it says of what cannot happen.
no_internal_errors() {
  ! awk '/ XX000 ERROR/ { line = $0 } /LOCATION:.*\.cpp:/ && line != "" { print line; print }
         / ERROR: / && !/ XX000/ { line = "" }' "$LOGS/$1.server.log" | grep .
}

sanitizers() {
  check sanitizers.build install_instrumented
  check sanitizers.start start_instrumented sanitizers
  check sanitizers.tests "${AS_SERVER[@]}" make "${MAKE_ARGS[@]}" with_llvm=no installcheck TAP_TESTS=
  check sanitizers.reports no_reports sanitizers
  stop_cluster sanitizers immediate
}

# random_queries: SQLsmith until the time is up, again and again, since it ends at odd places by itself.
random_queries() {
  local seed=0 end=$((SECONDS + 60 * MINUTES)) catalog=()
  while ((SECONDS < end)); do
    seed=$((seed + 1))
    # two of three runs without tables of the catalog, which would be most of all tables
    if ((seed % 3)); then catalog=(--exclude-catalog); else catalog=(); fi
    run_limited "$((end - SECONDS))" sqlsmith "--target=host=$PGHOST port=$PGPORT user=smith dbname=smith" \
      "--seed=$seed" --max-queries=2000 "${catalog[@]}" || true
  done
  say "$seed seeds"
}

sqlsmith_part() {
  [ "$INSTRUMENTED" = 1 ] || check sqlsmith.build install_instrumented
  check sqlsmith.start start_instrumented sqlsmith
  check sqlsmith.setup "$BIN/psql" -Xq -v ON_ERROR_STOP=1 -f "$ROOT/test/sqlsmith/setup.sql"
  check sqlsmith.queries random_queries
  say "statements that failed in the extension: $(grep -c 'LOCATION:.*\.cpp:' "$LOGS/sqlsmith.server.log" || true)"
  check sqlsmith.reports no_reports sqlsmith
  check sqlsmith.errors no_internal_errors sqlsmith
  stop_cluster sqlsmith immediate
}

# fuzz_with NAME OPTION...: runs one fuzzer from its corpus.
fuzz_with() {
  "${AS_SERVER[@]}" mkdir -p "$WORK/finds.$1"
  "${AS_SERVER[@]}" env ASAN_OPTIONS=detect_leaks=0 "$WORK/fuzz/$1" -max_len=4096 -print_final_stats=1 \
    "-artifact_prefix=$WORK/tmp/$1." "${@:2}" "$WORK/finds.$1" "$WORK/src/test/fuzz/corpus"
}

# Builds the fuzzers.
build_fuzzers() {
  "${AS_SERVER[@]}" cmake -S "$WORK/src" -B "$WORK/fuzz" -DCMAKE_CXX_COMPILER=clang++ -DBLOOM_FUZZ=ON \
    -DBLOOM_TESTS=OFF -DBLOOM_BENCHMARKS=OFF &&
    "${AS_SERVER[@]}" cmake --build "$WORK/fuzz" --parallel "$(nproc)"
}

fuzz() {
  check fuzz.build build_fuzzers
  check fuzz.read fuzz_with read_fuzz "-runs=$RUNS"
  check fuzz.value fuzz_with value_fuzz "-max_total_time=$((60 * MINUTES))"
}

main() {
  local part
  while [ $# -gt 0 ]; do
    case $1 in
      --minutes) MINUTES=${2:?}; shift ;;
      --runs) RUNS=${2:?}; shift ;;
      compilers | core32 | sanitizers | sqlsmith | fuzz) PARTS+=("$1") ;;
      -h | --help) usage; return ;;
      *) usage >&2; return 2 ;;
    esac
    shift
  done
  [[ $MINUTES =~ ^[1-9][0-9]*$ && $RUNS =~ ^[1-9][0-9]*$ ]] || { usage >&2; return 2; }
  [ ${#PARTS[@]} -gt 0 ] || PARTS=(compilers core32 sanitizers sqlsmith fuzz)
  LIMIT=7200
  end_with restore_and_sum_up
  make_work /tmp
  prepare
  for part in compilers core32 sanitizers; do if is_part "$part"; then "$part"; fi; done
  if is_part sqlsmith; then sqlsmith_part; fi
  if is_part fuzz; then fuzz; fi
  FINISHED=1
}

main "$@"
