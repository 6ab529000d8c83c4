#!/usr/bin/env bash
# Training speed of a recipe beside a peer's, alternated in one run: medians of tokens per second, their ratio, pair by pair.
#
# Usage: bench/train_ratio.sh ROUNDS "PEER COMMAND" RECIPE [--section.key=value ...]
#   PEER COMMAND prints a JSON object with "tokens_per_s", e.g. a PyTorch script; "" measures the recipe alone.
# Each round runs the recipe for STEPS (4) steps (the first is not counted) and then the peer. Prints one line a round and the medians;
# the fraction of the GEMM peak is of a matrix product measured by the program in the same run. Needs a built ./trireme.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9p' "$0" | cut -c3-; exit 2; }
rounds=$1 peer=$2 recipe=$3
shift 3
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
field() { sed -n 's/.*"'"$1"'": *\([0-9.eE+-]*\).*/\1/p'; }

ours() {  # tokens per second: the median of the steps after the first
  "$top/trireme" --no-install train "$recipe" --train.steps="${STEPS:-4}" --train.evaluate_every=never --train.sample_every=never \
    --restart --train.folder="$work/run" "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
  tail -n +2 "$work/run/metrics.jsonl" | field tokens_per_s | median
}

for round in $(seq "$rounds"); do
  a=$(ours "$@")
  peak=$(sed -n 's/.*(\([0-9]*\)% of measured peak).*/\1/p' "$work/err" | tail -n +2 | median)
  echo "$a" >>"$work/a"
  echo "${peak:-0}" >>"$work/peak"
  if [ -n "$peer" ]; then
    b=$(sh -c "$peer" | field tokens_per_s | tail -n 1)
    echo "$b" >>"$work/b"
    awk -v a="$a" -v b="$b" 'BEGIN {print a / b}' >>"$work/ratio"
    echo "round $round: $a tokens/s (${peak:-?}% of the GEMM peak), peer $b, ratio $(tail -n 1 "$work/ratio")"
  else
    echo "round $round: $a tokens/s (${peak:-?}% of the GEMM peak)"
  fi
done
echo "median: $(median <"$work/a") tokens/s, $(median <"$work/peak")% of the GEMM peak"
[ -z "$peer" ] || echo "peer median: $(median <"$work/b") tokens/s; median ratio $(median <"$work/ratio") of $rounds pairs"
