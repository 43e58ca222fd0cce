# SPDX-License-Identifier: GPL-2.0
"""What the socket expression costs.

For each kind of traffic, round after round: no expression, C, Rust, C, Rust, ... In each round,
an implementation's figure minus that of no expression is what the expression costs.
"""

import socket
import subprocess

import cost
import inject
import nfnl
import nft_socket
from workers import Workers

PATH = "socket"
IMPLS = cost.IMPLS
# What the demo shows, besides UDP over IPv4 by pktgen.
DEMO = ((4, nft_socket.tcp_listener), (4, nft_socket.tcp_established),
        (6, nft_socket.udp_unconnected), (6, nft_socket.tcp_established))
# Where contended writes are counted: name, IP version, how to make it, whether in the quick mode.
SHARED = (
    ("UDP, unconnected", 4, nft_socket.udp_unconnected, True),
    ("UDP, unconnected", 6, nft_socket.udp_unconnected, True),
    ("TCP listener (SYN)", 4, nft_socket.tcp_listener, True),
    ("TCP listener (SYN)", 6, nft_socket.tcp_listener, False),
    ("TCP established", 4, nft_socket.tcp_established, True),
    ("ICMP error, quotes UDP", 4, nft_socket.icmp_udp, False),
)


class Bench:
    def __init__(self, mode, say):
        self.mode, self.say = mode, say
        subprocess.run(("modprobe", "nft_chain_nat"), check=True)
        nft_socket.set_up(nft_socket.CABLES)
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
        rows = [cost.row(PATH, name, version, key, injector, base, by_impl, ratio=limit)
                for key, by_impl in added.items()]
        cost.tell(self.say, rows)
        self.rows += rows

    def socket_row(self, name, version, make, limit, keys):
        traffic = make(version)
        self.check(f"{name}, IPv{version}", traffic)
        base, added = self.measure(traffic, keys, self.mode.rounds, lambda: self.frames.cost(
            traffic.frame, self.ifindex, self.mode.batches, traffic.together))
        self.record(name, version, "live frames", limit, base, added)
        traffic.close()

    def pktgen_rows(self, version):
        subprocess.run(("modprobe", "pktgen"), check=True)
        traffic = nft_socket.udp_unconnected(version)
        pktgen = inject.Pktgen(nft_socket.DEV)
        pktgen.configure(nft_socket.MAC, nft_socket.REMOTE[version], nft_socket.LOCAL[version],
                         4000, nft_socket.PORT)
        def once():
            return pktgen.cost(self.mode.pktgen_packets)

        base, added = self.measure(traffic, ("mark",), self.mode.pktgen_rounds, once)
        self.record("UDP, unconnected", version, "pktgen", nft_socket.UDP4, base, added)
        # A whole rule, and as base one that drops by the port: the set-up of earlier figures.
        base, added = self.measure(traffic, ("rule",), self.mode.pktgen_rounds, once, "rule")
        self.record("UDP, rule for rule", version, "pktgen", nft_socket.UDP4, base,
                    {"mark": added["rule"]})
        pktgen.close()
        traffic.close()

    def instructions(self):
        if self.mode.pktgen_rounds:
            self.pktgen_rows(4)
        for version in (4, 6):
            for name, make, limit4, limit6, quick in nft_socket.TRAFFIC:
                limit = limit4 if version == 4 else limit6
                keys = nft_socket.KEYS
                if self.mode.quick and not quick:
                    continue
                if self.mode.demo and (version, make) not in DEMO:
                    continue
                if self.mode.demo or (self.mode.quick and
                                      make is not nft_socket.udp_unconnected):
                    keys = ("mark",)
                self.socket_row(name, version, make, limit, keys)

    def contention(self, windows):
        ports = [socket.if_nametoindex(name) for name in nft_socket.devices(max(self.mode.cpus))]
        for name, version, make, quick in SHARED:
            if self.mode.quick and not quick:
                continue
            traffic = make(version)
            self.check(f"{name}, IPv{version}", traffic)
            tables = {"base": nft_socket.table_name("base", "none", traffic.hook)}
            tables.update((impl, nft_socket.table_name(impl, "mark", traffic.hook))
                          for impl in IMPLS)
            for cpus in self.mode.cpus:
                workers = Workers([(traffic.frame, port) for port in ports[:cpus]])
                for impl, table in tables.items():
                    self.with_table(table, lambda: windows.take(
                        workers, PATH, name, version, "mark", impl))
                workers.close()
            traffic.close()


def instructions(mode, say):
    bench = Bench(mode, say)
    bench.instructions()
    return bench.rows


def contention(mode, say, windows):
    Bench(mode, say).contention(windows)
    windows.symbols()
