#!/usr/bin/env python3
"""Damaged and odd safetensors files, read by Trireme and by the `safetensors` package.

  python3 -m venv V && V/bin/pip install safetensors
  V/bin/python bench/compare_safetensors.py build/bench/safetensors_dump [--mutants 10000] [--seed 1]

Every file that the package refuses must be refused; every other one must be refused with a sentence that is on
the list STRICTER below, or have the same tensors with the same bytes. Ends with 1 otherwise.
"""
import argparse
import collections
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

from safetensors import deserialize

# Where Trireme asks for more than the package, and why.
STRICTER = {
    r"dtype \".*\" is none of": "types that were added after format 0.4 (F4, F6, F8_E8M0, C64): nothing here has them",
    r"comes twice in one object": "the format allows no key twice; the package takes the last, or both",
    r"the header does not begin with {": "the format says so; the package passes over blanks",
    r"an integer is expected, here is (9\.2|1\.8)": "extents and offsets of 2^63 and more, beside an extent of 0",
    r"does not fit into 64 bits": "extents whose product does not, beside an extent of 0",
    r"more than 400000 values": "50,000 tensors are ten times what published files have",
}
TYPES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1, "U16": 2,
         "U32": 4, "U64": 8, "F8_E4M3": 1, "F8_E5M2": 1}
ODD_TYPES = ["F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "C64", "F128", "f32", "float32", "", "I4", "BF16 ", "U128"]
NUMBERS = [0, 1, -1, 2, 3, 7, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 0.0, 1.0, 1.5, 1e3,
           True, None, "1", [], {}, -2**63]


def base(r):
    """A valid file: header as a list of (key, value), so that order and doubles can be had; data."""
    entries, data = [], b""
    for i in range(r.randrange(0, 6)):
        dtype = r.choice(list(TYPES))
        shape = [r.choice((0, 1, 1, 2, 3, 4)) for _ in range(r.randrange(0, 4))]
        count = 1
        for extent in shape:
            count *= extent
        size = count * TYPES[dtype]
        name = r.choice(("w", "layers.0.weight", "é", "名", "a b", "", "x\ty", "__meta__")) + str(i)
        entries.append((name, [("dtype", dtype), ("shape", shape), ("data_offsets", [len(data), len(data) + size])]))
        data += r.randbytes(size)
    if r.random() < 0.3:
        entries.insert(r.randrange(len(entries) + 1), ("__metadata__", [("format", "pt"), ("a", "b")]))
    r.shuffle(entries)
    return entries, data


def written(r, value):
    """JSON text, with the freedom that JSON has."""
    if isinstance(value, list) and value and all(isinstance(v, tuple) for v in value):
        return "{" + ",".join(written(r, str(k)) + ":" + written(r, v) for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + r.choice(("", " ")) + ",".join(written(r, v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=r.random() < 0.5)


def whole(value):
    """Nothing of it was changed into another kind of value."""
    return (isinstance(value["shape"], list) and isinstance(value["data_offsets"], list) and len(value["data_offsets"]) == 2
            and all(type(x) is int for x in value["data_offsets"]))


def edit(r, entries, data):
    """Changes one place of the header."""
    kind = r.randrange(16)
    tensors = [i for i, (k, v) in enumerate(entries) if k != "__metadata__" and isinstance(v, list) and v and isinstance(v[0], tuple)
               and all(k in dict(v) for k in ("dtype", "shape", "data_offsets")) and whole(dict(v))]
    if kind == 0 or not tensors:
        value = r.choice(([("a", r.choice(("x", 1, None, [], "é")))], [], "x", None, 3, [("a", "b"), ("a", "c")], {}))
        return entries + [("__metadata__", value)], data
    at = r.choice(tensors)
    name, fields = entries[at]
    fields = [(k, list(v) if isinstance(v, list) else v) for k, v in fields]
    value = dict(fields)
    if kind == 1:
        entries = entries + [(name, fields)]  # a name twice
    elif kind == 2:
        value["dtype"] = r.choice(list(TYPES) + ODD_TYPES + NUMBERS)
    elif kind == 3 and value["shape"]:
        value["shape"][r.randrange(len(value["shape"]))] = r.choice(NUMBERS)
    elif kind == 4:
        value["shape"] = r.choice(([], [1], [2**32, 2**32], [2**62, 4], [0, 2**63], [2**64], [0], "x", None, [[1]], 4))
    elif kind == 5:
        value["data_offsets"][r.randrange(2)] = r.choice(NUMBERS)
    elif kind == 6:
        value["data_offsets"] = r.choice(([0], [], [0, 0, 0], None, "x", [1, 0], [0, len(data)], [0, len(data) + 1]))
    elif kind == 7:
        value["data_offsets"] = [x + r.choice((-1, 1, 8)) for x in value["data_offsets"]]
    elif kind == 8:
        value.pop(r.choice(list(value)))
    elif kind == 9:
        value[r.choice(("extra", "Dtype", "dtype "))] = r.choice(NUMBERS)
    elif kind == 10:
        data += r.randbytes(r.choice((1, 8)))
    elif kind == 11:
        data = data[:-1]
    elif kind == 12:
        del entries[at]
        return entries, data
    elif kind == 13:
        entries[at] = (name, r.choice(NUMBERS))
        return entries, data
    elif kind == 14:
        fields = fields + [r.choice(fields)]  # a field twice
        entries[at] = (name, fields)
        return entries, data
    else:
        other = r.choice(tensors)
        value["data_offsets"] = dict(entries[other][1])["data_offsets"]
    if kind != 1:
        entries[at] = (name, list(value.items()))
    return entries, data


def around(r, header):
    """Changes bytes of the header, or what stands around them."""
    kind = r.randrange(14)
    raw = bytearray(header)
    if kind == 0:
        return bytes(raw) + b" " * r.choice((1, 7, 100))
    if kind == 1:
        return r.choice((b" ", b"\n", b"\xef\xbb\xbf", b"[", b"\0")) + bytes(raw)
    if kind == 2:
        return bytes(raw) + r.choice((b"x", b"\0", b"}", b"{}", b",", b"\n", b"\t\r\n", b"\x0b", b"\xc2\xa0", b"//c"))
    if kind == 3:
        return bytes(raw).replace(b":", b" : ", 1).replace(b",", b"\n,\t", 1)
    if kind == 4:
        return bytes(raw).replace(b"\"", b"'", 2)
    if kind == 5:
        return b"{" + b"[" * r.choice((10, 200, 100000)) + bytes(raw)[1:]
    if kind == 6:
        return bytes(raw)[:-1] + b",}"
    if kind == 7:
        return bytes(raw).replace(b"[", b"[,", 1)
    if kind == 8:
        return re.sub(rb"(\d+)", lambda m: r.choice((b"0" + m[1], b"+" + m[1], m[1] + b".0", m[1] + b"e0", b"-" + m[1],
                                                     b"0x" + m[1], m[1] + b"_0", b"-0", m[1] + b"." )), bytes(raw), count=1)
    if kind == 9:
        return bytes(raw).replace(b"w", r.choice((b"\\u0077", b"\\ud800", b"\\x77", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80",
                                                  b"\\ud83d\\ude00", b"\x00", b"\x1f", b"\\u0000", b"\\/", b"\xf4\x90\x80\x80")), 1)
    if kind == 10:
        return b""
    for _ in range(r.choice((1, 1, 2, 5))):
        if raw:
            raw[r.randrange(len(raw))] = r.choice((r.randrange(256), ord(r.choice("{}[]\",:0123456789 -e.u\\"))))
    return bytes(raw)


def mutant(r):
    entries, data = base(r)
    for _ in range(r.choice((0, 0, 1, 1, 1, 2, 3))):
        entries, data = edit(r, entries, data)
    header = ("{" + ",".join(written(r, k) + ":" + written(r, v) for k, v in entries) + "}").encode()
    if r.random() < 0.35:
        header = around(r, header)
    length = len(header)
    if r.random() < 0.08:
        length = r.choice((0, 1, length - 1, length + 1, 2**63, 2**64 - 1, 100_000_000, 100_000_001, length + len(data), 2**32))
    file = struct.pack("<Q", length % 2**64) + header + data
    if r.random() < 0.06:
        file = file[:r.randrange(len(file) + 1)]
    return file


def by_package(file):
    try:
        return {name: [info["dtype"], list(info["shape"]), bytes(info["data"]).hex()] for name, info in deserialize(file)}
    except Exception as error:  # its own type, and those of what it is made of
        return str(error)


def judge(file, ours, counts):
    """A sentence if the two disagree."""
    theirs = by_package(file)
    if isinstance(theirs, str):
        counts["refused by both" if "error" in ours else "FAILED"] += 1
        return None if "error" in ours else f"the package says: {theirs}"
    if "error" in ours:
        for pattern in STRICTER:
            if re.search(pattern, ours["error"]):
                counts[f"refused here only: {pattern}"] += 1
                return None
        counts["FAILED"] += 1
        return f"refused here only: {ours['error']}"
    counts["equal" if theirs == ours["tensors"] else "FAILED"] += 1
    return None if theirs == ours["tensors"] else f"the package has {theirs}, here is {ours['tensors']}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dump")
    parser.add_argument("--mutants", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    r, counts, failures = random.Random(flags.seed), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        files = [mutant(r) for _ in range(flags.mutants)]
        paths = [os.path.join(folder, f"{i}.safetensors") for i in range(len(files))]
        for path, file in zip(paths, files):
            with open(path, "wb") as out:
                out.write(file)
        told = subprocess.run([flags.dump], input="\n".join(paths) + "\n", capture_output=True, text=True, errors="replace",
                              check=True)
        lines = told.stdout.splitlines()
        assert len(lines) == len(files), (len(lines), told.stderr)
        for i, (file, line) in enumerate(zip(files, lines)):
            sentence = judge(file, json.loads(line), counts)
            if sentence and (failures := failures + 1) <= 20:
                print(f"mutant {i}: {sentence}\n  {file[:300]!r}")
    for what, count in sorted(counts.items()):
        print(f"{count:7} {what}")
    sys.exit(failures > 0)


main()
