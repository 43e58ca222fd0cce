# SPDX-License-Identifier: GPL-2.0
"""What plugin/ has written about a window, and which lines of memory the CPUs took from each other."""

from collections import namedtuple

LINE = 64
# A line is hot when at least two CPUs that get packets write it for one packet in so many, each with
# one instruction to one place: pages that are cleared are written at many places, each a few times.
# What is written less often is the harness's, which begins and ends, and reuse of memory.
OFTEN = 8
# The CPU that gets none.
HARNESS = 0

Write = namedtuple("Write", "physical address pc counts")
Block = namedtuple("Block", "pc instructions counts")
# How often the lock that is watched was held for so many instructions.
Hold = namedtuple("Hold", "instructions counts")
# locked: the blocks that were begun while it was held.
Found = namedtuple("Found", "writes blocks locked holds")


def read(path):
    writes, holds = [], []
    blocks = {"block": [], "locked": []}
    with open(path) as file:
        for line in file:
            kind, *words = line.split()
            if kind == "write":
                numbers = [int(word, 16) for word in words[:3]]
                writes.append(Write(*numbers, [int(word) for word in words[3:]]))
            elif kind in blocks:
                blocks[kind].append(Block(int(words[0], 16), int(words[1]),
                                          [int(word) for word in words[2:]]))
            elif kind == "hold":
                holds.append(Hold(int(words[0]), [int(word) for word in words[1:]]))
            elif kind == "unresolved" and any(int(word) for word in words):
                raise SystemExit(f"{path}: writes to places unknown: {line}")
    return Found(writes, blocks["block"], blocks["locked"], holds)


def hot(writes, packets):
    """The writes to hot lines by CPUs that get packets; packets is the number that each had."""
    writes = [write._replace(counts=[0 if cpu == HARNESS else count
                                     for cpu, count in enumerate(write.counts)])
              for write in writes]
    most = {}
    for write in writes:
        counts = most.setdefault(write.physical // LINE, [0] * len(write.counts))
        counts[:] = map(max, counts, write.counts)
    hot_lines = {line for line, counts in most.items()
                 if sum(count * OFTEN >= packets for count in counts) > 1}
    return [write for write in writes if write.physical // LINE in hot_lines and any(write.counts)]
