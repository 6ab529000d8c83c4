# shellcheck shell=bash disable=SC2034  # its variables are for those who source it
# Sourced by the long tests: a tiny recipe (f64, reference backend) in a folder of its own, runs of the built program
# that are watched without starting processes, and what must be equal whatever happened on the way.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=$(realpath "${TRIREME_PROGRAM:-$root/build/recipes/trireme}")
[[ -x $program ]] || { echo "$program is not built: ./trireme doctor builds it, or TRIREME_PROGRAM names another" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-soak.XXXXXX")
export XDG_CACHE_HOME=$work/cache
# A line whose end never comes: reading from it with a time limit sleeps without a process.
mkfifo "$work/nothing"
exec {nothing}<>"$work/nothing"
nap() { read -rt "$1" -u "$nothing" || true; }
say() { printf '%s\n' "$*"; }

write_recipe() {
  local i
  for ((i = 0; i < 400; i++)); do
    printf 'the %s oars of the trireme beat %s times; ' $((i * i % 97)) $((i % 13))
  done >"$work/text.txt"
  cat >"$work/tiny.cfg" <<EOT
[model]
family = llama
layers = 4
hidden = 16
heads = 4
kv_heads = 2
ffn = 48
dropout = 0.1
tie_embeddings = true
[data]
text = $work/text.txt
[batch]
global = 8
micro = 1
sequence = 16
[device]
kind = reference
[precision]
compute = f64
[optimizer]
schedule = constant
[train]
seed = 1
evaluate_every = never
sample_every = never
log_every = 1000000
EOT
}

# A random whole number below N, of the seed given to bash's RANDOM.
below() { drawn=$(((RANDOM * 32768 + RANDOM) % $1)); }

# Starts a run in the folder: its process is $job, its words are in $work/out and $work/err.
start() { # start FOLDER FLAG...
  local folder=$1
  shift
  "${launch[@]}" "$program" train "$work/tiny.cfg" "--train.folder=$folder" "$@" >"$work/out" 2>"$work/err" </dev/null &
  job=$!
}
launch=()
alive() { kill -0 "$job" 2>/dev/null; }
# Waits for the end; its exit code is in $code.
ended() {
  code=0
  wait "$job" 2>/dev/null || code=$?
}
# The last whole line's step, in $steps; 0 before the first.
look_at_steps() { # look_at_steps FOLDER
  local line
  steps=0
  [[ -s $1/metrics.jsonl ]] || return 0
  while IFS= read -r line; do
    [[ $line =~ ^\{\"step\":\ ([0-9]+),.*\}$ ]] && steps=${BASH_REMATCH[1]}
  done < <(tail -n 2 "$1/metrics.jsonl" 2>/dev/null)
}
# The columns of whole lines that no fault may change: as text, so that equal means equal bits.
columns() { # columns FOLDER
  sed -nE 's/^(\{"step": .*"tokens": [0-9]+), .*("skipped": [0-9]+).*\}$/\1, \2/p' "$1/metrics.jsonl"
}
# Whether what was run so far is the beginning of the quiet run.
begins_as() { # begins_as QUIET FOLDER
  local lines
  [[ -s $2/metrics.jsonl ]] || return 0
  columns "$2" >"$work/columns"
  lines=$(wc -l <"$work/columns")
  cmp -s "$work/columns" <(columns "$1" | head -n "$lines")
}
# The eyes see: a quiet run of which one digit is another is not the quiet run.
expect_sharp_eyes() { # expect_sharp_eyes QUIET
  local planted=$work/planted
  mkdir -p "$planted"
  sed -E '$s/("loss": [0-9.]*)[0-4]([^0-4]*,)/\15\2/' "$1/metrics.jsonl" >"$planted/metrics.jsonl"
  ! cmp -s "$1/metrics.jsonl" "$planted/metrics.jsonl" || { say "nothing was planted in $1"; exit 1; }
  ! begins_as "$1" "$planted" || { say "a changed loss was not seen in $planted"; exit 1; }
}
# A run that came to its end has the quiet run's losses and weights, whole checkpoints and no half-written file.
ends_as() { # ends_as QUIET FOLDER: prints what differs
  cmp <(columns "$1") <(columns "$2") || return 1
  "$program" checkpoint diff "$2" "$1" >"$work/diff" 2>&1 || { cat "$work/diff"; return 1; }
  "$program" checkpoint verify "$2" >"$work/verify" 2>&1 || { cat "$work/verify"; return 1; }
  [[ -z $(find "$2" -name '*.tmp*') ]] || { find "$2" -name '*.tmp*'; return 1; }
}
