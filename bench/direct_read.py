#!/usr/bin/env python3
"""Reads files past the page cache (O_DIRECT) and prints bytes a second: what a disk gives, beside
which streams of weights are measured.

    direct_read.py [--requests 3] [--size 2097152] FILE...

As many requests under way at a time, into memory that is used again; nothing else is done.
"""
import argparse
import mmap
import os
import threading
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--size", type=int, default=2 << 20)
    args = parser.parse_args()
    descriptors = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in args.files]
    work = [(d, at) for d in descriptors for at in range(0, os.fstat(d).st_size, args.size)]
    work.reverse()
    lock, total = threading.Lock(), [0]

    def read():
        memory = mmap.mmap(-1, args.size)
        while True:
            with lock:
                if not work:
                    return
                descriptor, at = work.pop()
            count = os.preadv(descriptor, [memory], at)
            with lock:
                total[0] += count

    threads = [threading.Thread(target=read) for _ in range(args.requests)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{total[0] / (time.monotonic() - begin):.0f}")


if __name__ == "__main__":
    main()
