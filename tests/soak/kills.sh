#!/usr/bin/env bash
# Kills real runs with SIGKILL at seeded moments, and resumes them: every resumed run must have the losses and weights
# of the quiet one, bit for bit. About one kill a second or more; every third waits for a save to be under way.
#
# Usage: tests/soak/kills.sh [KILLS] [SEED] [--section.key=value ...]     (1000 kills, seed 1; flags go to every run)
# Rounds of ten kills: runs of five layouts by threads, and by MPI (one rank is killed) in every fifth round where
# mpirun is. A kill counts as "inside a save" when its half-written folder was found afterwards.
# Exit 0: none lost. A failure keeps the folder, and says how to run its round again; the moments come from the seed, but the
# machine decides which instruction they hit. Needs a built ./trireme.
# shellcheck source=tests/soak/runs.sh
. "$(dirname "$0")/runs.sh"
kills=${1:-1000} seed=${2:-1}
shift $(($# < 2 ? $# : 2))
more=("$@")
per_round=10 steps_wanted=80
if ((kills < per_round)); then per_round=$kills; fi
layouts=(
  "--parallel.data=2 --zero.stage=2"
  "--parallel.tensor=2 --parallel.pipeline=2 --pipeline.schedule=1f1b"
  "--parallel.data=2 --zero.stage=3 --offload.optimizer=disk"
  "--parallel.pipeline=2 --pipeline.schedule=zb-h1 --parallel.data=2 --zero.stage=1"
)
mpi=(mpirun --allow-run-as-root --bind-to none --oversubscribe --mca odls_base_sigkill_timeout 1 -n 2)
done_kills=0 inside=0 threads=0 processes=0 finished=0 between=0 resumed=0
write_recipe

lost() { # lost WORDS
  say "LOST: round $round: $*"
  say "  again: KILLS_ROUND=$round tests/soak/kills.sh $per_round $seed ${more[*]}"
  say "  kept: $work"
  exit 1
}

# What the moment waits for. begun: any number of looks after the start; steps: some new steps and some looks;
# save: a half-written folder and some looks.
wait_for_moment() { # wait_for_moment FOLDER KIND
  local folder=$1 first wanted looks i
  look_at_steps "$folder"
  first=$steps
  below 8
  wanted=$((first + drawn))
  below 40
  looks=$drawn
  case $2 in
    begun) below 60; for ((i = 0; i < drawn; i++)); do nap 0.002; done ;;
    steps)
      while alive && ((steps < wanted)); do nap 0.003; look_at_steps "$folder"; done
      for ((i = 0; i < looks; i++)); do nap 0.001; done
      ;;
    save)
      while alive && ((steps <= first)); do nap 0.002; look_at_steps "$folder"; done
      while alive && ! compgen -G "$folder/checkpoints/*.tmp-saving" >/dev/null; do :; done
      for ((i = 0; i < looks % 12; i++)); do nap 0.0005; done
      ;;
  esac
}

# The process that is killed: the run, or one of mpirun's ranks.
victim() {
  local ranks
  pid=$job
  ((${#launch[@]})) || return 0
  read -ra ranks <"/proc/$job/task/$job/children" || true
  ((${#ranks[@]})) || return 0
  below "${#ranks[@]}"
  pid=${ranks[drawn]}
}

kill_once() { # kill_once QUIET FOLDER KIND FLAG...
  local quiet=$1 folder=$2 kind=$3 newest latest
  shift 3
  start "$folder" "$@"
  wait_for_moment "$folder" "$kind"
  victim
  if ! alive || ! kill -KILL "$pid" 2>/dev/null; then
    ended
    ((code == 0)) || lost "the run ended by itself with $code: $(tail -n 1 "$work/err")"
    finished=$((finished + 1)) complete=yes
    return
  fi
  ended
  if ((code == 0)); then finished=$((finished + 1)) complete=yes; return; fi
  if ((${#launch[@]} == 0 && code != 137)); then lost "exit $code instead of a kill: $(tail -n 1 "$work/err")"; fi
  ! grep -q '^resumed from' "$work/err" || resumed=$((resumed + 1))
  done_kills=$((done_kills + 1))
  if ((${#launch[@]})); then processes=$((processes + 1)); else threads=$((threads + 1)); fi
  if compgen -G "$folder/checkpoints/*.tmp-saving" >/dev/null; then
    inside=$((inside + 1))
  elif [[ -d $folder/checkpoints ]]; then
    newest=$(find "$folder/checkpoints" -maxdepth 1 -name 'step-*' -printf '%f\n' | sort | tail -n 1)
    latest=$(cat "$folder/checkpoints/latest" 2>/dev/null || true)
    [[ -z $newest || $latest == *"$newest"* ]] || between=$((between + 1))
  fi
  begins_as "$quiet" "$folder" || lost "kill $done_kills ($kind): the losses are not the quiet run's"
}

quiet_run() { # quiet_run NAME FLAG...: once for each layout
  local folder=$work/quiet-$1
  shift
  [[ ! -d $folder ]] || return 0
  start "$folder" "$@" "--train.steps=$steps_wanted" --train.checkpoint_every=1000000 "${more[@]}"
  ended
  ((code == 0)) || { cat "$work/err"; exit 1; }
  expect_sharp_eyes "$folder"
}

one_round() {
  local layout=$((round % ${#layouts[@]})) flags kind every attempt folder=$work/round-$round complete=no
  RANDOM=$(((seed * 1000003 + round * 7919) % 32768))
  launch=()
  if ((round % 5 == 4)) && command -v mpirun >/dev/null; then
    layout=mpi flags=(--parallel.data=2 --zero.stage=1)
  else
    read -ra flags <<<"${layouts[layout]}"
  fi
  quiet_run "$layout" "${flags[@]}"
  [[ $layout != mpi ]] || launch=("${mpi[@]}")
  for ((attempt = 0; attempt < per_round && done_kills < kills; attempt++)); do
    [[ $complete == no ]] || { rm -rf -- "$folder"; complete=no; }
    kind=steps every=5
    if ((attempt % 10 == 9)); then kind=begun; elif ((attempt % 3 == 1)); then kind=save every=1; fi
    kill_once "$work/quiet-$layout" "$folder" "$kind" "${flags[@]}" "--train.steps=$steps_wanted" \
      "--train.checkpoint_every=$every" --resume "${more[@]}"
  done
  start "$folder" "${flags[@]}" "--train.steps=$steps_wanted" --train.checkpoint_every=1000000 --resume "${more[@]}"
  ended
  ((code == 0)) || lost "the last resume ended with $code: $(tail -n 1 "$work/err")"
  ends_as "$work/quiet-$layout" "$folder" || lost "the end is not the quiet run's"
  rm -rf -- "$folder"
}

began=$SECONDS
for ((round = ${KILLS_ROUND:-0}; done_kills < kills; round++)); do
  one_round
  ((round % 10 != 9)) || say "$done_kills kills, $inside inside saves, $((SECONDS - began)) s"
done
say "$done_kills kills ($threads by threads, $processes by MPI) in $((SECONDS - began)) s: $inside inside a save," \
  "$between between a save and its name in latest; $resumed of the killed had resumed; lost 0"
say "[faults] 1.1 | real SIGKILLs | runs $((done_kills + finished)) | injected $done_kills | lost 0"
rm -rf -- "$work"
