#!/usr/bin/env bash
# What a checkpoint in the background costs the steps that run meanwhile: their time relative to the same steps of a run without saves,
# alternated, and what the disk did.
#
# Usage: bench/async_save_ratio.sh ROUNDS RECIPE [--section.key=value ...]
#   e.g. bench/async_save_ratio.sh 5 recipes/gpt2-124m.cfg --precision.compute=bf16
# Each round trains 2 EVERY - 1 steps (EVERY = 8) with train.async_checkpoint and the one save in the background after step EVERY, and the
# same steps without saves, in turns first and second. Counted are the steps from EVERY + 1 to the one after which all had written: a
# ratio of 0.95 costs 5 %. Of the disk: the bytes of the checkpoint, the rate while steps ran, and that of dd with as many zeros in the
# same round. If the save needs longer than the run, that is said: raise EVERY. FOLDER (a new one in TMPDIR) is where all is written.
# Needs a built ./trireme, or PROGRAM, a path to one.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,12p' "$0" | cut -c3-; exit 2; }
rounds=$1 recipe=$2
shift 2
top=$(cd "$(dirname "$0")/.." && pwd)
program=("${PROGRAM:-$top/trireme}")
[ -n "${PROGRAM:-}" ] || program+=(--no-install)
every=${EVERY:-8} steps=$((2 * ${EVERY:-8} - 1))
((every >= 3)) || { echo "EVERY = $every: use 3 or more" >&2; exit 2; }
work=$(mktemp -d -p "${FOLDER:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
calc() { awk "BEGIN {printf \"%.$1f\", $2}"; }

run() {  # run NAME FLAGS...: in $work/NAME; the disk is idle when it begins
  local name=$1
  shift
  sync
  "${program[@]}" train "$recipe" --train.steps="$steps" --train.evaluate_every=never --train.sample_every=never --train.log_every=1 \
    --train.folder="$work/$name" --restart "$@" >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
}
seconds_of() {  # seconds_of NAME FIRST LAST: of these steps together
  sed -n "$2,$3p" "$work/$1/metrics.jsonl" | sed -n 's/.*"seconds": *\([0-9.eE+-]*\).*/\1/p' | awk '{s += $1} END {print s}'
}

for round in $(seq "$rounds"); do
  order="with without"
  ((round % 2)) || order="without with"
  for turn in $order; do
    case $turn in
      with) run with "$@" --train.checkpoint_every="$every" --train.async_checkpoint=true ;;
      without) run without "$@" --train.checkpoint_every=never ;;
    esac
  done
  saved=$work/with/checkpoints/$(printf 'step-%06d' "$every") note=""
  # "checkpoint: ..." is said behind the line of the step after which it was committed.
  last=$(awk -v name="${saved##*/}" '/^step / {split($2, at, "/"); step = at[1]} /^checkpoint: / && index($0, name) {print step; exit}' \
    "$work/with/log.txt")
  ((last < steps)) || note="; it was not done when the run ended: raise EVERY"
  with=$(seconds_of with $((every + 1)) "$last")
  without=$(seconds_of without $((every + 1)) "$last")
  ratio=$(calc 4 "$without / $with")
  mib=$(($(du -sb "$saved" | cut -f1) / 1048576))
  from=$(date +%s.%N)
  dd if=/dev/zero of="$work/zeros" bs=1M count="$((mib + 1))" conv=fsync status=none
  dd=$(calc 0 "($mib + 1) / ($(date +%s.%N) - $from)")
  rm -rf "$work/zeros" "$work/with" "$work/without"
  echo "$ratio" >>"$work/ratios"
  echo "round $round: steps $((every + 1)) to $last: $without s alone, $with s beside the save, ratio $ratio;" \
    "disk: $mib MiB at $(calc 0 "$mib / $with") MiB/s or more, dd $dd MiB/s$note"
done
echo "median ratio of $rounds rounds: $(median <"$work/ratios")"
