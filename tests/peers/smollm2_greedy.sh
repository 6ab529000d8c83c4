#!/usr/bin/env bash
# SmolLM2-135M-Instruct (or another chat model folder) beside `transformers`: 32 greedy tokens in f32 on each of some prompts, raw
# and as a user's message, must have the same ids.
#
# Usage: tests/peers/smollm2_greedy.sh [FOLDER [PYTHON]]
#   FOLDER  as ../shared/peers/make_smollm2.py writes it from a PyPI package (the environment's TRIREME_SMOLLM2)
#   PYTHON  one with torch and transformers (the environment's TRIREME_PYTHON, else python3)
# Exit 0: equal, or skipped, which is said, where the folder or transformers is not there. Needs a built program: TRIREME, or ./trireme.
# shellcheck source=tests/peers/model_folder.sh
. "$(dirname "$0")/model_folder.sh"
needs "torch, transformers"
TRIREME=${TRIREME:-} TOP=$top exec "$python" - "$folder" <<'PYTHON'
import json, os, subprocess, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS = 32
PROMPTS = ["Gravity is", "The capital of France is", "def fibonacci(n):\n", "Once upon a time, in a village by the sea,"]
MESSAGES = ["What is the capital of France?", "Name three colours.", "Write one sentence about ships."]

folder = sys.argv[1]
program = [os.environ["TRIREME"]] if os.environ["TRIREME"] else [os.environ["TOP"] + "/trireme", "--no-install"]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
wrong = 0
for chat, text in [(False, p) for p in PROMPTS] + [(True, m) for m in MESSAGES]:
    if chat:
        rendered = tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False)
        ids = tokenizer(rendered, add_special_tokens=False).input_ids
    else:
        ids = tokenizer(text).input_ids
    with torch.no_grad():
        out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=TOKENS,
                             do_sample=False, output_scores=True, return_dict_in_generate=True, pad_token_id=tokenizer.pad_token_id)
    theirs = out.sequences[0, len(ids):].tolist()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    margins = [float(s[0].topk(2).values[0] - s[0].topk(2).values[1]) for s in out.scores]
    while theirs and theirs[-1] in ends:
        theirs.pop()
    told = subprocess.run(program + ["generate", folder, "--prompt", text, "--temperature", "0", "--tokens", str(TOKENS), "--json",
                                     "--precision.compute=f32"] + (["--chat"] if chat else []),
                          check=True, capture_output=True, text=True).stdout
    ours = json.loads(told)["tokens"]
    same = ours == theirs
    wrong += not same
    print(f"{'equal' if same else 'DIFFERENT'}: {len(ours)} tokens, least margin {min(margins):.4f}, "
          f"{'message' if chat else 'prompt'} {text!r}")
    if not same:
        print(f"  ours   {ours}\n  theirs {theirs}")
sys.exit(1 if wrong else 0)
PYTHON
