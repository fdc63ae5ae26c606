#!/bin/bash
# The version of the extension, in every file that has it. See usage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tools/version.sh                  prints the version; fails where two files differ
       tools/version.sh VERSION          makes the unreleased version the release VERSION, of today
       tools/version.sh --next VERSION   begins the version after a release
       tools/version.sh --notes          prints the notes of the newest version, from CHANGELOG.md

They write bloomfilter.control, META.json, the readers in clients, CHANGELOG.md and debian/changelog,
and commit nothing. --next also keeps the install script of the release, sql/bloomfilter--OLD.sql, and
begins the script that updates from it, sql/bloomfilter--OLD--VERSION.sql. test/t/033_update.pl compares
the two ways to the new version.
TEXT
}

# Prints why and ends.
die() { printf 'tools/version.sh: %s\n' "$*" >&2; exit 1; }

# Each place of a version: the file, and what stands before the version in its line.
PLACES=(
  "bloomfilter.control default_version = '"
  'META.json  +"version": "'
  'clients/python/pyproject.toml version = "'
  'clients/python/bloomfilter_reader.py __version__ = "'
  'clients/javascript/package.json  +"version": "'
)
VERSION='[0-9]+[.][0-9]+[.][0-9]+'

# newest FILE: of the lines on its input the first where FILE has a heading for each version, else all.
newest() { case $1 in CHANGELOG.md | debian/changelog) sed -n 1p ;; *) cat ;; esac; }

# Prints "FILE VERSION" for each place, and for the newest headings of CHANGELOG.md and debian/changelog.
versions() {
  local place
  for place in "${PLACES[@]}" 'CHANGELOG.md ## ' 'debian/changelog bloomfilter [(]'; do
    # of META.json every line counts: in "meta-spec" the version does not begin the line
    sed -nE "s|^${place#* }($VERSION).*|${place%% *} \\1|p" "${place%% *}" | newest "${place%% *}"
  done
}

# Prints the version, or fails where a file has none, or another than bloomfilter.control.
check() {
  local version file other status=0 count=0
  version=$(versions | sed -n 's/^bloomfilter.control //p')
  while read -r file other; do
    count=$((count + 1))
    [ "$other" = "$version" ] ||
      { echo "$file has version $other, bloomfilter.control has $version" >&2; status=1; }
  done < <(versions)
  # META.json has two
  [ "$count" = 8 ] || { echo "$count of 8 places with a version found" >&2; status=1; }
  echo "$version"
  return "$status"
}

# write VERSION: into every file but CHANGELOG.md and debian/changelog, which keep the older ones too.
write() {
  local place
  for place in "${PLACES[@]}"; do
    sed -i -E "s|^(${place#* })$VERSION|\\1$1|" "${place%% *}"
  done
}

# Who signs in debian/changelog, and when.
signature() {
  printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' debian/control.in)" "$(LC_ALL=C date -uR)"
}

# The state of the newest heading in CHANGELOG.md: "unreleased" or a date.
newest_state() { sed -nE 's/^## [^ ]+ \((.*)\)$/\1/p' CHANGELOG.md | sed -n 1p; }

# rename_update FROM TO: of the script that updates to the version FROM, where there is one.
rename_update() {
  local script
  if [ "$1" = "$2" ]; then return; fi
  for script in sql/bloomfilter--*--"$1".sql; do
    if [ ! -e "$script" ]; then continue; fi
    sed "s/UPDATE TO '$1'/UPDATE TO '$2'/" "$script" >"${script%--*}--$2.sql"
    rm "$script"
  done
}

# release VERSION: the heading gets the version and today's date, and the update script its name.
release() {
  local begun
  [ "$(newest_state)" = unreleased ] || die "CHANGELOG.md has no unreleased version: begin one by --next"
  begun=$(check)
  write "$1"
  rename_update "$begun" "$1"
  sed -i "0,/^## .*/s//## $1 ($(date -u +%F))/" CHANGELOG.md
  sed -i -e "1s/.*/bloomfilter ($1-1) unstable; urgency=medium/" \
    -e "0,/^ -- .*/s//$(signature)/" debian/changelog
}

# next VERSION: keeps the install script of the release, and begins what the next one needs.
next() {
  local old
  old=$(check)
  [ "$(newest_state)" != unreleased ] || die "$old is not released yet"
  cp sql/bloomfilter.sql "sql/bloomfilter--$old.sql"
  cat >"sql/bloomfilter--$old--$1.sql" <<SQL
-- Updates the extension from $old to $1: whatever sql/bloomfilter.sql has since then. The head of that
-- file says how names are to be written.
\\echo Use "ALTER EXTENSION bloomfilter UPDATE TO '$1'" to load this file. \\quit
SQL
  write "$1"
  sed -i "0,/^## /s//## $1 (unreleased)\n\n&/" CHANGELOG.md
  { printf 'bloomfilter (%s-1) UNRELEASED; urgency=medium\n\n  * New release.\n\n' "$1"
    signature
    echo
    cat debian/changelog
  } >debian/changelog.new
  mv debian/changelog.new debian/changelog
}

# valid VERSION: whether it is of the form that PGXN takes.
valid() { [[ $1 =~ ^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$ ]] || die "not of the form 1.2.3: $1"; }

case ${1:-} in
  '') check ;;
  --notes) awk '/^## / && seen++ { exit } !/^## / && seen' CHANGELOG.md ;;
  --next) [ $# = 2 ] || { usage >&2; exit 2; }
    valid "$2"; next "$2" ;;
  -h | --help) usage ;;
  -*) usage >&2; exit 2 ;;
  *) valid "$1"; release "$1" ;;
esac
