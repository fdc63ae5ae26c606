# shellcheck shell=bash
# The parts of bench/rivals.sh: what is measured, of whom. Sourced by it.

# ---- Contestants: what each is asked. A statement of PostgreSQL has the name, or the array of names,
# as $1; a command of Redis has it behind its last word. Who has no entry does not take part.

CONTESTANTS=(floor article btree hash bloom table value process redis_floor redis redisbloom)
declare -A KIND=([process]=value [redis_floor]=redis [redis]=redis [redisbloom]=redis)

# shellcheck disable=SC2016 # $1 is the server's
declare -A CHECK=(
  [floor]='select $1::text is null'
  [article]='select (f.bits & u.mask) = u.mask from article.username_bits($1) u, article.filter f where f.chunk = u.chunk'
  [btree]='select exists (select from users_btree where lower(username) = lower($1))'
  [hash]='select exists (select from users_hash where lower(username) = lower($1))'
  [bloom]='select exists (select from users_bloom where lower(username) = lower($1))'
  [table]="select bloom_might_contain('f', \$1)"
  [value]='select v @> $1 from vals'
  [process]='-' [redis_floor]='ECHO' [redis]='GET' [redisbloom]='BF.EXISTS f'
)

# The indexes are looked up a name at a time: the planner would rather hash the whole table.
# shellcheck disable=SC2016
declare -A MANY_CHECKS=(
  [floor]='select array(select name is null from unnest($1::text[]) name)'
  [article]='select array(select (f.bits & u.mask) = u.mask from unnest($1::text[]) name, article.username_bits(name) u, article.filter f where f.chunk = u.chunk)'
  [btree]='select array(select found is not null from unnest($1::text[]) name left join lateral (select true as found from users_btree where lower(username) = lower(name) limit 1) u on true)'
  [hash]='select array(select found is not null from unnest($1::text[]) name left join lateral (select true as found from users_hash where lower(username) = lower(name) limit 1) u on true)'
  [table]="select bloom_might_contain_many('f', \$1)"
  [value]='select array(select v @> name from vals, unnest($1::text[]) name)'
  [process]='-' [redis]='MGET' [redisbloom]='BF.MEXISTS f'
)

# shellcheck disable=SC2016
declare -A ADD=(
  [article]='update article.filter f set bits = f.bits | u.mask from article.username_bits($1) u where f.chunk = u.chunk'
  [btree]='insert into users_btree values ($1) on conflict do nothing'
  [hash]='insert into users_hash values ($1)'
  [bloom]='insert into users_bloom values ($1)'
  [table]="select bloom_add('f', \$1)"
  [value]='update vals set v = v + $1'
  [redis]='SET' [redisbloom]='BF.ADD f'
)

# shellcheck disable=SC2016,SC2034 # by its name
declare -A MANY_ADDS=(
  [article]='update article.filter f set bits = f.bits | u.mask from (select u.chunk, bit_or(u.mask) as mask from unnest($1::text[]) name, article.username_bits(name) u group by u.chunk) u where f.chunk = u.chunk'
  [btree]='insert into users_btree select unnest($1::text[]) on conflict do nothing'
  [hash]='insert into users_hash select unnest($1::text[])'
  [bloom]='insert into users_bloom select unnest($1::text[])'
  [table]="select bloom_add_many('f', \$1) > 0"
  [redis]='MSET' [redisbloom]='BF.MADD f'
)

NAMES=0   # users of this part
SEED=0    # of the last run
MEMORY=$(awk '/^MemTotal/ { printf "%d", $2 / 1024 }' /proc/meminfo)  # of the machine, in MB

# ask CONTESTANT REQUEST OPTION...: the client's line. REQUEST is what the contestant is asked.
ask() {
  local contestant=$1 request=$2 words=()
  shift 2
  [[ $request != SET && $request != MSET ]] || set -- "$@" -v 1
  case ${KIND[$contestant]:-pg} in
    value) words=(value "$WORK/value") ;;
    redis) read -ra words <<<"redis $SOCKET $request" ;;
    pg)
      words=(pg "host=$PGHOST port=$PGPORT user=postgres dbname=bench" "$request")
      # The planner would rather read the whole table.
      [[ $contestant != bloom ]] || words[1]+=" options='-c enable_seqscan=off'"
      ;;
  esac
  "$CLIENT" "$@" "${words[@]}"
}

# takes_part CONTESTANT: whether it is installed, and its data fit into the memory beside the others': a
# table of users and an index of it take 80 bytes a user.
takes_part() {
  case $1 in
    hash | bloom) ((NAMES * 80 * 3 / 1048576 < MEMORY * 6 / 10)) ;;
    redisbloom) [[ -n $REDISBLOOM_SO ]] ;;
    redis*) has_program redis-server ;;
  esac
}

# rounds FIGURE CLIENTS REQUESTS OPTION...: ROUNDS of each contestant that the array of that name has a
# request for, in turn. Each round has its own names.
rounds() {
  local figure=$1 clients=$2 contestant round us
  local -n requests=$3
  shift 3
  note "$figure, $clients client(s)"
  for ((round = 1; round <= ROUNDS; round++)); do
    for contestant in "${CONTESTANTS[@]}"; do
      if [[ -z ${requests[$contestant]:-} ]] || ! takes_part "$contestant"; then continue; fi
      # An add to a value locks its row, and eight clients would only queue.
      [[ $figure/$contestant/$clients != add/value/8 ]] || continue
      SEED=$((SEED + 1))
      # shellcheck disable=SC2046 # words
      read -r us _ < <(ask "$contestant" "${requests[$contestant]}" -c "$clients" -r "$SEED" \
        $(options_of "$figure" "$contestant") "$@")
      record "$figure" "$contestant" "$clients" "$us"
    done
  done
}

# options_of FIGURE CONTESTANT: how it is asked otherwise than the rest: what is a thousand times as
# slow gets fewer names, and added names are new.
options_of() {
  local first=$((SEED * 1000000)) names=$ADDED batch
  case $1/$2 in
    add/value) names=2 ;;
    many/article) batch=$((MANY / 10)) ;;
  esac
  case $1 in
    add) printf -- '-a -n add,%s,%s' "$first" "$((first + names - 1))" ;;
    add_many) printf -- '-a -b 1000 -n add,%s,%s' "$first" "$((first + 2 * names - 1))" ;;
    many) printf -- '-b %s -t 0' "${batch:-$MANY}" ;;
  esac
}

# ---- 10M, 100M: a filter that is full, and tables of as many users

# part_capacity 10M|100M: checks, adds, sizes, WAL and error rates.
part_capacity() {
  local names=$((${1%M} * 1000000)) bits clients
  NAMES=$names
  # Chunks: the article needs a power of two, and takes 131072 for a hundred million.
  for ((bits = 17; (names >> (bits - 1)) < 800; bits--)); do :; done
  begin_part "$1" 'shared_buffers = 4GB'
  prepare_users "$names" "$bits"
  prepare_redis "$names"
  measure_sizes
  measure_rates
  for clients in 1 8; do
    rounds free "$clients" CHECK -t "$SECONDS_A_RUN" -n "free,1,$names"
    rounds taken "$clients" CHECK -t "$SECONDS_A_RUN" -n "user,1,$names"
  done
  rounds many 1 MANY_CHECKS -n "user,1,$((2 * names))"
  for clients in 1 8; do
    rounds add "$clients" ADD
  done
  rounds add_many 1 MANY_ADDS
  measure_wal
  end_part
}

# prepare_users NAMES BITS: everything of PostgreSQL, with 2^BITS chunks where there are chunks.
prepare_users() {
  local names=$1 chunks=$((1 << $2))
  note "tables of $names users, with indexes"
  prepare_article
  run_psql >/dev/null <<SQL
create extension pg_walinspect;
create extension bloom;
do \$\$ begin
  execute replace(pg_get_functiondef('article.username_bits'::regproc), 'from 1 for 17', 'from 1 for $2');
end \$\$;
create table users_btree (username) as $(names 1 "$names");
set max_parallel_maintenance_workers = 1;
create unique index users_btree_name on users_btree (lower(username));
SQL
  # Of 80 bits for a row, 7: with the two that it takes unless told, 6,000 of 10 M rows are read again.
  if takes_part hash; then
    run_psql <<'SQL'
create table users_hash as table users_btree;
create index users_hash_name on users_hash using hash (lower(username));
create table users_bloom as table users_btree;
create index users_bloom_name on users_bloom using bloom (lower(username)) with (length = 80, col1 = 7);
SQL
  fi
  note 'filters'
  run_psql >/dev/null <<SQL
-- It may hold a few more than its capacity, by its estimate.
set client_min_messages = error;
select bloom_create('f', $names, chunks => $chunks, source => \$\$$(names 1 "$names")\$\$);
-- Its bits are the article's: the same hash, cut alike where the chunks are a power of two.
create table article.filter (chunk int primary key, bits bit(8192) not null);
insert into article.filter select * from f order by chunk;
create table vals as select bloom_value('f') as v;
vacuum analyze;
select bloom_info('f'), count(bits) from article.filter;
copy (select v::bytea from vals) to '$WORK/tmp/value' (format binary);
checkpoint;
SQL
  # What COPY writes around the one value: 25 bytes before it, and 2 behind.
  tail -c +26 "$WORK/tmp/value" | head -c -2 >"$WORK/value"
}

# prepare_redis NAMES: all of them as keys, and in a filter of RedisBloom. That gets the error rate of
# the others, and room for what is added later.
prepare_redis() {
  takes_part redis || return 0
  local before rate
  start_redis
  note 'Redis'
  before=$(redis_memory)
  ask redis MSET -a -b 10000 -n "user,1,$1" >/dev/null
  record bytes redis 1 "$(($(redis_memory) - before))"
  takes_part redisbloom || return 0
  rate=$(run_psql -c "select bloom_expected_fp_rate($1, (bloom_info('f')).chunks)")
  redis BF.RESERVE f "$rate" "$(($1 + 4 * ADDED * ROUNDS))" NONSCALING >/dev/null
  ask redisbloom 'BF.MADD f' -a -b 10000 -n "user,1,$1" >/dev/null
  record bytes redisbloom 1 "$(redis MEMORY USAGE f)"
}

# What each takes: on disk, with the filter's index, without the users beside an index; Redis, in
# memory.
measure_sizes() {
  run_psql -F $'\t' >>"$WORK/$PART.tsv" <<'SQL'
select 'bytes', contestant, 1, bytes from (values
    ('table', pg_total_relation_size('f')), ('article', pg_total_relation_size('article.filter')),
    ('value', pg_total_relation_size('vals')), ('btree', pg_relation_size(to_regclass('users_btree_name'))),
    ('hash', pg_relation_size(to_regclass('users_hash_name'))),
    ('bloom', pg_relation_size(to_regclass('users_bloom_name')))) v (contestant, bytes)
where bytes is not null;
SQL
  record bytes process 1 "$(stat -c %s "$WORK/value")"
}

# The share of absent names that are said to be there. An index of contrib bloom is exact, since rows
# that it is wrong about are read again: of those, the number.
measure_rates() {
  note 'error rates'
  local contestant there asked
  for contestant in table process article redisbloom; do
    takes_part "$contestant" || continue
    # shellcheck disable=SC2046
    read -r _ there asked < <(ask "$contestant" "${MANY_CHECKS[$contestant]}" \
      $(options_of many "$contestant") -a -n "absent,1,$([[ $contestant == article ]] && echo "$((MANY / 5))" || echo "$MANY")")
    record rate "$contestant" 1 "$(awk -v there="$there" -v asked="$asked" 'BEGIN { printf "%.6f", there / asked }')"
  done
  takes_part bloom || return 0
  record reread bloom 1 "$(run_psql -c 'set enable_seqscan = off' -c "explain (analyze, costs off, timing off)
      select from users_bloom where lower(username) = lower('absent1')" |
    sed -n 's/.*Removed by Index Recheck: \([0-9]*\).*/\1/p' | grep . || echo 0)"
}

# WAL an add, without full pages, as the server counts it; of Redis, the log that it would write.
measure_wal() {
  local contestant start names
  note 'WAL'
  for contestant in "${CONTESTANTS[@]}"; do
    if [[ -z ${ADD[$contestant]:-} || -n ${KIND[$contestant]:-} ]] || ! takes_part "$contestant"; then continue; fi
    SEED=$((SEED + 1)) names=$ADDED
    [[ $contestant != value ]] || names=2
    start=$(run_psql -c 'select pg_current_wal_insert_lsn()')
    # shellcheck disable=SC2046
    ask "$contestant" "${ADD[$contestant]}" $(options_of add "$contestant") >/dev/null
    record wal "$contestant" 1 "$(run_psql -c "select round((sum(record_size) / $names)::numeric)
      from pg_get_wal_stats('$start', pg_current_wal_flush_lsn())")"
  done
  takes_part redis || return 0
  stop_redis
  start_redis --appendonly yes --appendfsync no
  for contestant in redis redisbloom; do
    takes_part "$contestant" || continue
    [[ $contestant == redis ]] || redis BF.RESERVE f 0.01 "$BUILT" NONSCALING >/dev/null
    start=$(log_bytes)
    ask "$contestant" "${ADD[$contestant]}" -a -n "add,1000000,$((1000000 + ADDED - 1))" >/dev/null
    record wal "$contestant" 1 "$((($(log_bytes) - start) / ADDED))"
  done
}

# The bytes of the log of Redis. What it is asked before, it has written before it answers.
log_bytes() { redis info persistence | sed -n 's/^aof_current_size:\([0-9]*\).*/\1/p'; }

# ---- build: from a table of names, or from the client

part_build() {
  local round
  begin_part build 'shared_buffers = 2GB' 'parallel_setup_cost = 0' 'parallel_tuple_cost = 0'
  prepare_article
  note "a table of $BUILT names"
  run_psql >/dev/null <<SQL
create extension bloom;
create table names (name text) with (parallel_workers = 1);
insert into names $(names 1 "$BUILT");
create table million as select name from names limit 1000000;
vacuum analyze;
select count(*) from names;
SQL
  start_redis
  for ((round = 1; round <= ROUNDS; round++)); do
    note "builds, round $round of $ROUNDS"
    build floor 'select count(name) from names'
    build value "select bloom_value_info(bloom_agg(name, $BUILT, 0.01, 'lower')) from names"
    build table "select bloom_create('built', $BUILT, source => 'select name from names')"
    build btree 'create index built_index on names (lower(name))'
    build hash 'create index built_index on names using hash (lower(name))' serial
    build bloom 'create index built_index on names using bloom (lower(name)) with (length = 80, col1 = 7)' serial
    build article 'create table built as select u.chunk, bit_or(u.mask) from million, article.username_bits(name) u group by u.chunk' serial
    build_in_redis
  done
  end_part
}

# build CONTESTANT SQL [serial]: nanoseconds a name, without a worker and with one. All names or, of the
# article, a million.
build() {
  local workers names=$BUILT
  [[ $1 != article ]] || names=$((BUILT < 1000000 ? BUILT : 1000000))
  for workers in 0 1; do
    [[ $workers == 0 || ${3:-} != serial ]] || continue
    run_psql -c 'set client_min_messages = error' -c "set max_parallel_workers_per_gather = $workers" \
      -c "set max_parallel_maintenance_workers = $workers" \
      -c 'select extract(epoch from clock_timestamp())' -c "$2" -c 'select extract(epoch from clock_timestamp())' \
      -c 'drop table if exists built' -c 'drop index if exists built_index' |
      awk -v names="$names" 'NR == 1 { start = $1 } { last = $1 } END { printf "%.2f\n", (last - start) * 1e9 / names }' >"$WORK/took"
    record "build_$workers" "$1" 1 "$(<"$WORK/took")"
  done
}

# The same in Redis, 10,000 names a call.
build_in_redis() {
  local us
  takes_part redis || return 0
  read -r us _ < <(ask redis MSET -a -b 10000 -n "user,1,$BUILT")
  record build_0 redis 1 "$(awk -v us="$us" 'BEGIN { print us * 1000 }')"
  redis FLUSHALL SYNC >/dev/null
  takes_part redisbloom || return 0
  redis BF.RESERVE f 0.01 "$BUILT" NONSCALING >/dev/null
  read -r us _ < <(ask redisbloom 'BF.MADD f' -a -b 10000 -n "user,1,$BUILT")
  record build_0 redisbloom 1 "$(awk -v us="$us" 'BEGIN { print us * 1000 }')"
  redis FLUSHALL SYNC >/dev/null
}

# ---- goals: checks inside queries, rows in order, and prepared checks beside the floor

part_goals() {
  local clients round contestant us
  reserve_huge_pages 2048
  begin_part goals 'shared_buffers = 2GB'
  note 'checks inside queries'
  run_psql >/dev/null <<SQL
create table names as $(names 1 1000000);
alter table names rename "?column?" to name;
select bloom_create('f', 1e8, chunks => 131072, source => 'select name from names');
vacuum analyze;
select bloom_info('f');
SQL
  run_psql <<SQL
call alternate(
    array['scan', 'query', 'array', 'many'],
    array['select count(*) from names where octet_length(name) < 0',
          'select count(*) from names where not bloom_might_contain(''f'', name)',
          'select cardinality(array(select name from names))',
          'select bloom_might_contain_many(''f'', array(select name from names))'],
    array[1e6, 1e6, 1e6, 1e6], $((ROUNDS + 2)));
SQL
  record_samples inside
  # Many short rounds: a client that waits for the server's core takes three times as long as one that
  # does not, and which it is changes now and then.
  for clients in 1 8; do
    note "prepared checks beside the floor, $clients client(s)"
    for ((round = 1; round <= 4 * ROUNDS; round++)); do
      for contestant in floor table; do
        read -r us _ < <(ask "$contestant" "${CHECK[$contestant]}" -c "$clients" -t 0.25 -r "$round" -n user,1,2000000)
        record prepared "$contestant" "$clients" "$us"
      done
    done
  done
  end_part
  release_huge_pages
}

# ---- curve: what a check and an add cost, by the number of chunks

part_curve() {
  local power powers=() buffers round table
  # All sizes stay in shared buffers, and take turns: six chunks in 8 kB, and a tenth more.
  for ((power = 11; power <= MAX_POWER; power++)); do
    buffers=$(((2 << power) * 11 / 7680 + 512))
    ((buffers * 10 <= MEMORY * 6)) || { note "2^$power chunks do not fit into the memory"; break; }
    powers+=("$power")
  done
  ((${#powers[@]} > 0)) || die 'no size of curve fits into the memory'
  buffers=$(((2 << powers[-1]) * 11 / 7680 + 512))
  reserve_huge_pages "$buffers"
  begin_part curve "shared_buffers = ${buffers}MB"
  run_psql -c "create table names as $(names 1 1000000)" -c 'alter table names rename "?column?" to name' -c 'vacuum analyze'
  for power in "${powers[@]}"; do
    note "a filter of 2^$power chunks"
    run_psql -c 'set client_min_messages = error' \
      -c "select bloom_create('size_$power', 1e6, chunks => 1 << $power, source => 'select name from names')" \
      -c "select bloom_info('size_$power')" >/dev/null
  done
  run_psql -c checkpoint
  for ((round = 1; round <= ROUNDS; round++)); do
    note "sizes, round $round of $ROUNDS"
    for power in "${powers[@]}"; do
      table=size_$power SEED=$((SEED + 1))
      curve_of check "$power" "select bloom_might_contain('$table', \$1)" -n user,1,1000000
      curve_of add "$power" "select bloom_add('$table', \$1)" -n "add$SEED-,1,1000000000"
      curve_of floor "$power" "${CHECK[floor]}" -n user,1,1000000
      run_psql -c "call alternate(array['scan', '$power'],
          array['select count(*) from names where octet_length(name) < 0',
                'select count(*) from names where not bloom_might_contain(''$table'', name)'],
          array[1e6, 1e6], 1)"
      record curve_query "$power" 1 "$(run_psql -c "select round((sum(us) filter (where contestant = '$power')
          - sum(us) filter (where contestant = 'scan'))::numeric, 4) from sample" -c 'truncate sample')"
    done
  done
  end_part
  release_huge_pages
}

# curve_of FIGURE POWER SQL OPTION...: one round of one client.
curve_of() {
  local us
  read -r us _ < <(ask table "$3" -t "$SECONDS_A_RUN" -r "$SEED" "${@:4}")
  record "curve_$1" "$2" 1 "$us"
}

# ---- rates: the error rate of a filter that fills up to twice its capacity

part_rates() {
  local capacity=1000000 step=100000 asked=4000000 items way chunks
  [[ -z $QUICK ]] || asked=1000000
  begin_part rates 'shared_buffers = 1GB'
  run_psql >/dev/null <<SQL
select bloom_create(way, $capacity, ready => true) from unnest(array['alone', 'grown', 'rebuilt']) way;
SQL
  chunks=$(run_psql -c "select (bloom_info('alone')).chunks")
  for ((items = step; items <= 2 * capacity; items += step)); do
    note "error rates at $items items"
    for way in alone grown rebuilt; do
      run_psql -c "select bloom_add_many('$way', array($(names "$((items - step + 1))" "$items")))" >/dev/null
      measure_rate "$way" "$items" "$chunks" "$capacity" "$asked"
    done
    if ((items == capacity)); then
      run_psql -c 'set client_min_messages = warning' -c "call bloom_grow('grown')" \
        -c "call bloom_rebuild('rebuilt', \$\$$(names 1 "$items")\$\$, 2 * $capacity, grace => '0')"
      for way in grown rebuilt; do measure_rate "$way" "$items" "$chunks" "$capacity" "$asked"; done
    fi
  done
  end_part
}

# measure_rate WAY ITEMS CHUNKS CAPACITY ASKED: the share of absent names that the filter answers maybe,
# beside the one computed from the number of items. A grown filter has each old item twice.
measure_rate() {
  run_psql -F $'\t' >>"$WORK/$PART.tsv" <<SQL
select 'rate', '$1', $2, round(sum(maybes) / $5::numeric, 8), round(bloom_expected_fp_rate(
    $2 + case when '$1' = 'grown' and (bloom_info('$1')).chunks > $3 then $4 else 0 end, (bloom_info('$1')).chunks)::numeric, 8)
from generate_series(0, $5 / 1000000 - 1) batch,
    lateral (select count(*) filter (where maybe) as maybes
             from unnest(bloom_might_contain_many('$1', array(
                 select 'absent' || i from generate_series(batch * 1000000 + 1, (batch + 1) * 1000000) i))) maybe) counted;
SQL
}
