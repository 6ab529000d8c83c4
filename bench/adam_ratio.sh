#!/usr/bin/env bash
# AdamW over f32 states beside a peer's, alternated in one run: ratios of GB/s pair by pair, and their medians.
#
# Usage: bench/adam_ratio.sh ROUNDS "PEER COMMAND" [--params=100000000 --steps=5 --threads=2]
#   PEER COMMAND prints JSON objects with "peer" and "gb_per_s" of 28 bytes a parameter, one a line, e.g. of torch's fused AdamW and of
#   DeepSpeedCPUAdam; the flags go to adam_bench. Peers that cannot run on this machine are left out; "" measures ours alone.
# ADAM_BENCH is the built program (build/bench/adam_bench; configure with -DTRIREME_BENCH=ON). Each line has the triad of the same round.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8p' "$0" | cut -c3-; exit 2; }
rounds=$1 peer=$2
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
bench=${ADAM_BENCH:-$top/build/bench/adam_bench}
[ -x "$bench" ] || { echo "$bench is not built: cmake -DTRIREME_BENCH=ON, target adam_bench; or give ADAM_BENCH" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
field() { sed -n 's/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p'; }

for round in $(seq "$rounds"); do
  "$bench" "$@" >"$work/ours"
  ours=$(grep '"adam"' "$work/ours" | field gb_per_s)
  triad=$(grep '"triad"' "$work/ours" | field gb_per_s)
  echo "round $round: ours $ours GB/s ($(grep '"adam"' "$work/ours" | field ns_per_param) ns a parameter), triad $triad"
  echo "$ours" >>"$work/ours-all"
  [ -n "$peer" ] || continue
  sh -c "$peer" >"$work/peers" 2>"$work/errors" || echo "  the peer ended early: $(tail -n 1 "$work/errors")" >&2
  while read -r line; do
    name=$(field peer <<<"$line") rate=$(field gb_per_s <<<"$line")
    if [ -z "$name" ] || [ -z "$rate" ]; then continue; fi
    if [[ $name == triad* ]]; then echo "  $name: $rate GB/s"; continue; fi
    ratio=$(awk -v a="$ours" -v b="$rate" 'BEGIN {printf "%.3f", a / b}')
    echo "  $name: $rate GB/s, ratio $ratio"
    echo "$ratio" >>"$work/ratio-${name//[^A-Za-z0-9]/_}"
    echo "$name" >>"$work/names"
  done <"$work/peers"
done
echo "median: ours $(median <"$work/ours-all") GB/s"
[ ! -f "$work/names" ] || sort -u "$work/names" | while read -r name; do
  of=$work/ratio-${name//[^A-Za-z0-9]/_}
  echo "median ratio to $name: $(median <"$of") of $(wc -l <"$of") pairs"
done
