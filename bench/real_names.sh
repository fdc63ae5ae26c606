#!/usr/bin/env bash
# How a filter does on names that people wrote, not a generator: mixed case, accents, Cyrillic,
# long runs of names that differ by an ending.
#
#   bench/real_names.sh                 taken and asked names from Debian's word lists
#   bench/real_names.sh TAKEN ASKED     from two files, UTF-8, a name a line
#   bench/real_names.sh --save ...      writes the figures to bench/RESULTS.md too
#
# Every taken name goes into a filter for 10 M at 1 % and is checked: none may be denied. Every
# asked name is checked, and the maybes are compared with the exact answer. Ends with 1 if a name
# is denied or if a measured rate and the rate read from the bits disagree. Prints figures, never
# a name. Takes some 3 GB of temporary disk and a few minutes; needs no root.
set -euo pipefail
# shellcheck source=bench/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Inflected forms make the largest lists; the asked ones are other languages, so that most are
# absent and some (loanwords, proper names) are not.
TAKEN_PACKAGES=(wpolish wukrainian)
ASKED_PACKAGES=(wamerican-insane wcatalan wdutch wfrench wngerman wportuguese)

SETTINGS=(
  'shared_buffers = 1GB' 'maintenance_work_mem = 256MB' 'work_mem = 256MB'
  'max_wal_size = 8GB'
  # Nothing here outlives the run, and no figure is about durability.
  'fsync = off'
  # Would run beside the timed scans; JIT would add its compile time to them.
  'autovacuum = off' 'jit = off'
)

check_needs() {
  find_extension
  (($# == 2)) && return
  require apt-get 'give two files of names instead'
  require dpkg-deb 'give two files of names instead'
}

# fetch LIST PACKAGE...: WORK/LIST gets the words of the packages, which are unpacked and not
# installed; WORK/LIST.source gets their names and versions.
fetch() {
  local list=$1 folder=$WORK/$1.packages deb
  shift
  note "fetching $*"
  mkdir -p "$folder/words"
  (cd "$folder" && apt-get download -q "$@" >apt.log 2>&1) ||
    die "apt-get download failed (run apt-get update once?): $(tail -n 1 "$folder/apt.log")"
  for deb in "$folder"/*.deb; do
    dpkg-deb -x "$deb" "$folder/words"
    # shellcheck disable=SC2016 # the fields are dpkg-deb's
    dpkg-deb -W --showformat='${Package} ${Version}\n' "$deb"
  done | paste -sd, | sed 's/,/, /g' >"$WORK/$list.source"
  # By way of grep: without empty lines, and with the last line ended.
  find "$folder/words/usr/share/dict" -type f -print0 | sort -z |
    LC_ALL=C xargs -0 grep -ah . >"$WORK/$list"
}

# take LIST FILE: the same from the caller's file.
take() {
  [[ -r $2 ]] || die "cannot read $2"
  LC_ALL=C grep -a . "$2" >"$WORK/$1" || die "$2 holds no name"
  printf 'a file' >"$WORK/$1.source"
}

collect_names() {
  if (($# == 2)); then
    take taken "$1"
    take asked "$2"
  else
    fetch taken "${TAKEN_PACKAGES[@]}"
    fetch asked "${ASKED_PACKAGES[@]}"
  fi
}

# load LIST TABLE: each line is one name, whatever it holds, so the delimiter and the quote are
# bytes that no name has. What copy would still not take as it stands shows in the count.
load() {
  local lines rows
  run_psql -c "create table $2 (name text not null)"
  run_psql -c "\\copy $2 from pstdin (format csv, delimiter E'\\x01', quote E'\\x02')" <"$WORK/$1"
  lines=$(wc -l <"$WORK/$1")
  rows=$(run_psql -c "select count(*) from $2")
  ((lines == rows)) || die "$lines lines of $1 names gave $rows rows"
}

# The asked names, once each: two spellings of one key meet the same bits, and would count one
# false positive twice. The generated names tighten the measurement.
load_names() {
  note 'loading'
  load taken names
  load asked asked_names
  run_psql <<'SQL'
create table keys as select distinct lower(name) as key from names;
create table asked as
select 'real' as list, min(name) as name, lower(name) as key from asked_names group by lower(name)
union all
select 'generated', name, name
from (select 'user-' || md5(i::text) as name from generate_series(1, 1000000) i) generated;
create table figure (id int generated always as identity, name text, value text);
create table failure (reason text);
vacuum analyze;
SQL
}

build_filter() {
  note 'building the filter'
  run_psql <<'SQL'
select clock_timestamp() as start \gset
select bloom_create('taken', 10e6, 0.01, source => 'select name from names') as filter \gset
insert into figure (name, value)
select v.* from
  (select count(*) as names, count(*) filter (where name <> lower(name)) as cased,
       count(*) filter (where octet_length(name) <> length(name)) as beyond_ascii from names) n,
  (select count(*) as keys from keys) k,
  bloom_info('taken') info,
  lateral (values
    ('taken names', to_char(names, 'FM999,999,999')),
    ('… that lower() changes', to_char(cased, 'FM999,999,990')),
    ('… beyond ASCII', to_char(beyond_ascii, 'FM999,999,990')),
    ('… distinct under lower()', to_char(keys, 'FM999,999,999')),
    ('items that the bits tell', format('%s (%s %%)', to_char(items, 'FM999,999,999'),
        to_char(100 * (items / keys - 1), 'SFM990.000'))),
    ('chunks', to_char(info.chunks, 'FM999,999,999')),
    ('filter on disk', format('%s MB, %s bits a name', round(bytes / 1e6, 2),
        round(bytes * 8.0 / keys, 1))),
    ('names on disk, without an index',
        format('%s MB', round(pg_table_size('names') / 1e6, 2))),
    ('bloom_create with source', format('%s s, %s ns a name',
        round(extract(epoch from clock_timestamp() - :'start'::timestamptz), 2),
        round(extract(epoch from clock_timestamp() - :'start'::timestamptz) * 1e9 / names)))
  ) v;
SQL
}

# Under "nfkc" and "username" a key is its own key, whatever people write. Else a name would be
# another after it was stored and read again.
check_keys() {
  note 'making the keys of every taken name by ICU'
  run_psql <<'SQL'
create table settled as
select normalization, count(distinct key) as keys,
    count(*) filter (where bloom_normalize(key, normalization) <> key) as unsettled
from names, unnest(array['nfkc', 'username']) normalization,
    lateral (select bloom_normalize(name, normalization) as key offset 0) k
group by normalization;
insert into figure (name, value)
select format('… distinct under %s', normalization), to_char(keys, 'FM999,999,999')
from settled order by normalization;
insert into failure select format('%s keys of %s are not their own keys', unsettled, normalization)
from settled where unsettled > 0;
SQL
}

# One process, best of three: what other work on the machine adds is not the filter's.
check_taken() {
  note 'checking every taken name'
  run_psql <<'SQL'
set max_parallel_workers_per_gather = 0;
create function timed(query text, out counted bigint, out seconds numeric) as $$
declare
  start timestamptz;
  each bigint;
begin
  counted := 0;
  for run in 1..3 loop
    start := clock_timestamp();
    execute query into each;
    seconds := least(seconds, extract(epoch from clock_timestamp() - start));
    counted := greatest(counted, each);
  end loop;
end $$ language plpgsql;

select seconds as scan from timed('select count(*) from names where octet_length(name) < 0') \gset
select counted as denied, seconds as checks from timed(
    $$select count(*) from names where bloom_might_contain('taken', name) is not true$$) \gset
select count(*) as names from names \gset
insert into figure (name, value) values
  ('taken names denied', :'denied'),
  ('checking all of them, one statement', format('%s s', round(:checks, 2))),
  ('a check, beyond the scan', format('%s ns', round((:checks - :scan) * 1e9 / :names)));
insert into failure select format('%s taken names were denied', :'denied') where :denied > 0;
SQL
}

# An absent name's key is new to the filter, so each is a draw at the rate that the bits have: of
# n draws the rate lies in Wilson's interval around the measured one, in 99 runs of 100.
compare_asked() {
  note 'checking every asked name'
  run_psql <<'SQL'
create table checked as
select list, keys.key is not null as taken, bloom_might_contain('taken', name) as maybe
from asked left join keys using (key);

create table rate as
select fp_rate as read, bloom_expected_fp_rate((select count(*) from keys), chunks) as expected,
    (select bloom_fp_rate(bits) from taken) as chunk_level
from bloom_info('taken');

create table outcome as
select *, false_positives::float8 / absent as measured,
    (false_positives + z * z / 2 - half) / (absent + z * z) as low,
    (false_positives + z * z / 2 + half) / (absent + z * z) as high
from (select list, count(*) as asked, count(*) filter (where taken) as taken,
          nullif(count(*) filter (where not taken), 0) as absent,
          count(*) filter (where maybe is not true and taken) as denied,
          count(*) filter (where maybe and not taken) as false_positives,
          count(*) filter (where maybe is null) as unanswered
      from checked group by list) counted,
    (values (2.5758293)) normal (z),
    lateral (select z * sqrt(false_positives * (absent - false_positives)::float8 / absent
                             + z * z / 4) as half) wilson;

insert into figure (name, value)
select v.* from rate, lateral (values
    ('rate read from the bits', format('%s %%', round(100 * read::numeric, 5))),
    ('rate expected of as many names', format('%s %% (read / expected %s)',
        round(100 * expected::numeric, 5), round((read / expected)::numeric, 4)))) v;
insert into figure (name, value)
select v.name, v.value from outcome, lateral (values
    (1, format('%s names asked, distinct', list), to_char(asked, 'FM999,999,999')),
    (2, '… taken, by an exact join', to_char(taken, 'FM999,999,990')),
    (3, '… taken and denied', denied::text),
    (4, '… absent', to_char(coalesce(absent, 0), 'FM999,999,990')),
    (5, '… false positives', to_char(false_positives, 'FM999,999,990')),
    (6, '… rate measured (99 % interval)', case when absent is null then 'none to measure'
        else format('%s %% (%s – %s)', round(100 * measured::numeric, 5),
            round(100 * low::numeric, 5), round(100 * high::numeric, 5)) end)) v (line, name, value)
order by list desc, line;

insert into failure
select format('%s %s names that are taken were denied', denied, list) from outcome where denied > 0
union all
select format('%s checks of %s names gave null', unanswered, list) from outcome where unanswered > 0
union all
select format('%s names: the rate read from the bits is not in the interval', list)
from outcome, rate where read not between low and high
union all
select 'bloom_info and bloom_fp_rate read different rates'
from rate where abs(read - chunk_level) > 1e-9 * read
union all
select format('the filter is not ready: %s', status) from bloom_info('taken')
where status not like 'ready%';
SQL
}

# The figures as a table.
print_table() {
  printf '| figure | value |\n|---|---|\n'
  printf '| date | %s |\n' "$(date -u +%F)"
  printf '| machine | %s; load average %s at the start |\n' "$(describe_machine)" "$LOAD"
  run_psql -c "select format('| versions | PostgreSQL %s, bloomfilter %s |',
      split_part(current_setting('server_version'), ' ', 1), extversion)
    from pg_extension where extname = 'bloomfilter'"
  printf '| settings | %s |\n' "$(printf '%s\n' "${SETTINGS[@]}" | sed 's/ = /=/' | paste -sd' ')"
  printf '| taken from | %s |\n' "$(<"$WORK/taken.source")"
  printf '| asked from | %s |\n' "$(<"$WORK/asked.source")"
  run_psql -c "select format('| %s | %s |', name, value) from figure order by id"
}

# Says what failed; false if anything did.
verdict() {
  local failures
  failures=$(run_psql -c 'select reason from failure')
  [[ -z $failures ]] && return
  printf 'FAILED: %s\n' "$failures" >&2
  return 1
}

main() {
  local save=
  if [[ ${1:-} == --save ]]; then
    save=1
    shift
  fi
  (($# == 0 || $# == 2)) ||
    die 'usage: real_names.sh [--save] [TAKEN ASKED], two files with a name a line'
  check_needs "$@"
  # Tells a reader whether the timings had a core to themselves.
  LOAD=$(uptime | sed 's/.*load average[s]*: *\([0-9.]*\).*/\1/')
  local file files=()
  # open_bench goes to another folder
  for file; do files+=("$(realpath -- "$file")"); done
  open_bench
  collect_names "${files[@]}"
  start_bench "${SETTINGS[@]}"
  load_names
  build_filter
  check_keys
  check_taken
  compare_asked
  print_table | tee "$WORK/report"
  if [[ -n $save ]]; then
    { printf '## bench/real_names.sh\n\n'; cat "$WORK/report"; } | save_section real-names
  fi
  verdict
}

main "$@"
