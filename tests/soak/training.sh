#!/usr/bin/env bash
# One training run with a fault about every twenty steps: killed, stopped and continued, asked to end (SIGTERM), its disk
# full, a file of its newest checkpoint damaged. At its end losses and weights must be the quiet run's, bit for bit.
#
# Usage: tests/soak/training.sh [STEPS] [SEED] [--section.key=value ...]   (200 steps, seed 1; 20000 before a release)
# Who may mount gets a real full disk (a small tmpfs); others get a limit on the size of files instead, which is said.
# Exit 0: the same bits. A failure keeps the folder. Needs a built ./trireme.
# shellcheck source=tests/soak/runs.sh
. "$(dirname "$0")/runs.sh"
steps_wanted=${1:-200} seed=${2:-1}
shift $(($# < 2 ? $# : 2))
flags=(--parallel.data=2 --parallel.tensor=2 --zero.stage=2 "--train.steps=$steps_wanted" "$@")
RANDOM=$((seed % 32768))
write_recipe
declare -A count=([kill]=0 [stop]=0 [term]=0 [full]=0 [bad]=0)
lives=0 told=0

mkdir "$work/disk"
folder=$work/disk/run
small=no
if mount -t tmpfs -o size=64m,mode=0700 none "$work/disk" 2>/dev/null; then
  small=yes
  trap 'umount -l "$work/disk"' EXIT
else
  say "no small disk can be mounted here: a limit on the size of files stands for the full disk"
fi

lost() {
  say "LOST: $*"
  say "  again: tests/soak/training.sh $steps_wanted $seed"
  trap - EXIT
  say "  kept: $work (mounted: $small)"
  exit 1
}
# The run goes on until it did N more steps; false when it came to its end before.
until_steps() { # until_steps N
  local wanted=$((steps + $1))
  while alive; do
    look_at_steps "$folder"
    ((steps < wanted)) || return 0
    nap 0.005
  done
  return 1
}
# The run's end must be the one that the fault leads to.
expect_end() { # expect_end CODE WORDS
  ended
  ((code == $1)) || lost "$fault: exit $code, not $1: $(tail -n 2 "$work/err")"
  cat "$work/out" "$work/err" | grep -q -- "$2" || lost "$fault: nothing says '$2': $(tail -n 2 "$work/err")"
  begins_as "$work/quiet" "$folder" || lost "$fault at step $steps: the losses are not the quiet run's"
}
damage_newest() { # one bit of a file of the newest checkpoint, or its last byte is gone
  local files file size at byte
  mapfile -t files < <(find "$folder/checkpoints/$newest" -type f | sort)
  below "${#files[@]}"
  file=${files[drawn]}
  size=$(stat -c %s "$file")
  below 3
  if ((drawn == 0)); then truncate -s -1 "$file"; return; fi
  below "$size"
  at=$drawn
  byte=$(od -An -tu1 -j "$at" -N 1 "$file")
  # shellcheck disable=SC2059
  printf "\\x$(printf '%x' $((byte ^ 1)))" | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
}
newest_checkpoint() {
  newest=$(find "$folder/checkpoints" -maxdepth 1 -name 'step-*' ! -name '*.tmp*' -printf '%f\n' 2>/dev/null | sort | tail -n 1)
}
begin() {
  start "$folder" "${flags[@]}" --train.checkpoint_every=5 --train.keep=3 --resume
  lives=$((lives + 1))
}
# A damaged checkpoint was named by the life that found it.
expect_named() {
  [[ -n $damaged ]] || return 0
  grep -q "$damaged" "$work/err" || lost "the damaged $damaged was not named: $(cat "$work/err")"
  told=$((told + 1)) damaged=
}

quiet() {
  start "$work/quiet" "${flags[@]}" --train.checkpoint_every=1000000
  ended
  ((code == 0)) || { cat "$work/err"; exit 1; }
  expect_sharp_eyes "$work/quiet"
}

fault_of_kind() { # what follows is called with the run alive, about 20 steps after the last fault
  case $fault in
    kill) kill -KILL "$job"; expect_end 137 "" ;;
    stop)
      kill -STOP "$job"
      nap 0.2
      kill -CONT "$job"
      ;;
    term) kill -TERM "$job"; expect_end 0 "Stopped by a signal" ;;
    full)
      if [[ $small == yes ]]; then
        dd if=/dev/zero of="$work/disk/filler" bs=64k status=none 2>/dev/null || true
        expect_end 1 "No space left\|free"
        rm -f "$work/disk/filler"
      else
        kill -KILL "$job"; ended
        ! (ulimit -f 16; begin; ended; exit "$code") || lost "a file limit stopped nothing"
      fi
      ;;
    bad)
      kill -KILL "$job"; expect_end 137 ""
      newest_checkpoint
      [[ -z $newest ]] || { damage_newest; damaged=$newest; }
      ;;
  esac
}

began=$SECONDS
quiet
kinds=(kill stop term full bad)
steps=0 damaged='' left=()
begin
while :; do
  below 11
  until_steps $((15 + drawn)) || break
  expect_named
  # Each kind before any comes again.
  if ((${#left[@]} == 0)); then left=("${kinds[@]}"); fi
  below "${#left[@]}"
  fault=${left[drawn]}
  left=("${left[@]:0:drawn}" "${left[@]:drawn+1}")
  fault_of_kind
  count[$fault]=$((count[$fault] + 1))
  [[ $fault == stop ]] || { look_at_steps "$folder"; begin; }
done
fault="the end"
expect_end 0 ""
expect_named
ends_as "$work/quiet" "$folder" || lost "the end is not the quiet run's"
all=0
for fault in "${kinds[@]}"; do all=$((all + count[$fault])); done
say "$steps_wanted steps in $lives lives and $((SECONDS - began)) s: ${count[kill]} kills, ${count[stop]} stops," \
  "${count[term]} SIGTERMs, ${count[full]} full disks, ${count[bad]} damaged files ($told named); the same bits as the quiet run"
say "[faults] soak | training with a fault each 20 steps | runs $lives | injected $all | lost 0"
trap - EXIT
[[ $small == no ]] || umount -l "$work/disk"
rm -rf -- "$work"
