# What the demonstrations share beyond tools/cluster.sh: the question at the start, the way to the
# extension, and how SQL is shown. Sourced, after `set -euo pipefail`.
# shellcheck shell=bash

# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"

YES=0        # whether not to ask
INSTALLED=0  # whether to take the extension that is installed

# Sets PG_CONFIG, and PACKAGES to what is missing for PostgreSQL and for the build.
find_postgres() {
  choose_postgres
  [ "$INSTALLED" = 1 ] || need_build_tools
}

# ask WHAT...: names what will be installed, and WHAT else is done. Goes on only with the user's word.
ask() {
  local answer line postgres=$PG_CONFIG
  ! is_complete "$PG_CONFIG" ||
    postgres="$("$PG_CONFIG" --version), in $("$PG_CONFIG" --pkglibdir)"
  say "This demonstration"
  if [ ${#PACKAGES[@]} -gt 0 ]; then
    say "  - installs these packages with apt-get: ${PACKAGES[*]}"
  fi
  if [ "$INSTALLED" = 1 ]; then
    say "  - takes the bloomfilter that is installed in PostgreSQL: $postgres"
  else
    say "  - builds bloomfilter and installs it into PostgreSQL: $postgres"
  fi
  for line; do say "  - $line"; done
  [ "$YES" = 0 ] || return 0
  [ -t 0 ] || die "There is no terminal to ask on: start it with -y if that is all right."
  read -r -p "Go on? [y/N] " answer || answer=
  case $answer in
    [yY] | [yY][eE][sS]) ;;
    *) die "Nothing was done." ;;
  esac
}

# Installs and builds what the demonstration takes, and says what it is at.
get_extension() {
  if [ ${#PACKAGES[@]} -gt 0 ]; then
    say "Installing packages, which can take some minutes ..."
    install_packages
  fi
  if [ "$INSTALLED" = 1 ]; then
    [ -e "$("$PG_CONFIG" --sharedir)/extension/bloomfilter.control" ] ||
      die "bloomfilter is not installed there: start without --installed."
    choose_server_user
    return
  fi
  prepare_source
  say "Building and installing the extension, which takes a minute or two ..."
  need_extension
}

# A psql on the demonstration's server.
client() {
  "${AS_SERVER[@]}" psql -X -v ON_ERROR_STOP=1 "$@"
}

# step TITLE [PSQL_OPTION...] < SQL: the title, then each statement before its output.
step() {
  say
  say "=== $1"
  say
  client -a -P pager=off "${@:2}" 2>&1
}
