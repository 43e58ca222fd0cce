# SPDX-License-Identifier: GPL-2.0
"""What the scenarios have in common: modes, how figures are summed up, and the rows of the report.

A scenario is a module (socket_cost.py, nat_cost.py, esp_cost.py) with

    PATH                     its name in the report
    instructions(mode, say)  rows of instructions a packet, by row(), one after the other
    contention(mode, say, windows)
                             windows.take() for each of contended writes, and windows.lock() for
                             what is done under a lock (windows.py)

guest.py imports those that it lists, and runs them one after the other in one boot.
"""

import statistics

IMPLS = ("c", "rust")


class Mode:
    def __init__(self, name, rounds, batches, pktgen_rounds, pktgen_packets, cpus):
        self.name = name
        self.rounds, self.batches = rounds, batches  # of 64 packets, in a measurement
        self.pktgen_rounds, self.pktgen_packets = pktgen_rounds, pktgen_packets
        self.cpus = cpus  # how many at the same time, where contended writes are counted
        self.quick, self.demo = name == "quick", name == "demo"


MODES = {mode.name: mode for mode in (
    Mode("full", 3, 24, 3, 50000, (2, 4, 8)),
    Mode("quick", 3, 16, 0, 0, (2,)),
    Mode("demo", 3, 16, 3, 25000, ()))}


def summary(values):
    return {"median": round(statistics.median(values), 2), "min": round(min(values), 2),
            "max": round(max(values), 2), "rounds": [round(v, 2) for v in values]}


def row(path, traffic, ip, key, injector, base, added, ratio=None, saves=None):
    """base: figures without the path; added: {"c": figures, "rust": figures} of the path alone.
    What is aimed at: a ratio that Rust may take of C, or the instructions that it saves."""
    one = {"path": path, "traffic": traffic, "ip": ip, "key": key, "injector": injector,
           "base": summary(base)}
    one.update((impl, summary(added[impl])) for impl in IMPLS)
    c, rust = one["c"]["median"], one["rust"]["median"]
    one["ratio"] = round(rust / c, 4)
    if ratio is not None:
        one["limit"] = ratio
    if saves is not None:
        one["saves"] = saves
    one["met"] = (ratio is None or one["ratio"] <= ratio) and (saves is None or c - rust >= saves)
    return one


def tell(say, rows):
    """Progress: rows of one kind of traffic."""
    cells = (f"{one['key']} {one['c']['median']:.0f} {one['rust']['median']:.0f}" for one in rows)
    say(f"{rows[0]['traffic']}, IPv{rows[0]['ip']}: {', '.join(cells)}")
