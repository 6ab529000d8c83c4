#!/usr/bin/env bash
# two_ranks_ratio.sh FOLDER [TRIREME] [ROUNDS]: tokens a second of two rank processes on this machine beside one of as many
# threads together, in turn. Two processes that spin while they wait for each other are a hundred times slower; ours wait
# passively, and cores are shared out among them. Ends with 1 below half of one rank's rate (row 36 of the list of pitfalls).
# One text at a time: two would have the weights read once for each of them by stages and replicas, and once by one rank.
# On a quiet machine. ROUNDS: 3; the median of them counts. A layout that the model refuses is told and passed over (2 tensor
# ranks do not share SmolLM2-135M's 9 heads); any other failure ends with 2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
(($# >= 1)) || { sed -n 's/^# //p; /^set /q' "$0" >&2; exit 2; }
folder=$1
trireme=${2:-$here/../build/recipes/trireme}
rounds=${3:-3}
threads=$(($(nproc) / 2 * 2))
((threads >= 2)) || { echo "two cores are needed"; exit 2; }
[[ -x $trireme ]] || { echo "there is no program $trireme: ./trireme builds it, or name one"; exit 2; }
command -v mpirun >/dev/null || { echo "no mpirun (package openmpi-bin)"; exit 2; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
as_root=()
[[ $(id -u) != 0 ]] || as_root=(--allow-run-as-root)

# rate NAME RANKS FLAGS...: adds the tokens a second of tg32 to $out/NAME; 2 if the flags are refused.
rate() {
  local name=$1 ranks=$2 status=0
  shift 2
  mpirun "${as_root[@]}" --bind-to none --oversubscribe -n "$ranks" "$trireme" bench "$folder" --pp=0 --tg=32 --repeat=3 -o json \
    "--parallel.threads=$((threads / ranks))" "$@" >"$out/said" 2>"$out/why" || status=$?
  ((status == 0)) || return "$status"
  sed -n 's/.*"avg_ts": *\([0-9.]*\).*/\1/p' "$out/said" >>"$out/$name"
}
median() { sort -g "$out/$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

failed() {
  echo "$1 failed:"
  cat "$out/why"
  exit 2
}
layouts=(tensor pipeline data)
for round in $(seq "$rounds"); do
  rate one 1 || failed "one rank"
  run=()
  for name in "${layouts[@]}"; do
    status=0
    rate "$name" 2 "--parallel.$name=2" || status=$?
    case $status in
      0) run+=("$name") ;;
      2)
        ((round == 1)) || failed "$name"
        printf '%-9s not of this model: %s\n' "$name" "$(grep -m 1 "parallel.$name" "$out/why" || cat "$out/why")"
        ;;
      *) failed "$name" ;;
    esac
  done
  layouts=("${run[@]}")
done
bad=0
for name in "${layouts[@]}"; do
  awk -v name="$name" -v two="$(median "$name")" -v one="$(median one)" -v threads="$threads" 'BEGIN {
    printf "%-9s 2 ranks x %d threads %8.1f tokens/s, 1 rank x %d %8.1f: %.2f\n", name, threads / 2, two, threads, one, two / one
    exit two < one / 2 }' || bad=1
done
exit "$bad"
