#!/bin/bash
# Installs what is missing, builds, and runs every test in throwaway clusters. See usage.
set -euo pipefail
# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"

usage() {
  cat <<'TEXT'
usage: test/run.sh [--all | --server] [--limit SECONDS]

Checks the code (tools/lint.sh), builds bloomfilter, installs it into PostgreSQL and runs its
tests: the core's unit tests (CMake, GoogleTest) and fuzzers (libFuzzer, 10 seconds each),
regression tests (pg_regress), isolation tests, TAP tests, and the demonstration of the sharded sign-up
(demo/shards.sh, small).

  --all            the long tests and clang-tidy too, the fuzzers for 10 minutes each, the unit tests
                   once more under ASan and UBSan, regression and isolation tests once more in
                   locale C, and ten minutes of test/storm.sh: up to 45 minutes instead of 5
  --server         only what takes a server: regression, isolation and TAP tests, and the demonstration
  --limit SECONDS  what a step may take, a TAP file being one: 900, or 3600 with --all. A step that
                   takes longer is ended and counts as failed, "TIMED OUT after SECONDS s". A slow
                   or busy machine may need more.

The PostgreSQL is the one that $PG_CONFIG or the pg_config in the PATH names, else the newest
under /usr/lib/postgresql, else Debian's. What is missing is installed with apt-get. Run it as
root or as a user with sudo; the tests themselves never run as root. Servers run in a temporary
folder and listen on a socket there; no other server is touched.

The last line is "N passed, N failed": the lint, what ctest runs (GoogleTest cases, fuzzers),
regression tests, isolation specs, TAP files, the demonstration and the storm, one each; a step that
breaks off counts as one failed. The exit code is 0 if something passed and nothing failed.
TEXT
}

ALL=0
SERVER=0

# The name of a suite, then its result in a few words.
report() { printf '%-12s %s\n' "$1" "$2"; }

# show LOG [PATTERN [LINES]]: the end of a log, without the lines that match.
show() {
  { grep -vE "${2:-^$}" "$1" || true; } | tail -n "${3:-200}" | sed 's/^/  | /'
}

# broke STEP WHY [LOG]: counts one failure and shows the end of the log.
broke() {
  FAILED=$((FAILED + 1))
  report "$1" "$2"
  [ -z "${3:-}" ] || show "$3"
}

# tally SUITE PASSED TOTAL SINCE [NOTE]: counts and reports what a suite came to.
tally() {
  PASSED=$((PASSED + $2))
  FAILED=$((FAILED + $3 - $2))
  report "$1" "$2 of $3 ($((SECONDS - $4)) s)${5:+, $5}"
}

# crashes LOG: the lines of a server's log that tell of a crashed backend. A test may pass over
# one.
crashes() { grep -hE 'terminated by signal|PANIC: |TRAP: ' "$@" /dev/null; }

# ---- Suites

# build_core NAME CMAKE_ARGUMENT...: builds the core in a folder of its own, $WORK/NAME.
build_core() {
  local name=$1
  shift
  # shellcheck disable=SC2016
  run_step "$name.build" "${AS_SERVER[@]}" sh -c '
    set -e
    source=$1 build=$2 jobs=$3
    shift 3
    cmake -S "$source" -B "$build" "$@"
    cmake --build "$build" --parallel "$jobs"' build "$WORK/src" "$WORK/$name" "$(nproc)" "$@" ||
    { broke "$name" "$(failure "does not build")" "$LOGS/$name.build.log"; return 1; }
}

# core_suite NAME CMAKE_ARGUMENT...: builds the core's tests and runs them by ctest.
core_suite() {
  local name=$1 build=$WORK/$1 since=$SECONDS log=$LOGS/$1.log failed total
  build_core "$@" || return 0
  run_step "$name" "${AS_SERVER[@]}" ctest --test-dir "$build" --no-tests=error \
    --output-on-failure --parallel "$(nproc)" || true
  read -r failed total < <(sed -nE 's/.* ([0-9]+) tests? failed out of ([0-9]+)/\1 \2/p' "$log") ||
    { broke "$name" "$(failure "ctest broke off")" "$log"; return; }
  tally "$name" "$((total - failed))" "$total" "$since"
  # what a fuzzer says as it goes is left out
  [ "$failed" = 0 ] || show "$log" '^ +Start |Passed +[0-9.]+ sec|^$|^#[0-9]+|^INFO: |NEW_FUNC'
}

# server_suite NAME VARIABLE DIFFS: runs pg_regress or its isolation kin, whose tests the
# Makefile lists in VARIABLE, in a cluster of its own.
server_suite() {
  local name=$1 tests status=0 since=$SECONDS passed note='' diffs=$WORK/src/$3
  local log=$LOGS/$1.log
  read -ra tests < <(make_value "\$($2)") || true
  [ ${#tests[@]} -gt 0 ] || { report "$name" "none"; return; }
  start_cluster "$name" 'fsync = off' 'wal_level = logical' 'max_prepared_transactions = 10' ||
    { broke "$name" "$(failure "no server")"; return; }
  run_step "$name" "${AS_SERVER[@]}" make "${MAKE_ARGS[@]}" installcheck \
    REGRESS= ISOLATION= TAP_TESTS= "$2=${tests[*]}" || status=$?
  [ "$TIMED_OUT" = 0 ] || note=$(failure '')
  # before PostgreSQL 16 "test name ... ok 12 ms", then "ok 1 - name 12 ms"
  passed=$(grep -cE '^ok [0-9]+ | ok +[0-9]+ ms$' "$log") || true
  tally "$name" "$passed" "${#tests[@]}" "$since" "$note"
  if [ "$passed" != "${#tests[@]}" ]; then
    # without what passed, and without the places of files that will be elsewhere
    show "$log" \
      '^(ok [0-9]+ |make: |echo |[A-Z ]+$|===|$)| ok +[0-9]+ ms$|"/tmp|^(# )?(The diff|above is)'
    [ ! -s "$diffs" ] || show "$diffs"
  elif [ "$status" != 0 ]; then
    broke "$name" "$(failure "exit code $status")" "$log"
  fi
  end_server "$name"
}

# end_server NAME: stops the cluster of a suite, and tells of a crash.
end_server() {
  local mode=fast
  # a fast stop may wait for the recovery after a crash
  if crashes "$LOGS/$1.server.log" >"$LOGS/$1.crashes"; then
    broke "$1" "FAILED: the server crashed" "$LOGS/$1.crashes"
    mode=immediate
  fi
  stop_cluster "$1" "$mode" || broke "$1" "FAILED: the server did not stop"
}

# The locales that tests take, as source, charmap and end of the name: few machines have more than one.
LOCALES=("tr_TR UTF-8 utf8" "en_US UTF-8 utf8" "en_US ISO-8859-1 iso88591" "tr_TR ISO-8859-9 iso88599"
  "de_DE ISO-8859-15 iso885915" "en_US CP1252 cp1252" "ja_JP EUC-JP eucjp")

# make_locales FOLDER: makes them there and prints the names of those that this machine can make. Fails where
# the machine's own locales would be lost.
make_locales() {
  local one source charmap suffix jobs=()
  mkdir "$1"
  for one in "${LOCALES[@]}"; do
    read -r source charmap suffix <<<"$one"
    localedef -i "$source" -f "$charmap" "$1/$source.$suffix" >>"$LOGS/locale.log" 2>&1 &
    jobs+=($!)
  done
  # It ends with 1 where it only warns.
  for one in "${jobs[@]}"; do wait "$one" || true; done
  [ "$(LOCPATH=$1 LC_ALL=C.UTF-8 locale charmap 2>/dev/null)" = UTF-8 ] || return
  for one in "${LOCALES[@]}"; do
    read -r source charmap suffix <<<"$one"
    if [ "$(LOCPATH=$1 LC_ALL=$source.$suffix locale charmap 2>/dev/null)" = "$charmap" ]; then
      echo "$source.$suffix"
    fi
  done
}

# Runs the TAP tests, which make their own clusters, one after another: each has a limit of its own.
tap() {
  local tests test since=$SECONDS passed=0 skipped=0 servers=() locales environment=("BLOOM_TEST_ALL=$ALL")
  # shellcheck disable=SC2016
  read -ra tests < <(make_value '$(PROVE_TESTS)') || true
  [ ${#tests[@]} -gt 0 ] || { report tap "none"; return; }
  # shellcheck disable=SC2016
  if [ "$(make_value '$(enable_tap_tests)')" != yes ]; then
    report tap "not run: this PostgreSQL was built without --enable-tap-tests"
    return
  fi
  if locales=$(make_locales "$WORK/locale"); then
    environment+=("LOCPATH=$WORK/locale" "BLOOM_TEST_LOCALES=${locales//$'\n'/ }")
  fi
  mkdir "$LOGS/tap"
  report tap "${#tests[@]} files, each for at most $LIMIT s"
  for test in "${tests[@]}"; do tap_file "$test"; done
  tally tap "$passed" "$((${#tests[@]} - skipped))" "$since" \
    "$([ "$skipped" = 0 ] || echo "$skipped skipped")"
  # these tests kill servers on purpose, with signal 9 and no other
  mapfile -t servers < <(find "$LOGS/tap" -name '*.log')
  if crashes "${servers[@]}" | grep -v 'terminated by signal 9\b' >"$LOGS/tap.crashes"; then
    broke tap "FAILED: a server crashed" "$LOGS/tap.crashes"
  fi
}

# tap_file FILE: runs one TAP test for tap, whose counts it adds to, and leaves none of its servers.
tap_file() {
  local name since=$SECONDS status=0 log result=ok
  name=$(basename "$1" .pl)
  log=$LOGS/tap.$name.log
  printf '%-12s %s: ' '' "$name"
  run_step "tap.$name" "${AS_SERVER[@]}" env "${environment[@]}" make "${MAKE_ARGS[@]}" \
    installcheck REGRESS= ISOLATION= "PROVE_TESTS=$1" || status=$?
  if [ "$status" != 0 ]; then
    result=$(failure "exit code $status")
  elif grep -qE '\.pl \.+ skipped\b' "$log"; then
    result=skipped
    skipped=$((skipped + 1))
  else
    passed=$((passed + 1))
  fi
  say "$result ($((SECONDS - since)) s)"
  stop_servers "$WORK/src/tmp_check"
  find "$WORK/src/tmp_check/log" -type f -exec mv -t "$LOGS/tap" {} + 2>/dev/null || true
  [ "$status" != 0 ] || return 0
  show "$log" '^(make: |echo |$)'
  [ ! -e "$LOGS/tap/regress_log_$name" ] || show "$LOGS/tap/regress_log_$name" '^$' 40
}

# script_suite NAME SECONDS COMMAND...: one test that is a script; its last line is the result. A
# further suite of the kind (a linter) is a line of this in main, with what it needs in prepare.
script_suite() {
  local name=$1 LIMIT=$2 since=$SECONDS status=0 log=$LOGS/$1.log note
  shift 2
  run_step "$name" "$@" || status=$?
  note=$(tail -n 1 "$log")
  [ "$TIMED_OUT" = 0 ] || note=$(failure '')
  tally "$name" "$((status == 0))" 1 "$since" "$note"
  [ "$status" = 0 ] || show "$log" '' 60
}

# ---- Steps

# Whether clang links what a fuzzer takes: the place of its runtimes goes by version and machine.
has_fuzzer() {
  has_program clang++ && clang++ -fsanitize=fuzzer,address,undefined -x c++ -o /dev/null - \
    >/dev/null 2>&1 <<'CODE'
extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }
CODE
}

# Adds what the core's tests and the lint take, where it is missing, to PACKAGES.
need_core_tools() {
  need cmake has_program cmake
  need libgtest-dev has_header gtest/gtest.h
  need libbenchmark-dev has_header benchmark/benchmark.h
  need clang has_program clang++
  need libclang-rt-dev has_fuzzer
  need clang-format has_program clang-format
  need cppcheck has_program cppcheck
  need shellcheck has_program shellcheck
  [ "$ALL" = 0 ] || need clang-tidy has_program clang-tidy
}

# Installs what is missing, and copies the source.
prepare() {
  choose_postgres
  need_build_tools
  need perl has_program prove
  need libipc-run-perl has_module IPC::Run
  # what localedef makes locales of
  need locales test -e /usr/share/i18n/locales/tr_TR
  # a language in which a function can change the locale of its session; only Debian's server has a package
  local server=${PG_CONFIG%/bin/pg_config}
  case $server in
    /usr/lib/postgresql/*) need "postgresql-plperl-${server##*/}" test -e "$server/lib/plperl.so" ;;
  esac
  # for the readers in clients; that in Go is tested where there is a go, which would take 330 MB
  need python3 has_program python3
  need nodejs has_program node
  need gnuplot-nox has_program gnuplot
  [ "$SERVER" = 1 ] || need_core_tools
  if [ ${#PACKAGES[@]} -gt 0 ]; then
    local since=$SECONDS
    report packages "${PACKAGES[*]}"
    install_packages
    report packages "installed ($((SECONDS - since)) s)"
  fi
  prepare_source
}

# Builds and installs the extension; fails where that fails.
extension() {
  local since=$SECONDS
  build_extension all COPT=-Werror ||
    { broke extension "$(failure "does not build")" "$LOGS/build.log"; return 1; }
  install_extension ||
    { broke extension "FAILED: cannot be installed" "$LOGS/install.log"; return 1; }
  report extension "built and installed ($((SECONDS - since)) s)"
}

# Every suite that takes a server.
server_suites() {
  server_suite regress REGRESS regression.diffs
  server_suite isolation ISOLATION output_iso/regression.diffs
  tap
  # it fails where a "no" was wrong, a name was given twice, or the shards had other queries than they should
  script_suite shards 300 env "PG_CONFIG=$PG_CONFIG" bash "$ROOT/demo/shards.sh" -y --installed --shards 4 \
    --names 20000 --out "$WORK/shards"
  [ "$ALL" = 1 ] || return 0
  LOCALE=(--no-locale)
  server_suite regress_c REGRESS regression.diffs
  server_suite isolation_c ISOLATION output_iso/regression.diffs
}

# The lint, and every suite of the core.
core_suites() {
  # clang-tidy takes minutes, the other checks ten seconds
  if [ "$ALL" = 1 ]; then
    script_suite lint 1800 env "PG_CONFIG=$PG_CONFIG" bash "$ROOT/tools/lint.sh"
  else
    script_suite lint 300 bash "$ROOT/tools/lint.sh" format floors lines shell cppcheck
  fi
  core_suite unit -DBLOOM_WERROR=ON
  # what breaks a fuzzer is kept with the logs
  core_suite fuzz -DCMAKE_CXX_COMPILER=clang++ -DBLOOM_FUZZ=ON -DBLOOM_TESTS=OFF \
    -DBLOOM_BENCHMARKS=OFF "-DBLOOM_FUZZ_SECONDS=$((ALL ? 600 : 10))" "-DBLOOM_FUZZ_ARTIFACTS=$LOGS"
}

# Reads the command line.
read_options() {
  local limit=
  while [ $# -gt 0 ]; do
    case $1 in
      --all) ALL=1 LIMIT=3600 ;;
      --server) SERVER=1 ;;
      --limit)
        [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }
        limit=$2
        shift
        ;;
      -h | --help) usage; exit ;;
      *) usage >&2; say "unknown option: $1" >&2; exit 2 ;;
    esac
    shift
  done
  [ "$ALL$SERVER" != 11 ] || { usage >&2; exit 2; }
  LIMIT=${limit:-$LIMIT}
}

main() {
  read_options "$@"
  end_with sum_up
  make_work /tmp
  prepare
  report postgresql "$("$PG_CONFIG" --version)"
  [ "$SERVER" = 1 ] || core_suites
  if extension; then server_suites; fi
  if [ "$ALL" = 1 ]; then
    core_suite sanitizers -DBLOOM_SANITIZE=ON -DBLOOM_BENCHMARKS=OFF
    # with the time to build it and to end it; it installs for itself, and leaves its own logs where
    # a "no" was wrong
    script_suite storm 1500 env "PG_CONFIG=$PG_CONFIG" bash "$ROOT/test/storm.sh" --minutes 10
  fi
  FINISHED=1
}

main "$@"
