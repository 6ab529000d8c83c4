#!/usr/bin/env bash
# Tokens per second of ZeRO stages 1, 2 and 3 relative to stage 0, alternated in one run: ratios round by round, and their medians.
#
# Usage: bench/zero_ratio.sh ROUNDS "PEER COMMAND" RECIPE [--section.key=value ...]
#   e.g. bench/zero_ratio.sh 5 "" recipes/gpt2-124m.cfg --parallel.data=2 --precision.compute=bf16
#   PEER COMMAND followed by ddp or fsdp prints "tokens_per_s": a peer's plain data parallelism and its stage 3, whose ratio is shown
#   beside ours; "" for none.
# Each round runs the recipe for STEPS (4) steps at each stage, in turns forwards and backwards; of a run the median of the steps after
# the first counts. Needs a built ./trireme, or PROGRAM, a path to one.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9p' "$0" | cut -c3-; exit 2; }
rounds=$1 peer=$2 recipe=$3
shift 3
top=$(cd "$(dirname "$0")/.." && pwd)
program=("${PROGRAM:-$top/trireme}")
[ -n "${PROGRAM:-}" ] || program+=(--no-install)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
field() { sed -n 's/.*"'"$1"'": *\([0-9.eE+-]*\).*/\1/p'; }
over() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", a / b}'; }

ours() {  # tokens per second at stage $1
  "${program[@]}" train "$recipe" --train.steps="${STEPS:-4}" --train.evaluate_every=never --train.sample_every=never \
    --restart --train.folder="$work/run" "${@:2}" --zero.stage="$1" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
  tail -n +2 "$work/run/metrics.jsonl" | field tokens_per_s | median
}

for round in $(seq "$rounds"); do
  stages="0 1 2 3"
  [ $((round % 2)) -eq 1 ] || stages="3 2 1 0"
  for stage in $stages; do ours "$stage" "$@" >"$work/stage-$stage"; done
  base=$(cat "$work/stage-0")
  line="round $round: stage 0 ${base%.*} tokens/s"
  for stage in 1 2 3; do
    ratio=$(over "$(cat "$work/stage-$stage")" "$base")
    echo "$ratio" >>"$work/ratio-$stage"
    line="$line, stage $stage $ratio"
  done
  if [ -n "$peer" ]; then
    ddp=$(sh -c "$peer ddp" | field tokens_per_s | tail -n 1)
    fsdp=$(sh -c "$peer fsdp" | field tokens_per_s | tail -n 1)
    over "$fsdp" "$ddp" >>"$work/ratio-peer"
    echo >>"$work/ratio-peer"
    line="$line; peer ddp $ddp tokens/s, fsdp $(over "$fsdp" "$ddp")"
  fi
  echo "$line"
done
echo "median ratios of $rounds rounds: stage 1 $(median <"$work/ratio-1"), stage 2 $(median <"$work/ratio-2"), stage 3 $(median <"$work/ratio-3")"
[ -z "$peer" ] || echo "peer: median ratio of fsdp to ddp $(median <"$work/ratio-peer")"
