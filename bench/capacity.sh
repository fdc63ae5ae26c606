#!/usr/bin/env bash
# What a filter of 2^11 ... 2^20 chunks holds and takes: names at 1 % and at 0.1 %, memory, disk, dump.
#
#   bench/capacity.sh            prints the table; takes some 20 minutes and 8 GB of temporary disk
#   bench/capacity.sh --save     writes it to bench/RESULTS.md too
#
# Every filter is made, and its files are measured. Those of up to 2^FILLED chunks are also filled with the
# names that they hold at 1 %, and dumped. Ends with 1 if a bound is missed.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

FIRST=${FIRST:-11}    # the smallest filter has 2^FIRST chunks
LAST=${LAST:-20}      # the largest
FILLED=${FILLED:-17}  # the largest that is filled: 112 million names

SETTINGS=(
  'shared_buffers = 1GB' 'maintenance_work_mem = 2GB' 'max_wal_size = 16GB' 'checkpoint_timeout = 1d' 'fsync = off'
  'jit = off' 'max_parallel_workers_per_gather = 0' 'autovacuum = off'
)

# What is measured of each size, and how many names it holds at a rate.
prepare() {
  run_psql <<'SQL'
create table size (power int primary key, names_1 float8, names_01 float8, load bigint, heap bigint,
                   index bigint, dump_empty bigint, dump_full bigint, rate_full float8);
-- The largest number of items whose expected rate is not above this one, by halving.
create function items_at(rate float8, chunks int) returns float8 language plpgsql as $$
declare
    low float8 := 0;
    high float8 := chunks * 8192.0;
begin
    while high - low > 1 loop
        if bloom_expected_fp_rate(floor((low + high) / 2), chunks) <= rate then low := floor((low + high) / 2);
        else high := floor((low + high) / 2);
        end if;
    end loop;
    return low;
end $$;
SQL
}

# Bytes of a dump of the filter f, in pg_dump's custom format with its default compression.
dump_bytes() {
  run_program pg_dump --format=custom --table=f | wc -c
}

# make_filter POWER OPTION: the filter f of 2^POWER chunks, for the names that it holds at 1 %.
make_filter() {
  run_psql -c "set client_min_messages = error" -c "select bloom_create('f', names_1, chunks => 1 << power, $2)
      from size where power = $1" >/dev/null
}

# measure POWER: a row of the table.
measure() {
  note "2^$1 chunks"
  run_psql -c "insert into size (power, names_1, names_01)
      select $1, items_at(0.01, 1 << $1), items_at(0.001, 1 << $1)"
  make_filter "$1" 'ready => true'
  run_psql -c "update size set heap = pg_table_size('f'), index = pg_indexes_size('f'), load = 1024 * (1 << $1),
      dump_empty = $(dump_bytes) where power = $1" -c 'drop table f'
  (($1 <= FILLED)) || return 0
  local names
  names=$(run_psql -c "select names_1::bigint from size where power = $1")
  make_filter "$1" "source => \$\$$(names 1 "$names")\$\$"
  run_psql -c "update size set dump_full = $(dump_bytes), rate_full = (bloom_info('f')).fp_rate where power = $1" \
    -c 'drop table f'
}

# The table. What was not dumped full is computed by the bytes a chunk of the largest that was.
print_sizes() {
  printf '%s\n' '| chunks | names at 1 % | names at 0.1 % | bits: memory of a load | table | index | disk, and memory to keep it there | dump, empty | dump, full at 1 % |' \
    '|---|---|---|---|---|---|---|---|---|'
  run_psql <<'SQL'
create function mb(bytes float8) returns text language sql
return case when bytes < 1e6 then round((bytes / 1e3)::numeric) || ' kB'
            when bytes < 1e7 then round((bytes / 1e6)::numeric, 1) || ' MB'
            else round((bytes / 1e6)::numeric) || ' MB' end;
-- 1.74 million
create function millions(items float8) returns text language sql
return to_char(items / 1e6, case when items < 1e7 then 'FM990.00' when items < 1e8 then 'FM990.0' else 'FM990' end)
       || ' million';
select format('| 2^%s = %s | %s | %s | %s | %s | %s | %s | %s | %s |', power, to_char(1 << power, 'FM9,999,999'),
              millions(names_1), millions(names_01), mb(load), mb(heap), mb(index), mb(heap + index), mb(dump_empty),
              coalesce(mb(dump_full), (select '≈ ' || mb(s.dump_full / (1 << s.power) * (1 << size.power))
                                       from size s where s.dump_full > 0 order by s.power desc limit 1)))
from size order by power;
SQL
}

# What makes the table good for sizes between, and for those that were not filled.
check_sizes() {
  figure 'bytes of table and index a chunk, the least and the most of all sizes' \
    "(select format('%s – %s', min(b), max(b)) from (select round((heap + index)::numeric / (1 << power), 1) b from size) _)"
  figure '… by bloom_size, largest difference' \
    "(select round(max(abs(disk_bytes::numeric / (heap + index) - 1)) * 100, 2) || ' %' from size,
        lateral bloom_size(names_1, 0.01) b where storage = 'table')" "'at most 1 %'" \
    "(select max(abs(disk_bytes::float8 / (heap + index) - 1)) <= 0.01 from size,
        lateral bloom_size(names_1, 0.01) b where storage = 'table')"
  figure 'bytes of a full dump a chunk, the least and the most of the sizes that were filled' \
    "(select format('%s – %s', min(b), max(b)) from (select round(dump_full::numeric / (1 << power), 1) b from size where dump_full > 0) _)"
  figure 'false-positive rate, read from the bits of the filters that were filled' \
    "(select format('%s %% – %s %%', round(min(rate_full)::numeric * 100, 3), round(max(rate_full)::numeric * 100, 3)) from size)" \
    "'within 3 % of 1 %'" "(select min(rate_full) >= 0.0097 and max(rate_full) <= 0.0103 from size)"
}

# The report, with what it was measured on.
report() {
  printf '## bench/capacity.sh\n\n'
  describe_run
  printf '%s\n\n' "MB are 10^6 bytes. Dumps are \`pg_dump --format=custom\`. Those with ≈ are computed by the bytes a chunk of the largest that was filled."
  print_sizes
  printf '\n'
  print_figures
}

begin_bench "$@"
prepare_results
prepare
for ((power = FIRST; power <= LAST; power++)); do measure "$power"; done
check_sizes
report >"$WORK/report"
cat "$WORK/report"
[[ $* != --save ]] || save_section capacity <"$WORK/report"
all_met
