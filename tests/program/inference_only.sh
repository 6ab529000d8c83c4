#!/usr/bin/env bash
# A program without a trainer: it has none of its symbols, refuses to train with a sentence, and serves what the whole
# program has trained, with the same words.
#   inference_only.sh PROGRAM WHOLE_PROGRAM
set -euo pipefail
program=$1 whole=$2
folder=$(mktemp -d)
server=
finish() {
  if [[ -n $server ]]; then kill "$server" 2>/dev/null || true; fi
  rm -rf -- "$folder"
}
trap finish EXIT
fail() { echo "FAILED: $*"; exit 1; }

# What a program without a trainer must not have: the trainer, ZeroOptimizer, optim, and what implements TrainKernels. Each
# line has to be found in the whole program, or it tells nothing.
gone=(
  'trireme::Trainer::'
  'trireme::StepVerifier::'
  'trireme::ZeroOptimizer::'
  'trireme::(ReplicaCheck|StateCopy)::'
  'trireme::LossScaler::'
  'trireme::LrSchedule::'
  'trireme::(apply|moments|moment_names|clip_factor)\('
  'trireme::CpuTrainKernels::'
  'trireme::ReferenceTrainKernels::'
  'TrainKernels::[a-z_]+_backward\('
  'TrainKernels::(adam|sgd|fingerprint|sum_of_squares|column_sum)\('
)
if ! nm --version >/dev/null 2>&1; then
  echo "no nm: symbols are not looked at"
else
  nm -C --defined-only "$whole" >"$folder/whole"
  nm -C --defined-only "$program" >"$folder/program"
  for name in "${gone[@]}"; do
    grep -qE " [A-Za-z] (non-virtual thunk to )?[^(]*$name" "$folder/whole" ||
      fail "the whole program has no $name either: this test tells nothing"
    if grep -E " [A-Za-z] (non-virtual thunk to )?[^(]*$name" "$folder/program" >"$folder/found"; then
      fail "the program has $(wc -l <"$folder/found") symbols of $name: $(head -n 3 "$folder/found")"
    fi
  done
fi

for command in "train recipes/quickstart.cfg" "memory recipes/quickstart.cfg"; do
  status=0
  # shellcheck disable=SC2086  # two words
  "$program" $command 2>"$folder/said" || status=$?
  [[ $status == 2 ]] || fail "$command ends with $status"
  grep -q "for inference only" "$folder/said" || fail "$command says: $(cat "$folder/said")"
done

for _ in {1..400}; do printf 'the oars of the trireme beat seven times; '; done >"$folder/text"
cat >"$folder/tiny.cfg" <<END
[model]
family = llama
layers = 2
hidden = 16
heads = 4
ffn = 32
[data]
text = $folder/text
[batch]
global = 4
micro = 2
sequence = 16
[device]
kind = reference
[precision]
compute = f64
[train]
steps = 2
END
"$whole" train "$folder/tiny.cfg" --train.folder="$folder/run" --train.checkpoint_every=2 >"$folder/log" 2>&1 ||
  fail "$(cat "$folder/log")"
expected=$("$whole" generate "$folder/run" --prompt=ab --tokens=6 --temperature=0 --json)
[[ $("$program" generate "$folder/run" --prompt=ab --tokens=6 --temperature=0 --json) == "$expected" ]] ||
  fail "it generates other words"
"$program" serve "$folder/run" --port=0 2>"$folder/served" &
server=$!
for _ in {1..600}; do
  grep -q "^ready in" "$folder/served" && break
  kill -0 "$server" 2>/dev/null || fail "$(cat "$folder/served")"
  sleep 0.1
done
port=$(grep -oE 'http://[^ ]*' "$folder/served" | grep -oE ':[0-9]+' | head -n 1 | tr -d :)
exec 3<>"/dev/tcp/127.0.0.1/$port"
body='{"prompt": "ab", "max_tokens": 6, "temperature": 0}'
printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
  "${#body}" "$body" >&3
answer=$(cat <&3)
[[ $answer == "HTTP/1.1 200 OK"* ]] || fail "it answers: $answer"
kill -TERM "$server"
wait "$server" || fail "it ends with $?"
server=
echo "no trainer in it; it refuses to train, generates and serves"
