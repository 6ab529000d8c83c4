#!/usr/bin/env python3
"""Writes the golden files of this folder: tiny models trained five steps by torch in f64.

An outside oracle: losses, every gradient of the first step (before clipping), gradient norms and the
weights after five AdamW steps pin the conventions. Run with torch 2.x and numpy:

    python3 make_golden.py [FOLDER]

One JSON file per family, numbers that read back to the same double:
  config     sizes and optimizer settings
  ids        [sample][token]
  labels     [sample][token], or [sample][1] for the classifier; -1 = does not count
  weights    name -> {shape, data (row-major)}; initial
  loss       of the first step: sum over counted labels of the smoothed cross-entropy / their number
  losses     of the five steps, each before its update
  grad_norms of the five steps, before clipping
  grads      of the first step, as weights
  after      weights after the five steps
  starts     [sample][token], where there are documents: the token with which the token's document begins. Attention
             is block-diagonal, and positions are those in the document

Legend: B samples, T tokens, C columns, H query heads, G key/value heads, D head size, F hidden width.
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEPS = 5
OPTIMIZER = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "clip": 0.25,
             "label_smoothing": 0.1}
DECODER = {"layers": 2, "hidden": 16, "heads": 4, "head_dim": 4, "vocab": 13, "sequence": 8,
           "samples": 3, "norm_eps": 1e-5, "ffn": 40}
FAMILIES = {
    "gpt2": {**DECODER, "kv_heads": 4, "tie_embeddings": True},
    "llama": {**DECODER, "kv_heads": 2, "rope_theta": 10000.0, "tie_embeddings": False},
    "mlp": {"layers": 2, "hidden": 8, "ffn": 24, "vocab": 13, "sequence": 8, "samples": 6,
            "tie_embeddings": False},
}
SMALL = {**DECODER, "layers": 1, "hidden": 8, "heads": 2, "ffn": 12, "documents": [[3, 5], [1, 4, 2, 1], [8]]}
FAMILIES |= {
    "gpt2_documents": {**SMALL, "kv_heads": 2, "tie_embeddings": True},
    "llama_documents": {**SMALL, "kv_heads": 1, "rope_theta": 10000.0, "tie_embeddings": False},
}


def block_shapes(c, family, name):
    hidden, ffn = c["hidden"], c["ffn"]
    heads, kv_heads, head_dim = c["heads"], c["kv_heads"], c["head_dim"]
    bias = family == "gpt2"
    shapes = {}

    def norm(part):
        shapes[f"{name}.{part}.weight"] = (hidden,)
        if bias:
            shapes[f"{name}.{part}.bias"] = (hidden,)

    def linear(part, outputs, inputs):
        shapes[f"{name}.{part}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.{part}.bias"] = (outputs,)

    norm("norm1")
    linear("attention.qkv", (heads + 2 * kv_heads) * head_dim, hidden)
    linear("attention.output", hidden, heads * head_dim)
    norm("norm2")
    linear("mlp.up", ffn if bias else 2 * ffn, hidden)
    linear("mlp.down", hidden, ffn)
    return shapes


def parameter_shapes(c, family):
    shapes = {"embedding.table": (c["vocab"], c["hidden"])}
    if family == "gpt2":
        shapes["embedding.positions"] = (c["sequence"], c["hidden"])
    for layer in range(c["layers"]):
        name = f"layers.{layer}"
        if family == "mlp":
            inputs = c["hidden"] * (c["sequence"] if layer == 0 else 1)
            shapes |= {f"{name}.mlp.up.weight": (c["ffn"], inputs), f"{name}.mlp.up.bias": (c["ffn"],),
                       f"{name}.mlp.down.weight": (c["hidden"], c["ffn"]),
                       f"{name}.mlp.down.bias": (c["hidden"],)}
        else:
            shapes |= block_shapes(c, family, name)
    if family != "mlp":
        shapes["norm.weight"] = (c["hidden"],)
    if family == "gpt2":
        shapes["norm.bias"] = (c["hidden"],)
    if not c["tie_embeddings"]:
        shapes["head.weight"] = (c["vocab"], c["hidden"])
    return shapes


def initial_weights(shapes, rng):
    """Nothing is at a special value: biases are not 0, norm weights not 1. Four decimals: small files."""
    weights = {}
    for name, shape in shapes.items():
        value = rng.normal(0, 0.3 if len(shape) == 2 else 0.1, shape)
        if "norm" in name and name.endswith("weight"):
            value += 1
        weights[name] = torch.tensor(np.round(value, 4), dtype=torch.float64, requires_grad=True)
    return weights


def norm(w, x, name, eps):
    weight, bias = w[name + ".weight"], w.get(name + ".bias")
    if bias is None:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight
    return F.layer_norm(x, weight.shape, weight, bias, eps)


def linear(w, x, name):
    return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))


def document_starts(c):
    """(B, T): the token with which each token's document begins."""
    lengths = c.get("documents", [[c["sequence"]]] * c["samples"])
    return torch.tensor([[sum(sample[:i]) for i, n in enumerate(sample) for _ in range(n)] for sample in lengths])


def positions(c):
    """(B, T), in the document."""
    return torch.arange(c["sequence"]) - document_starts(c)


def rotate(x, theta, c):
    """x (B, heads, T, D): pairs (i, i + D / 2) turn by position * theta^(-2 i / D)."""
    half = x.shape[-1] // 2
    angle = positions(c).to(x.dtype)[:, None, :, None] * theta ** (
        -2 * torch.arange(half, dtype=x.dtype) / x.shape[-1])
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def attention(w, x, name, c):
    samples, tokens, _ = x.shape
    heads, kv_heads, head_dim = c["heads"], c["kv_heads"], c["head_dim"]
    qkv = linear(w, x, name + ".qkv")
    q, k, v = qkv.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], -1)
    q, k, v = (part.view(samples, tokens, -1, head_dim).transpose(1, 2) for part in (q, k, v))
    if "rope_theta" in c:
        q, k = rotate(q, c["rope_theta"], c), rotate(k, c["rope_theta"], c)
    k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
    if "documents" in c:
        starts = document_starts(c)
        mask = (starts[:, :, None] == starts[:, None, :]) & torch.ones(tokens, tokens, dtype=torch.bool).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
    else:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(w, y.transpose(1, 2).reshape(samples, tokens, -1), name + ".output")


def mlp(w, x, name, gated):
    h = linear(w, x, name + ".up")
    if gated:
        gate, up = h.chunk(2, -1)
        h = F.silu(gate) * up
    else:
        h = F.gelu(h, approximate="tanh")
    return linear(w, h, name + ".down")


def logits(w, ids, c, family):
    x = w["embedding.table"][ids]
    if family == "mlp":
        x = x.flatten(1)
        for layer in range(c["layers"]):
            y = mlp(w, x, f"layers.{layer}.mlp", False)
            x = y if layer == 0 else x + y
        return F.linear(x, w["head.weight"])
    if family == "gpt2":
        x = x + w["embedding.positions"][positions(c)]
    for layer in range(c["layers"]):
        name = f"layers.{layer}"
        x = x + attention(w, norm(w, x, name + ".norm1", c["norm_eps"]), name + ".attention", c)
        x = x + mlp(w, norm(w, x, name + ".norm2", c["norm_eps"]), name + ".mlp", family == "llama")
    table = w["embedding.table"] if c["tie_embeddings"] else w["head.weight"]
    return F.linear(norm(w, x, "norm", c["norm_eps"]), table)


def smoothed_loss(z, labels, epsilon):
    """(1 - e) nll + e * mean over classes of -log p, summed over counted rows / their number."""
    counted = labels >= 0
    log_p = torch.log_softmax(z[counted], -1)
    nll = -log_p.gather(-1, labels[counted][:, None])[:, 0]
    loss = ((1 - epsilon) * nll - epsilon * log_p.mean(-1)).sum() / counted.sum()
    torchs = F.cross_entropy(z, labels, ignore_index=-1, label_smoothing=epsilon)
    assert abs(loss.item() - torchs.item()) < 1e-14, "the loss is not torch's"
    return loss


def batch(c, family, rng):
    ids = rng.integers(0, c["vocab"], (c["samples"], c["sequence"]))
    if family == "mlp":
        labels = rng.integers(0, c["vocab"], (c["samples"], 1))
        labels[1] = -1
    else:
        labels = np.concatenate([ids[:, 1:], rng.integers(0, c["vocab"], (c["samples"], 1))], 1)
        labels[0, -1] = labels[1, 2] = labels[2, :3] = -1
    return ids, labels


def clip(parameters, most):
    """Scales gradients by min(1, most / (norm + 1e-6)); checks that torch does the same."""
    norm_ = torch.sqrt(sum((p.grad * p.grad).sum() for p in parameters))
    factor = min(1.0, most / (norm_.item() + 1e-6))
    assert factor < 1, "the clip does not act"
    expected = [p.grad * factor for p in parameters]
    assert abs(torch.nn.utils.clip_grad_norm_(parameters, most).item() - norm_.item()) < 1e-13
    for p, e in zip(parameters, expected):
        assert torch.allclose(p.grad, e, rtol=1e-13, atol=0)
    return norm_.item()


def adamw_by_hand(w, moments, step, o):
    """The update that the files promise: decay first, then Adam. Checked against torch.optim.AdamW."""
    result = {}
    for name, p in w.items():
        g = p.grad
        m, v = moments.setdefault(name, (torch.zeros_like(g), torch.zeros_like(g)))
        m, v = o["beta1"] * m + (1 - o["beta1"]) * g, o["beta2"] * v + (1 - o["beta2"]) * g * g
        moments[name] = (m, v)
        decay = o["weight_decay"] if p.dim() == 2 else 0
        m_hat, v_hat = m / (1 - o["beta1"] ** step), v / (1 - o["beta2"] ** step)
        result[name] = p.detach() * (1 - o["lr"] * decay) - o["lr"] * m_hat / (v_hat.sqrt() + o["eps"])
    return result


def dump(tensors):
    return {name: {"shape": list(t.shape), "data": t.detach().flatten().tolist()}
            for name, t in tensors.items()}


def train(family, c):
    rng = np.random.default_rng(2024 + len(family))
    weights = initial_weights(parameter_shapes(c, family), rng)
    ids, labels = batch(c, family, rng)
    golden = {"config": {"family": family, **c, **OPTIMIZER, "steps": STEPS}, "ids": ids.tolist(),
              "labels": labels.tolist(), "weights": dump(weights)}
    if "documents" in c:
        golden["starts"] = document_starts(c).tolist()
    o = OPTIMIZER
    groups = [{"params": [p for p in weights.values() if p.dim() == 2]},
              {"params": [p for p in weights.values() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=o["lr"],
                                  betas=(o["beta1"], o["beta2"]), eps=o["eps"],
                                  weight_decay=o["weight_decay"], foreach=False)
    ids, labels = torch.tensor(ids), torch.tensor(labels).flatten()
    losses, norms, moments = [], [], {}
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        z = logits(weights, ids, c, family).reshape(-1, c["vocab"])
        loss = smoothed_loss(z, labels, o["label_smoothing"])
        loss.backward()
        losses.append(loss.item())
        if step == 1:
            golden["grads"] = dump({name: p.grad for name, p in weights.items()})
        norms.append(clip(list(weights.values()), o["clip"]))
        expected = adamw_by_hand(weights, moments, step, o)
        optimizer.step()
        for name, p in weights.items():
            assert torch.allclose(p, expected[name], rtol=0, atol=1e-13), name
    golden |= {"loss": losses[0], "losses": losses, "grad_norms": norms, "after": dump(weights)}
    return golden


def check_gradients(family, c):
    """A few gradients against central differences: the graph above, not only torch, is as meant."""
    rng = np.random.default_rng(7)
    weights = initial_weights(parameter_shapes(c, family), rng)
    ids, labels = batch(c, family, rng)
    ids, labels = torch.tensor(ids), torch.tensor(labels).flatten()

    def loss():
        z = logits(weights, ids, c, family).reshape(-1, c["vocab"])
        return smoothed_loss(z, labels, OPTIMIZER["label_smoothing"])

    loss().backward()
    for name, p in weights.items():
        at = tuple(int(rng.integers(0, extent)) for extent in p.shape)
        values = []
        for delta in (1e-5, -1e-5):
            with torch.no_grad():
                p[at] += delta
                values.append(loss().item())
                p[at] -= delta
        slope = (values[0] - values[1]) / 2e-5
        assert abs(slope - p.grad[at].item()) < 1e-8, (name, slope, p.grad[at].item())


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for name, config in FAMILIES.items():
        family = name.split("_")[0]
        check_gradients(family, config)
        golden = train(family, config)
        with open(os.path.join(folder, name + ".json"), "w") as file:
            json.dump(golden, file, separators=(",", ":"))
            file.write("\n")
        print(f"{name}: loss {golden['losses'][0]:.6f} -> {golden['losses'][-1]:.6f}, "
              f"norm {golden['grad_norms'][0]:.4f}")


if __name__ == "__main__":
    main()
