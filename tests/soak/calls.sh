#!/usr/bin/env bash
# Kills the built program with SIGKILL at its k-th call of each kind that changes files, for k = 1, 2, ..., and lets each
# fail with EIO, once and for good: no seam of ours in between, strace does it. The run then goes on, and must be the quiet
# one: losses, weights, whole checkpoints, nothing half-written.
#
# Usage: tests/soak/calls.sh [STRIDE] [--section.key=value ...]     (1: every call; flags go to every run)
# A run resumes behind its first checkpoint and makes two more. A thread's calls are counted for themselves; the first
# thread that comes to its k-th is hit.
# Exit 0: none lost. A failure keeps the folder. Needs a built ./trireme and strace.
# shellcheck source=tests/soak/runs.sh
. "$(dirname "$0")/runs.sh"
stride=${1:-1}
shift $(($# < 1 ? $# : 1))
more=("$@")
command -v strace >/dev/null || { say "no strace here"; exit 2; }
write_recipe
flags=(--train.steps=3 --train.checkpoint_every=1 --train.keep=1 "${more[@]}")
kills=0 errors=0 told=0 runs=0 lost=0

lost() { # lost WORDS
  say "LOST: $*"
  say "  kept: $work"
  exit 1
}

start "$work/quiet" "${flags[@]}"
ended
((code == 0)) || { cat "$work/err"; exit 1; }
expect_sharp_eyes "$work/quiet"
start "$work/first" "${flags[@]}" --train.steps=1
ended
((code == 0)) || { cat "$work/err"; exit 1; }

# Runs with one fault; $code is its end.
hit() { # hit CALL FAULT WHEN
  rm -rf -- "$work/run"
  cp -r -- "$work/first" "$work/run"
  launch=(strace -f -qq -e "trace=$1" -e "inject=$1:$2:when=$3" -o "$work/trace")
  start "$work/run" "${flags[@]}" --resume
  ended
  launch=()
  runs=$((runs + 1))
  begins_as "$work/quiet" "$work/run" || lost "$1 $2 $3: the losses are not the quiet run's"
}
goes_on() { # goes_on WORDS
  local damaged
  damaged=$("$program" checkpoint verify "$work/run" 2>&1) || lost "$*: $damaged"
  start "$work/run" "${flags[@]}" --resume
  ended
  ((code == 0)) || lost "$*: going on ended with $code: $(tail -n 2 "$work/err")"
  ends_as "$work/quiet" "$work/run" || lost "$*: the end is not the quiet run's"
}

calls=(openat mkdir pwrite64 write fsync rename unlink unlinkat rmdir ftruncate fallocate)
began=$SECONDS
for call in "${calls[@]}"; do
  for ((k = 1; ; k += stride)); do
    hit "$call" signal=SIGKILL "$k"
    ((code != 0)) || break
    ((code == 137)) || lost "$call $k: exit $code instead of a kill: $(tail -n 1 "$work/err")"
    kills=$((kills + 1))
    goes_on "killed at $call $k"
  done
  last=$k
  for when in "" "+"; do
    for ((k = 1; k < last; k += stride)); do
      hit "$call" error=EIO "$k$when"
      grep -q INJECTED "$work/trace" || continue
      errors=$((errors + 1))
      # Loading the program's own libraries is not ours to tell of.
      ((code == 0 || code == 1 || code == 3 || code == 127)) || lost "$call $k$when: exit $code: $(tail -n 1 "$work/err")"
      ((code == 0)) || [[ -s $work/err ]] || [[ $call == write ]] || lost "$call $k$when: exit $code, and nothing is said"
      ((code == 0)) || told=$((told + 1))
      goes_on "EIO at $call $k$when"
    done
  done
  say "$call: $((last - 1)) calls"
done
say "$kills kills and $errors errors ($told ended the run) at calls of files in $((SECONDS - began)) s; lost 0"
say "[faults] 1.3 | kills and errors at calls of files, by strace | runs $runs | injected $((kills + errors)) | lost $lost"
rm -rf -- "$work"
