# SPDX-License-Identifier: GPL-2.0
"""The same packets through C's rules and Rust's, answers compared one by one.

    equality.py NETNS OTHER_NETNS [SECONDS]

With SECONDS: mutated packets for that long, instead of every class once. run.sh turns the lines
that this prints into KTAP: "plan N", "pass CASE", "fail CASE", "note TEXT".
"""

import os
import random
import re
import subprocess
import sys
import time

import live
import observe
from cases import CASES, Case, mutate
from inject import Tap
from net import enter
from observe import (CAME, CHAINS, CONDITIONS, EXPRESSIONS, INPUT, NAT_ERROR, NAT_REPLY,
                     OUTPUT, PREROUTING, TABLES, Observer, describe)
from world import VERSIONS, World

MODULES = "/sys/module/"
COUNTERS = "/sys/kernel/debug/nft_socket_rust/counters"
CHUNK = 400     # packets that are sent and compared at once
SHOWN = 8       # differences that are printed of a class
HOOKS = {"prerouting": PREROUTING, "input": INPUT, "output": OUTPUT}


def say(kind, text):
    print(kind, text, flush=True)


def check(description, passed, *notes):
    for note in notes:
        say("note", note)
    say("pass" if passed else "fail", description)


def references(module):
    """None if it is not loaded."""
    try:
        with open(f"{MODULES}{module}/refcnt") as f:
            return int(f.read())
    except FileNotFoundError:
        return None


def rust_evaluations():
    """Each evaluation ends in one of these counters; the others tell something more about it."""
    more = "miss_not_full", "miss_no_cgroup"
    with open(COUNTERS) as f:
        counters = [line.split() for line in f]
    return sum(int(value) for name, value in counters
               if not name.startswith("lookup_") and name not in more)


class Result:
    """What became of one class of packets."""

    def __init__(self, name):
        self.name, self.sent = name, 0
        self.reached = [set() for _ in CHAINS]
        self.came = self.found = self.named = 0
        self.proven = {}        # what packets have to prove: whether one did
        self.problems, self.failures = [], 0

    def problem(self, *lines):
        self.failures += 1
        if self.failures <= SHOWN:
            self.problems += lines

    def count(self, *chains):
        return len(set().union(*(self.reached[c] for c in chains)))

    def summary(self):
        parts = [f"{self.sent} packets"] if self.sent else []
        parts += [f"{self.count(*chains)} at {hook}" for hook, chains in HOOKS.items()
                  if self.count(*chains) and self.sent]
        parts.append(f"{self.came} compared, {self.found} with a socket")
        if self.named:
            parts.append(f"{self.named} differ as documented")
        return ", ".join(parts)


class Run:
    """One run in the namespace ns; far is another one, whose sockets are no business of ns."""

    def __init__(self, ns, far, seed):
        self.seed, self.numbers = seed, 0
        self.wires = {"main": Tap(ns, "tap0", "02:00:00:00:01:00"),
                      "vrf": Tap(ns, "tap1", "02:00:00:00:01:01")}
        enter(ns)
        self.world = World(ns, self.wires["main"])
        self.far = far
        self.observer = Observer()
        self.generated = {}     # packets by class and version
        only = re.compile(os.environ.get("ONLY", ""))
        self.cases = [case for case in CASES + live.CASES if only.search(case.name)]

    # The rules

    def load(self):
        """C's rules, made while C's module is there alone; then Rust's."""
        observer = self.observer
        check("C's module is loaded and Rust's is not",
              references("nft_socket") == 0 and references("nft_socket_rust") is None)
        for family in TABLES:
            observer.load(observe.skeleton(family))
            observer.load(observe.answers(family, "c"))
        check("C serves the rules made before Rust's module was loaded",
              references("nft_socket") == EXPRESSIONS and references("nft_socket_rust") is None)
        subprocess.run(("modprobe", "nft_socket_rust"), check=True)
        for family in TABLES:
            observer.load(observe.answers(family, "rust"))
        c, rust = references("nft_socket"), references("nft_socket_rust")
        check("Rust serves the rules made after, C keeps its own",
              c == EXPRESSIONS and rust == EXPRESSIONS,
              f"{EXPRESSIONS} expressions each; references: {c} on nft_socket, "
              f"{rust} on nft_socket_rust")

    # Packets

    def send(self, wire, packets, version):
        """{number: packet} of what was sent."""
        sent = {}
        for packet in packets:
            self.numbers += 1
            sent[self.numbers] = packet
            wire.send(packet.data, self.numbers, packet.linear, packet.piece, version)
            if self.numbers % 128 == 0:
                wire.drain()
        wire.drain()
        return sent

    def packets(self, case, version):
        """A class is generated once; it is the same in each phase, whatever runs before it."""
        key = case.name, version
        if key not in self.generated:
            rng = random.Random(f"{self.seed} {case.name} {version}")
            more = (self.pool(version),) if case.mutates else ()
            self.generated[key] = list(case.function(VERSIONS[version], self.world, rng, *more))
        return self.generated[key]

    def pool(self, version):
        """What is mutated: the packets of all other classes."""
        return [packet.data for case in CASES if version in case.versions and not case.mutates
                for packet in self.packets(case, version)]

    def compare(self, result, sent, version):
        """Compare what is noted now about these packets, or (sent is None) about all."""
        noted = self.observer.records()
        for records in noted:
            for chain, marks in enumerate(records.seen[CAME]):
                numbers = marks if sent is None else marks & sent.keys()
                result.reached[chain] |= numbers
                result.came += len(numbers)
            result.found += records.found(sent or ())
            for (number, chain), (c, rust) in records.differences().items():
                if sent is not None and number not in sent:
                    # Not of this class: it may have passed while the sets were read.
                    continue
                # By design, see rust/net/netfilter/socket.rs: about an ICMPv6 error for the reply
                # direction of a connection with a translated source, C cannot find out that it
                # was translated.
                if version == 6 and number in records.seen[NAT_ERROR][chain]:
                    result.named += 1
                    continue
                packet = (sent or {}).get(number)
                about = [f"{records.family} {CHAINS[chain].name}" + "".join(
                    f", {CONDITIONS[what]}" for what in (NAT_REPLY, NAT_ERROR)
                    if number in records.seen[what][chain]) +
                    f": {packet.what if packet else f'a packet marked {number:#x}'}",
                    f"  C:    {describe(c)}", f"  Rust: {describe(rust)}"]
                if packet:
                    about.append(f"  {packet.data.hex()}" + (
                        "" if packet.linear is None else
                        f" linear {packet.linear}, then {packet.piece or 'all'}"))
                result.problem(*about)
        return noted

    def numbered(self, case, version, phase):
        """One class of packets that are sent from here."""
        result = Result(f"{phase}, IPv{version}: {case.name}")
        if case.prepare:
            getattr(self.world, case.prepare)()
        packets = self.packets(case, version)
        answers = {}
        # The time that a dump takes grows with the square of the set.
        for at in range(0, len(packets), CHUNK):
            self.observer.flush()
            first = self.numbers + 1 - at
            sent = self.send(self.wires[case.wire], packets[at:at + CHUNK], version)
            result.sent += len(sent)
            noted = self.compare(result, sent, version)
            self.prove(result, noted, sent)
            if case.pairs:
                answers.update(self.answers(noted, first))
        if case.pairs:
            self.compare_versions(result, answers, version)
        self.report(result, case)

    @staticmethod
    def prove(result, noted, sent):
        """Take note of what is true of the packets that have to prove something."""
        for what in {packet.proves for packet in sent.values() if packet.proves}:
            proven = set().union(*(records.proven(what[0]) for records in noted))
            result.proven[what] = result.proven.get(what, False) or any(
                number in proven for number, packet in sent.items() if packet.proves == what)

    @staticmethod
    def answers(noted, first):
        """{(packet, chain, whether in the inet table): (C, Rust)}"""
        said = {}
        for records in noted:
            inet = records.family == "inet"
            for chain, numbers in enumerate(records.seen[CAME]):
                said.update({(number - first, chain, inet): ({}, {}) for number in numbers})
            said.update({(number - first, chain, inet): both
                         for (number, chain), both in records.answers().items()})
        return said

    def compare_versions(self, result, said, version):
        """The packets of both versions are the same, one by one: what C says of IPv4 is what Rust
        has to say of IPv6."""
        if version == 4:
            self.version4 = said
            return
        common = self.version4.keys() & said.keys()
        differ = [key for key in common if said[key][0] != self.version4[key][0]]
        for key in common:
            four, six = self.version4[key][0], said[key][1]
            if four != six:
                result.problem(f"packet {key[0]} at {CHAINS[key[1]].name} is not as with IPv4",
                               f"  IPv4, C:    {describe(four)}",
                               f"  IPv6, Rust: {describe(six)}")
        say("note", f"{len(common)} answers compared with those of IPv4; C's differ from its own "
                    f"in {len(differ)}")
        if not differ:
            result.problem("C does the same for both versions: the documented difference is gone")

    def actions(self, case, version, phase):
        """One class of packets that the host sends by itself. They have no numbers, so not only
        their answers are compared, but also how often each rule matched."""
        result = Result(f"{phase}, IPv{version}: {case.name}")
        if case.prepare:
            getattr(self.world, case.prepare)()
        for wire in self.wires.values():
            wire.drain()
        self.observer.note(False)
        self.observer.flush()
        came, before = self.observer.arrivals()[0], self.matched()
        self.observer.note(True)
        case.function(VERSIONS[version], self.world, self.far)
        time.sleep(0.02)
        self.observer.note(False)
        time.sleep(0.005)
        self.compare(result, None, version)
        result.came, result.found = self.observer.arrivals()[0] - came, 0
        for where, (c, rust) in self.matched().items():
            c, rust = c - before[where][0], rust - before[where][1]
            if where[2] == observe.ANSWERS[0]:
                result.found += c
            if c != rust:
                result.problem(f"{' '.join(where)}: C matched {c} times, Rust {rust} times")
        self.observer.note(True)
        self.report(result, case)

    def matched(self):
        """{(family, chain, answer): (matches of C, matches of Rust)}."""
        c, rust = map(self.observer.matches, observe.IMPLEMENTATIONS)
        return {where: (c[where][1], rust[where][1]) for where in c}

    def report(self, result, case):
        for hook in case.reach:
            if not result.count(*HOOKS[hook]):
                result.problem(f"none came to {hook}")
        for (condition, proto, port), proven in result.proven.items():
            if not proven:
                result.problem(f"protocol {proto}, port {port}: none was {CONDITIONS[condition]}")
        if case.finds and not result.found:
            result.problem("no socket was ever found")
        if case.misses and result.found == result.came:
            result.problem("a socket was always found")
        if result.failures > SHOWN:
            result.problems.append(f"and {result.failures - SHOWN} more")
        check(result.name, not result.failures, result.summary(), *result.problems)

    # The whole

    def accounts(self):
        """Nothing was left out on the way from the hook to the comparison."""
        self.observer.note(False)
        time.sleep(0.1)
        came, noted = self.observer.arrivals()
        check("each packet that came to a chain was noted", came == noted > 0,
              f"{came} came, {noted} were noted")
        rust = self.observer.matches("rust").values()
        expected, evaluated = sum(evaluations for evaluations, _ in rust), rust_evaluations()
        check("Rust's counters are those of its rules", evaluated == expected > 0,
              f"{expected} evaluations of rules, {evaluated} in the counters")

    def phase(self, name):
        for case in self.cases:
            if name in case.phases:
                for version in case.versions:
                    run = self.actions if case in live.CASES else self.numbered
                    run(case, version, name)

    def begin(self, planned):
        say("plan", planned)
        say("note", f"SEED={self.seed}")
        self.load()
        self.world.open()
        live.open_links(self.world, self.wires["vrf"], self.far)

    def track(self):
        """From now on with conntrack, NAT and tproxy. There is no way back."""
        self.world.track()
        for family in TABLES:
            self.observer.load(observe.conntrack_rules(family))

    def every_class(self):
        self.begin(sum(len(case.versions) * len(case.phases) for case in self.cases) + 7)
        self.phase("early demux")
        self.world.early_demux(False)
        self.phase("no early demux")
        self.world.early_demux(True)
        self.track()
        self.phase("conntrack")
        self.accounts()

    def hostile(self, seconds):
        """Mutated packets until the time is over, half of it with conntrack."""
        self.begin(4 + 7)
        for version in VERSIONS:
            self.garbage("early demux", version, seconds / 4)
        self.track()
        for version in VERSIONS:
            self.garbage("conntrack", version, seconds / 4)
        self.accounts()

    def garbage(self, phase, version, seconds):
        net, wire, pool = VERSIONS[version], self.wires["main"], self.pool(version)
        result = Result(f"{phase}, IPv{version}: mutated")
        rng = random.Random(f"{self.seed} hostile {phase} {version}")
        end = time.monotonic() + seconds
        while time.monotonic() < end and result.failures < SHOWN:
            packets = [mutate(net, rng, rng.choice(pool)) for _ in range(CHUNK)]
            self.observer.flush()
            sent = self.send(wire, packets, version)
            result.sent += len(sent)
            self.compare(result, sent, version)
        self.report(result, Case(None, "mutated"))


def main():
    ns, far, *rest = sys.argv[1:]
    seconds = float(rest[0]) if rest else None
    seed = os.environ.get("SEED") or ("1" if seconds is None else
                                      str(int.from_bytes(os.urandom(4), "big")))
    run = Run(ns, far, seed)
    try:
        if seconds is None:
            run.every_class()
        else:
            run.hostile(seconds)
    finally:
        run.world.close()


main()
