#!/bin/bash
# The filter beside Citus: one coordinator and three workers. See usage.
set -euo pipefail
# shellcheck source=tools/cluster.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/cluster.sh"

usage() {
  cat <<'TEXT'
usage: test/citus.sh [--names N]

Builds bloomfilter, installs it into PostgreSQL, and tests it with Citus: what becomes of a filter that
is distributed, the sign-up, loads and rebuilds from N names (100,000) in 16 shards on three workers,
lost workers, and shards that move. It prints figures too.

The PostgreSQL is the one that $PG_CONFIG or the pg_config in the PATH names. If it has no Citus, this
script builds one from the source in $CITUS_SOURCE and installs it there, where it stays. It was
written for Citus 13.2.2 and PostgreSQL 15:

  git clone --depth 1 --branch v13.2.2 https://github.com/citusdata/citus
  CITUS_SOURCE=$PWD/citus test/citus.sh

What else is missing is installed with apt-get. Servers run in a temporary folder and listen on sockets
there. The last line is "N passed, N failed"; the exit code is 0 if something passed and nothing failed.
TEXT
}

NAMES=100000
WORKERS=(1 2 3)
FIRST_PORT=5432   # of node 0, the coordinator; of node 1 the next

# ---- Citus

# Whether the PostgreSQL that was chosen has Citus.
has_citus() { [ -e "$("$PG_CONFIG" --sharedir)/extension/citus.control" ]; }

# Finds what is needed, and installs packages.
prepare() {
  choose_postgres
  need_build_tools
  if ! has_citus; then
    [ -x "${CITUS_SOURCE:-}/configure" ] || {
      usage >&2
      die "This PostgreSQL has no Citus, and CITUS_SOURCE is no source of it."
    }
    # PostgreSQL's own headers include these where it was built with them
    need libzstd-dev has_header zstd.h
    need libkrb5-dev has_header gssapi/gssapi.h
  fi
  [ ${#PACKAGES[@]} = 0 ] || { say "installing ${PACKAGES[*]}"; install_packages; }
  prepare_source
  has_citus || install_citus
}

# Builds Citus in a copy of its source and installs it. PostgreSQL 15.20 has a function of the name that
# Citus gives one of its own, so that one is renamed.
# shellcheck disable=SC2016
install_citus() {
  say "building Citus, which takes minutes"
  mkdir "$WORK/citus"
  tar -c -C "$CITUS_SOURCE" --exclude=.git . | tar -x --no-same-owner -C "$WORK/citus"
  choose_server_user
  run_step citus "${AS_SERVER[@]}" bash -c '
    set -e
    cd "$1"
    grep -rlw have_createdb_privilege src --include="*.[ch]" |
      xargs -r sed -i "s/\bhave_createdb_privilege\b/citus_&/g"
    ./configure "PG_CONFIG=$2" --without-libcurl --without-lz4 --without-zstd
    make -s "-j$3" with_llvm=no all' build "$WORK/citus" "$PG_CONFIG" "$(nproc)" ||
    { tail -n 40 "$LOGS/citus.log" >&2; die "building Citus: $(failure "it does not build")"; }
  [ -w "$("$PG_CONFIG" --pkglibdir)" ] || become_root
  "${AS_ROOT[@]}" make -s -C "$WORK/citus" with_llvm=no install >"$LOGS/citus.install.log" 2>&1 ||
    die "Citus cannot be installed."
}

# start_node NUMBER: a server with Citus. Workers are found by the folder of their sockets.
start_node() {
  start_cluster "node$1" 'fsync = off' 'wal_level = logical' 'max_prepared_transactions = 100' \
    'shared_buffers = 64MB' "shared_preload_libraries = 'citus'" "port = $((FIRST_PORT + $1))" \
    "citus.local_hostname = '$WORK/socket'" "citus.node_conninfo = 'sslmode=disable'" \
    'citus.enable_statistics_collection = off'
}

# sql NODE TEXT: what psql prints, without decoration. Fails at the first error.
sql() {
  "${AS_SERVER[@]}" "PGPORT=$((FIRST_PORT + $1))" psql -XAtq -v ON_ERROR_STOP=1 -c "$2"
}

# Starts all nodes and makes them a cluster. The extension is created on the coordinator alone.
start_nodes() {
  local node
  for node in 0 "${WORKERS[@]}"; do
    start_node "$node" || die "Node $node does not start."
    sql "$node" 'create extension citus' >/dev/null
  done
  sql 0 "select citus_set_coordinator_host('$WORK/socket', $FIRST_PORT)" >/dev/null
  for node in "${WORKERS[@]}"; do
    sql 0 "select citus_add_node('$WORK/socket', $((FIRST_PORT + node)))" >/dev/null
  done
  sql 0 'create extension bloomfilter' 2>"$LOGS/extension.log"
  say "$(sql 0 'select citus_version()'), $(sql 0 'show server_version')"
}

# ---- Checks

# check WHAT EXPECTED FOUND: counts one test.
check() {
  if [ "$2" = "$3" ]; then
    PASSED=$((PASSED + 1))
    say "ok      $1"
  else
    FAILED=$((FAILED + 1))
    say "FAILED  $1"
    say "        expected: $2"
    say "        found:    $3"
  fi
}

# check_sql WHAT EXPECTED NODE TEXT: what the SQL prints. Notices go to a log.
check_sql() { check "$1" "$2" "$(sql "$3" "$4" 2>>"$LOGS/notices.log" || echo failed)"; }

# check_like WHAT PATTERN FOUND: what was found matches the pattern, which is a glob.
check_like() {
  # shellcheck disable=SC2254
  case $3 in
    $2) check "$1" "" "" ;;
    *) check "$1" "$2" "$3" ;;
  esac
}

# check_error WHAT PATTERN NODE TEXT: the SQL fails, and the pattern (a glob) matches what it says.
check_error() {
  local found
  if found=$(sql "$3" "$4" 2>&1); then
    check "$1" "an error: $2" "none: $found"
  else
    check_like "$1" "$2" "$found"
  fi
}

# What every message about a filter that Citus manages has to hold.
CITUS_ERROR='*cannot be used as a Bloom filter*Citus*in shards*undistribute_table*'

# A session that stays: warm_start opens one on the coordinator with a filter in its cache, and
# warm_end asks it again and sets SAID to what it says then.
warm_start() {
  mkfifo "$WORK/warm"
  "${AS_SERVER[@]}" psql -XAtq <"$WORK/warm" >"$LOGS/warm.log" 2>&1 &
  WARM=$!
  exec 7>"$WORK/warm"
  rm "$WORK/warm"
  cat >&7 <<'SQL'
set plan_cache_mode = force_generic_plan;
prepare might_contain(text) as select bloom_might_contain('moved_filter', $1);
execute might_contain('ada');
execute might_contain('bob');
select 'warm';
SQL
  until grep -q warm "$LOGS/warm.log"; do sleep 0.1; done
}
warm_end() {
  cat >&7 <<'SQL'
execute might_contain('bob');
execute might_contain('ada');
select bloom_might_contain('moved_filter', 'bob');
select bloom_add('moved_filter', 'carl');
SQL
  exec 7>&-
  wait "$WARM" || true
  SAID=$(sed '1,/^warm$/d' "$LOGS/warm.log" | in_short)
}

# The results of a session in one line: its answers, and "error Citus help" for an error that names
# Citus and says what to do.
in_short() {
  sed -nE '/^[tf]$/p; s/^ERROR: .*cannot be used as a Bloom filter$/error/p; s/^ERROR: .*/other &/p;
    s/^DETAIL: .*Citus.*in shards.$/Citus/p; s/^HINT: .*undistribute_table.*/help/p' | tr '\n' ' '
}

# distributed_filter KIND CALL: what a filter says once the call has given it to Citus.
distributed_filter() {
  say
  say "--- A filter that is $1"
  sql 0 "drop table if exists moved_filter" 2>>"$LOGS/notices.log"
  sql 0 "select bloom_create('moved_filter', 1000, ready => true);
    select bloom_add('moved_filter', 'ada')" >/dev/null 2>>"$LOGS/notices.log"
  if [ "$1" != "a managed local table" ]; then
    check_error "Citus refuses it, since it has triggers" '*has triggers*' 0 "$2"
  fi
  warm_start
  sql 0 "set citus.enable_unsafe_triggers = on; $2" >/dev/null 2>>"$LOGS/notices.log"
  warm_end
  check "a session that has used it: check, check, add: errors that help, no answer" \
    "$(printf 'error Citus help %.0s' 1 2 3 4)" "$SAID"
  check_error "a new session" "$CITUS_ERROR" 0 "select bloom_might_contain('moved_filter', 'bob')"
  check_error "many at once" "$CITUS_ERROR" 0 \
    "select bloom_might_contain_many('moved_filter', '{bob}')"
  check_error "bloom_add" "$CITUS_ERROR" 0 "select bloom_add('moved_filter', 'bob')"
  check_error "bloom_value" "$CITUS_ERROR" 0 "select bloom_value('moved_filter')"
  check_error "bloom_rebuild" "$CITUS_ERROR" 0 \
    "call bloom_rebuild('moved_filter', 'select ''bob''', grace => '0')"
  check_error "bloom_resume" "$CITUS_ERROR" 0 "select bloom_resume('moved_filter')"
  check_error "a worker" "$CITUS_ERROR" 1 "select bloom_might_contain('moved_filter', 'bob')"
  check_sql "the advice" "select undistribute_table('public.moved_filter')" 0 \
    "select advice from bloom_filters where filter = 'moved_filter'::regclass"
  sql 0 "select undistribute_table('public.moved_filter')" >/dev/null 2>>"$LOGS/notices.log"
  check_sql "as that says: maybe, since it is a copy" "t|t" 0 \
    "select bloom_might_contain('moved_filter', 'ada'), bloom_might_contain('moved_filter', 'bob')"
  sql 0 "select bloom_resume('moved_filter')" >/dev/null 2>>"$LOGS/notices.log"
  check_sql "after bloom_resume it answers" "t|f" 0 \
    "select bloom_might_contain('moved_filter', 'ada'), bloom_might_contain('moved_filter', 'bob')"
}

# ---- Suites

# What Citus can make of a filter, each time with an error that says how to mend it.
distributed_filters() {
  distributed_filter "a distributed table" "select create_distributed_table('moved_filter', 'chunk')"
  distributed_filter "a table of one shard" \
    "select create_distributed_table('moved_filter', null, colocate_with => 'none')"
  distributed_filter "a reference table" "select create_reference_table('moved_filter')"
  distributed_filter "a managed local table" \
    "select citus_add_local_table_to_metadata('moved_filter')"
  say
  say "--- Other tables"
  sql 0 "create table by_hand as select chunk, 0::bit(8192) as bits from generate_series(0, 127) chunk;
    alter table by_hand add primary key (chunk), alter bits set not null;
    select create_distributed_table('by_hand', 'chunk')" >/dev/null 2>>"$LOGS/notices.log"
  check_error "bloom_register of a distributed table" "$CITUS_ERROR" 0 \
    "select bloom_register('by_hand', 'lower')"
  check_sql "bloom_create is plain, even if Citus is to manage new tables" "t|0" 0 "
    set citus.use_citus_managed_tables = on;
    select bloom_create('plain_filter', 1000, ready => true) is not null,
      (select count(*) from pg_dist_partition where logicalrelid::text = 'plain_filter')"
}

# Tables and names. Users are distributed by id; usernames by the name, so that one shard decides.
make_users() {
  sql 0 "set citus.shard_count = 16;
    create table users (id bigint primary key, username text not null);
    create table usernames (username text primary key check (username = lower(username)),
      user_id bigint not null);
    select create_distributed_table('users', 'id'),
      create_distributed_table('usernames', 'username', colocate_with => 'none');
    insert into users select i, (array['Ada', 'grace', 'Linus', 'marie'])[1 + i % 4] || '_' || i
      from generate_series(1, $NAMES) i;
    insert into usernames select lower(username), id from users;" >/dev/null
  "${AS_SERVER[@]}" psql -Xq -v ON_ERROR_STOP=1 -f "$WORK/src/test/citus/functions.sql" \
    2>>"$LOGS/notices.log"
}

# What the audit has to print. offset 0 keeps Citus from sending the check to the workers.
AUDIT="select count(*) from (select username from users offset 0) u
  where not bloom_might_contain('username_filter', username)"

# The load, the sign-up, the exact answer, the audit.
sign_up() {
  local said
  say
  say "--- Load, sign-up, check, audit"
  check_sql "the extension was created on the workers too" "bloomfilter" 1 \
    "select extname from pg_extension where extname = 'bloomfilter'"
  check_sql "bloom_create from a distributed table" "username_filter" 0 \
    "select bloom_create('username_filter', $((2 * NAMES)), source => 'select username from users')"
  check_sql "no user is denied" 0 0 "$AUDIT"
  check_error "the audit without offset 0 is sent to the workers, and fails" \
    '*relation "public.username_filter" does not exist*' 0 \
    "select username from users where not bloom_might_contain('username_filter', username)"
  check_sql "first the name, and a commit" t 0 "select bloom_add('username_filter', 'Zoe')"
  check_sql "then its shard decides, then the user" "" 0 "begin;
    insert into usernames values (lower('Zoe'), 0); insert into users values (0, 'Zoe'); commit"
  check_error "a second user of that name" '*duplicate key*' 0 \
    "insert into usernames values (lower('ZOE'), -1)"
  check_sql "username_taken: taken, in another case, free" "t|t|f" 0 \
    "select username_taken('Ada_4'), username_taken('zOE'), username_taken('nobody')"
  check_error "exists (select from ...) of more than one shard is not for Citus" \
    '*column definition list*' 0 "select exists (select from users where lower(username) = 'zoe')"
  check_sql "exists (select 1 from ...) is" t 0 \
    "select exists (select 1 from users where lower(username) = 'zoe')"
  said=$(sql 0 "set plan_cache_mode = force_generic_plan;
    prepare taken(text) as select 1 from usernames where username = \$1;
    explain (verbose, costs off) execute taken('zoe')" | tr -s ' \n' ' ')
  check_like "the generic plan of the exact answer asks one shard, by its key" \
    '*Task Count: 1 *Index Cond: (usernames*.username = *' "$said"
  said=$(sql 0 "prepare taken(text) as select 1 from users where lower(username) = lower(\$1);
    $(printf "execute taken('zoe');%.0s" 1 2 3 4 5 6 7 8)
    explain (verbose, costs off) execute taken('zoe');
    select 'generic plans: ' || generic_plans from pg_prepared_statements" | tr -s ' \n' ' ')
  check_like "users by lower(username): every shard compares, and Citus never takes a generic plan" \
    "*Task Count: 16 *lower(*username) = *zoe*generic plans: 0*" "$said"
  check_error "and cannot where it is forced to" '*could not create distributed plan*' 0 \
    "set plan_cache_mode = force_generic_plan;
    prepare taken(text) as select 1 from users where lower(username) = \$1; execute taken('zoe')"
  check_error "checks on a worker" '*relation "username_filter" does not exist*' 1 \
    "select bloom_might_contain('username_filter', 'ada_4')"
}

# The number of chunks of the filter.
chunks() { sql 0 "select chunks from bloom_filters where filter = 'username_filter'::regclass"; }

# rebuild SOURCE: nothing if it worked, else the error.
rebuild() {
  { sql 0 "call bloom_rebuild('username_filter', \$source\$$1\$source\$, grace => '0')" 2>&1 || true; } |
    sed -n '/^ERROR/,$p'
}

# Rebuilds by names and by one union a worker, and what must stop one.
rebuilds() {
  local by_worker before after
  say
  say "--- Rebuild"
  check "by names" "" "$(rebuild 'select username from users')"
  by_worker="select bloom_workers('public.users', 'username', \$1)"
  check "by one union a worker" "" "$(rebuild "$by_worker")"
  check_sql "no user is denied" 0 0 "$AUDIT"
  check_sql "both give the same bits" t 0 "select bloom_value('username_filter') =
    (select bloom_agg_chunks(username, $(chunks), 'lower') from (select username from users offset 0) u)"

  before=$(sql 0 "select md5(bloom_value('username_filter')::bytea)")
  sql 0 "set citus.shard_count = 2; create table few (id bigint primary key, username text);
    select create_distributed_table('few', 'id', colocate_with => 'none')" >/dev/null
  after=$(rebuild "select bloom_workers('public.few', 'username', \$1)")
  check_like "a worker without shards stops it" '*no shard of public.few is on this node*' "$after"
  check_like "so does a shard on the coordinator" '*was read on no worker*' "$(shard_on_coordinator)"
  check_like "so does a shard that moves to a worker that has answered" '*was read on no worker*' \
    "$(move_behind)"
  stop_node 3
  after=$(rebuild "$by_worker")
  check_like "so does a worker that is down" "*worker $WORK/socket:$((FIRST_PORT + 3)): *" "$after"
  check_like "by names too" "*connection*$((FIRST_PORT + 3))*" "$(rebuild 'select username from users')"
  check_sql "meanwhile: free is sure, a maybe is an error or an answer, never free" f 0 \
    "select bloom_might_contain('username_filter', 'nobody')"
  after=$(sql 0 "select md5(bloom_value('username_filter')::bytea)")
  check "none of them changed the filter" "$before" "$after"
  restart_node 3
  check "with all workers back it works" "" "$(rebuild "$by_worker")"
}

# stop_node NUMBER and restart_node NUMBER: a worker goes, and comes back.
stop_node() { "${AS_SERVER[@]}" "$BIN/pg_ctl" -s -w -m fast -D "$WORK/node$1" stop; }
restart_node() {
  "${AS_SERVER[@]}" "$BIN/pg_ctl" -s -w -D "$WORK/node$1" -l "$LOGS/node$1.server.log" start
}

# The SQL that moves the first shard of users to node $1, or away from it to node $2.
move() {
  echo "select citus_move_shard_placement(shardid, nodename, nodeport, '$WORK/socket',
      case nodeport when $((FIRST_PORT + $1)) then $((FIRST_PORT + $2)) else $((FIRST_PORT + $1)) end,
      'block_writes')
    from pg_dist_shard join pg_dist_placement using (shardid) join pg_dist_node using (groupid)
    where logicalrelid = 'users'::regclass order by shardid limit 1"
}

# What a rebuild by workers says while the coordinator has a shard.
shard_on_coordinator() {
  sql 0 "select citus_set_node_property('$WORK/socket', $FIRST_PORT, 'shouldhaveshards', true)" >/dev/null
  sql 0 "$(move 0 1)" >/dev/null
  rebuild "select bloom_workers('public.users', 'username', \$1)"
  sql 0 "$(move 0 1)" >/dev/null
  sql 0 "select citus_set_node_property('$WORK/socket', $FIRST_PORT, 'shouldhaveshards', false)" >/dev/null
}

# What a rebuild by workers says when the first shard moves from worker 1, which is late, to
# worker 2, which has answered.
move_behind() {
  local shard slow reader
  shard=$(sql 0 "select min(shardid) from pg_dist_shard where logicalrelid = 'users'::regclass")
  slow="begin;
    set local citus.enable_ddl_propagation = off;
    set local citus.enable_metadata_sync = off;
    alter function bloom_local rename to bloom_local_now;
    create function bloom_local(source text, item text, chunks int, out shards bigint[],
      out filter bloomfilter) language plpgsql as \$\$
    begin
      while exists (select from pg_dist_placement join pg_dist_local_group using (groupid)
                    where shardid = $shard) loop
        perform pg_sleep(0.1);
      end loop;
      select * into shards, filter from bloom_local_now(source, item, chunks);
    end \$\$;
    commit"
  sql 1 "$slow" >/dev/null
  rebuild "select bloom_workers('public.users', 'username', \$1)" >"$LOGS/behind.log" &
  reader=$!
  until [ "$(sql 1 "select count(*) from pg_stat_activity where query like '%from bloom_local(%'
      and pid <> pg_backend_pid()")" != 0 ]; do sleep 0.1; done
  # All workers are asked at once.  The others look up their shards first.
  sleep 2
  sql 0 "$(move 2 1)" >/dev/null
  wait "$reader" || true
  sql 1 "begin; set local citus.enable_ddl_propagation = off; drop function bloom_local;
    alter function bloom_local_now rename to bloom_local; commit" >/dev/null
  sql 0 "$(move 2 1)" >/dev/null
  cat "$LOGS/behind.log"
}

# Rebuilds beside sign-ups while a shard goes to and fro.
moves() {
  local mover signer round source broken=0
  say
  say "--- Shards move during rebuilds, beside sign-ups"
  (for round in 1 2 3 4 5 6; do sql 0 "$(move 2 1)"; done) >"$LOGS/moves.log" 2>&1 &
  mover=$!
  (
    for round in $(seq 1 200); do
      sql 0 "select bloom_add('username_filter', 'new_$round')"
      sql 0 "insert into users values (10000000 + $round, 'new_$round')"
    done
  ) >"$LOGS/signer.log" 2>&1 &
  signer=$!
  for round in 1 2 3 4; do
    for source in 'select username from users' \
      "select bloom_workers('public.users', 'username', \$1)"; do
      [ -z "$(rebuild "$source")" ] || broken=$((broken + 1))
    done
  done
  say "        $broken of 8 rebuilds failed with an error, as they may"
  wait "$mover" "$signer" || true
  check "six moves, no error" "" "$(grep ERROR "$LOGS/moves.log" || true)"
  check_sql "200 users have signed up" 200 0 "select count(*) from users where username like 'new\_%'"
  check_sql "no user is denied" 0 0 "$AUDIT"
  check "one more rebuild" "" "$(rebuild 'select username from users')"
  check_sql "no user is denied" 0 0 "$AUDIT"
}

# milliseconds NODE TEXT: what the SQL takes.
milliseconds() {
  "${AS_SERVER[@]}" "PGPORT=$((FIRST_PORT + $1))" psql -XAtq -v ON_ERROR_STOP=1 \
    -c '\timing on' -c 'set client_min_messages = error' -c "$2" |
    sed -n 's/^Time: \([0-9.]* ms\).*/\1/p' | tail -n 1
}

# received TEXT: what explain says of the data that the coordinator received.
received() {
  sql 0 "explain (analyze, timing off, costs off) $1" |
    sed -n 's/.*Tuple data received from nodes: //p' | head -n 1
}

# figure NAME VALUE: one line.
figure() { printf '%-45s %s\n' "$1" "$2"; }

# Prints figures; tests nothing.
figures() {
  local n value check="bloom_might_contain('username_filter', 'nobody')"
  n=$(chunks)
  value="encode(bloom_agg_chunks(username, $n, ''lower'')::bytea, ''base64'')"
  say
  say "--- Figures for $NAMES names and a filter of $n kB"
  figure "received for the names" "$(received 'select username from users')"
  figure "for bloom_agg over them, with its constants" \
    "$(received "select bloom_agg(username, 1e6, 0.01, 'lower') from users")"
  figure "for one union a worker" "$(sql 0 "select pg_size_pretty(sum(length(result)))
    from run_command_on_workers('select encode(filter::bytea, ''base64'')
      from bloom_local(''users'', ''username'', $n)')")"
  figure "for one value a shard" "$(sql 0 "select pg_size_pretty(sum(length(result)))
    from run_command_on_shards('users', 'select $value from %s')")"
  figure "rebuild by names" "$(milliseconds 0 "call bloom_rebuild('username_filter',
    'select username from users', grace => '0')")"
  figure "rebuild by one union a worker" "$(milliseconds 0 "call bloom_rebuild('username_filter',
    'select bloom_workers(''public.users'', ''username'', \$1)', grace => '0')")"
  figure "200,000 checks on the coordinator" "$(milliseconds 0 "do \$\$ begin
    for i in 1..200000 loop perform $check; end loop; end \$\$")"
  figure "200 checks by run_command_on_coordinator" "$(milliseconds 1 "do \$\$ begin
    for i in 1..200 loop perform result from run_command_on_coordinator(\$q\$select $check\$q\$);
    end loop; end \$\$")"
}

main() {
  while [ $# -gt 0 ]; do
    case $1 in
      --names) NAMES=${2:?} ;;
      -h | --help) usage; return ;;
      *) usage >&2; return 2 ;;
    esac
    shift 2
  done
  [[ $NAMES =~ ^[1-9][0-9]*$ ]] || { usage >&2; return 2; }
  end_with sum_up
  make_work /tmp
  prepare
  need_extension
  start_nodes
  distributed_filters
  make_users
  sign_up
  rebuilds
  moves
  figures
  FINISHED=1
}

main "$@"
