# SPDX-License-Identifier: GPL-2.0-only
"""Traces of blocks: recorded ones, and generated ones."""

import array
import csv
import io
import lzma
import os
import random
import subprocess

BLOCK, SECTOR = 4096, 512
GENERATED = 400000


class Trouble(Exception):
    """An error that the user can do something about."""


def unpacked(path):
    """The text of a file, compressed or not."""
    if path.endswith(".xz"):
        with lzma.open(path, "rt") as file:
            return file.read()
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True,
                              text=True).stdout
    with open(path, encoding="ascii") as file:
        return file.read()


def requests_of_lis(text):
    """Lines "first_block block_count ignored request_number", blocks of 512 bytes."""
    for line in text.splitlines():
        first, count = line.split()[:2]
        yield int(first), int(count)


def requests_of_csv(text):
    """Columns size, in bytes, and lbn, in sectors; reads and writes alike."""
    for row in csv.DictReader(io.StringIO(text)):
        yield int(row["lbn"]), -(-int(row["size"]) // SECTOR)


def blocks_of(requests):
    sectors = BLOCK // SECTOR
    blocks = array.array("Q")
    for first, count in requests:
        blocks.extend(range(first // sectors, (first + max(count, 1) - 1) // sectors + 1))
    return blocks


def recorded(directory):
    """Name and blocks of each trace of a folder."""
    readers = {"lis": requests_of_lis, "csv": requests_of_csv}
    found = 0
    for name in sorted(os.listdir(directory)):
        stem, _, rest = name.partition(".")
        kind = rest.split(".")[0]
        if kind not in readers:
            continue
        path = os.path.join(directory, name)
        try:
            yield stem, blocks_of(readers[kind](unpacked(path)))
        except (ValueError, KeyError, TypeError, OSError, subprocess.CalledProcessError) as error:
            raise Trouble(f"{path}: no trace of its kind ({error!r})") from error
        found += 1
    if not found:
        raise Trouble(f"TRACES={directory}: no file *.lis or *.csv there, compressed "
                      "by xz or zstd or not")


def zipf(rng, exponent, nr_blocks, length):
    """References to blocks, popular ones scattered."""
    where = list(range(nr_blocks))
    rng.shuffle(where)
    weights = [1 / (rank + 1) ** exponent for rank in range(nr_blocks)]
    return [where[rank] for rank in rng.choices(range(nr_blocks), weights, k=length)]


def generated():
    """Traces to use if none were recorded: popularity, scans, loops, and change."""
    rng = random.Random(1)
    popular = zipf(rng, 0.9, 50000, GENERATED)
    yield "zipf", array.array("Q", popular)
    scans = array.array("Q")
    for begin in range(0, GENERATED, 50000):
        scans.extend(popular[begin:begin + 50000])
        scans.extend(range(100000 + begin, 120000 + begin))
    yield "scans", scans
    yield "loop", array.array("Q", (100000 + i % 20000 if rng.random() < 0.5 else block
                                    for i, block in enumerate(popular)))
    yield "change", array.array("Q", (i // 20000 * 3000 + block for i, block in
                                      enumerate(zipf(rng, 0.7, 5000, GENERATED))))
