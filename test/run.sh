#!/bin/bash
# Installs what is missing, builds, and runs every test in throwaway clusters. See usage.
set -euo pipefail
# shellcheck source=test/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'TEXT'
usage: test/run.sh [--all]

Builds bloomfilter, installs it into PostgreSQL and runs its tests: the core's unit tests
(CMake, GoogleTest) and fuzzers (libFuzzer, 10 seconds each), regression tests (pg_regress),
isolation tests and TAP tests.

  --all   the long tests too, the fuzzers for 10 minutes each, the unit tests once more under
          ASan and UBSan, and ten minutes of test/storm.sh: up to 45 minutes instead of 5

The PostgreSQL is the one that $PG_CONFIG or the pg_config in the PATH names, else the newest
under /usr/lib/postgresql, else Debian's. What is missing is installed with apt-get. Run it as
root or as a user with sudo; the tests themselves never run as root. Servers run in a temporary
folder and listen on a socket there; no other server is touched.

The last line is "N passed, N failed": GoogleTest cases (and what else ctest runs), fuzzers,
regression tests, isolation specs, TAP files and the storm, one each; a step that breaks off counts
as one failed. The exit code is 0 if something passed and nothing failed.
TEXT
}

ALL=0
PASSED=0
FAILED=0
FINISHED=0

# The name of a suite, then its result in a few words.
report() { printf '%-12s %s\n' "$1" "$2"; }

# show LOG [PATTERN [LINES]]: the end of a log, without the lines that match.
show() {
  { grep -vE "${2:-^$}" "$1" || true; } | tail -n "${3:-200}" | sed 's/^/  | /'
}

# broke STEP WHY [LOG]: counts one failure and shows the end of the log.
broke() {
  FAILED=$((FAILED + 1))
  report "$1" "FAILED: $2"
  [ -z "${3:-}" ] || show "$3"
}

# tally SUITE PASSED TOTAL SINCE [NOTE]
tally() {
  PASSED=$((PASSED + $2))
  FAILED=$((FAILED + $3 - $2))
  report "$1" "$2 of $3 ($((SECONDS - $4)) s)${5:+, $5}"
}

# Whatever way the script ends: nothing keeps running, and the last line is the sum. Only where
# something failed by itself are the logs kept, and nothing else.
finish() {
  local status=$?
  trap - EXIT
  trap '' HUP INT TERM
  set +e
  stop_all
  if [ "$FINISHED" = 0 ]; then
    FAILED=$((FAILED + 1))
    [ "$status" != 0 ] || status=1
  fi
  cd /
  if [ "$FAILED" = 0 ] && [ "$PASSED" -gt 0 ]; then
    status=0
  elif [ "$status" = 0 ]; then
    status=1
  fi
  # from 129 on: a signal
  if [ "$status" = 0 ] || [ "$status" -ge 129 ]; then remove_work; else keep_logs; fi
  say "$PASSED passed, $FAILED failed"
  exit "$status"
}

# Leaves $LOGS of $WORK, with what the suites wrote beside it.
keep_logs() {
  local name
  [ -n "$WORK" ] || return 0
  for name in regression.diffs results output_iso; do
    [ -e "$WORK/src/$name" ] && mv "$WORK/src/$name" "$LOGS/"
  done
  [ -d "$WORK/src/tmp_check/log" ] && mv "$WORK/src/tmp_check/log" "$LOGS/tap"
  find "$WORK" -mindepth 1 -maxdepth 1 ! -path "$LOGS" -exec rm -rf --one-file-system {} +
  # nothing was run yet
  if rmdir "$LOGS" 2>/dev/null; then rmdir "$WORK"; return; fi
  chown -R "$(id -u):$(id -g)" "$WORK"
  say "logs: $LOGS"
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
    { broke "$name" "does not build" "$LOGS/$name.build.log"; return 1; }
}

# unit NAME CMAKE_ARGUMENT...: builds the core's tests and runs them.
unit() {
  local name=$1 build=$WORK/$1 since=$SECONDS log=$LOGS/$1.log failed total
  build_core "$@" || return 0
  run_step "$name" "${AS_SERVER[@]}" ctest --test-dir "$build" --no-tests=error \
    --output-on-failure --parallel "$(nproc)" || true
  read -r failed total < <(sed -nE 's/.* ([0-9]+) tests? failed out of ([0-9]+)/\1 \2/p' "$log") ||
    { broke "$name" "broke off" "$log"; return; }
  tally "$name" "$((total - failed))" "$total" "$since"
  [ "$failed" = 0 ] || show "$log" '^ +Start |Passed +[0-9.]+ sec|^$'
}

# fuzz SECONDS: builds the core's fuzzers and runs each for that long. What breaks one is written
# to $LOGS. LeakSanitizer is off: the core allocates nothing, and LeakSanitizer itself fails where
# ptrace is forbidden.
fuzz() {
  local since=$SECONDS source name failed=() total=0
  build_core fuzz -DCMAKE_CXX_COMPILER=clang++ -DBLOOM_FUZZ=ON \
    -DBLOOM_TESTS=OFF -DBLOOM_BENCHMARKS=OFF || return 0
  for source in "$WORK"/src/test/fuzz/*_fuzz.cpp; do
    name=$(basename "$source" .cpp)
    total=$((total + 1))
    # the first folder is the one that finds are written to
    # shellcheck disable=SC2016
    run_step "$name" "${AS_SERVER[@]}" sh -c '
      finds=$1.finds
      mkdir "$finds"
      exec env ASAN_OPTIONS=detect_leaks=0 "$1" -max_total_time="$2" -max_len=4096 -timeout=60 \
        -artifact_prefix="$3." "$finds" "$4"' fuzz \
      "$WORK/fuzz/$name" "$1" "$LOGS/$name" "$WORK/src/test/fuzz/corpus" || failed+=("$name")
  done
  tally fuzz "$((total - ${#failed[@]}))" "$total" "$since"
  for name in "${failed[@]}"; do show "$LOGS/$name.log" '^#[0-9]+|^INFO: |NEW_FUNC'; done
}

# server_suite NAME VARIABLE DIFFS: runs pg_regress or its isolation kin, whose tests the
# Makefile lists in VARIABLE, in a cluster of its own.
server_suite() {
  local name=$1 tests status=0 since=$SECONDS passed diffs=$WORK/src/$3
  local log=$LOGS/$1.log server=$LOGS/$1.server.log mode=fast
  read -ra tests < <(make_value "\$($2)") || true
  [ ${#tests[@]} -gt 0 ] || { report "$name" "none"; return; }
  start_cluster "$name" || { broke "$name" "no server"; return; }
  run_step "$name" "${AS_SERVER[@]}" make "${MAKE_ARGS[@]}" installcheck \
    REGRESS= ISOLATION= TAP_TESTS= "$2=${tests[*]}" || status=$?
  # before PostgreSQL 16 "test name ... ok 12 ms", then "ok 1 - name 12 ms"
  passed=$(grep -cE '^ok [0-9]+ | ok +[0-9]+ ms$' "$log") || true
  tally "$name" "$passed" "${#tests[@]}" "$since"
  if [ "$passed" != "${#tests[@]}" ]; then
    # without what passed, and without the places of files that will be elsewhere
    show "$log" \
      '^(ok [0-9]+ |make: |echo |[A-Z ]+$|===|$)| ok +[0-9]+ ms$|"/tmp|^(# )?(The diff|above is)'
    [ ! -s "$diffs" ] || show "$diffs"
  elif [ "$status" != 0 ]; then
    broke "$name" "exit code $status" "$log"
  fi
  # a fast stop may wait for the recovery after a crash
  if crashes "$server" >"$LOGS/$name.crashes"; then
    broke "$name" "the server crashed" "$LOGS/$name.crashes"
    mode=immediate
  fi
  stop_cluster "$name" "$mode" || broke "$name" "the server did not stop"
}

# turkish_locale FOLDER: makes tr_TR.utf8 there for the tests that want it, which few machines
# have; fails where that cannot be done without losing the machine's own locales.
turkish_locale() {
  mkdir "$1"
  localedef -i tr_TR -f UTF-8 "$1/tr_TR.utf8" >"$LOGS/locale.log" 2>&1 || true
  [ "$(LOCPATH=$1 LC_ALL=tr_TR.utf8 locale charmap 2>/dev/null)" = UTF-8 ] &&
    [ "$(LOCPATH=$1 LC_ALL=C.UTF-8 locale charmap 2>/dev/null)" = UTF-8 ]
}

# TAP tests make their own clusters.
tap() {
  local tests status=0 since=$SECONDS passed skipped log=$LOGS/tap.log failed
  local servers=() environment=("BLOOM_TEST_ALL=$ALL")
  # shellcheck disable=SC2016
  read -ra tests < <(make_value '$(PROVE_TESTS)') || true
  [ ${#tests[@]} -gt 0 ] || { report tap "none"; return; }
  # shellcheck disable=SC2016
  if [ "$(make_value '$(enable_tap_tests)')" != yes ]; then
    report tap "not run: this PostgreSQL was built without --enable-tap-tests"
    return
  fi
  if turkish_locale "$WORK/locale"; then environment+=("LOCPATH=$WORK/locale"); fi
  run_step tap "${AS_SERVER[@]}" env "${environment[@]}" make "${MAKE_ARGS[@]}" installcheck \
    REGRESS= ISOLATION= "PROVE_TESTS=${tests[*]}" PROVE_FLAGS=--timer || status=$?
  passed=$(grep -cE '\.pl \.+ ok\b' "$log") || true
  skipped=$(grep -cE '\.pl \.+ skipped\b' "$log") || true
  tally tap "$passed" "$((${#tests[@]} - skipped))" "$since" \
    "$([ "$skipped" = 0 ] || echo "$skipped skipped")"
  if [ "$((passed + skipped))" != "${#tests[@]}" ]; then
    show "$log" '^(make: |echo |$)|\.pl \.+ ok\b'
    while IFS= read -r failed; do
      say "  | ... $failed:"
      show "$WORK/src/tmp_check/log/regress_log_$failed" '^$' 40
    done < <(sed -nE 's!^(.*/)?([^/]+)\.pl +\(Wstat.*!\2!p' "$log")
  elif [ "$status" != 0 ]; then
    broke tap "exit code $status" "$log"
  fi
  # these tests kill servers on purpose, with signal 9 and no other
  mapfile -t servers < <(find "$WORK/src/tmp_check/log" -name '*.log' 2>/dev/null)
  if crashes "${servers[@]}" | grep -v 'terminated by signal 9\b' >"$LOGS/tap.crashes"; then
    broke tap "a server crashed" "$LOGS/tap.crashes"
  fi
}

# storm MINUTES: the promise under random faults. It builds and installs for itself, and leaves its
# own logs where a "no" was wrong.
storm() {
  local since=$SECONDS status=0 log=$LOGS/storm.log
  # what a step may take, with the time to build it and to end it
  LIMIT=$((60 * $1 + 900)) run_step storm env "PG_CONFIG=$PG_CONFIG" \
    bash "$ROOT/test/storm.sh" --minutes "$1" || status=$?
  tally storm "$((status == 0))" 1 "$since" "$(tail -n 1 "$log")"
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

prepare() {
  choose_postgres
  need_build_tools
  need cmake has_program cmake
  need libgtest-dev has_header gtest/gtest.h
  need libbenchmark-dev has_header benchmark/benchmark.h
  need clang has_program clang++
  need libclang-rt-dev has_fuzzer
  need perl has_program prove
  need libipc-run-perl has_module IPC::Run
  if [ ${#PACKAGES[@]} -gt 0 ]; then
    local since=$SECONDS
    report packages "${PACKAGES[*]}"
    install_packages
    report packages "installed ($((SECONDS - since)) s)"
  fi
  prepare_source
}

extension() {
  local since=$SECONDS
  build_extension all COPT=-Werror ||
    { broke extension "does not build" "$LOGS/build.log"; return 1; }
  install_extension ||
    { broke extension "cannot be installed" "$LOGS/install.log"; return 1; }
  report extension "built and installed ($((SECONDS - since)) s)"
}

main() {
  case ${1:-} in
    '') ;;
    --all) ALL=1 LIMIT=3600 ;;
    -h | --help) usage; return ;;
    *) usage >&2; return 2 ;;
  esac
  trap finish EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make_work
  prepare
  report postgresql "$("$PG_CONFIG" --version)"
  unit unit -DBLOOM_WERROR=ON
  fuzz "$([ "$ALL" = 1 ] && echo 600 || echo 10)"
  if extension; then
    server_suite regress REGRESS regression.diffs
    server_suite isolation ISOLATION output_iso/regression.diffs
    tap
  fi
  if [ "$ALL" = 1 ]; then
    unit sanitizers -DBLOOM_SANITIZE=ON -DBLOOM_BENCHMARKS=OFF
    storm 10
  fi
  FINISHED=1
}

main "$@"
