#!/usr/bin/env bash
# Adapters beside `peft`: the same steps of LoRA in f32 on the same batches from the same beginning, and adapters that each makes for the
# other.
#
#   1. Five steps of AdamW here and in `peft` + torch: losses within 1e-5 of themselves, adapters within 2e-3 of a matrix's largest value.
#   2. The adapter folder that comes out here, in `peft`: the loss of a text equals that of the run, and the merged folder's logits are
#      `peft`'s within 1e-4 of the largest.
#   3. The adapter folder that `peft` writes (rslora, some targets), merged here: the same loss and greedy tokens as `peft` itself.
#
# Usage: tests/peers/lora_beside_peft.sh [FOLDER [PYTHON]]     (TRIREME_SMOLLM2, TRIREME_PYTHON; needs torch, transformers and peft)
# Exit 0: equal, or skipped, which is said. Needs a built program: TRIREME, or ./trireme.
# shellcheck source=tests/peers/model_folder.sh
. "$(dirname "$0")/model_folder.sh"
needs "torch, transformers, peft"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
TRIREME=${TRIREME:-} TOP=$top "$python" - "$folder" "$work" <<'PYTHON'
import json, os, subprocess, sys
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, work = sys.argv[1:]
program = [os.environ["TRIREME"]] if os.environ["TRIREME"] else [os.environ["TOP"] + "/trireme", "--no-install"]
SEQUENCE, BATCH, STEPS = 64, 4, 5
LR, BETAS, EPS, CLIP = 1e-2, (0.9, 0.95), 1e-3, 1.0  # eps so that a gradient of nothing but rounding stays nothing
PROMPT = "The oars of the trireme"
wrong = 0


def trireme(*words):
    return subprocess.run(program + list(words), check=True, stdout=subprocess.PIPE, text=True).stdout


def told(what, good):
    global wrong
    wrong += not good
    print(f"{'equal' if good else 'DIFFERENT'}: {what}")


def plain(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()


wide = work + "/base"  # in f32, so that what is merged is not rounded
tokenizer = AutoTokenizer.from_pretrained(folder)
plain(folder).save_pretrained(wide)
tokenizer.save_pretrained(wide)
text = " ".join(f"In year {i} the fleet had {7 * i % 61} ships and {i * i % 97} of them came home by the {'dawn noon dusk'.split()[i % 3]}."
                for i in range(60))
with open(work + "/text.txt", "w") as out:
    out.write(text)
ids = tokenizer(text, add_special_tokens=False).input_ids
assert len(ids) > SEQUENCE * BATCH * STEPS, len(ids)


def windows(step):
    begins = [(step * BATCH + i) * SEQUENCE for i in range(BATCH)]
    return (torch.tensor([ids[b:b + SEQUENCE] for b in begins]), torch.tensor([ids[b + 1:b + SEQUENCE + 1] for b in begins]))


def loss_of(model, x, y):
    return torch.nn.functional.cross_entropy(model(input_ids=x, use_cache=False).logits.flatten(0, 1), y.flatten())


def text_loss(model):  # disjoint windows, each scoring what follows it, as `trireme evaluate` has them
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, SEQUENCE):
            y = torch.tensor([ids[begin + 1:begin + SEQUENCE + 1]])
            x = torch.tensor([ids[begin:begin + y.shape[1]]])
            total += loss_of(model, x, y).item() * y.shape[1]
    return total / (len(ids) - 1)


def near(a, b, tolerance=1e-5):
    return abs(a - b) <= tolerance * abs(b)


def ours_of(place):
    return json.loads(trireme("evaluate", place, "--data.text=" + work + "/text.txt", "--precision.compute=f32", "--json",
                              f"--batch.sequence={SEQUENCE}"))["loss"]


def tune(name, steps, lr):
    run = f"{work}/{name}"
    trireme("train", "--model.from=" + wide, "--data.text=" + work + "/text.txt", "--data.validation=0", "--data.shuffle=false",
            "--precision.compute=f32", f"--batch.global={BATCH}", "--batch.micro=2", f"--batch.sequence={SEQUENCE}",
            f"--train.steps={steps}", f"--optimizer.lr={lr}", "--optimizer.schedule=constant", "--optimizer.warmup=0",
            f"--optimizer.beta1={BETAS[0]}", f"--optimizer.beta2={BETAS[1]}", f"--optimizer.eps={EPS}", f"--optimizer.clip={CLIP}",
            "--optimizer.weight_decay=0", "--lora.rank=8", "--lora.alpha=16", "--lora.targets=all-linear", "--train.export=hf",
            f"--train.checkpoint_every={steps}", "--train.restart=true", "--train.folder=" + run)
    return run


# 1. The same steps. The beginning is what a run that does not move has.
still = tune("still", 1, 1e-300)
model = PeftModel.from_pretrained(plain(wide), still + "/model", is_trainable=True)
adapters = [p for n, p in model.named_parameters() if p.requires_grad]
assert all("lora_" in n for n, p in model.named_parameters() if p.requires_grad)
optimizer = torch.optim.AdamW(adapters, lr=LR, betas=BETAS, eps=EPS, weight_decay=0.0)
theirs = []
for step in range(STEPS):
    optimizer.zero_grad()
    loss = loss_of(model, *windows(step))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(adapters, CLIP)
    optimizer.step()
    theirs.append(loss.item())
run = tune("run", STEPS, LR)
ours = [json.loads(line)["loss"] for line in open(run + "/metrics.jsonl")]
for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
    told(f"loss of step {step + 1}: {a:.7f} here, {b:.7f} in peft", near(a, b))
there = {n.replace(".default", ""): p.detach() for n, p in model.named_parameters() if p.requires_grad}
here = load_file(run + "/model/adapter_model.safetensors")
told(f"names of {len(here)} matrices", here.keys() == there.keys())
gaps = {n: ((here[n] - there[n]).abs().max() / there[n].abs().max()).item() for n in here}
worst = max(gaps, key=gaps.get)
told(f"adapters after {STEPS} steps: at most {gaps[worst]:.2g} of a matrix's largest away, {worst}", gaps[worst] <= 2e-3)

# 2. Ours in peft, and merged.
model = PeftModel.from_pretrained(plain(wide), run + "/model").eval()
a, b = ours_of(run), text_loss(model)
told(f"loss of a text: {a:.7f} by the run here, {b:.7f} by peft with its folder", near(a, b))
trireme("checkpoint", "merge", run, work + "/merged")
x = windows(0)[0]
with torch.no_grad():
    by_peft, merged, base = model(x).logits, plain(work + "/merged")(x).logits, plain(wide)(x).logits
gap = ((merged - by_peft).abs().max() / by_peft.abs().max()).item()
told(f"logits of the merged folder: {gap:.2g} of the largest away", gap <= 1e-4)
told("the adapters change logits", (by_peft - base).abs().max() > 1e-2)

# 3. Theirs, here: other targets, rslora.
torch.manual_seed(1)
model = get_peft_model(plain(wide), LoraConfig(r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "v_proj", "down_proj"],
                                               task_type="CAUSAL_LM"))
with torch.no_grad():
    for n, p in model.named_parameters():
        if "lora_B" in n:
            p.normal_(std=0.02)
model.eval().save_pretrained(work + "/peft")
trireme("checkpoint", "merge", work + "/peft", work + "/from_peft", "--base", wide)
a, b = ours_of(work + "/from_peft"), text_loss(model)
told(f"loss of a text with peft's adapters: {a:.7f} here, {b:.7f} there", near(a, b))
start = tokenizer(PROMPT).input_ids
with torch.no_grad():
    out = model.generate(input_ids=torch.tensor([start]), attention_mask=torch.ones(1, len(start), dtype=torch.long), max_new_tokens=16,
                         do_sample=False, pad_token_id=0)[0, len(start):].tolist()
said = json.loads(trireme("generate", work + "/from_peft", "--prompt", PROMPT, "--temperature", "0", "--tokens", "16", "--json",
                          "--precision.compute=f32"))["tokens"]
told(f"{len(said)} greedy tokens with peft's adapters", said == out)
sys.exit(1 if wrong else 0)
PYTHON
