#!/usr/bin/env bash
# bench/rivals/table.sh FOLDER: the report of bench/rivals.sh from the files of its parts, with medians
# of the rounds and the goals beside them. Parts that are not there are left out.
set -euo pipefail

cat <<'TEXT'
## bench/rivals.sh

Medians of rounds in which the contestants take turns. Times are in microseconds, as one connection
sees them. The client is `bench/rivals/client.cpp`: blocking, one request at a time, Unix sockets,
prepared statements with the name as their parameter; the in-process reader is in the client itself. *1 M
a call* asks a million names, half of which are there, in one request (the article 100,000), and *1,000
a call* adds a thousand; both count a name, with writing the request and reading the answers. Bytes are
on disk with the filter's index, of an index without its table, of Redis in memory. WAL is without full
pages; of Redis it is the log that it would write. RedisBloom is given the error rate that the filter
has. A hash index and contrib bloom are left out where three tables of users do not fit into the memory.
Nobody forces anything to the disk. Every round is in [rivals/data](rivals/data).

TEXT

cd "$1"
shopt -s nullglob
awk -F '\t' '
  # The median of the numbers of one list.
  function median(key,    list, count, i, j, held) {
    count = split(values[key], list, " ")
    for (i = 2; i <= count; i++) {
      held = list[i] + 0
      for (j = i - 1; j > 0 && list[j] + 0 > held; j--) list[j + 1] = list[j]
      list[j + 1] = held
    }
    return count % 2 ? list[(count + 1) / 2] + 0 : (list[count / 2] + list[count / 2 + 1]) / 2
  }
  function key_of(part, figure, contestant, clients) { return part SUBSEP figure SUBSEP contestant SUBSEP clients }
  function has(part, figure, contestant, clients) { return key_of(part, figure, contestant, clients) in values }
  function get(part, figure, contestant, clients) { return median(key_of(part, figure, contestant, clients)) }

  # Three digits, and thousands apart.
  function number(value,    text, fraction) {
    if (value == int(value) && value < 1000) return sprintf("%d", value)
    if (value < 10) return sprintf("%.2f", value)
    if (value < 100) return sprintf("%.1f", value)
    text = sprintf("%.0f", value)
    while (match(text, /[0-9][0-9][0-9][0-9](,|$)/)) text = substr(text, 1, RSTART) "," substr(text, RSTART + 1)
    return text
  }
  function cell(part, figure, contestant, clients) {
    return has(part, figure, contestant, clients) ? number(get(part, figure, contestant, clients)) : ""
  }
  function megabytes(part, contestant) {
    return has(part, "bytes", contestant, 1) ? number(get(part, "bytes", contestant, 1) / 1e6) " MB" : ""
  }
  function rate(part, contestant) {
    if (has(part, "rate", contestant, 1)) return sprintf("%.3f %%", 100 * get(part, "rate", contestant, 1))
    if (contestant == "value") return rate(part, "process")
    if (contestant == "bloom" && has(part, "reread", "bloom", 1)) return "exact, reads " number(get(part, "reread", "bloom", 1)) " more rows"
    return contestant ~ /^(btree|hash|redis)$/ ? "exact" : ""
  }

  function capacity(part,    i, name) {
    printf "### %s names\n\n", part
    print "| | free, 1 client | 8 clients | taken, 1 client | 8 clients | 1 M a call | add, 1 client | 8 clients | 1,000 a call | bytes | WAL an add | error rate |"
    print "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= contestants; i++) {
      name = contestant[i]
      if (!has(part, "free", name, 1)) continue
      printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", title[name],
        cell(part, "free", name, 1), cell(part, "free", name, 8), cell(part, "taken", name, 1), cell(part, "taken", name, 8),
        cell(part, "many", name, 1), cell(part, "add", name, 1), cell(part, "add", name, 8), cell(part, "add_many", name, 1),
        megabytes(part, name), cell(part, "wal", name, 1), rate(part, name)
    }
    print ""
  }

  function builds(    i, name) {
    print "### Build of 10 M names\n\nNanoseconds a name; of a table of names, or in calls of 10,000 from the client. With the scan of the table.\n"
    print "| | alone | with one worker |\n|---|---|---|"
    for (i = 1; i <= contestants; i++) {
      name = contestant[i]
      if (has("build", "build_0", name, 1))
        printf "| %s | %s | %s |\n", name == "floor" ? "the scan" : title[name], cell("build", "build_0", name, 1), cell("build", "build_1", name, 1)
    }
    print ""
  }

  function curve(    power) {
    print "### By the number of chunks\n\nA million names, all in shared buffers; one client.\n"
    print "| chunks | floor | check | add | check in a query, beyond its scan |\n|---|---|---|---|---|"
    for (power = 11; power <= 31; power++)
      if (has("curve", "curve_check", power, 1))
        printf "| 2^%d | %s | %s | %s | %s |\n", power, cell("curve", "curve_floor", power, 1),
          cell("curve", "curve_check", power, 1), cell("curve", "curve_add", power, 1), cell("curve", "curve_query", power, 1)
    print ""
  }

  function percent(way, items, column,    key) {
    key = "rates" SUBSEP way SUBSEP items
    return sprintf("%.4f %%", 100 * (column == 1 ? measured[key] : predicted[key]))
  }
  function errors(    i, items) {
    print "### Error rate of a filter for a million names at 1 %\n\nMeasured on 4 M absent names, and in parentheses predicted. Grown and rebuilt at a million; see docs/error_rate.svg.\n"
    print "| names | left alone | grown | rebuilt for two million |\n|---|---|---|---|"
    for (i = 4; i <= 20; i += i < 20 ? 4 : 2) {
      items = i * 100000
      printf "| %s | %s (%s) | %s (%s) | %s (%s) |\n", number(items), percent("alone", items, 1), percent("alone", items, 2),
        percent("grown", items, 1), percent("grown", items, 2), percent("rebuilt", items, 1), percent("rebuilt", items, 2)
    }
    print ""
  }

  function goal(what, value, unit, bound, met) {
    printf "| %s | %s%s | %s | %s |\n", what, number(value), unit, bound, met ? "met" : "**missed**"
  }
  function goals(    i, part, value, pages) {
    if (!("goals" in seen || "build" in seen || "1M" in seen || "10M" in seen || "100M" in seen)) return
    print "### Goals\n\n| figure | value | goal | |\n|---|---|---|---|"
    for (i = 1; i <= parts; i++) {
      part = capacity_of[i]
      if (!(part in seen)) continue
      value = get(part, "wal", "table", 1)
      goal("WAL an add, " part " names", value, " bytes", "at most 700 bytes", value <= 700)
    }
    if ("goals" in seen) {
      value = get("goals", "prepared", "table", 1) / get("goals", "prepared", "floor", 1)
      goal("prepared check by a select that asks nothing, 1 client", value, " ×", "at most 1.10 ×", value <= 1.1)
      value = get("goals", "prepared", "table", 8) / get("goals", "prepared", "floor", 8)
      goal("… 8 clients", value, " ×", "at most 1.10 ×", value <= 1.1)
      pages = header["goals", "#settings"] ~ /huge_pages=on/ ? "huge pages" : "no huge pages"
      value = get("goals", "inside", "query", 1) - get("goals", "inside", "scan", 1)
      goal("a check in a query over 1 M names, rows in order, " pages, value, " µs", "at most 0.7 µs on huge pages", value <= 0.7)
      value = 1000 * (get("goals", "inside", "many", 1) - get("goals", "inside", "array", 1))
      goal("a check in bloom_might_contain_many of 1 M names, beyond making the array", value, " ns", "at most 300 ns", value <= 300)
    }
    if ("build" in seen) {
      value = get("build", "build_0", "value", 1)
      goal("bloom_agg of 10 M names, a name", value, " ns", "at most 150 ns", value <= 150)
      value /= get("build", "build_1", "value", 1)
      goal("… times faster with one worker", value, "", "at least 1.7 ×", value >= 1.7)
    }
  }

  BEGIN {
    contestants = split("floor article btree hash bloom table value process redis_floor redis redisbloom", contestant, " ")
    count = split("a select that asks nothing|the article in PL/pgSQL|unique index on lower(username)|hash index on lower(username)|contrib bloom on lower(username)|**filter table**|**filter value**, stored|**filter value**, C++ reader|Redis ECHO|Redis GET, SET|RedisBloom", titles, "|")
    for (i = 1; i <= count; i++) title[contestant[i]] = titles[i]
    parts = split("1M 10M 100M", capacity_of, " ")
  }
  FNR == 1 {
    part = FILENAME
    gsub(/^\.\/|\.tsv$/, "", part)
    seen[part] = 1
    order[++files] = part
  }
  /^#/ { header[part, $1] = $2; next }
  part == "rates" { measured["rates", $2, $3] = $4; predicted["rates", $2, $3] = $5; next }
  { key = key_of(part, $1, $2, $3); values[key] = values[key] " " $4 }
  END {
    for (i = 1; i <= files; i++) {
      if (header[order[i], "#versions"] != versions) printf "- versions: %s\n", versions = header[order[i], "#versions"]
      printf "- %s: %s; %s; %s\n", order[i], header[order[i], "#date"], header[order[i], "#machine"], header[order[i], "#settings"]
    }
    print ""
    for (i = 1; i <= parts; i++) if (capacity_of[i] in seen) capacity(capacity_of[i])
    if ("build" in seen) builds()
    if ("curve" in seen) curve()
    if ("rates" in seen) errors()
    goals()
  }' ./*.tsv
