#!/usr/bin/env bash
# What counting costs a check: the same queries with track_counts on and off, in turn.
#
#   bench/counters.sh            prints the table; takes a minute
#   bench/counters.sh --save     writes it to bench/RESULTS.md too
#
# What counting costs is the median of the differences within pairs. Ends with 1 if a bound is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ROUNDS=${ROUNDS:-301}  # pairs of runs
CHECKS=${CHECKS:-20000}  # of a run

SETTINGS=(
  "shared_preload_libraries = 'bloomfilter'" 'shared_buffers = 1GB' 'fsync = off' 'jit = off'
  'max_parallel_workers_per_gather = 0' 'autovacuum = off'
)

# A filter of a million names.
prepare() {
  note 'making a filter'
  run_psql >/dev/null <<SQL
set client_min_messages = warning;
select bloom_create('f', 1000000, source => $\$$(names 1 1000000)$\$);
select count(bloom_might_contain('f', 'user' || i)) from generate_series(1, 100000) i;
SQL
}

# Checks in one query, and checks in a transaction each. A procedure commits without the client. Many
# short runs, so that each run with counters has one without right beside it, on a machine as busy.
measure() {
  note "$ROUNDS rounds"
  run_psql <<SQL
create table pair (what text, on_us float8, off_us float8);
-- Microseconds a check, of that many checks.
create procedure run(what text, setting text, checks int, inout us float8) language plpgsql as $\$
declare
    start timestamptz;
begin
    perform set_config('track_counts', setting, false);
    commit;
    start := clock_timestamp();
    if what = 'query' then
        perform count(bloom_might_contain('f', 'user' || i)) from generate_series(1, checks) i;
        commit;
    else
        for i in 1..checks loop
            perform bloom_might_contain('f', 'user' || i);
            commit;
        end loop;
    end if;
    us := extract(epoch from clock_timestamp() - start) * 1e6 / checks;
end $\$;
create procedure rounds(many int, checks int) language plpgsql as $\$
declare
    what text;
    counted float8;
    bare float8;
begin
    for round in 1..many loop
        foreach what in array array['query', 'transaction'] loop
            -- Which comes first alternates.
            if round % 2 = 0 then call run(what, 'on', checks, counted); end if;
            call run(what, 'off', checks, bare);
            if round % 2 = 1 then call run(what, 'on', checks, counted); end if;
            insert into pair values (what, counted, bare);
            insert into sample values (what || ' on', counted), (what || ' off', bare);
        end loop;
    end loop;
end $\$;
call rounds($ROUNDS, $CHECKS);
create function extra_ns(text) returns float8 language sql
return (select percentile_cont(0.5) within group (order by on_us - off_us) * 1000 from pair where what = \$1);
SQL
  local what
  for what in query transaction; do
    figure "a check, $what, counted" "spread('$what on')"
    figure "a check, $what, not counted" "spread('$what off')"
  done
  figure 'counting, ns a check of a query' "round(extra_ns('query')::numeric, 1)" "'at most 20 ns'" \
    "extra_ns('query') <= 20"
  figure 'counting, ns a transaction of one check; the server counts then, too' \
    "round(extra_ns('transaction')::numeric, 1)"
  figure 'checks that were counted' "(select lookups from bloom_stats('f'))::text"
}

begin_bench "$@"
prepare_results
prepare
measure
print_figures
[[ $* != --save ]] || document bench/counters.sh 'in microseconds a check' | save_section counters
all_met
