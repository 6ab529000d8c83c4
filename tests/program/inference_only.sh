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

symbols() { nm -C --defined-only "$1" | grep -cE ' trireme::(Trainer|StepVerifier)::' || true; }
if ! nm --version >/dev/null 2>&1; then
  echo "no nm: symbols are not looked at"
else
  [[ $(symbols "$whole") -gt 0 ]] || fail "the whole program has no trainer either: this test tells nothing"
  [[ $(symbols "$program") == 0 ]] || fail "the program has $(symbols "$program") symbols of a trainer"
fi

status=0
"$program" train recipes/quickstart.cfg 2>"$folder/said" || status=$?
[[ $status == 2 ]] || fail "train ends with $status"
grep -q "for inference only" "$folder/said" || fail "train says: $(cat "$folder/said")"

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
