#!/usr/bin/env python3
"""Writes lora_llama.json and lora_gpt2.json: adapters of `peft`, trained five steps by torch in f64.

The base is that of llama.json and gpt2.json beside it (make_golden.py), frozen; the linears are
torch.nn.Linear (transformers' Conv1D for GPT-2, as its weights are stored) and peft's own layers are
put around them. Run with torch, transformers and peft:

    python3 make_lora.py [FOLDER]

Keys as in make_golden.py, of the adapters only; config has r, lora_alpha, use_rslora and targets.
Names: layers.0.attention.q.lora_A.weight; GPT-2: layers.0.attention.qkv.lora_A.weight, and lora_B of
q, k, v apart (rows of one matrix).
"""
import json
import os
import sys

import numpy as np
import peft
import torch
from transformers.pytorch_utils import Conv1D

import make_golden as g

LORA = {
    "llama": {"r": 3, "lora_alpha": 6, "use_rslora": True,
              "targets": ["q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
    "gpt2": {"r": 2, "lora_alpha": 3, "use_rslora": False, "targets": ["c_attn", "c_proj", "c_fc"]},
}
OURS = {"q_proj": "attention.q", "k_proj": "attention.k", "v_proj": "attention.v",
        "o_proj": "attention.output", "gate_proj": "mlp.gate", "up_proj": "mlp.up",
        "down_proj": "mlp.down", "attn.c_attn": "attention.qkv", "attn.c_proj": "attention.output",
        "mlp.c_fc": "mlp.up", "mlp.c_proj": "mlp.down"}


def module_of(weight, bias, conv):
    outputs, inputs = weight.shape
    if conv:
        layer = Conv1D(outputs, inputs)
        layer.weight, layer.bias = torch.nn.Parameter(weight.T.clone()), torch.nn.Parameter(bias)
    else:
        layer = torch.nn.Linear(inputs, outputs, bias=False)
        layer.weight = torch.nn.Parameter(weight)
    return layer


def base_modules(w, c, family):
    """A module tree with the names that peft's targets mean."""
    root = torch.nn.Module()
    root.layers = torch.nn.ModuleList()
    heads = [c["heads"] * c["head_dim"]] + 2 * [c["kv_heads"] * c["head_dim"]]
    for i in range(c["layers"]):
        part = lambda name: (w[f"layers.{i}.{name}.weight"], w.get(f"layers.{i}.{name}.bias"))
        layer = torch.nn.Module()
        layer.attn, layer.mlp = torch.nn.Module(), torch.nn.Module()
        if family == "gpt2":
            layer.attn.c_attn = module_of(*part("attention.qkv"), True)
            layer.attn.c_proj = module_of(*part("attention.output"), True)
            layer.mlp.c_fc = module_of(*part("mlp.up"), True)
            layer.mlp.c_proj = module_of(*part("mlp.down"), True)
        else:
            q, k, v = part("attention.qkv")[0].split(heads)
            gate, up = part("mlp.up")[0].chunk(2)
            for to, name, weight in [(layer.attn, "q_proj", q), (layer.attn, "k_proj", k),
                                     (layer.attn, "v_proj", v), (layer.mlp, "gate_proj", gate),
                                     (layer.mlp, "up_proj", up),
                                     (layer.attn, "o_proj", part("attention.output")[0]),
                                     (layer.mlp, "down_proj", part("mlp.down")[0])]:
                setattr(to, name, module_of(weight, None, False))
        root.layers.append(layer)
    return root


def linear_through(root, family):
    """make_golden's linear, by the modules: fused projections are what their parts say."""

    def linear(w, x, name):
        _, i, half, part = name.split(".")
        layer = root.layers[int(i)]
        if family == "gpt2":
            return {"qkv": layer.attn, "output": layer.attn, "up": layer.mlp, "down": layer.mlp}[
                part].__getattr__({"qkv": "c_attn", "output": "c_proj", "up": "c_fc",
                                   "down": "c_proj"}[part])(x)
        if part == "qkv":
            return torch.cat([layer.attn.q_proj(x), layer.attn.k_proj(x), layer.attn.v_proj(x)], -1)
        if part == "up":
            return torch.cat([layer.mlp.gate_proj(x), layer.mlp.up_proj(x)], -1)
        return layer.attn.o_proj(x) if part == "output" else layer.mlp.down_proj(x)

    return linear


def adapters(root):
    """Ours name -> parameter; peft: layers.0.attn.q_proj.lora_A.default.weight."""
    found = {}
    for name, p in root.named_parameters():
        if "lora_" not in name:
            p.requires_grad_(False)
            continue
        _, i, half, linear, matrix, _, _ = name.split(".")
        ours = OURS.get(linear) or OURS[f"{half}.{linear}"]
        found[f"layers.{i}.{ours}.{matrix}.weight"] = p
    return found


def split(tensors):
    """GPT-2's lora_B of c_attn as those of q, k, v."""
    result = {}
    for name, value in tensors.items():
        if name.endswith("qkv.lora_B.weight"):
            for part, rows in zip("qkv", value.chunk(3)):
                result[name.replace(".qkv.", f".{part}.")] = rows
        else:
            result[name] = value
    return result


def train(family, folder):
    base = json.load(open(os.path.join(folder, family + ".json")))
    c, lora = base["config"], LORA[family]
    w = {name: torch.tensor(t["data"]).reshape(t["shape"]) for name, t in base["weights"].items()}
    root = base_modules(w, c, family)
    config = peft.LoraConfig(r=lora["r"], lora_alpha=lora["lora_alpha"], use_rslora=lora["use_rslora"],
                             target_modules=lora["targets"], fan_in_fan_out=family == "gpt2",
                             lora_dropout=0.0, bias="none")
    root = peft.inject_adapter_in_model(config, root)
    trained = adapters(root)
    rng = np.random.default_rng(38)
    for name, p in trained.items():
        assert p.dtype == torch.float64, name
        if "lora_A" in name:
            bound = 1 / p.shape[1] ** 0.5
            assert p.abs().max() <= bound, "A does not begin within 1 / sqrt(K)"
        else:
            assert p.abs().max() == 0, "B does not begin at zero"
        p.data = torch.tensor(np.round(rng.normal(0, 0.2, p.shape), 4))
    g.linear = linear_through(root, family)
    o = g.OPTIMIZER
    golden = {"config": {**lora, "steps": g.STEPS, "peft": peft.__version__},
              "weights": g.dump(split(trained))}
    optimizer = torch.optim.AdamW(trained.values(), lr=o["lr"], betas=(o["beta1"], o["beta2"]),
                                  eps=o["eps"], weight_decay=o["weight_decay"], foreach=False)
    ids, labels = torch.tensor(base["ids"]), torch.tensor(base["labels"]).flatten()
    losses, norms = [], []
    for step in range(g.STEPS):
        optimizer.zero_grad()
        z = g.logits(w, ids, c, family).reshape(-1, c["vocab"])
        loss = g.smoothed_loss(z, labels, o["label_smoothing"])
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            golden["grads"] = g.dump(split({name: p.grad for name, p in trained.items()}))
        norms.append(torch.nn.utils.clip_grad_norm_(list(trained.values()), o["clip"]).item())
        optimizer.step()
    return golden | {"losses": losses, "grad_norms": norms, "after": g.dump(split(trained))}


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for family in LORA:
        with open(os.path.join(folder, f"lora_{family}.json"), "w") as file:
            json.dump(train(family, folder), file, separators=(",", ":"))
            file.write("\n")
