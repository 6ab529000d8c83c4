#!/usr/bin/env python3
"""Ids of conversations as Trireme encodes them beside those of transformers' apply_chat_template(tokenize=True).

  python3 -m venv V && V/bin/pip install transformers h5py
  V/bin/python bench/compare_chat.py build/recipes/trireme FOLDER ... [--templates FOLDER] [--golden FILE]

Each FOLDER has a tokenizer.json and a tokenizer_config.json. Its own chat template is compared, if it has one, and the
templates below, of public models' features, on its vocabulary; so are all *.jinja of --templates, such as the folder
chat_templates of https://github.com/chujiezheng/chat_templates (18 of published models). Ends with 1 where ids differ. --golden: writes the
conversations and ids of folders with a template of their own, for tests/framework/data/chat/golden_test.cpp.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import h5py
from transformers import AutoTokenizer

# ChatML; headers and trimmed contents (Llama 3); [INST] with a folded system message (Llama 2, Mistral); turns of user
# and model (Gemma); contents in parts and calls of tools.
TEMPLATES = {
    "chatml": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou "
              "are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
              "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|im_start|>assistant\n' }}{% endif %}",
    "headers": "{{- bos_token }}{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + "
               "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
               "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}",
    "inst": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
            "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
            "{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != "
            "(loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
            "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + "
            "'\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
            "{% if message['role'] == 'user' %}{{ '[INST] ' + content.strip() + ' [/INST]' }}"
            "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
    "turns": "{{ bos_token }}{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else "
             "message['role'] %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
             "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
    "parts": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}"
             "{% elif m.content %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}"
             "{% endif %}{% for call in m.tool_calls or [] %}{{ '<tool_call>\n' }}{{ call.function | tojson }}"
             "{{ '\n</tool_call>' }}{% endfor %}<|im_end|>\n{% endfor %}",
}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def conversations():
    texts = ["Hi", " Hi ", "What is 12345 + 678?", "naïve café 日本語 😀", "def f(x):\n\treturn x ** 2\n", "I'm  here.\n\n\n- a\n- b"]
    plain = [[said("user", a), said("assistant", b)] for a in texts for b in texts[:3]]
    plain += [[said("system", "Be brief."), said("user", a), said("assistant", "Yes."), said("user", "And?"),
               said("assistant", a)] for a in texts]
    call = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 3}}}
    tools = [[said("user", "Weather?"), said("assistant", None, tool_calls=[call]), said("tool", "sunny", name="weather"),
              said("assistant", "It is sunny.")],
             [said("user", "Weather?"), {"role": "assistant", "tool_calls": [call]}, said("tool", "rain"),
              said("assistant", "Rain.")]]
    parts = [[said("user", [{"type": "text", "text": "One"}, {"type": "text", "text": " two"}]), said("assistant", "three")]]
    return plain, tools, parts


def tokenized(program, folder, conversations):
    """Ids of each; the sentence where one is refused."""
    with tempfile.TemporaryDirectory() as scratch:
        text, out = os.path.join(scratch, "c.jsonl"), os.path.join(scratch, "c.h5")
        with open(text, "w") as file:
            for messages in conversations:
                file.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
        end = subprocess.run([program, "tokenize", text, out, "--data.tokenizer=" + folder, "--data.loss_on=all"],
                             capture_output=True, text=True)
        if end.returncode != 0:
            return end.stderr.strip()
        with h5py.File(out) as file:
            ids = [int(i) for i in file["tokens"][:]]
            marks = file["marks"][:]
    begins = [i for i in range(len(ids)) if marks[i // 8] >> i % 8 & 1]
    return [ids[a:b] for a, b in zip(begins, begins[1:] + [len(ids)])]


def ours(program, folder, conversations):
    """Of each its ids, or the sentence that refuses it. All at once, which is faster, unless one is refused."""
    together = tokenized(program, folder, conversations)
    if isinstance(together, list):
        return together
    alone = [tokenized(program, folder, [messages]) for messages in conversations]
    return [one if isinstance(one, str) else one[0] for one in alone]


def theirs(tokenizer, messages):
    try:
        ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    except Exception as error:  # jinja's and its own
        return str(error)
    text = tokenizer.decode([i for i in ids])
    # A conversation whose template ends without a control token is ended by Trireme (docs/data.md).
    last = next((i for i in reversed(ids) if tokenizer.decode([i]).strip()), None)
    ended = last in tokenizer.all_special_ids or last in tokenizer.added_tokens_decoder
    if not ended and tokenizer.eos_token_id is not None:
        ids = list(ids) + [tokenizer.eos_token_id]
    assert text is not None
    return [int(i) for i in ids]


def compare(program, folder, name, golden):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    plain, tools, parts = conversations()
    same = refused = 0
    failures = []
    all_ours = ours(program, folder, plain) + ours(program, folder, tools) + ours(program, folder, parts)
    for messages, a in zip(plain + tools + parts, all_ours, strict=True):
        b = theirs(tokenizer, messages)
        if isinstance(a, str) and isinstance(b, str):
            refused += 1
        elif a == b:
            same += 1
            golden.append({"messages": messages, "ids": a})
        elif isinstance(a, str) and ("parts of a content" in a or "not a list" in a):
            refused += 1  # transformers passes over them without a word, or writes Python's view of the list
        else:
            failures.append((messages, a, b))
    print(f"{name}: {same} equal, {refused} refused, {len(failures)} differ")
    for messages, a, b in failures[:3]:
        print("  ", json.dumps(messages, ensure_ascii=False)[:300], "\n   here  ", a, "\n   theirs", b)
    return len(failures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--templates")
    parser.add_argument("--golden")
    flags = parser.parse_args()
    templates = dict(TEMPLATES)
    for path in sorted(glob.glob(os.path.join(flags.templates, "*.jinja"))) if flags.templates else []:
        with open(path) as file:
            templates[os.path.basename(path)] = file.read()
    failures, golden = 0, {}
    for folder in flags.folders:
        folder = folder.rstrip("/")
        name = os.path.basename(folder)
        with open(os.path.join(folder, "tokenizer_config.json")) as file:
            config = json.load(file)
        own = "chat_template" in config or os.path.exists(os.path.join(folder, "chat_template.jinja"))
        if own:
            golden[name] = []
            failures += compare(flags.program, folder, name, golden[name])
        for template, source in templates.items():
            with tempfile.TemporaryDirectory() as scratch:
                for file in ("tokenizer.json", "config.json", "special_tokens_map.json"):
                    if os.path.exists(os.path.join(folder, file)):
                        shutil.copy(os.path.join(folder, file), scratch)
                with open(os.path.join(scratch, "tokenizer_config.json"), "w") as file:
                    json.dump({**config, "chat_template": source}, file)
                failures += compare(flags.program, scratch, f"{name} with {template}", [])
    if flags.golden:
        with open(flags.golden, "w") as file:
            json.dump(golden, file, ensure_ascii=False, indent=None, separators=(",", ":"))
            file.write("\n")
    sys.exit(failures > 0)


main()
