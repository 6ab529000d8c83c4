#!/usr/bin/env python3
"""Makes a Hugging Face folder of a Llama of random weights, larger than a small machine's memory.

    make_random_llama.py FOLDER [--layers 40] [--hidden 3072] [--ffn 8192] [--tokenizer FOLDER]

By default 8.4 GB in bf16, in files of about 2 GB, as published models come. All bytes are random
and written: a sparse file, or one of equal blocks, would not ask anything of the disk. Needs numpy.
"""
import argparse
import json
import os
import shutil

import numpy as np


def tensors_of(args, vocab):
    kv = args.kv_heads * args.head_dim
    heads = args.heads * args.head_dim
    yield "model.embed_tokens.weight", (vocab, args.hidden)
    for i in range(args.layers):
        layer = f"model.layers.{i}."
        # In the order of names, as save_pretrained writes them.
        yield layer + "input_layernorm.weight", (args.hidden,)
        yield layer + "mlp.down_proj.weight", (args.hidden, args.ffn)
        yield layer + "mlp.gate_proj.weight", (args.ffn, args.hidden)
        yield layer + "mlp.up_proj.weight", (args.ffn, args.hidden)
        yield layer + "post_attention_layernorm.weight", (args.hidden,)
        yield layer + "self_attn.k_proj.weight", (kv, args.hidden)
        yield layer + "self_attn.o_proj.weight", (args.hidden, heads)
        yield layer + "self_attn.q_proj.weight", (heads, args.hidden)
        yield layer + "self_attn.v_proj.weight", (kv, args.hidden)
    yield "model.norm.weight", (args.hidden,)
    yield "lm_head.weight", (vocab, args.hidden)


def values_of(shape, rng):
    """bf16 bits: ones of norms; else both signs, magnitudes from 2^-7 to 2^-5, evenly by exponent."""
    if len(shape) == 1:
        return np.full(shape, 0x3F80, np.uint16)
    bits = np.frombuffer(rng.bytes(2 * shape[0] * shape[1]), np.uint16)
    return (bits & 0x80FF) | 0x3C00


def write_shard(path, tensors, rng):
    header, at = {}, 0
    for name, shape in tensors:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape in tensors:
            file.write(values_of(shape, rng).tobytes())
        file.flush()
        os.fsync(file.fileno())
    return at


def vocabulary_of(folder):
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
        tokenizer = json.load(file)
    ids = list(tokenizer["model"]["vocab"].values())
    ids += [token["id"] for token in tokenizer.get("added_tokens", [])]
    return max(ids) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    for name, value in (("layers", 40), ("hidden", 3072), ("ffn", 8192), ("heads", 24),
                        ("kv_heads", 8), ("head_dim", 128), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--tokenizer", default=os.path.join(here, "../../shared/data/tokenizers/mistral"))
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(args.tokenizer, name), args.folder)
    vocab = (vocabulary_of(args.tokenizer) + 63) // 64 * 64
    rng = np.random.default_rng(args.seed)
    shards, size = [[]], 0
    for name, shape in tensors_of(args, vocab):
        if size > 2_000_000_000:
            shards.append([])
            size = 0
        shards[-1].append((name, shape))
        size += 2 * int(np.prod(shape))
    names = [f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors" for i in range(len(shards))]
    total = sum(write_shard(os.path.join(args.folder, name), shard, rng)
                for name, shard in zip(names, shards))
    where = {name: file for file, shard in zip(names, shards) for name, _ in shard}
    with open(os.path.join(args.folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": where}, file)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
              "hidden_size": args.hidden, "intermediate_size": args.ffn,
              "num_hidden_layers": args.layers, "num_attention_heads": args.heads,
              "num_key_value_heads": args.kv_heads, "head_dim": args.head_dim,
              "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
              "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
              "vocab_size": vocab, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}
    with open(os.path.join(args.folder, "config.json"), "w") as file:
        json.dump(config, file)
    print(f"{args.folder}: {total / 1e9:.2f} GB in {len(shards)} files")


if __name__ == "__main__":
    main()
