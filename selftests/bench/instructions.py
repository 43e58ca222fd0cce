#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""instructions.py full|quick|demo FILE: what the socket expression costs, in instructions a packet.

Runs in a guest whose clock counts instructions. Prints what it does, and writes the figures to
FILE as JSON, of which selftests/bench/report.py makes the report.

For each kind of traffic, round after round: no expression, C, Rust, C, Rust, ... In each round,
an implementation's figure minus that of no expression is what the expression costs.
"""

import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", "socket")]
sys.dont_write_bytecode = True

import inject      # noqa: E402
import nfnl        # noqa: E402
import nft_socket  # noqa: E402

# mode: rounds, batches of 64 packets in a measurement, rounds and packets by pktgen
MODES = {"full": (5, 32, 5, 50000), "quick": (3, 16, 0, 0), "demo": (3, 16, 3, 25000)}
# What the demo shows, besides UDP over IPv4 by pktgen.
DEMO = ((4, nft_socket.tcp_listener), (4, nft_socket.tcp_established),
        (6, nft_socket.udp_unconnected), (6, nft_socket.tcp_established))
IMPLS = ("c", "rust")


def summary(values):
    return {"median": round(statistics.median(values), 2), "min": round(min(values), 2),
            "max": round(max(values), 2), "rounds": [round(v, 2) for v in values]}


class Bench:
    def __init__(self, mode):
        self.mode = mode
        self.rounds, self.batches, self.pktgen_rounds, self.pktgen_packets = MODES[mode]
        nft_socket.set_up()
        self.ifindex = socket.if_nametoindex(nft_socket.DEV)
        self.rules = nft_socket.Rules(nfnl.Nft(), ("prerouting", "input"))
        nft_socket.load_rules(self.rules)
        self.frames = inject.LiveFrames()
        self.rows = []

    def with_table(self, name, measure):
        self.rules.wake(name)
        try:
            return measure()
        finally:
            self.rules.sleep(name)

    def check(self, name, traffic):
        """Whether each implementation sees in the packet what it should: a figure for something
        else than what the row says would be worse than none."""
        batches = 1
        for impl in IMPLS:
            table = nft_socket.table_name(impl, "check", traffic.hook)
            before = self.rules.counted(table), nft_socket.ends()
            self.with_table(table, lambda: self.frames.run(
                traffic.frame, self.ifindex, batches, traffic.together))
            after = self.rules.counted(table), nft_socket.ends()
            packets = batches * self.frames.BATCH
            for key in nft_socket.KEYS:
                expected = packets if key in traffic.sees else 0
                seen = after[0][key] - before[0][key]
                if seen != expected:
                    raise SystemExit(f"{name}: socket {key} of {impl} matched {seen} of "
                                     f"{packets} packets, expected {expected}")
            ends = {end: count - before[1][end] for end, count in after[1].items()
                    if count != before[1][end]}
            expected = {traffic.end: packets * len(nft_socket.KEYS)} if impl == "rust" else {}
            if ends != expected:
                raise SystemExit(f"{name}: {impl} was to serve, Rust's counters rose by {ends}, "
                                 f"expected {expected}")

    def measure(self, traffic, keys, rounds, cost, base_key="none"):
        """{key: {impl: costs of all rounds}}, and the costs without the expression."""
        base, added = [], {key: {impl: [] for impl in IMPLS} for key in keys}
        none = nft_socket.table_name("base", base_key, traffic.hook)
        for _ in range(rounds):
            base.append(self.with_table(none, cost))
            for key in keys:
                for impl in IMPLS:
                    table = nft_socket.table_name(impl, key, traffic.hook)
                    added[key][impl].append(self.with_table(table, cost) - base[-1])
        return base, added

    def record(self, name, version, injector, limit, base, added):
        for key, by_impl in added.items():
            row = {"path": "socket", "traffic": name, "ip": version, "key": key,
                   "injector": injector, "base": summary(base)}
            row.update((impl, summary(values)) for impl, values in by_impl.items())
            row["ratio"] = round(row["rust"]["median"] / row["c"]["median"], 4)
            row["limit"] = limit
            row["met"] = row["ratio"] <= limit
            self.rows.append(row)

    def socket_row(self, name, version, make, limit, keys):
        traffic = make(version)
        self.check(f"{name}, IPv{version}", traffic)
        base, added = self.measure(traffic, keys, self.rounds, lambda: self.frames.cost(
            traffic.frame, self.ifindex, self.batches, traffic.together))
        self.record(name, version, "live frames", limit, base, added)
        traffic.close()

    def pktgen_rows(self, version):
        subprocess.run(("modprobe", "pktgen"), check=True)
        traffic = nft_socket.udp_unconnected(version)
        pktgen = inject.Pktgen(nft_socket.DEV)
        pktgen.configure(nft_socket.MAC, nft_socket.REMOTE[version], nft_socket.LOCAL[version],
                         4000, nft_socket.PORT)
        def cost():
            return pktgen.cost(self.pktgen_packets)

        base, added = self.measure(traffic, ("mark",), self.pktgen_rounds, cost)
        self.record("UDP, unconnected", version, "pktgen", nft_socket.UDP4, base, added)
        # A whole rule, and as base one that drops by the port: the set-up of earlier figures.
        base, added = self.measure(traffic, ("rule",), self.pktgen_rounds, cost, "rule")
        self.record("UDP, rule for rule", version, "pktgen", nft_socket.UDP4, base,
                    {"mark": added["rule"]})
        pktgen.close()
        traffic.close()

    def run(self):
        if self.pktgen_rounds:
            self.pktgen_rows(4)
            self.tell_rows("UDP, unconnected, and rule for rule, by pktgen", 4, 2)
        for version in (4, 6):
            for name, make, limit4, limit6, quick in nft_socket.TRAFFIC:
                limit = limit4 if version == 4 else limit6
                keys = nft_socket.KEYS
                if self.mode == "quick" and not quick:
                    continue
                if self.mode == "demo" and (version, make) not in DEMO:
                    continue
                if self.mode == "demo" or (self.mode == "quick" and
                                           make is not nft_socket.udp_unconnected):
                    keys = ("mark",)
                self.socket_row(name, version, make, limit, keys)
                self.tell_rows(name, version, len(keys))

    def tell_rows(self, name, version, count):
        """Progress: the rows that were added last."""
        cells = (f"{row['key']} {row['c']['median']:.0f} {row['rust']['median']:.0f}"
                 for row in self.rows[-count:])
        print(f"  {name}, IPv{version}: {', '.join(cells)}", flush=True)


def main():
    mode, path = sys.argv[1:]
    bench = Bench(mode)
    bench.run()
    uname = os.uname()
    with open("/proc/cmdline") as file:
        cmdline = file.read().strip()
    name = "nft_socket_rust.ko"
    with open(f"/lib/modules/{uname.release}/updates/{name}", "rb") as file:
        module = f"{name} {hashlib.sha256(file.read()).hexdigest()[:12]}"
    with open(path, "w") as file:
        json.dump({"mode": mode, "kernel": uname.release, "kernel_version": uname.version,
                   "cmdline": cmdline, "cpus": os.cpu_count(), "module": module,
                   "rounds": bench.rounds, "packets": bench.batches * bench.frames.BATCH,
                   "instructions": bench.rows}, file)


main()
