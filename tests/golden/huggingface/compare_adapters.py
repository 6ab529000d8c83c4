#!/usr/bin/env python3
"""Compares an adapter folder with `peft`: needs torch, transformers and peft.

    python3 compare_adapters.py BASE ADAPTER MERGED

Logits of BASE with ADAPTER by `peft`, of `peft`'s own merge, and of the folder MERGED
(`trireme checkpoint merge`) in f32: differences are printed, above 1e-4 of the largest logit is an error
(0.05 where the base is stored in 16 bits, to which merged weights are rounded). Adapters must change
the logits at all.
"""
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def main():
    base, adapter, merged = sys.argv[1:4]
    stored = AutoModelForCausalLM.from_pretrained(base, dtype="auto").dtype
    model = load(base)
    ids = torch.tensor([[(7 * i + 3) % model.config.vocab_size for i in range(24)]])
    with torch.no_grad():
        plain = model(ids).logits
        tuned = PeftModel.from_pretrained(model, adapter)
        by_peft = tuned(ids).logits
        by_peft_merged = tuned.merge_and_unload()(ids).logits
        ours = load(merged)(ids).logits
    largest = by_peft.abs().max()
    print(f"adapters change logits by {(by_peft - plain).abs().max():.4g} of {largest:.4g}")
    assert not torch.equal(by_peft, plain), "the adapters change nothing"
    for name, other in [("peft merged", by_peft_merged), ("ours merged", ours)]:
        gap = ((other - by_peft).abs().max() / largest).item()
        print(f"{name}: {gap:.3g} of the largest logit away")
        assert gap < (1e-4 if name.startswith("peft") or stored == torch.float32 else 0.05), name


main()
