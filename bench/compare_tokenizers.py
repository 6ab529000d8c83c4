#!/usr/bin/env python3
"""Ids and decoded text of Trireme beside those of the `tokenizers` package, on 10 MB of varied text.

  python3 -m venv V && V/bin/pip install tokenizers
  TOKENIZERS_PARALLELISM=false V/bin/python bench/compare_tokenizers.py build/bench/tokenizer_bench \
      ../shared/data/tokenizers/* [--text FILE] [--megabytes 10] [--speed]

Each argument is a folder with a tokenizer.json. Ends with 1 at the first tokenizer that differs.
--speed: megabytes a second of both on FILE, one thread each.
"""
import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer

WORDS = ("the of and to in is was for that on with as by at from his her it an were which are this also be had or "
         "has not but one their its new first two after who they have I'm you'll we've don't CAN'T It's o'CLOCK "
         "Straße naïve café résumé Ελλάδα Россия ещё йод שלום عربى हिन्दी ภาษาไทย 한국어 日本語 中文 tiếng Việt").split()
CODE = ["def f(x):\n    return x ** 2\n", "\tif (a && b) { c[i++] = 0x1F; }\r\n", "#include <vector>\n",
        "std::map<int, T>::iterator it = m.begin();\n", "// TODO: fix-me!!! (v1.2.3)\n", "<div class=\"a\">&nbsp;</div>\n",
        "SELECT * FROM t WHERE a>=10;\n", "x=1;y=2;;;\n\n\n", "λ x → x+1\n", "print(f\"{a!r:>{width}}\")\n"]
EMOJI = ["👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "😀", "❤️", "1️⃣", "🧑🏿‍🚀", "☎︎"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<tool_call>", "</think>", "<|", "|>",
           "<0x0A>", "▁", "Ġ", "ſ", "'ſ", "'S", "'lL", "�"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", "\u000b", "\u000c", "\u0085", "\u00a0", "\u2003", "\u2028",
          "\u3000", "\u001c", "\u180e", "\u200b", "\ufeff", "\u202f", "\u1680"]
MARKS = [chr(c) for c in list(range(0x300, 0x370)) + [0x5b0, 0x5bc, 0x64b, 0x651, 0x93c, 0x94d, 0xe31, 0x1161, 0x11a8,
                                                      0x3099, 0x20d0, 0xfe0f, 0x1d165, 0x1133e]]


def any_character(r):
    while True:
        c = r.choice((r.randrange(0x80), r.randrange(0x800), r.randrange(0x3000), r.randrange(0x10000),
                      r.randrange(0x110000), r.randrange(0x1f000, 0x20000), r.randrange(0x10000, 0x14000)))
        if not 0xd800 <= c < 0xe000:
            return chr(c)


def record(r, book):
    """One text of one kind."""
    kind = r.randrange(14)
    n = r.choice((1, 2, 5, 20, 100, 400))
    if kind == 0:
        start = r.randrange(len(book))
        return book[start:start + n * 20]
    if kind == 1:
        return " ".join(r.choice(WORDS) for _ in range(n))
    if kind == 2:
        return "".join(r.choice(CODE) for _ in range(n // 4 + 1))
    if kind == 3:
        return "".join(any_character(r) for _ in range(n))
    if kind == 4:
        return "".join(chr(r.choice((r.randrange(0x4e00, 0xa000), r.randrange(0x3040, 0x3100), r.randrange(0xac00, 0xd7a4),
                                     r.randrange(0xff00, 0xfff0), 0x3002))) for _ in range(n))
    if kind == 5:
        return "".join(r.choice(EMOJI) + r.choice(("", " ", "a")) for _ in range(n))
    if kind == 6:
        return "".join(r.choice("aeiouAEnsגकが가ᄀ") + "".join(r.choice(MARKS) for _ in range(r.randrange(4))) for _ in range(n))
    if kind == 7:
        return "".join(chr(r.randrange(0x20)) if r.random() < .5 else chr(r.randrange(0x7f, 0xa1)) for _ in range(n))
    if kind == 8:
        return "".join(r.choice(("\r\n", "\n", "\r", "a", "b c", "!", " ", "\t", ".\n")) for _ in range(n))
    if kind == 9:
        return "".join(r.choice(("0123456789", "12", "٣", "४", "²", "½", "Ⅷ", "①", " ", ",", ".", "x", "-"))
                       for _ in range(n))
    if kind == 10:
        return "".join(r.choice(SPACES) * r.choice((1, 1, 2, 7)) + r.choice(("", "", "x", "!", "9", "é")) for _ in range(n))
    if kind == 11:
        return "".join(r.choice(SPECIAL) + r.choice(("", " ", "user", "\n", "  ")) for _ in range(n))
    if kind == 12:
        return r.choice("xA- =_é中.") * r.choice((1, 33, 64, 1000, 5000))
    return "".join(record_piece(r, book) for _ in range(r.randrange(1, 8)))


def record_piece(r, book):
    return r.choice((r.choice(WORDS), r.choice(CODE), r.choice(EMOJI), r.choice(SPECIAL), r.choice(SPACES),
                     any_character(r), r.choice(MARKS), str(r.randrange(10 ** 6)), r.choice("'’\"“”—…")))


def every_character():
    """Every code point alone, and between letters and blanks."""
    for first in range(0, 0x110000, 0x40):
        if 0xd800 <= first < 0xe000:
            continue
        block = [chr(c) for c in range(first, first + 0x40)]
        yield "".join(block)
        yield " ".join(block)
        yield "".join("a" + c + "e! " + c + c + "\u0301\n" for c in block)


def make_records(megabytes, book):
    r = random.Random(20240229)
    texts = list(every_character())
    size = sum(len(t.encode()) for t in texts)
    while size < megabytes * 1e6:
        texts.append(record(r, book))
        size += len(texts[-1].encode())
    return texts, size


def run_ours(program, folder, texts, place):
    inputs, outputs = os.path.join(place, "in"), os.path.join(place, "out")
    with open(inputs, "wb") as f:
        for t in texts:
            data = t.encode()
            f.write(struct.pack("<I", len(data)) + data)
    subprocess.run([program, "records", folder, inputs, outputs], check=True)
    data, at = open(outputs, "rb").read(), 0
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        ids = list(struct.unpack_from("<%di" % n, data, at + 4))
        at += 4 + 4 * n
        (size,) = struct.unpack_from("<I", data, at)
        yield ids, data[at + 4:at + 4 + size].decode()
        at += 4 + size


def compare(program, folder, texts, place):
    theirs = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    count = ids_count = differences = 0
    for text, (ids, decoded) in zip(texts, run_ours(program, folder, texts, place)):
        wanted = theirs.encode(text, add_special_tokens=False).ids
        back = theirs.decode(wanted, skip_special_tokens=False)
        count += 1
        ids_count += len(wanted)
        if ids != wanted or decoded != back:
            differences += 1
            if differences <= 5:
                at = next((i for i, (a, b) in enumerate(zip(ids, wanted)) if a != b), min(len(ids), len(wanted)))
                print(f"  {'ids' if ids != wanted else 'decode'} differ in {text[:60]!r}: at {at} "
                      f"{ids[at:at + 8]} instead of {wanted[at:at + 8]}")
    assert count == len(texts)
    print(f"{folder}: {count} texts, {ids_count} ids, {differences} differences")
    return differences


def speed(program, folder, path):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    begin = time.perf_counter()
    theirs = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    load = time.perf_counter() - begin
    text = open(path, encoding="utf-8", newline="").read()
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        theirs.encode(text, add_special_tokens=False)
        times.append(time.perf_counter() - begin)
    print(f"  tokenizers: load {load:.3f} s, encode {len(text.encode()) / min(times) * 1e-6:.1f} MB/s")
    ours = subprocess.run([program, "speed", folder, path], check=True, capture_output=True, text=True).stdout
    print("  trireme:    " + ours.strip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--text", default="../shared/data/tinyshakespeare.txt")
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    book = open(options.text, encoding="utf-8", newline="").read()
    texts, size = make_records(options.megabytes, book)
    print(f"{len(texts)} texts, {size} bytes")
    bad = 0
    with tempfile.TemporaryDirectory() as place:
        for folder in options.folders:
            bad += compare(options.program, folder, texts, place)
            if options.speed:
                speed(options.program, folder, options.text)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
