#!/bin/bash
# Checks the code without running it: format, floors, length of files, shell scripts, cppcheck,
# clang-tidy. See usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Other versions format otherwise and find other things, so a check is skipped where its tool has
# another one. These are Debian 12's.
CLANG_VERSION=14
CPPCHECK_VERSION=2.10

MAX_LINES=400
CHECKS=(format floors lines shell cppcheck tidy)
RUN=0
FAILED=0

usage() {
  cat <<TEXT
usage: tools/lint.sh [CHECK...]

Runs the checks that are named, or all of them:

  format    clang-format $CLANG_VERSION finds nothing to change in any C++ file
  floors    no file of src includes a header of a later floor. docs/architecture.md lists the floors;
            the Makefile has the same order
  lines     no file of src has more than $MAX_LINES lines
  shell     shellcheck finds nothing in any script
  cppcheck  cppcheck $CPPCHECK_VERSION finds nothing in src and include
  tidy      clang-tidy $CLANG_VERSION finds nothing in src and include: 2 to 3 minutes on two cores, the
            others take 10 seconds together. It needs the headers of the PostgreSQL that \$PG_CONFIG or
            the pg_config in the PATH names

A check whose tool is missing or has another version is skipped, and says so. The last line is
"lint: N checks, N failed"; the exit code is 0 if nothing failed.
TEXT
}

# The name of a check, then its result in a few words.
report() { printf '%-9s %s\n' "$1" "$2"; }

# files PATTERN...: the files of the tree that match, one a line: those that git knows, or all where
# this is no clone.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" 2>/dev/null ||
    { local pattern; for pattern in "$@"; do find . -name "${pattern##*/}" -type f; done; }
}

# tool NAME VERSION: prints the name under which that version of a tool is installed. Where there is
# none it prints why, and fails.
tool() {
  local name found
  for name in "$1-$2" "$1"; do
    command -v "$name" >/dev/null || continue
    found=$("$name" --version | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
    if [ "$found" = "$2" ] || [ "${found#"$2".}" != "$found" ]; then echo "$name"; return; fi
  done
  if [ -n "${found:-}" ]; then found="$1 $found"; fi
  echo "this check is made for $1 $2, and ${found:-none} is installed"
  return 1
}

# ---- Checks. Each prints what it finds, and fails if that is anything; 77 means that it was
# skipped, and its last line says why.

# No C++ file would be changed by clang-format.
check_format() {
  local format
  format=$(tool clang-format "$CLANG_VERSION") || { echo "$format"; return 77; }
  files '*.cpp' '*.hpp' | xargs "$format" --dry-run -Werror
}

# The files of src, without their endings, from the lowest floor up: the second column of the table
# in docs/architecture.md.
floor_order() {
  sed -n '/^## The floors of/,/^## /s/^|[^|]*|\( `[^|]*\)|.*/\1/p' docs/architecture.md | tr -d '`' | xargs -n 1
}

# No arrow goes up, every file has its floor, and the Makefile lists objects in the same order.
# shellcheck disable=SC2016  # make expands it
check_floors() {
  local order status=0
  order=$(floor_order)
  [ -n "$order" ] || { echo "docs/architecture.md has no table of floors"; return 1; }
  awk '
    NR == FNR { floor[$1] = NR; next }
    FNR == 1 {
      file = FILENAME
      sub(/.*\//, "", file)
      sub(/\.[ch]pp$/, "", file)
      if (!(file in floor)) { print FILENAME ": docs/architecture.md has no floor for it"; bad = 1 }
    }
    /^#include "[a-z0-9_]+\.hpp"/ {
      split($2, part, /["."]/)
      if (floor[part[2]] > floor[file]) {
        print FILENAME ":" FNR ": " part[2] ".hpp is of a later floor"
        bad = 1
      }
    }
    END { exit bad }' <(echo "$order") src/*.cpp src/*.hpp || status=1
  diff <(echo "$order" | while read -r name; do [ ! -e "src/$name.cpp" ] || echo "$name"; done) \
    <(make_value '$(notdir $(basename $(OBJS)))' | xargs -n 1) >/dev/null ||
    { echo "Makefile: OBJS are not in the order of docs/architecture.md"; status=1; }
  ! grep -nE '#include "[^/"]+"|#include "(postgres|src/)' include/bloomfilter/*.hpp || status=1
  return "$status"
}

# No file of src is longer than MAX_LINES.
check_lines() {
  local status=0 file lines
  for file in src/*.cpp src/*.hpp; do
    lines=$(wc -l <"$file")
    [ "$lines" -le "$MAX_LINES" ] || { echo "$file has $lines lines"; status=1; }
  done
  return "$status"
}

# Every script is clean for shellcheck.
check_shell() {
  command -v shellcheck >/dev/null || { echo "shellcheck is not installed"; return 77; }
  files '*.sh' .ci/run | xargs shellcheck --external-sources --source-path=SCRIPTDIR --source-path=.
}

# What cppcheck reports and is right as it is.
CPPCHECK_SUPPRESSIONS=(
  useStlAlgorithm  # <algorithm> would be the core's largest include; a loop of a line is as clear
  noConstructor:include/bloomfilter/add_queue.hpp      # start() takes that place: memory of palloc
  noExplicitConstructor:src/function_ref.hpp           # a lambda is to convert without a word
  uninitvar:include/bloomfilter/md5.hpp                # compress() writes the state it is given
  legacyUninitvar:src/item_key.cpp                     # owners[] is written before it is read
  zerodivcond:include/bloomfilter/filter.hpp           # fold() is called after the number is checked
  knownConditionTrueFalse:src/filter_table.cpp         # a callback changes it in the call between
)

# cppcheck finds nothing. It does not read the server's headers: it takes 5 seconds like this, and
# minutes with them.
check_cppcheck() {
  local cppcheck
  cppcheck=$(tool cppcheck "$CPPCHECK_VERSION") || { echo "$cppcheck"; return 77; }
  "$cppcheck" --quiet --std=c++20 --language=c++ --enable=warning,performance,portability,style \
    --error-exitcode=1 "${CPPCHECK_SUPPRESSIONS[@]/#/--suppress=}" \
    --template='{file}:{line}: {message} [{id}]' \
    -Iinclude -Isrc -DPG_VERSION_NUM=150000 '-DBLOOMFILTER_VERSION=""' src include 2>&1
}

# make_value EXPRESSION: what an expression is worth in the Makefile.
make_value() {
  # shellcheck disable=SC2016
  make -s --no-print-directory --eval='lint-value: ; @echo $(LINT_VALUE)' lint-value \
    "LINT_VALUE=$1" "PG_CONFIG=${PG_CONFIG:-pg_config}"
}

# The Makefile's flags, one a line, without those that only gcc knows. The server's headers become
# system headers, where nothing is reported.
# shellcheck disable=SC2016  # make expands it
tidy_flags() {
  make_value '$(CXXFLAGS) $(CPPFLAGS)' | xargs -n 1 | awk '
    $0 == "-isystem" { getline; print "-isystem"; print; next }
    /^-I\// { print "-isystem"; print substr($0, 3); next }
    /^-DBLOOMFILTER_VERSION/ { print "-DBLOOMFILTER_VERSION=\"\""; next }
    /^-[ID]/ || /^-std=/ || /^-fno-(exceptions|rtti)$/ || /^-W(all|extra|pedantic|no-variadic-macros)$/'
}

# clang-tidy finds nothing in src, nor in the headers that it includes, which are all of include.
# What it is to check stands in .clang-tidy, with the reason for each check that is left out.
check_tidy() {
  local tidy flags
  tidy=$(tool clang-tidy "$CLANG_VERSION") || { echo "$tidy"; return 77; }
  [ -e "$("${PG_CONFIG:-pg_config}" --includedir-server 2>/dev/null)/postgres.h" ] ||
    { echo "PostgreSQL's headers are not installed"; return 77; }
  mapfile -t flags < <(tidy_flags)
  printf '%s\0' src/*.cpp |
    xargs -0 -P "$(nproc)" -I{} "$tidy" --quiet {} -- "${flags[@]}" 2> >(grep -vE 'warnings? ' >&2)
}

# Runs one check, and shows what it found.
run() {
  local output status=0
  output=$("check_$1" 2>&1) || status=$?
  if [ "$status" = 77 ]; then
    report "$1" "skipped: ${output##*$'\n'}"
    return
  fi
  RUN=$((RUN + 1))
  if [ "$status" = 0 ]; then report "$1" "ok"; return; fi
  FAILED=$((FAILED + 1))
  report "$1" "FAILED"
  printf '%s\n' "$output" | sed 's/^/  | /'
}

main() {
  local name chosen=("$@")
  for name in "$@"; do
    case " ${CHECKS[*]} " in
      *" $name "*) ;;
      *) [ "$name" = -h ] || [ "$name" = --help ] || { usage >&2; return 2; }; usage; return ;;
    esac
  done
  [ $# -gt 0 ] || chosen=("${CHECKS[@]}")
  for name in "${chosen[@]}"; do run "$name"; done
  echo "lint: $RUN checks, $FAILED failed"
  [ "$FAILED" = 0 ]
}

main "$@"
