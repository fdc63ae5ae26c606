#!/bin/bash
# Installs what is missing, builds, and shows the main job of the extension in a throwaway
# server: a filter that answers which usernames are free. See usage.
set -euo pipefail
# shellcheck source=demo/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'TEXT'
usage: demo/run.sh [-y] [--batch]

Builds bloomfilter, installs it into PostgreSQL, and shows in a throwaway server how a sign-up
form uses it, each call before its output. Then it leaves you a psql to play with. It says what
it will install, and asks.

  -y       do not ask
  --batch  no psql at the end

The PostgreSQL is the one that $PG_CONFIG or the pg_config in the PATH names, else the newest
under /usr/lib/postgresql, else Debian's. Run it as root or as a user with sudo.
TEXT
}

BATCH=0

# An end, for end_with: says what it does, and leaves nothing.
tidy_up() {
  remove_work
  [ -z "$WORK" ] || say "The server is stopped, and its folder is gone."
  return "$1"
}

# The demonstration.
walk_through() {
  step "Users, 200,000 of them" <<'SQL'
create table users (id bigint generated always as identity primary key, username text not null);
insert into users (username)
select (array['Ada', 'grace', 'Linus', 'marie', 'alan', 'Edsger', 'barbara', 'donald', 'Radia',
    'ken'])[1 + i % 10] || '_' || i
from generate_series(1, 200000) i;
create unique index on users (lower(username));
SQL

  step "A filter with room for 260,000 names at 1 % false positives, loaded from users" <<'SQL'
create extension bloomfilter;
select * from bloom_size(260000, 0.01) where storage = 'table' \gx
\timing on
select bloom_create('username_filter', 260000, 0.01, source => 'select username from users');
SQL

  step "Is a name free? false is certain, true means: ask the users table" <<'SQL'
-- taken
select bloom_might_contain('username_filter', 'grace_1');
-- taken in another case
select bloom_might_contain('username_filter', 'GRACE_1');
-- free
select bloom_might_contain('username_filter', 'zoe');
-- several at once
select * from unnest(array['Ada_10', 'zoe', 'zoe_1'],
    bloom_might_contain_many('username_filter', array['Ada_10', 'zoe', 'zoe_1']))
    as suggestion (name, might_be_taken);
SQL

  step "A sign-up: add to the filter, commit, then insert the user" <<'SQL'
begin;
-- true: the name was definitely new
select bloom_add('username_filter', 'zoe');
commit;
insert into users (username) values ('zoe');
-- from the commit on, every check says maybe
select bloom_might_contain('username_filter', 'Zoe');
-- adding it again changes nothing
select bloom_add('username_filter', 'zoe');
SQL

  step "The exact answer: the users table is asked only after a maybe" <<'SQL'
create function username_taken(name text) returns boolean language plpgsql stable strict as $$
declare
    -- a variable: behind postgres_fdw the shards get this condition, and not one with lower(name)
    key text := lower(name);
begin
    if bloom_might_contain('username_filter', name) = false then
        return false;
    end if;
    return exists (select 1 from users where lower(username) = key);
end $$;
select username_taken('zoe'), username_taken('zoe_1');
SQL

  step "Audit: a filter never denies a name that is in; denied must be 0" <<'SQL'
select count(*) as users,
    count(*) filter (where not bloom_might_contain('username_filter', username)) as denied
from users;
SQL

  step "False positives: 100,000 names that nobody has, beside what theory expects" <<'SQL'
select clock_timestamp() as began \gset
select count(*) as absent_names,
    count(*) filter (where bloom_might_contain('username_filter', 'nobody_' || i)) as false_maybes,
    round(count(*) * bloom_expected_fp_rate(200001, max(chunks))) as expected
from generate_series(1, 100000) i, bloom_info('username_filter');
-- what a check takes inside a query
select round(extract(epoch from clock_timestamp() - :'began') * 1e6 / 100000, 2)
    as microseconds_a_check;
SQL

  step "One check as a form sends it, to the server and back" <<'SQL'
prepare might_contain (text) as select bloom_might_contain('username_filter', $1);
execute might_contain('grace_1');
\timing on
execute might_contain('grace_1');
SQL

  step "Deleted names leave by a rebuild, beside checks and adds" <<'SQL'
delete from users where username like 'ken%';
call bloom_rebuild('username_filter', 'select username from users', grace => '0', min_share => 0.8);
select count(*) filter (where bloom_might_contain('username_filter', 'ken_' || 10 * i + 9)) as still_maybe
from generate_series(0, 19999) i;
SQL

  step "The filter as a value: to be stored, united, shipped" <<'SQL'
create table snapshot as select bloom_value('username_filter') as taken;
select taken @> 'grace_1' as grace_1, taken @> 'zoe_2' as zoe_2, pg_size_pretty(pg_column_size(taken)::bigint)
from snapshot;
SQL

  step "The state of the filter" <<'SQL'
select * from bloom_info('username_filter') \gx
SQL
}

# An interactive psql; Ctrl-C is for its queries, not for this script.
play() {
  say
  say "=== Your turn: a psql on the same server. \\df bloom* lists the functions, \\q ends it all."
  say
  trap : INT
  client -v ON_ERROR_STOP=0 || true
}

main() {
  local argument since
  for argument; do
    case $argument in
      -y) YES=1 ;;
      --batch) BATCH=1 ;;
      -h | --help) usage; return ;;
      *) usage >&2; say "unknown option: $argument" >&2; return 2 ;;
    esac
  done
  find_postgres
  ask "runs a server of its own in a temporary folder, and removes both at the end"
  end_with tidy_up
  make_work /tmp
  get_extension
  say "Starting a server ..."
  start_cluster demo 'fsync = off' || die "The server does not start."
  since=$SECONDS
  walk_through
  say "=== Done in $((SECONDS - since)) seconds."
  if [ "$BATCH" = 0 ] && [ -t 0 ]; then play; fi
}

main "$@"
