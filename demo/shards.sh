#!/bin/bash
# Shows the whole sign-up on many shards: one filter server before four shard servers with four
# databases each, and nothing between them but PostgreSQL's own postgres_fdw. Every figure is
# counted on the shards. See usage.
set -euo pipefail
# shellcheck source=demo/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

SHARDS=16
NAMES=1700000
OUT=
KEEP=0

usage() {
  cat <<TEXT
usage: demo/shards.sh [-y] [--shards N] [--names N] [--out DIR] [--keep] [--installed]

Builds bloomfilter, installs it into PostgreSQL, and runs five throwaway servers: one for the filter,
and four for the shards. It shows what typing a name, signing up, a crash, a lost server, an overfull
filter and a rebuild do, each call before its output. It ends with a table and two pictures. It says
what it will install, and asks.

  -y           do not ask
  --shards N   from 4 to 64 databases, on four servers; $SHARDS if not given
  --names N    names that are taken, at least 10000; $NAMES if not given. That many fill the smallest
               filter there is, of 128 chunks, on each of 16 shards. With fewer, a filter a shard takes
               more memory than one filter for all.
  --out DIR    where the table and the pictures go; a new folder under /tmp if not given
  --keep       leave the servers running, and say how to connect and how to stop them
  --installed  take the bloomfilter that is installed, do not build it

It takes three to four minutes and 1 GB of disk on two cores, and the build one or two minutes more. The
PostgreSQL is chosen as by demo/run.sh. Run it as root or as a user with sudo.
TEXT
}

SERVERS=4
HERE=$ROOT/demo/shards
# What every server is started with. Nothing here has to survive a crash of the machine; WAL is kept
# small.
SETTINGS=('fsync = off' 'full_page_writes = off' 'shared_buffers = 64MB' 'max_wal_senders = 0'
  'min_wal_size = 32MB' 'max_wal_size = 64MB' 'checkpoint_warning = 0' 'jit = off')
# What a shard server is started with: it counts the queries that reach it. On PostgreSQL 15 a query with
# another name in it counts as another one.
COUNTING=("shared_preload_libraries = 'pg_stat_statements'" 'pg_stat_statements.max = 50000')
# The ways to the exact answer that are compared: functions, and what they are called in the table.
WAYS=(taken_without_filter taken taken_by_shard taken_by_key_without_filter taken_by_key)
TITLES=('no filter' 'one filter at 1 %' 'a filter a shard' 'no filter, by key' 'one filter, by key')
SHARES=(0 5 50 100)

COUNTED=               # what the last counted step has counted
declare -A QUERIES=()  # shard queries a check, by way and share: "taken 50"
declare -A RATES=()    # checks a second, likewise
REACHED=()             # percent of look-ups that reach the database, by share
ANSWERED=()            # names of 199 that are answered with a server down, by way
THIRD=                 # what the third way is called in the pictures
MEASURE=3              # seconds that one of them is measured
KEPT=0                 # promises that were kept
BROKEN=0               # and that were not

# ---- Servers

# What a shard has.
SHARD_TABLES='create extension bloomfilter;
create table users_SHARD (id bigint primary key, username text not null);
create index on users_SHARD (lower(username));
create table usernames_SHARD (key text primary key, id bigint not null);
grant select, insert on users_SHARD, usernames_SHARD to filter_server;'

# Numbers of the shards.
shards() { seq 0 $((SHARDS - 1)); }

# shards_of SERVER: numbers of the shards that it has.
shards_of() { seq "$1" "$SERVERS" $((SHARDS - 1)); }

# on_servers FUNCTION: calls it with the number of each shard server, for all at once; fails where one
# fails, whose log is shown.
on_servers() {
  local server pids=() failed=0
  for ((server = 0; server < SERVERS; server++)); do
    "$1" "$server" >"$LOGS/$1.$server.log" 2>&1 &
    pids+=($!)
  done
  for server in "${!pids[@]}"; do
    wait "${pids[server]}" || { cat "$LOGS/$1.$server.log" >&2; failed=1; }
  done
  return "$failed"
}

# port_of SERVER: the port of a shard server. The filter server has 5432.
port_of() { echo $((5433 + $1)); }

# for_shard SHARD SQL: the SQL for one shard. SHARD in it stands for the number, PORT for the port of
# its server, SOCKET for the folder of the sockets.
for_shard() {
  local sql=${2//SHARD/$1}
  sql=${sql//PORT/$(port_of $(($1 % SERVERS)))}
  printf '%s\n' "${sql//SOCKET/$WORK\/socket}"
}

# make_shards SERVER: makes the databases of its shards, and what is in them.
make_shards() {
  local shard
  {
    echo 'create extension pg_stat_statements;'
    echo 'create role filter_server login;'
    for shard in $(shards_of "$1"); do
      for_shard "$shard" "create database shard_SHARD;
\\connect shard_SHARD
$SHARD_TABLES"
    done
  } | client -q -p "$(port_of "$1")" -d postgres
}

# Starts the filter server, with a database that is empty, and the shard servers with theirs.
start_servers() {
  local server names=(filter)
  init_cluster filter || die "No server can be made."
  for ((server = 0; server < SERVERS; server++)); do
    names+=("server_$server")
    "${AS_SERVER[@]}" cp -a "$WORK/filter" "$WORK/server_$server"
    configure_cluster "server_$server" "$(port_of "$server")" "${SETTINGS[@]}" "${COUNTING[@]}"
  done
  configure_cluster filter 5432 "${SETTINGS[@]}"
  launch_clusters "${names[@]}" || die "A server does not start."
  export PGHOST=$WORK/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
  on_servers make_shards || die "A shard cannot be made."
  client -q -c 'create database filter'
  export PGDATABASE=filter
}

# ---- What is shown

# value SQL [PSQL_OPTION...]: what one query on the filter server returns.
value() { client -qAt "${@:2}" -c "$1"; }

# each_shard < SQL: shows it for shard 0, and runs it on the filter server for every shard.
each_shard() {
  local sql shard
  sql=$(cat)
  say "-- for shard_0, and in the same way for the others"
  for_shard 0 "$sql"
  for shard in $(shards); do for_shard "$shard" "$sql"; done | client -q >/dev/null
}

# promise WORDS VALUE EXPECTED: says the value of what was promised, and counts whether it is as expected.
promise() {
  if [ "$2" = "$3" ]; then
    KEPT=$((KEPT + 1))
    say "-- $1: $2"
  else
    BROKEN=$((BROKEN + 1))
    say "-- BROKEN: $1: $2, not $3"
  fi
}

# What of the filter server's statements is a query. postgres_fdw reads by a cursor; that it opens a
# transaction, fetches and closes is not counted.
QUERY='^(DECLARE|SELECT|INSERT|UPDATE|DELETE)'

# Sets the counts of all shard servers to 0.
forget_queries() {
  local server
  for ((server = 0; server < SERVERS; server++)); do
    value 'select pg_stat_statements_reset()' -p "$(port_of "$server")" -d postgres >/dev/null
  done
}

# count_queries [PATTERN]: prints how many queries the shards have had since, as they count them; or
# how many statements like the pattern.
count_queries() {
  local server sum=0 calls lost count="select coalesce(sum(calls), 0) from pg_stat_statements
    where userid = 'filter_server'::regrole and query ~ '${1:-$QUERY}'"
  for ((server = 0; server < SERVERS; server++)); do
    IFS=\| read -r calls lost < <(value "select ($count), dealloc from pg_stat_statements_info" \
      -p "$(port_of "$server")" -d postgres)
    [ "$lost" = 0 ] || { say "a shard server has lost counts" >&2; return 1; }
    sum=$((sum + calls))
  done
  echo "$sum"
}

# counted_step TITLE < SQL: a step, and how many queries the shards have counted: COUNTED.
counted_step() {
  forget_queries
  step "$1"
  COUNTED=$(count_queries)
  say "-- shard queries, counted on the shards: $COUNTED"
}

# ratio A B DIGITS: A by B.
ratio() { awk -v a="$1" -v b="$2" -v digits="$3" 'BEGIN { printf "%.*f", digits, b ? a / b : 0 }'; }

# ---- The steps

# Users by id, names by key.
make_topology() {
  say
  say "=== Each shard, in a database of its own"
  say
  say "-- in the database shard_0, and in the same way in the others"
  for_shard 0 "$SHARD_TABLES"
  step "The filter server: users are partitioned by id, usernames by the name" <<'SQL'
create extension postgres_fdw;
create extension bloomfilter;
create table users (id bigint not null, username text not null) partition by hash (id);
-- key is lower(username). Its shard has a primary key on it, and so decides who gets a name.
create table usernames (key text not null, id bigint not null) partition by hash (key);
SQL
  each_shard <<SQL
create server shard_SHARD foreign data wrapper postgres_fdw options (
    host 'SOCKET', port 'PORT', dbname 'shard_SHARD', connect_timeout '2',
    async_capable 'true', fetch_size '10000', batch_size '10000', extensions 'bloomfilter');
create user mapping for current_user server shard_SHARD options (user 'filter_server');
create foreign table users_SHARD partition of users
    for values with (modulus $SHARDS, remainder SHARD) server shard_SHARD;
create foreign table usernames_SHARD partition of usernames
    for values with (modulus $SHARDS, remainder SHARD) server shard_SHARD;
SQL
}

# Fills the shards.
load_names() {
  local sql pid loads=()
  step "$NAMES names are taken: the first of nth_name. Names like nobody_1 are free" <<'SQL'
create function nth_name(i bigint) returns text language sql immutable return
    (array['Ada', 'grace', 'Linus', 'marie', 'alan', 'Edsger', 'barbara', 'donald', 'Radia',
        'ken'])[1 + i % 10] || '_' || i;
SQL
  for sql in "insert into users select i, nth_name(i) from generate_series(1, $NAMES) i" \
    "insert into usernames select lower(nth_name(i)), i from generate_series(1, $NAMES) i"; do
    say "$sql;"
    client -q -c "$sql" &
    loads+=($!)
  done
  for pid in "${loads[@]}"; do wait "$pid" || die "The names cannot be loaded."; done
  say
  say "-- on each shard, so that it uses the index on lower(username): analyze;"
  on_servers analyze_shards || die "The shards cannot be analyzed."
}

# analyze_shards SERVER: analyzes its databases.
analyze_shards() {
  local shard
  {
    for shard in $(shards_of "$1"); do printf '\\connect shard_%s\nanalyze;\n' "$shard"; done
  } | client -q -p "$(port_of "$1")" -d postgres
}

# One filter for all, and one a shard.
make_filters() {
  local all chunks
  step "One filter at 1 % for all names" <<SQL
select bloom_create('username_filter', 1.01 * $NAMES, 0.01, source => 'select username from users');
SQL
  all=$(value "select chunks from bloom_info('username_filter')")
  chunks=$((all / SHARDS < 128 ? 128 : all / SHARDS))
  THIRD='a filter a shard'
  ((chunks * SHARDS * 20 > all * 21)) || THIRD+=', same memory'
  step "A filter a shard: each has its part of those $all chunks, but none has fewer than 128" <<SQL
-- a shard that is not here is not asked: its row comes before its first user
create table shards (number int primary key, filter regclass not null, users regclass not null);
SQL
  each_shard <<SQL
select bloom_create('users_SHARD_filter', $((NAMES * 5 / (SHARDS * 4))), chunks => $chunks,
    source => 'select username from users_SHARD');
insert into shards values (SHARD, 'users_SHARD_filter', 'users_SHARD');
SQL
  step "Chunks of 1 kB" <<'SQL'
select case filter when 'username_filter'::regclass then 'one filter' else 'a filter a shard' end as form,
    count(*) as filters, sum(chunks) as chunks, round(sum(items)) as items, round(avg(fp_rate)::numeric, 4) as fp_rate
from bloom_filters group by 1 order by 1 desc;
SQL
}

# The functions that answer, and how postgres_fdw sends their query.
make_functions() {
  step "The exact answer, in five ways" <"$HERE/taken.sql"
  step "Why key is computed first: a session's generic plan sends no lower(\$1), and every name travels" <<'SQL'
set plan_cache_mode = force_generic_plan;
prepare wrong (text) as select 1 from users_0 where lower(username) = lower($1);
prepare right_way (text) as select 1 from users_0 where lower(username) = $1;
explain (analyze, verbose, costs off, timing off, summary off) execute wrong('nobody_1');
explain (analyze, verbose, costs off, timing off, summary off) execute right_way('nobody_1');
SQL
}

# What one statement with "and" does to the shards.
show_and() {
  forget_queries
  step "Why a function: one statement with \"and\" opens a transaction on every shard, also for a free name" <<'SQL'
select bloom_might_contain('username_filter', 'nobody_1')
    and exists (select 1 from users where lower(username) = 'nobody_1') as taken;
SQL
  promise "transactions opened, counted on the shards" "$(count_queries '^START TRANSACTION')" "$SHARDS"
}

# A name, key by key.
type_a_name() {
  counted_step "A name of twelve characters, typed key by key, without a filter" <<'SQL'
select left('ada_lovelace', i) as typed, taken_without_filter(left('ada_lovelace', i)) as taken
from generate_series(1, 12) i;
SQL
  TYPED_WITHOUT=$COUNTED
  promise "twelve keys on $SHARDS shards" "$TYPED_WITHOUT" "$((12 * SHARDS))"
  counted_step "The same with the filter" <<'SQL'
select left('ada_lovelace', i) as typed, taken(left('ada_lovelace', i)) as taken
from generate_series(1, 12) i;
SQL
  TYPED_WITH=$COUNTED
}

# measure WAY SHARE: two clients ask in one of the ways for $MEASURE seconds; SHARE percent of the names
# are taken. Notes the shard queries a check and the checks a second.
measure() {
  local script=$WORK/tmp/measure.sql output checks queries
  cat >"$script" <<SQL
\\set n :n + 1
\\if (:n * $2) % 100 < $2
\\set i random(1, $NAMES)
select $1(nth_name(:i));
\\else
\\set i random(1, 1000000000)
select $1('nobody_' || :i);
\\endif
SQL
  forget_queries
  output=$("${AS_SERVER[@]}" pgbench -n -M prepared -c 2 -j 2 -T "$MEASURE" -D n=0 -f "$script" 2>&1) ||
    { say "$output" >&2; return 1; }
  queries=$(count_queries) || return
  checks=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' <<<"$output")
  QUERIES[$1 $2]=$(ratio "$queries" "$checks" 3)
  RATES[$1 $2]=$(sed -n 's/^tps = \([0-9]*\).*/\1/p' <<<"$output")
}

# The table, without its title.
table() {
  local way share title
  printf '%8s' taken
  for title in "${TITLES[@]}"; do printf ' | %18s' "$title"; done
  printf '\n'
  for share in "${SHARES[@]}"; do
    printf '%6s %%' "$share"
    for way in "${WAYS[@]}"; do
      printf ' | %18s' "${QUERIES[$way $share]}; ${RATES[$way $share]}"
    done
    printf '\n'
  done
}

# Measures every way with every share.
compare() {
  local way share
  say
  say "=== Shard queries a check, counted on the shards; checks a second by two clients (pgbench)"
  say
  for share in "${SHARES[@]}"; do
    for way in "${WAYS[@]}"; do measure "$way" "$share" || die "The checks failed."; done
  done
  figures >"$OUT/shards.dat"
  table | tee "$WORK/tmp/table"
  promise "shard queries a check without a filter" "${QUERIES[taken_without_filter 50]}" "$SHARDS.000"
  promise "of a name that is taken, with one filter" "${QUERIES[taken 100]}" "$SHARDS.000"
}

# How many of many look-ups pass the filter, of names that are taken in 0, 5 and 50 percent.
look_ups() {
  local share names queries published=([0]=1 [5]=5.95 [50]=50.5)
  say
  say "=== The share of look-ups that reach the database, counted on the shards"
  say
  for share in 0 5 50; do
    names=$((share == 50 ? 1000 : 10000))
    forget_queries
    value "select count(*) from generate_series(1, $names) i
        where taken(case when i * $share % 100 < $share then nth_name(i) else 'none_' || i end)" >/dev/null
    queries=$(count_queries)
    REACHED[share]=$(ratio "$((100 * queries))" "$((names * SHARDS))" 2)
    printf '%3s %% of %6s names taken: %5s %% (published: %s %%)\n' "$share" "$names" "${REACHED[share]}" "${published[share]}"
  done
}

# killed_after < SQL: runs it in a psql of its own, which is killed as soon as it has the answer.
killed_after() {
  local sql line
  sql=$(cat)
  coproc APP { exec "${AS_SERVER[@]}" psql -X -a -P pager=off -v ON_ERROR_STOP=1; }
  printf '%s\n\\echo answered\n' "$sql" >&"${APP[1]}"
  while IFS= read -r line <&"${APP[0]}" && [ "$line" != answered ]; do
    [ "$line" = '\echo answered' ] || say "$line"
  done
  { kill -KILL "$APP_PID" && wait "$APP_PID"; } 2>/dev/null || true
  say "-- here the process is killed, by signal 9"
}

# The sign-up, and what a crash leaves in the right order and in the wrong one.
sign_up() {
  step "The sign-up: add and commit, then the name's shard, then the user" <"$HERE/sign_up.sql"
  client -q -c "alter sequence user_ids restart $((NAMES + 1))"
  counted_step "Two sign-ups for one name" <<'SQL'
call sign_up('zoe');
call sign_up('ZOE');
SQL
  say
  say "=== A crash between the steps, in the right order: the name is a maybe, and the shards say free"
  say
  killed_after <<<"select bloom_add('username_filter', 'yuri');"
  promise "maybe, and taken" \
    "$(value "select bloom_might_contain('username_filter', 'yuri'), taken('yuri')")" 't|f'
  step "The next attempt succeeds" <<'SQL'
call sign_up('yuri');
SQL
  say
  say "=== The wrong way: the user first. After the same crash a user exists whose name is \"free\", forever"
  say
  killed_after <<<"insert into users values (nextval('user_ids'), 'xenia');"
  promise "maybe, and taken; in truth taken" \
    "$(value "select bloom_might_contain('username_filter', 'xenia'), taken('xenia'),
        taken_without_filter('xenia')")" 'f|f|t'
  step "Only an audit finds this user. It is mended here by hand" <<'SQL'
select bloom_add('username_filter', 'xenia'), bloom_add(filter, 'xenia')
from users join shards on shards.users = users.tableoid where lower(username) = 'xenia';
SQL
  race
}

# Four clients sign up the same thousand names.
race() {
  local script=$WORK/tmp/race.sql
  say
  say "=== A race: four clients sign up the same 1,000 names"
  say
  printf '%s\n' '\set n :n + 1' "call sign_up('race_' || :n);" | tee "$script"
  "${AS_SERVER[@]}" pgbench -n -M prepared -c 4 -j 2 -t 1000 -D n=0 -f "$script" >"$LOGS/race.log" 2>&1 ||
    { cat "$LOGS/race.log" >&2; die "The race failed."; }
  promise "users called race_…" \
    "$(value "select count(*) from users where username like 'race\\_%'")" 1000
  promise "names that two of them have" \
    "$(value "select count(*) - count(distinct lower(username)) from users where username like 'race\\_%'")" 0
}

# ask_names WAY: asks for 99 free names and for 100 taken ones, each in a statement of its own, and prints
# how many were answered: free ones, taken ones, and wrong answers.
ask_names() {
  local answers
  answers=$(value "select format('select ''%s'', %s(%L);', kind, '$1', name) from (
        select 'free', 'nobody_' || i from generate_series(1, 99) i
        union all
        select 'taken', nth_name(i * ($NAMES / 100)) from generate_series(1, 100) i) names (kind, name)" |
    client -qAt -v ON_ERROR_STOP=0 2>/dev/null)
  awk '{ count[$0]++ } END { print count["free|f"] + 0, count["taken|t"] + 0, count["free|t"] + count["taken|f"] }' \
    <<<"$answers"
}

# One shard server stops, and starts again.
lose_a_server() {
  local index way free taken wrong
  say
  say "=== One of four shard servers is stopped: 99 free names and 100 taken ones are asked"
  say
  (stop_cluster server_1 immediate)
  for index in "${!WAYS[@]}"; do
    way=${WAYS[index]}
    read -r free taken wrong < <(ask_names "$way")
    ANSWERED[index]=$((free + taken))
    printf '%-18s answered: %3s free, %3s taken; errors: %3s\n' "${TITLES[index]}" "$free" "$taken" \
      "$((199 - free - taken - wrong))"
    promise "wrong answers" "$wrong" 0
  done
  promise "answers without a filter" "${ANSWERED[0]}" 0
  step "A definite no needs no shard. A maybe gets the shard's error, never \"free\"" -v ON_ERROR_STOP=0 <<SQL
select taken('nobody_1');
select taken(nth_name(1));
-- and as one statement a free name fails too, since it opens a transaction on every shard first
select bloom_might_contain('username_filter', 'nobody_1')
    and exists (select 1 from users where lower(username) = 'nobody_1') as taken;
SQL
  launch_clusters server_1 || die "The shard server does not start again."
}

# Twice as many names as there is room for.
overfill() {
  step "Overfilling: as many names again, that nobody has" <<SQL
select bloom_add_many('username_filter', array_agg('gone_' || i)) as new from generate_series(1, $NAMES) i;
select status, capacity, items, round(saturation::numeric, 2) as saturation, target_fp_rate,
    round(fp_rate::numeric, 4) as fp_rate, advice
from bloom_info('username_filter') \\gx
SQL
  promise "status" "$(value "select status from bloom_info('username_filter')")" 'ready: over capacity'
  measure taken 0 || die "The checks failed."
  say "-- shard queries a check of free names, counted on the shards: ${QUERIES[taken 0]}"
}

# Checks and sign-ups, until the file $WORK/tmp/rebuilt appears. Each name that is denied goes into the
# table "denied".
traffic() {
  local script=$WORK/tmp/traffic.sql
  cat >"$script" <<SQL
\\set i random(1, 1000000000)
\\set old random(1, $NAMES)
call sign_up('new_' || :i);
insert into denied select name from unnest(array['new_' || :i, nth_name(:old)]) name
where not bloom_might_contain('username_filter', name);
SQL
  while [ ! -e "$WORK/tmp/rebuilt" ]; do
    "${AS_SERVER[@]}" pgbench -n -M prepared -c 2 -j 2 -t 50 -f "$script" || return
  done >"$LOGS/traffic.log" 2>&1
}

# A rebuild from the shards, and the audit.
rebuild() {
  local pid
  client -q -c 'create table denied (name text)'
  traffic &
  pid=$!
  step "Rebuild from the shards, while two clients sign up users and check names" <<'SQL'
-- half of what is in the filter is names of nobody: min_share says that this is no mistake
call bloom_rebuild('username_filter', 'select username from users', grace => '2 seconds', min_share => 0.3);
SQL
  touch "$WORK/tmp/rebuilt"
  wait "$pid" || { cat "$LOGS/traffic.log" >&2; die "The sign-ups failed."; }
  step "Audit: every user of every shard; nobody may be denied" <<'SQL'
select status, capacity, items, round(fp_rate::numeric, 4) as fp_rate, advice
from bloom_info('username_filter') \gx
create table audit as
select count(*) as users, count(*) filter (where username like 'new\_%') as signed_up_meanwhile,
    count(*) filter (where not bloom_might_contain('username_filter', username)) as denied,
    count(*) filter (where not bloom_might_contain(filter, username)) as denied_by_its_shards_filter
from users join shards on shards.users = users.tableoid;
table audit;
SQL
  promise "somebody signed up meanwhile" "$(value 'select signed_up_meanwhile > 0 from audit')" t
  promise "names that a check denied during the rebuild" "$(value 'select count(*) from denied')" 0
  promise "names denied now" "$(value 'select denied + denied_by_its_shards_filter from audit')" 0
}

# ---- The end

# What gnuplot reads: a line a share.
figures() {
  local share way
  echo "# percent taken; queries a check, then checks a second, of ${WAYS[*]}"
  for share in "${SHARES[@]}"; do
    printf '%s' "$share"
    for way in "${WAYS[@]}"; do printf ' %s' "${QUERIES[$way $share]}"; done
    for way in "${WAYS[@]}"; do printf ' %s' "${RATES[$way $share]}"; done
    printf '\n'
  done
}

# Draws the pictures of the figures in $OUT.
draw() {
  has_program gnuplot || { say "No pictures, since gnuplot is missing."; return; }
  gnuplot -e "data='$OUT/shards.dat'; queries='$OUT/shards_queries.svg'; checks='$OUT/shards_checks.svg';
    shards=$SHARDS; names=$NAMES; third='$THIRD'" "$HERE/pictures.gp"
}

# The summary: every figure of the run in one place.
summary() {
  local index share
  say "$SHARDS shards on $SERVERS servers, $NAMES names"
  say
  say "Shard queries a check; checks a second of two clients. \"By key\" asks usernames, where the others ask users"
  cat "$WORK/tmp/table"
  printf '%8s' 'a server'
  for index in "${!WAYS[@]}"; do printf ' | %18s' "${ANSWERED[index]} of 199"; done
  printf '\n%8s\n\n' 'down'
  say "A name of twelve characters, typed: $TYPED_WITHOUT shard queries, with the filter $TYPED_WITH"
  for share in 0 5 50; do
    say "Look-ups that reach the database with $share % taken: ${REACHED[share]} %"
  done
}

# Says how to connect to the servers that go on, and writes the script that stops them.
leave_running() {
  local stop=$WORK/stop.sh
  {
    echo '#!/bin/bash'
    echo '# Stops the servers of the demonstration, and removes its folder.'
    printf '{\ncd /\nfor pid in %q/*/postmaster.pid; do\n ' "$WORK"
    printf ' %q' "${AS_SERVER[@]}" "$BIN/pg_ctl"
    # shellcheck disable=SC2016
    printf ' -s -w -m immediate -D "${pid%%/*}" stop\ndone\nrm -rf --one-file-system %q\nexit\n}\n' "$WORK"
  } >"$stop"
  say "$KEPT promises kept, $BROKEN broken"
  say "The servers go on. To connect to the filter, and to a shard:"
  say "  $BIN/psql -h $PGHOST -p 5432 -U postgres filter"
  say "  $BIN/psql -h $PGHOST -p $(port_of 0) -U postgres shard_0"
  say "To stop them, and to remove their folder:"
  say "  bash $stop"
  # stop them no more
  trap - EXIT HUP INT TERM
}

# An end, for end_with: nothing is left but $OUT.
tidy_up() {
  remove_work
  [ -z "$WORK" ] || say "The servers are stopped, and their folder is gone."
  ((KEPT + BROKEN == 0)) || say "$KEPT promises kept, $BROKEN broken"
  return "$1"
}

# Reads the command line.
read_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      -y) YES=1 ;;
      --keep) KEEP=1 ;;
      --installed) INSTALLED=1 ;;
      --shards | --names | --out)
        [ -n "${2:-}" ] || { usage >&2; exit 2; }
        case $1 in
          --shards) SHARDS=$2 ;;
          --names) NAMES=$2 ;;
          --out) OUT=$2 ;;
        esac
        shift
        ;;
      -h | --help) usage; exit ;;
      *) usage >&2; say "unknown option: $1" >&2; exit 2 ;;
    esac
    shift
  done
  [[ $SHARDS =~ ^[1-9][0-9]?$ && $SHARDS -ge 4 && $SHARDS -le 64 && $NAMES =~ ^[1-9][0-9]{4,7}$ ]] ||
    { usage >&2; exit 2; }
  ((NAMES >= 1000000)) || MEASURE=1
}

# Every step, in order.
walk_through() {
  make_topology
  load_names
  make_filters
  make_functions
  say "-- $(du -sm "$WORK" | cut -f1) MB of disk"
  show_and
  type_a_name
  compare
  look_ups
  sign_up
  lose_a_server
  overfill
  rebuild
}

main() {
  local since extension
  read_options "$@"
  find_postgres
  # pictures are no reason to fail where there is no apt-get
  ! has_program apt-get || need gnuplot-nox has_program gnuplot
  ask "runs five servers in a temporary folder, which $( ((KEEP)) && echo 'go on at the end' || echo 'are removed at the end')"
  OUT=${OUT:-$(mktemp -d /tmp/bloomfilter-shards.XXXXXX)}
  mkdir -p "$OUT"
  OUT=$(cd "$OUT" && pwd)
  end_with tidy_up
  make_work /tmp
  get_extension
  for extension in postgres_fdw pg_stat_statements; do
    [ -e "$("$PG_CONFIG" --sharedir)/extension/$extension.control" ] ||
      die "$extension is missing there: install PostgreSQL's contrib modules."
  done
  say "Starting five servers ..."
  since=$SECONDS
  start_servers
  say "They are up after $((SECONDS - since)) seconds."
  walk_through
  draw
  say
  say "=== Summary"
  say
  { summary; say "$((SECONDS - since)) seconds, $(du -sm "$WORK" | cut -f1) MB of disk at the end"; } | tee "$OUT/shards.txt"
  say
  say "In $OUT: shards.txt, this summary; shards.dat, its figures; shards_queries.svg and shards_checks.svg"
  [ "$BROKEN" = 0 ] || die "Some promises were broken: see BROKEN above."
  [ "$KEEP" = 0 ] || leave_running
}

main "$@"
