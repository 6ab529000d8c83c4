#!/usr/bin/env bash
# A step of full fine-tuning beside `transformers` + torch eager, alternated in one run: medians of tokens a second and their ratio, pair
# by pair. Same model folder, same shape (4 samples of 512 tokens), bf16 weights with f32 masters and moments on both sides, AdamW, clip.
#
# Usage: bench/finetune_ratio.sh FOLDER [ROUNDS] [PYTHON]     (3 rounds; python3 with torch and transformers)
# The peer runs under autocast to bf16 with f32 weights, as `Trainer(bf16=True)` does, which is the faster of its ways on CPUs. Each side
# takes 4 steps a round; the first is not counted. Nothing else may run. Needs a built program: TRIREME, or ./trireme.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-} rounds=${2:-3} python=${3:-python3}
[ -n "$folder" ] || { sed -n '2,8p' "$0" | cut -c3-; exit 2; }
[ -e "$folder/config.json" ] || { echo "skipped: $folder is no model folder (../shared/peers/make_smollm2.py makes it)"; exit 0; }
"$python" -c 'import torch, transformers' 2>/dev/null || { echo "skipped: $python has no torch and transformers"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra program <<<"${TRIREME:-$top/trireme --no-install}"

cat >"$work/peer.py" <<'PYTHON'
import sys, time, torch
from transformers import AutoModelForCausalLM
STEPS, SAMPLES, TOKENS = 4, 4, 512
torch.manual_seed(1)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95), weight_decay=0.01)
seconds = []
for step in range(STEPS):
    ids = torch.randint(0, model.config.vocab_size, (SAMPLES, TOKENS))
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(ids, labels=ids, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    seconds.append(time.perf_counter() - begin)
print(SAMPLES * TOKENS / sorted(seconds[1:])[len(seconds[1:]) // 2])
PYTHON
"$python" - "$work/text.txt" <<'PYTHON'
import random, sys
random.seed(1)
words = [w.strip() for w in "the oars of a trireme beat seventy times and free men row it to Salamis by dawn with nine".split()]
open(sys.argv[1], "w").write(" ".join(random.choice(words) for _ in range(40000)))
PYTHON

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

ours() {
  "${program[@]}" train --model.from="$folder" --data.text="$work/text.txt" --data.validation=0 --batch.global=4 --batch.micro=4 \
    --batch.sequence=512 --precision.compute=bf16 --optimizer.lr=1e-5 --train.steps=4 --train.folder="$work/run" --restart \
    >"$work/out" 2>"$work/err" || { cat "$work/err" >&2; exit 1; }
  tail -n +2 "$work/run/metrics.jsonl" | sed -n 's/.*"tokens_per_s": *\([0-9.eE+-]*\).*/\1/p' | median
}

for round in $(seq "$rounds"); do
  if ((round % 2)); then a=$(ours); b=$("$python" "$work/peer.py" "$folder"); else b=$("$python" "$work/peer.py" "$folder"); a=$(ours); fi
  awk -v a="$a" -v b="$b" 'BEGIN {print a / b}' >>"$work/ratio"
  echo "$a" >>"$work/a"
  echo "$b" >>"$work/b"
  echo "round $round: $a tokens/s, transformers $b, ratio $(tail -n 1 "$work/ratio")"
done
echo "median: $(median <"$work/a") tokens/s, transformers $(median <"$work/b"), ratio $(median <"$work/ratio") of $rounds pairs"
