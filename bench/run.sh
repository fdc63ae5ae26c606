#!/usr/bin/env bash
# Every speed that the project names, beside its bound; and its rivals, in the same run.
#
#   bench/run.sh            prints the table; takes some 15 minutes and 8 GB of temporary disk
#   bench/run.sh --save     writes it to bench/RESULTS.md too, with the raw lines
#
# Contestants alternate, and figures are medians over rounds: what other work on the machine adds
# then falls on all of them. The cluster runs with fsync off, since an add forces its commit to the
# disk, and a disk is not what is measured. Ends with 1 if a bound is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ROUNDS=${ROUNDS:-7}     # of each alternation
SECONDS_A_RUN=${SECONDS_A_RUN:-3}
ADDS=${ADDS:-1000000}   # single adds for HOT and growth

SETTINGS=(
  'shared_buffers = 3GB' 'maintenance_work_mem = 1GB' 'work_mem = 256MB' 'max_wal_size = 64GB'
  'checkpoint_timeout = 1d' 'fsync = off' 'jit = off' 'max_parallel_workers_per_gather = 0'
)

# ---- Measuring

# us FILE CLIENTS: microseconds a statement, prepared, over SECONDS_A_RUN.
us() {
  local clients=$2
  run_program pgbench -n -M prepared -c "$clients" -j "$((clients > 2 ? 2 : clients))" \
    -T "$SECONDS_A_RUN" -f "$1" |
    awk -v clients="$clients" '/^tps = / { printf "%.2f\n", clients * 1e6 / $3 }'
}

# alternate CLIENTS SCRIPT...: ROUNDS of each in turn, into the table sample as "script/clients".
alternate() {
  local clients=$1 round script
  shift
  for ((round = 0; round < ROUNDS; round++)); do
    for script in "$@"; do
      run_psql -c "insert into sample values ('$script/$clients', $(us "$BENCH/pgbench/$script.sql" "$clients"))"
    done
  done
}

prepare() {
  note 'making tables'
  run_psql <<'SQL'
create extension pg_walinspect;
create extension bloom;
create table names as select 'user' || i as name from generate_series(1, 1000000) i;
create table few_names as select * from names limit 50000;
select bloom_create('f', 1e8, chunks => 131072, source => 'select name from names');
select bloom_create('f_add', 1e8, chunks => 131072, source => 'select name from names');
-- Rows in no order, as in a table that was adopted.
create table f_scattered (chunk int primary key, bits bit(8192) not null) with (fillfactor = 80);
insert into f_scattered select * from f order by random();
select bloom_register('f_scattered', 'lower');
-- The article's table, as its text makes it.
create table article.filter (chunk int primary key, bits bit(8192) not null);
insert into article.filter select * from f order by chunk;
create table users as select 'user' || i as username from generate_series(1, 2000000) i;
create unique index on users (lower(username));
create table users_bloom as table users;
create index on users_bloom using bloom (lower(username));
vacuum analyze;
checkpoint;
SQL
}

# ---- The figures

prepared_checks() {
  local clients
  for clients in 1 8; do
    note "prepared statements, $clients client(s)"
    alternate "$clients" floor check
    figure "prepared check, $clients client(s)" "spread('check/$clients')"
    figure "… floor: the same without the filter" "spread('floor/$clients')"
    figure '… ratio' "round((median('check/$clients') / median('floor/$clients'))::numeric, 3)" \
      "'at most 1.25 ×'" "median('check/$clients') <= 1.25 * median('floor/$clients')"
  done
}

checks_in_queries() {
  note 'checks inside queries'
  run_psql <<SQL
call alternate(
    array['scan', 'in query', 'scattered', 'many', 'array', 'few scan', 'article in query'],
    array['select count(*) from names where octet_length(name) < 0',
          'select count(*) from names where not bloom_might_contain(''f'', name)',
          'select count(*) from names where not bloom_might_contain(''f_scattered'', name)',
          'select bloom_might_contain_many(''f'', array(select name from names))',
          'select cardinality(array(select name from names))',
          'select count(*) from few_names where octet_length(name) < 0',
          'select count(*) from few_names n, article.username_bits(n.name) u, article.filter f
           where f.chunk = u.chunk and (f.bits & u.mask) <> u.mask'],
    array[1e6, 1e6, 1e6, 1e6, 1e6, 5e4, 5e4], $ROUNDS);
SQL
  figure 'one check in a query over 1 M names' "spread('in query')"
  figure '… beyond the bare scan' \
    "format('%s µs', round((median('in query') - median('scan'))::numeric, 2))" \
    "'at most 1.2 µs'" "median('in query') - median('scan') <= 1.2"
  figure '… where rows are in no order, by those in order' \
    "round(((median('scattered') - median('scan')) / (median('in query') - median('scan')))::numeric, 2)" \
    "'at most 1.3 ×'" \
    "median('scattered') - median('scan') <= 1.3 * (median('in query') - median('scan'))"
  figure '… check of the article' "spread('article in query')"
  figure '… times faster' \
    "round(((median('article in query') - median('few scan')) / (median('in query') - median('scan')))::numeric, 1)" \
    "'at least 7 ×'" \
    "median('article in query') - median('few scan') >= 7 * (median('in query') - median('scan'))"
  figure 'one check in _many, 1 M names a call, with making the array' "spread('many')"
  figure '… beyond making the array' \
    "format('%s µs', round((median('many') - median('array'))::numeric, 2))" \
    "'at most 0.5 µs'" "median('many') - median('array') <= 0.5"
}

# A filter a shard, by one filter of as many chunks, for names of which each is in one of the shards.
several_filters() {
  note 'sixteen filters in one call'
  run_psql <<'SQL'
select count(bloom_create('shard_' || i, 1e6, chunks => 8192,
    source => format('select name from names where hashtext(name) & 15 = %s', i)))
from generate_series(0, 15) i;
SQL
  local filters
  filters=$(printf ',shard_%s' {0..15})
  run_psql <<SQL
call alternate(
    array['shards floor', 'one shard', 'one of all', 'all shards'],
    array['select count(*) from names where name is not null',
          'select count(*) from names where bloom_might_contain(''shard_3'', name) is not null',
          'select count(*) from names where bloom_might_contain(''f'', name) is not null',
          'select count(*) from names where bloom_might_contain_any(''{${filters#,}}'', name) is not null'],
    array[1e6, 1e6, 1e6, 1e6], $ROUNDS);
SQL
  figure 'a name in sixteen filters of 2^13 chunks, in one call' "spread('all shards')"
  figure '… in one filter of 2^17 chunks' "spread('one of all')"
  figure '… ratio' "round((median('all shards') / median('one of all'))::numeric, 2)" "'at most 3 ×'" \
    "median('all shards') <= 3 * median('one of all')"
  figure '… in one filter of 2^13 chunks' "spread('one shard')"
  figure '… the query without a check' "spread('shards floor')"
}

adds() {
  note 'adds'
  alternate 1 floor add article_add
  figure 'prepared add' "spread('add/1')"
  figure '… add of the article' "spread('article_add/1')"
  figure '… beyond the floor, by that of the article' \
    "round(((median('add/1') - median('floor/1')) / (median('article_add/1') - median('floor/1')))::numeric, 3)" \
    "'at most 0.5 ×'" \
    "median('add/1') - median('floor/1') <= 0.5 * (median('article_add/1') - median('floor/1'))"
}

single_adds() {
  note "$ADDS single adds, autovacuum on"
  run_psql <<'SQL'
select bloom_create('f_hot', 1e8, chunks => 131072, source => 'select name from names');
vacuum analyze f_hot;
select pg_stat_reset_single_table_counters('f_hot'::regclass);
create table hot_before as select pg_relation_size('f_hot') as bytes;
SQL
  sed 's/f_add/f_hot/' "$BENCH/pgbench/add.sql" >"$WORK/add_hot.sql"
  run_program pgbench -n -M prepared -c 4 -j 2 -t "$((ADDS / 4))" -f "$WORK/add_hot.sql" >/dev/null
  run_psql <<'SQL'
insert into result (figure, value, bound, ok)
select format('single adds of %s that are HOT', n_tup_upd),
       format('%s %%', round(100.0 * n_tup_hot_upd / n_tup_upd, 2)), 'at least 99 %',
       n_tup_hot_upd >= 0.99 * n_tup_upd
from pg_stat_user_tables where relname = 'f_hot';
insert into result (figure, value, bound, ok)
select '… growth of the table', format('%s %%', round(100.0 * pg_relation_size('f_hot') / bytes - 100, 2)),
       'at most 2 %', pg_relation_size('f_hot') <= 1.02 * bytes
from hot_before;
SQL
  wal_of_adds 'WAL an add, pages touched since the checkpoint'
  run_psql -c checkpoint
  wal_of_adds 'WAL an add, right after a checkpoint'
}

# wal_of_adds NAME: of 5,000 adds, and which records make most of it.
wal_of_adds() {
  local start end
  start=$(run_psql -c 'select pg_current_wal_flush_lsn()')
  run_program pgbench -n -M prepared -c 1 -t 5000 -f "$WORK/add_hot.sql" >/dev/null
  end=$(run_psql -c 'select pg_current_wal_flush_lsn()')
  run_psql <<SQL
insert into result (figure, value)
select '$1', format('%s bytes: %s', round(sum(combined_size) / 5000),
    string_agg(format('%s %s (%s of full pages)', round(combined_size / 5000), "resource_manager/record_type",
                      round(fpi_size / 5000)), ', ' order by combined_size desc)
        filter (where combined_size >= 5000))
from pg_get_wal_stats('$start', '$end', true);
SQL
}

# Names of one statement, one call each: their number must not tell in the time of one.
one_statement() {
  note 'bloom_add of each name of a table'
  local names round
  for ((round = 0; round < ROUNDS; round++)); do
    for names in 12500 25000 50000 100000; do
      run_psql <<SQL
drop table if exists f_each;
select bloom_create('f_each', 1e6, ready => true);
call alternate(array['each $names'],
    array['select count(bloom_add(''f_each'', name)) from (select name from names limit $names) n'],
    array[1], 1);
SQL
    done
  done
  for names in 12500 25000 50000; do
    figure "bloom_add of $names names in one statement" \
      "format('%s ms', round((median('each $names') / 1e3)::numeric))"
  done
  figure 'bloom_add of 100000 names in one statement' \
    "format('%s ms', round((median('each 100000') / 1e3)::numeric))" "'at most 600 ms'" \
    "median('each 100000') <= 6e5"
  run_psql <<'SQL'
insert into result (figure, value, bound, ok)
select '… versions a chunk', round(n_tup_upd::numeric / (bloom_info('f_each')).chunks, 2),
       'at most 1', n_tup_upd <= (bloom_info('f_each')).chunks
from pg_stat_user_tables where relname = 'f_each';
SQL
}

bulk() {
  note 'bloom_add_many of 1 M'
  local round
  for ((round = 0; round < 3; round++)); do
    run_psql <<'SQL'
drop table if exists f_bulk;
select bloom_create('f_bulk', 1e8, chunks => 131072, ready => true);
vacuum analyze f_bulk;
checkpoint;
call alternate(array['add many'],
    array['select bloom_add_many(''f_bulk'', array(select name from names))'], array[1e6], 1);
SQL
  done
  figure 'bloom_add_many of 1 M names into an empty filter' \
    "format('%s s', round(median('add many')::numeric, 2))" "'at most 3 s'" "median('add many') <= 3"
}

rates() {
  note 'rates'
  run_psql <<SQL
call alternate(
    array['rate', 'article rate', 'length', 'view'],
    array['select bloom_fp_rate(bits) from f',
          'select avg((bit_count(bits) / 8192.0) ^ 7) from f',
          'select sum(length(bits)) from f',
          'select * from bloom_filters where filter = ''f''::regclass'],
    array[1e3, 1e3, 1e3, 1e3], $ROUNDS);
SQL
  figure 'bloom_fp_rate of 131072 chunks' "format('%s ms', round(median('rate')::numeric, 1))"
  figure '… query of the article, times slower' \
    "round((median('article rate') / median('rate'))::numeric, 2)" "'at least 2 ×'" \
    "median('article rate') >= 2 * median('rate')"
  figure '… by sum(length(bits))' "round((median('rate') / median('length'))::numeric, 2)" \
    "'at most 4 ×'" "median('rate') <= 4 * median('length')"
  figure 'bloom_filters, one filter' "format('%s ms', round(median('view')::numeric, 2))" \
    "'at most 10 ms'" "median('view') <= 10"
}

sizes() {
  note 'filter sizes'
  local power scripts=()
  for power in 11 14 17 20; do
    run_psql -c "select bloom_create('size_$power', 1e6, chunks => $((1 << power)), source => 'select name from names')" >/dev/null
    run_psql -c "select bloom_info('size_$power')" >/dev/null
    sed "s/'f'/'size_$power'/" "$BENCH/pgbench/check.sql" >"$WORK/size_$power.sql"
    scripts+=("$power")
  done
  local round
  for ((round = 0; round < ROUNDS; round++)); do
    for power in "${scripts[@]}"; do
      run_psql -c "insert into sample values ('size $power', $(us "$WORK/size_$power.sql" 1))"
      run_psql -c "call alternate(array['scan $power', 'size in query $power'],
          array['select count(*) from names where octet_length(name) < 0',
                'select count(*) from names where not bloom_might_contain(''size_$power'', name)'],
          array[1e6, 1e6], 1)"
    done
  done
  for power in "${scripts[@]}"; do
    figure "prepared check, 2^$power chunks" "spread('size $power')"
    figure "… in a query, beyond the scan" \
      "format('%s µs', round((median('size in query $power') - median('scan $power'))::numeric, 2))"
  done
  figure 'prepared check, 2^20 chunks by 2^11' \
    "round((median('size 20') / median('size 11'))::numeric, 3)" "'at most 1.3 ×'" \
    "median('size 20') <= 1.3 * median('size 11')"
}

rivals() {
  note 'rivals'
  alternate 1 floor check unique_index article_check
  alternate 8 floor check unique_index article_check
  local clients
  for clients in 1 8; do
    figure "unique index on lower(username), 2 M users, $clients client(s)" "spread('unique_index/$clients')"
    figure "the article in PL/pgSQL, $clients client(s)" "spread('article_check/$clients')"
  done
  ROUNDS=3 alternate 1 contrib_bloom
  figure 'contrib bloom on lower(username), 2 M users, 1 client' "spread('contrib_bloom/1')"
  redis
}

# Redis on a Unix socket, keys in the place of users.
redis() {
  if ! command -v redis-server >/dev/null; then
    figure 'Redis' "'not installed (apt-get install redis-server)'"
    return
  fi
  local socket=$WORK/redis.sock round test clients
  redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$WORK" \
    >"$WORK/redis.log" 2>&1 &
  CHILD=$!  # ended with the script, however that ends
  until redis-cli -s "$socket" ping >/dev/null 2>&1; do kill -0 "$CHILD"; sleep 0.1; done
  redis-benchmark -s "$socket" -q -t set -r 1000000 -n 1000000 -P 32 -c 8 >/dev/null
  for clients in 1 8; do
    for ((round = 0; round < ROUNDS; round++)); do
      for test in ping_mbulk get; do
        run_psql -c "insert into sample values ('redis $test/$clients', $(redis-benchmark -s "$socket" \
          --csv -t "$test" -r 1000000 -n "$((clients * 50000))" -c "$clients" |
          awk -F'","' -v clients="$clients" 'END { printf "%.2f", clients * 1e6 / $2 }'))"
      done
    done
    figure "Redis GET, $clients client(s)" "spread('redis get/$clients')"
    figure "Redis PING, $clients client(s)" "spread('redis ping_mbulk/$clients')"
  done
  kill "$CHILD"
  wait "$CHILD" 2>/dev/null || true
  CHILD=
}

main() {
  begin_bench "$@"
  prepare_results
  prepare_article
  prepare
  prepared_checks
  checks_in_queries
  several_filters
  # First among those that write: vacuum and analyze of what the others leave behind hold snapshots,
  # and what this measures is what one filter does to itself.
  single_adds
  adds
  one_statement
  bulk
  rates
  sizes
  rivals
  print_figures
  [[ ${1:-} != --save ]] || document bench/run.sh \
    'in microseconds; in milliseconds for rate, length and view, in seconds for add many' | save_section run
  all_met
}

main "$@"
