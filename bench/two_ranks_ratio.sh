#!/usr/bin/env bash
# two_ranks_ratio.sh FOLDER [TRIREME] [ROUNDS]: tokens a second of two rank processes on this machine beside one of as many
# threads together, in turn. Two processes that spin while they wait for each other are a hundred times slower; ours wait
# passively, and cores are shared out among them. Ends with 1 below half of one rank's rate (row 36 of the list of pitfalls).
# On a quiet machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
trireme=${2:-$here/../build/recipes/trireme}
rounds=${3:-3}
threads=$(($(nproc) / 2 * 2))
((threads >= 2)) || { echo "two cores are needed"; exit 2; }

rate() { # rate RANKS FLAGS...: tokens a second of tg32
  local ranks=$1
  shift
  mpirun --allow-run-as-root --bind-to none --oversubscribe -n "$ranks" "$trireme" bench "$folder" --pp=0 --tg=32 --repeat=3 -o json \
    "--parallel.threads=$((threads / ranks))" "$@" 2>/dev/null | sed -n 's/.*"avg_ts": *\([0-9.]*\).*/\1/p'
}

one=0 tensor=0 data=0 pipeline=0
add() { awk -v a="$1" -v b="$2" -v n="$rounds" 'BEGIN {printf "%.3f", a + b / n}'; }
for _ in $(seq "$rounds"); do
  one=$(add "$one" "$(rate 1)")
  tensor=$(add "$tensor" "$(rate 2 --parallel.tensor=2)")
  pipeline=$(add "$pipeline" "$(rate 2 --parallel.pipeline=2)")
  data=$(add "$data" "$(rate 2 --parallel.data=2)")
done
bad=0
for name in tensor pipeline data; do
  awk -v name="$name" -v two="${!name}" -v one="$one" 'BEGIN {
    printf "%-9s 2 ranks %8.1f tokens/s, 1 rank %8.1f: %.2f\n", name, two, one, two / one
    exit two < one / 2 }' || bad=1
done
exit "$bad"
