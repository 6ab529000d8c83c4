"""A model folder of the Hugging Face layout whose model says a given text, whatever it is asked.

Attention and MLP are zero, so what follows a token depends on that token alone: the vocabulary has every piece of the text as one
token, and the head sends each to the next. Bytes (a prompt's) lead to the first piece; several first pieces are equally likely.
`width` of the (zero) MLP makes passes slow, for tests that want to meet an answer under way.
"""
import json
import os
import random
import struct

HIDDEN = 64
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_letters():
    """How byte-level vocabularies spell bytes: printable ones as themselves, others from U+0100 on."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {b: chr(b) for b in kept}
    for n, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + n)
    return letters


def pieces_of(text, taken):
    """The text in words, some longer so that no two pieces are the same. `taken` grows."""
    pieces, at = [], 0
    while at < len(text):
        end = at
        while True:
            end += 1
            while end < len(text) and not (text[end - 1] in " \n" and text[end] not in " \n"):
                end += 1
            if len(text[at:end].encode()) > 1 and text[at:end] not in taken:
                break
            if end >= len(text):  # the rest is a piece already: with the one before
                at -= len(pieces[-1])
                taken.discard(pieces.pop())
                end = len(text)
                break
        pieces.append(text[at:end])
        taken.add(text[at:end])
        at = end
    return pieces


def bf16(values):
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def write_weights(path, tensors):
    head, at = {}, 0
    for name, (shape, data) in tensors.items():
        size = data if isinstance(data, int) else len(data)
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            if isinstance(data, int):  # zeros, as a hole of the file
                file.seek(data, os.SEEK_CUR)
            else:
                file.write(data)
        file.truncate(8 + len(text) + at)


def write_model(folder, firsts, text, ends=True, template=True, width=32, context=65536):
    """`firsts`: texts that an answer may begin with, `text` what follows; then the end, or all again."""
    os.makedirs(folder)
    letters, taken = byte_letters(), set()
    tokens = [bytes([b]) for b in range(256)]
    chains = [tokens_of(tokens, pieces_of(first, taken)) for first in firsts]
    rest = tokens_of(tokens, pieces_of(text, taken))
    specials = {name: len(tokens) + n for n, name in enumerate(["<|im_start|>", "<|im_end|>"])}
    vocab = len(tokens) + len(specials)

    rng = random.Random(7)
    embed = [[rng.choice((-1.0, 1.0)) for _ in range(HIDDEN)] for _ in range(vocab)]
    embed[:256] = [embed[0]] * 256
    head = [[0.0] * HIDDEN for _ in range(vocab)]

    def leads(token, to):
        head[to] = [h + e for h, e in zip(head[to], embed[token])]

    for chain in chains:
        leads(0, chain[0])
        for token, to in zip(chain, chain[1:] + [rest[0]]):
            leads(token, to)
    for token, to in zip(rest, rest[1:]):
        leads(token, to)
    leads(rest[-1], specials["<|im_end|>"] if ends else rest[0])

    layer = "model.layers.0."
    zeros = {layer + f"self_attn.{n}_proj.weight": [HIDDEN, HIDDEN] for n in "qkvo"}
    zeros |= {layer + "mlp.gate_proj.weight": [width, HIDDEN], layer + "mlp.up_proj.weight": [width, HIDDEN],
              layer + "mlp.down_proj.weight": [HIDDEN, width]}
    ones = ["model.norm.weight", layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight"]
    tensors = {name: (shape, 2 * shape[0] * shape[1]) for name, shape in zeros.items()}
    tensors |= {name: ([HIDDEN], bf16([1.0] * HIDDEN)) for name in ones}
    tensors |= {"model.embed_tokens.weight": ([vocab, HIDDEN], bf16(sum(embed, []))),
                "lm_head.weight": ([vocab, HIDDEN], bf16(sum(head, [])))}
    write_weights(f"{folder}/model.safetensors", tensors)

    def write(name, value):
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            json.dump(value, file)

    write("config.json", {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "vocab_size": vocab,
                          "hidden_size": HIDDEN, "intermediate_size": width, "num_hidden_layers": 1, "num_attention_heads": 2,
                          "num_key_value_heads": 2, "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                          "tie_word_embeddings": False, "torch_dtype": "bfloat16", "eos_token_id": specials["<|im_end|>"]})
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    write("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "pre_tokenizer": level, "decoder": level,
        "added_tokens": [{"id": number, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False} for name, number in specials.items()],
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "merges": [],
                  "vocab": {"".join(letters[b] for b in token): number for number, token in enumerate(tokens)}}})
    write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>",
                                    **({"chat_template": TEMPLATE} if template else {})})


def tokens_of(tokens, pieces):
    numbers = []
    for piece in pieces:
        numbers.append(len(tokens))
        tokens.append(piece.encode())
    return numbers
