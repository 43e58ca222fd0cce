# SPDX-License-Identifier: GPL-2.0
"""What both implementations say about each packet, written down by nf_tables itself.

A rule of C's, or of Rust's, stores what the expression says into a register and adds that to a
set, with the packet's number and the place; where the expression breaks, the rule ends and nothing
is added. So an answer is an element of the set "c" or "rust", and the two sets have to be the same.
No message about a packet can get lost on its way here.

Which packet it is travels in its mark: a number that its sender wrote into the Ethernet header.
Packets without (those of the host itself) keep the mark that they have.

While the set "closed" has an element nothing is noted. A packet asks once, so it is noted by both
or by none, also on another CPU.
"""

import struct
import sys
from collections import namedtuple

from nfnl import (FAMILIES, KEYS, NEWSET, NF_ACCEPT, NLM_F_CREATE, NLM_F_DUMP, NLMSG_DONE,
                  NLMSG_ERROR, REG32_00, SUBSYS_NFTABLES, VERDICT, Nft, attr, attributes, be32,
                  cmp_eq, counter, expr, immediate, jump, nest, new_chain, new_rule, new_table,
                  socket_expr, string)

GETSET, NEWSETELEM, GETSETELEM, DELSETELEM = 10, 12, 13, 14
NFTA_SET_COUNT, NFTA_SET_ELEM_LIST_ELEMENTS = 20, 3
META_MARK, META_IIFTYPE = 3, 8
CT_STATE, CT_DIRECTION, CT_STATUS = 0, 1, 2
NFT_SET_EVAL = 0x20
SET_SIZE = 200000

TABLE = "equality"
TABLES = "ip", "ip6", "inet"
IMPLEMENTATIONS = "c", "rust"

# (key, level); levels count from the root, and each table asks for two.
LEVELS = {"ip": (1, 2), "ip6": (1, 2), "inet": (0, 3)}
ANSWERS = ("transparent", "mark", "wildcard", "cgroup", "deeper cgroup")

# Base chains: before defragmentation; between conntrack and NAT; after both.
Chain = namedtuple("Chain", "name hook priority")
CHAINS = (Chain("prerouting_first", 0, -450), Chain("prerouting_tracked", 0, -150),
          Chain("prerouting_last", 0, 300), Chain("input", 1, 0), Chain("output", 3, 0))
PREROUTING, INPUT, OUTPUT = (0, 1, 2), (3,), (4,)
FIRST, TRACKED = 0, 1

# What the set "seen" says of a packet at a chain; and what C's answers say of it
CAME, NAT_REPLY, NAT_ERROR, FULL, SMALL = range(5)
CONDITIONS = {NAT_REPLY: "a reply to a translated source",
              NAT_ERROR: "an error about a translated source",
              FULL: "for a full socket",
              SMALL: "for a socket in TIME_WAIT or NEW_SYN_RECV"}
ESTABLISHED, RELATED = 1 << 1, 1 << 2       # states of conntrack, as nftables has them
SRC_NAT_DONE = 1 << 7                       # a status bit of conntrack


def u32(value):
    return struct.pack("=I", value)


def place(chain, what):
    """A register that says at which chain, and which answer (or what is seen) is noted."""
    return bytes((what, chain, 0, 0))


def payload(dreg, base, offset, length):
    return expr("payload", be32(1, dreg), be32(2, base), be32(3, offset), be32(4, length))


def meta(dreg, key):
    return expr("meta", be32(1, dreg), be32(2, key))


def meta_set(key, sreg):
    return expr("meta", be32(2, key), be32(3, sreg))


def ct(dreg, key):
    return expr("ct", be32(1, dreg), be32(2, key))


def bit_and(reg, mask):
    return expr("bitwise", be32(1, reg), be32(2, reg), be32(3, len(mask)),
                nest(4, attr(1, mask)), nest(5, attr(1, bytes(len(mask)))))


def cmp_ne(sreg, data):
    return expr("cmp", be32(1, sreg), be32(2, 1), nest(3, attr(1, data)))


def add_to_set(name, sreg):
    return expr("dynset", string(1, name), be32(3, 0), be32(4, sreg))


def lookup(name, sreg):
    return expr("lookup", string(1, name), be32(2, sreg))


def accept():
    return expr("immediate", be32(1, VERDICT), nest(2, nest(2, be32(1, NF_ACCEPT))))


# Registers: the mark, the place, and two for the answer. What an answer does not write of those
# two keeps the pattern that was there before.
MARK, PLACE, VALUE = range(REG32_00, REG32_00 + 3)
PATTERN = bytes.fromhex("a5a5a5a5 a5a5a5a5")


def keys(family):
    low, high = LEVELS[family]
    return (("transparent", None), ("mark", None), ("wildcard", None), ("cgroupv2", low),
            ("cgroupv2", high))


def new_set(family, name, identity, length):
    return NEWSET, NLM_F_CREATE, family, (
        string(1, TABLE) + string(2, name) + be32(3, NFT_SET_EVAL) + be32(5, length) +
        nest(9, be32(1, SET_SIZE)) + be32(10, identity))


def skeleton(family):
    """All but the rules that hold the expression."""
    def rule(*exprs):
        return new_rule(family, TABLE, chain.name, *exprs)

    yield new_table(family, TABLE)
    yield new_set(family, "seen", 1, 8)
    yield NEWSET, NLM_F_CREATE, family, (
        string(1, TABLE) + string(2, "closed") + be32(5, 4) + be32(10, 2))
    for number, name in enumerate(IMPLEMENTATIONS, 3):
        yield new_set(family, name, number, 16)
    for number, chain in enumerate(CHAINS):
        for name in "conntrack", *IMPLEMENTATIONS:
            yield new_chain(family, TABLE, f"{name}_{chain.name}")
        yield new_chain(family, TABLE, chain.name, chain.hook, chain.priority)
        yield rule(immediate(MARK, bytes(4)), lookup("closed", MARK), accept())
        # The last four bytes of the source address of an Ethernet frame become the mark.
        yield rule(meta(MARK, META_IIFTYPE), cmp_eq(MARK, struct.pack("=H", 1)),
                   payload(MARK, 0, 8, 4), meta_set(META_MARK, MARK))
        yield rule(counter(), meta(MARK, META_MARK), immediate(PLACE, place(number, CAME)),
                   add_to_set("seen", MARK), counter())
        yield rule(jump(f"conntrack_{chain.name}"))
        # Who is first to see a packet is its number's lowest bit.
        c, rust = (f"{name}_{chain.name}" for name in IMPLEMENTATIONS)
        yield rule(meta(MARK, META_MARK), bit_and(MARK, b"\0\0\0\1"), cmp_eq(MARK, bytes(4)),
                   jump(c))
        yield rule(jump(rust))
        yield rule(meta(MARK, META_MARK), bit_and(MARK, b"\0\0\0\1"), cmp_ne(MARK, bytes(4)),
                   jump(c))


def answers(family, implementation):
    """The rules of one implementation: whichever of them the kernel takes now. The first counter
    of a rule counts evaluations, the second one matches."""
    for number, chain in enumerate(CHAINS):
        for answer, (key, level) in enumerate(keys(family)):
            yield new_rule(family, TABLE, f"{implementation}_{chain.name}",
                           meta(MARK, META_MARK), immediate(PLACE, place(number, answer)),
                           immediate(VALUE, PATTERN), counter(),
                           socket_expr(KEYS[key], VALUE, level),
                           add_to_set(implementation, MARK), counter())


EXPRESSIONS = len(TABLES) * len(CHAINS) * len(ANSWERS)


def conntrack_rules(family):
    """Note where a source was translated. These rules switch conntrack on."""
    for number, chain in enumerate(CHAINS):
        for what, state in (NAT_REPLY, ESTABLISHED), (NAT_ERROR, RELATED):
            yield new_rule(family, TABLE, f"conntrack_{chain.name}",
                           ct(MARK, CT_STATUS), bit_and(MARK, u32(SRC_NAT_DONE)),
                           cmp_ne(MARK, bytes(4)), ct(MARK, CT_DIRECTION), cmp_eq(MARK, b"\1"),
                           ct(MARK, CT_STATE), cmp_eq(MARK, u32(state)),
                           meta(MARK, META_MARK), immediate(PLACE, place(number, what)),
                           add_to_set("seen", MARK))


class Records:
    """What one table has noted."""

    def __init__(self, family, seen, c, rust):
        self.family = family
        self.c, self.rust = c, rust     # sets of bytes: mark, place, value
        self.seen = [[set() for _ in CHAINS] for _ in range(3)]     # marks, by what and chain
        for record in seen:
            self.seen[record[4]][record[5]].add(int.from_bytes(record[:4]))

    def found(self, numbers):
        """How often C found a socket for these packets."""
        marks = {number.to_bytes(4) for number in numbers}
        return sum([record[4] == 0 and record[:4] in marks for record in self.c])

    def proven(self, condition):
        """The packets of which that is true, at the chain where it can be told first."""
        if condition in (NAT_REPLY, NAT_ERROR):
            return self.seen[condition][TRACKED]
        transparent, mark = (
            {int.from_bytes(record[:4]) for record in self.c
             if record[4] == answer and record[5] == FIRST} for answer in (0, 1))
        return transparent & mark if condition == FULL else transparent - mark

    @staticmethod
    def unpack(record):
        """(mark, chain, answer, value)"""
        return int.from_bytes(record[:4]), record[5], record[4], record[8:]

    def differences(self):
        """The answers() that are not the same."""
        if self.c == self.rust:
            return {}
        different = {self.unpack(record)[:2] for record in self.c ^ self.rust}
        return {where: said for where, said in self.answers().items() if where in different}

    def answers(self):
        """{(mark, chain): ({answer: values} of C, {answer: values} of Rust)}. Packets of the same
        mark may have several values."""
        found = {}
        for which, records in enumerate((self.c, self.rust)):
            for record in records:
                mark, chain, answer, value = self.unpack(record)
                said = found.setdefault((mark, chain), ({}, {}))[which]
                said.setdefault(answer, set()).add(value)
        return found


def describe(said):
    """One implementation's answers about one packet, for a person."""
    def text(value):
        high, low = value[4:], int.from_bytes(value[:4], sys.byteorder)
        return f"{low:#x}" if high == PATTERN[4:] else hex(int.from_bytes(value, sys.byteorder))

    return ", ".join(f"{name} " + (" or ".join(map(text, sorted(said[i]))) if i in said else "-")
                     for i, name in enumerate(ANSWERS))


class Observer(Nft):
    """The tables of the namespace in which this was made."""

    def load(self, messages):
        messages = list(messages)
        error, which = self.batch(*messages)
        if error != "ok":
            raise SystemExit(f"nf_tables refused message {which} of {len(messages)}: {error}")

    def _dump(self, kind, family, name, flags=NLM_F_DUMP):
        """The attributes of each message about that set."""
        self.sock.send(self._message(SUBSYS_NFTABLES << 8 | kind, flags, FAMILIES[family],
                                     string(1, TABLE) + string(2, name)))
        while True:
            for kind, _, payload in self.receive():
                if kind == NLMSG_ERROR:
                    raise OSError(-struct.unpack_from("=i", payload)[0], f"set {name}")
                if kind == NLMSG_DONE:
                    return
                yield attributes(payload[4:])
                if not flags:
                    return

    def _elements(self, family, name, length):
        """The elements of a set, each as its bytes."""
        stride = 12 + length        # three attribute headers, and the key
        expected = 0
        for attrs in self._dump(GETSET, family, name, 0):
            expected, = struct.unpack("!I", dict(attrs)[NFTA_SET_COUNT])
        found = set()
        # A hash table that is just being resized gives some elements twice and others not.
        for _ in range(100):
            for attrs in self._dump(GETSETELEM, family, name):
                for attribute, data in attrs:
                    if attribute == NFTA_SET_ELEM_LIST_ELEMENTS:
                        if len(data) % stride:
                            raise SystemExit("a set element is not what it was made as")
                        found.update([data[at:at + length]
                                      for at in range(12, len(data), stride)])
            if len(found) >= expected:
                return found
        raise SystemExit(f"{family} {name}: {len(found)} elements of {expected}")

    def records(self):
        """What was noted since the last flush(), for each table."""
        return [Records(family, self._elements(family, "seen", 8),
                        *(self._elements(family, name, 16) for name in IMPLEMENTATIONS))
                for family in TABLES]

    def note(self, on):
        """Whether anything is noted from now on."""
        element = nest(3, nest(1, nest(1, attr(1, bytes(4)))))
        self.load((DELSETELEM if on else NEWSETELEM, 0 if on else NLM_F_CREATE, family,
                   string(1, TABLE) + string(2, "closed") + element) for family in TABLES)

    def flush(self):
        self.load((DELSETELEM, 0, family, string(1, TABLE) + string(2, name))
                  for family in TABLES for name in ("seen", *IMPLEMENTATIONS))

    def _counters(self, family, chain):
        """The packet counts of each rule that has two counters."""
        for exprs in self.dump_rules(family, TABLE, chain):
            counts = [struct.unpack("!Q", dict(attrs)[2])[0]
                      for name, attrs in exprs if name == "counter"]
            if counts:
                yield counts

    def arrivals(self):
        """(packets that came to a base chain, packets that were noted in the set)."""
        counts = [count for family in TABLES for chain in CHAINS
                  for count in self._counters(family, chain.name)]
        return tuple(map(sum, zip(*counts)))

    def matches(self, implementation):
        """{(family, chain, answer): (evaluations, matches)}."""
        return {(family, chain.name, ANSWERS[answer]): tuple(counts)
                for family in TABLES for chain in CHAINS
                for answer, counts in enumerate(
                    self._counters(family, f"{implementation}_{chain.name}"))}
