#!/usr/bin/env bash
# The pictures of docs that bench/rivals.sh has the figures for: docs/error_rate.svg from its part
# "rates", docs/cost.svg from its part "curve". Without figures of a part, its picture stays.
#
#   bench/plots.sh
#
# Needs gnuplot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

DATA=rivals/data
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# curve FIGURE: lines of power and median over the rounds.
curve() {
  awk -F '\t' -v figure="curve_$1" '$1 == figure { print $2, $4 }' "$DATA/curve.tsv" | sort -k 1,1n -k 2,2n |
    awk '{ power[NR] = $1; value[NR] = $2; if (!($1 in first)) first[$1] = NR; last[$1] = NR }
      END { for (p in first) print p, (value[int((first[p] + last[p]) / 2)] + value[int((first[p] + last[p] + 1) / 2)]) / 2 }' |
    sort -n
}

# rate WAY: lines of items, measured and predicted rate.
rate() { awk -F '\t' -v way="$1" '$1 == "rate" && $2 == way { print $3, $4, $5 }' "$DATA/rates.tsv"; }

command -v gnuplot >/dev/null || { echo 'gnuplot is missing: apt-get install gnuplot-nox' >&2; exit 1; }
if [[ -e $DATA/rates.tsv ]]; then
  for way in alone grown rebuilt; do rate "$way" >"$WORK/$way"; done
  gnuplot -e "folder='$WORK'; picture='../docs/error_rate.svg'" rivals/error_rate.gp
  echo docs/error_rate.svg
fi
if [[ -e $DATA/curve.tsv ]]; then
  for figure in floor check add query; do curve "$figure" >"$WORK/$figure"; done
  gnuplot -e "folder='$WORK'; picture='../docs/cost.svg'" rivals/cost.gp
  echo docs/cost.svg
fi
