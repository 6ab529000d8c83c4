#!/usr/bin/env bash
# What a run exports, in `transformers`: five steps of fine-tuning at (data, pipeline, tensor) = (1, 2, 2) and at (2, 1, 2) with ZeRO 3
# from FOLDER (tensor 3 where heads need it), train.export = hf; the loss of a text and greedy answers must be those that this program gives for the run.
#
# Usage: tests/peers/export_in_transformers.sh [FOLDER [PYTHON [--section.key=value ...]]]     (TRIREME_SMOLLM2, TRIREME_PYTHON)
# Exit 0: equal (loss within 1e-5 of itself: of all positions' logits; ids the same), or skipped, which is said. The folder that comes
# out must be of f32, so FOLDER is widened first. Needs a built program: TRIREME, or ./trireme.
# shellcheck source=tests/peers/model_folder.sh
. "$(dirname "$0")/model_folder.sh"
needs "torch, transformers"
shift $(($# < 2 ? $# : 2))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TRIREME=${TRIREME:-} TOP=$top "$python" - "$folder" "$work" "$@" <<'PYTHON'
import json, os, subprocess, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, work, *flags = sys.argv[1:]
program = [os.environ["TRIREME"]] if os.environ["TRIREME"] else [os.environ["TOP"] + "/trireme", "--no-install"]
TEXT = "The oars of the trireme beat seventy times; a hundred and seventy free men row it to Salamis by dawn. " * 3
SEQUENCE = 64
TALKS = [("How many oars?", "One hundred and seventy."), ("Who rows?", "Free men, in three banks."), ("Where to?", "Salamis by dawn.")]


def trireme(*words):
    return subprocess.run(program + list(words), check=True, stdout=subprocess.PIPE, text=True).stdout


wide = work + "/f32"
tokenizer = AutoTokenizer.from_pretrained(folder)
AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).save_pretrained(wide)
tokenizer.save_pretrained(wide)
with open(work + "/text.txt", "w") as out:
    out.write(TEXT)
chat = work + "/chat.jsonl"
with open(chat, "w") as out:
    for question, answer in TALKS * 20:
        out.write(json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}) + "\n")
wrong = 0
config = json.load(open(wide + "/config.json"))
heads = config.get("num_key_value_heads") or config.get("num_attention_heads") or config["n_head"]
tensor = f"--parallel.tensor={2 if heads % 2 == 0 else 3 if heads % 3 == 0 else 1}"  # 3 for SmolLM2
for layout in (["--parallel.pipeline=2", tensor], ["--parallel.data=2", tensor, "--zero.stage=3"]):
    run = work + "/run"
    trireme("train", "--model.from=" + wide, "--data.text=" + chat, "--data.validation=0", "--precision.compute=f32", "--batch.global=4",
            "--batch.micro=1", f"--batch.sequence={SEQUENCE}", "--train.steps=5", "--optimizer.lr=1e-4", "--train.checkpoint_every=5",
            "--train.export=hf", "--train.restart=true", "--train.folder=" + run, *layout, *flags)
    model = AutoModelForCausalLM.from_pretrained(run + "/model", dtype=torch.float32, attn_implementation="eager").eval()
    told = AutoTokenizer.from_pretrained(run + "/model")
    ids = told(TEXT, add_special_tokens=False).input_ids
    with torch.no_grad():
        total = 0.0  # disjoint windows, as `trireme evaluate` has them: each also scores what follows it
        for begin in range(0, len(ids) - 1, SEQUENCE):
            window = ids[begin:begin + SEQUENCE]
            labels = ids[begin + 1:begin + SEQUENCE + 1]
            logits = model(torch.tensor([window])).logits[0, :len(labels)]
            total += torch.nn.functional.cross_entropy(logits, torch.tensor(labels), reduction="sum").item()
        theirs = total / (len(ids) - 1)
    start = told("a").input_ids[0] != told("a", add_special_tokens=False).input_ids[0]
    if start:
        sys.exit("this script does not know of tokens before a text; use a folder whose tokenizer adds none")
    ours = json.loads(trireme("evaluate", run, "--data.text=" + work + "/text.txt", "--precision.compute=f32", "--json"))["loss"]
    same = abs(ours - theirs) <= 1e-5 * abs(theirs)
    wrong += not same
    print(f"{'equal' if same else 'DIFFERENT'}: loss {ours:.9f} here, {theirs:.9f} there, {' '.join(layout)}")
    for question, _ in TALKS:
        prompt = told.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False)
        ids = told(prompt, add_special_tokens=False).input_ids
        with torch.no_grad():
            out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=16,
                                 do_sample=False, pad_token_id=0)[0, len(ids):].tolist()
        ends = model.generation_config.eos_token_id
        while out and out[-1] in (ends if isinstance(ends, list) else [ends]):
            out.pop()
        said = json.loads(trireme("generate", run, "--chat", "--prompt", question, "--temperature", "0", "--tokens", "16", "--json",
                                  "--precision.compute=f32"))["tokens"]
        wrong += said != out
        print(f"{'equal' if said == out else 'DIFFERENT'}: {len(out)} tokens to {question!r}")
sys.exit(1 if wrong else 0)
PYTHON
