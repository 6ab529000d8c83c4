#!/usr/bin/env python3
"""Tiny random models of every family that recipes/huggingface reads, as `transformers` saves and computes them.

Writes beside itself, for each family: FAMILY/config.json and FAMILY/model.safetensors (bf16, so half the bytes), FAMILY/expected.json
(token ids, loss, greedy continuation) and FAMILY/expected.safetensors (logits and gradients in f32, of the f32 model with those weights).
Weights are large enough that every part matters, and drawn again until no choice of the largest logit is closer than MARGIN.
FAMILY/trained.safetensors has the logits after five steps of AdamW from there, in f64, with the conventions of this program (--trained
writes only those, for the folders that are there). --check makes all of it in a folder of its own instead, and compares it with what is
here: ids, configurations and weights are the same, numbers within 1e-5 of a tensor's largest; else it ends with 1.

Needs torch, transformers and safetensors: pip install torch transformers; made with transformers 5.24.0 and torch 2.15.0.
Usage: make_families.py [--trained|--check] [FAMILY ...]
"""

import json
import pathlib
import sys
import tempfile

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

MARGIN = 5e-3  # well above the tests' 1e-5
SAMPLES, SEQUENCE, PROMPT = 2, 8, 3
COMMITTED = pathlib.Path(__file__).resolve().parent

COMMON = dict(vocab_size=61, hidden_size=24, intermediate_size=42, num_hidden_layers=2, num_attention_heads=3,
              num_key_value_heads=1, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None)

FAMILIES = {
    "gpt2": lambda: hf.GPT2Config(vocab_size=61, n_embd=24, n_layer=2, n_head=3, n_positions=16, n_inner=42, resid_pdrop=0.0,
                                  embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2),
    "llama": lambda: hf.LlamaConfig(**COMMON, rms_norm_eps=1e-5, rope_parameters=dict(
        rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=64)),
    "llama2": lambda: hf.LlamaConfig(**{**COMMON, "num_key_value_heads": 3}, rms_norm_eps=1e-5, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0)),
    "smollm2": lambda: hf.LlamaConfig(**{**COMMON, "hidden_size": 36, "num_attention_heads": 9, "num_key_value_heads": 3},
                                      head_dim=4, rms_norm_eps=9.999999747378752e-06, tie_word_embeddings=True,
                                      rope_parameters=dict(rope_type="default", rope_theta=100000.0)),
    "llama_linear": lambda: hf.LlamaConfig(**COMMON, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="linear", rope_theta=500.0, factor=2.0)),
    "mistral": lambda: hf.MistralConfig(**COMMON, sliding_window=4, head_dim=8),
    "qwen2": lambda: hf.Qwen2Config(**COMMON, tie_word_embeddings=True),
    "qwen25": lambda: hf.Qwen2Config(**COMMON, use_sliding_window=False, sliding_window=4, max_window_layers=1,
                                     rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "qwen3": lambda: hf.Qwen3Config(**COMMON, head_dim=10),
    "gemma": lambda: hf.GemmaConfig(**COMMON, head_dim=10),
}

# Ends of the names whose gradients are kept: every kind of vector, and some matrices.
KEPT = ("bias", "norm.weight", "layernorm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight", "k_proj.weight", "down_proj.weight",
        "mlp.c_proj.weight", "attn.c_attn.weight", "wpe.weight", "wte.weight", "embed_tokens.weight")


def draw(model, seed):
    """Random weights that bf16 holds exactly."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=random)
            if p.dim() == 1:
                ones = name.endswith("weight") and model.config.model_type != "gemma"
                values = 0.3 * values + (1.0 if ones else 0.0)
            else:
                values = values * 1.2 * p.shape[-1] ** -0.5
            p.copy_(values.to(torch.bfloat16).float())


def margin_of(logits):
    top = logits.topk(2, dim=-1).values
    return (top[..., 0] - top[..., 1]).min().item()


def greedy(model, prompt):
    ids, margin = list(prompt), 1e9
    while len(ids) < SEQUENCE:
        last = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        margin = min(margin, margin_of(last))
        ids.append(int(last.argmax()))
    return ids, margin


STEPS, LR, BETAS, EPS, DECAY, CLIP = 5, 1e-2, (0.9, 0.95), 1e-3, 0.1, 0.5


def train(family, here=COMMITTED):
    """Both samples in each step; matrices decay, vectors do not."""
    folder = here / family
    told = json.loads((folder / "expected.json").read_text())
    ids = torch.tensor(told["ids"])
    model = hf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
                                  lr=LR, betas=BETAS, eps=EPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(ids, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits
    save_file({"logits": logits.float().contiguous()}, folder / "trained.safetensors")
    print(f"{family}: after {STEPS} steps, last loss {loss.item():.6f}")


def make(family, here=COMMITTED):
    config = FAMILIES[family]()
    config._attn_implementation = "eager"
    model = hf.AutoModelForCausalLM.from_config(config, torch_dtype=torch.float32).eval()
    ids = torch.randint(0, 61, (SAMPLES, SEQUENCE), generator=torch.Generator().manual_seed(3))
    for seed in range(1000):
        draw(model, seed)
        out = model(ids, labels=ids, use_cache=False)
        continued, margin = greedy(model, ids[0, :PROMPT].tolist())
        margin = min(margin, margin_of(out.logits))
        if margin > MARGIN:
            break
    else:
        sys.exit(f"{family}: no draw has a margin of {MARGIN}")
    model.zero_grad()
    out.loss.backward()
    expected = {"logits": out.logits.detach().contiguous()}
    for name, p in model.named_parameters():
        if name.endswith(KEPT):
            expected[name.removeprefix("transformer.")] = p.grad.detach().clone().contiguous()
    folder = here / family
    folder.mkdir(exist_ok=True)
    save_file(expected, folder / "expected.safetensors")
    told = {"ids": ids.tolist(), "loss": out.loss.item(), "greedy": continued, "prompt": PROMPT, "margin": round(margin, 6),
            "made_with": f"transformers {hf.__version__}, torch {torch.__version__.split('+')[0]}"}
    (folder / "expected.json").write_text(json.dumps(told) + "\n")
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    print(f"{family}: seed {seed}, loss {told['loss']:.6f}, greedy {continued}")


def differences(family, here):
    """What the folder `here` has otherwise than the committed one."""
    found = []
    for name in ("config.json", "expected.json"):
        told, again = (json.loads((place / family / name).read_text()) for place in (COMMITTED, here))
        for key in sorted(told.keys() | again.keys()):
            a, b = told.get(key), again.get(key)
            near = key in ("loss", "margin") and abs(a - b) <= 1e-5 * max(1, abs(a))
            if a != b and not near and key not in ("made_with", "transformers_version"):
                found.append(f"{name}: {key} = {a} here, {b} again")
    for name in ("model.safetensors", "expected.safetensors", "trained.safetensors"):
        told, again = (load_file(place / family / name) for place in (COMMITTED, here))
        if told.keys() != again.keys():
            found.append(f"{name}: other tensors")
            continue
        for key, a in told.items():
            gap = (a.double() - again[key].double()).abs().max().item() / max(1e-2, a.double().abs().max().item())
            if gap > (0 if name == "model.safetensors" else 1e-5):
                found.append(f"{name}: {key} is {gap:.2g} of its largest away")
    return found


def check(names):
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            make(name, pathlib.Path(scratch))
            train(name, pathlib.Path(scratch))
            found = differences(name, pathlib.Path(scratch))
            wrong += bool(found)
            print(f"{name}: {'DIFFERENT' if found else 'equal'}", *found, sep="\n  ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    names = [a for a in arguments if not a.startswith("--")] or list(FAMILIES)
    if "--check" in arguments:
        check(names)
    for name in names:
        if "--trained" not in arguments:
            make(name)
        train(name)
