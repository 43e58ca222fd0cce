# SPDX-License-Identifier: GPL-2.0
"""nf_tables over netlink, attribute by attribute: for rules that nft would not send."""

import errno
import os
import socket
import struct

NETLINK_NETFILTER = 12
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLM_F_CREATE, NLM_F_APPEND = 1, 4, 0x300, 0x400, 0x800
NLMSG_ERROR, NLMSG_DONE = 2, 3
BATCH_BEGIN, BATCH_END, SUBSYS_NFTABLES = 16, 17, 10
NLA_F_NESTED = 0x8000

FAMILIES = {"inet": 1, "ip": 2, "arp": 3, "netdev": 5, "bridge": 7, "ip6": 10}
NEWTABLE, DELTABLE, NEWCHAIN, NEWRULE, GETRULE = 0, 2, 3, 6, 7
NEWSET, NEWSETELEM = 9, 12

SOCKET_KEY, SOCKET_DREG, SOCKET_LEVEL = 1, 2, 3
KEYS = {"transparent": 0, "mark": 1, "wildcard": 2, "cgroupv2": 3}
VERDICT, REG32_00, REG32_15 = 0, 8, 23
NF_ACCEPT, NFT_GOTO, NFT_JUMP = 1, -4, -3


# Attributes

def attr(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def nest(kind, *attrs):
    return attr(kind | NLA_F_NESTED, b"".join(attrs))


def be32(kind, value):
    return attr(kind, struct.pack("!I", value & 0xFFFFFFFF))


def string(kind, value):
    return attr(kind, value.encode() + b"\0")


def attributes(data):
    """[(type, payload)] of a run of attributes, in order."""
    found, at = [], 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found.append((kind & 0x3FFF, data[at + 4:at + length]))
        at += (length + 3) & ~3
    return found


# Expressions

def expr(name, *attrs):
    """One list element: NFTA_LIST_ELEM { NFTA_EXPR_NAME, NFTA_EXPR_DATA }."""
    return nest(1, string(1, name), nest(2, *attrs))


def socket_expr(key=None, dreg=None, level=None, *more):
    """The expression under test; None leaves an attribute out."""
    attrs = []
    if key is not None:
        attrs.append(be32(SOCKET_KEY, KEYS.get(key, key)))
    if dreg is not None:
        attrs.append(be32(SOCKET_DREG, dreg))
    if level is not None:
        attrs.append(be32(SOCKET_LEVEL, level))
    return expr("socket", *attrs, *more)


def immediate(dreg, data):
    return expr("immediate", be32(1, dreg), nest(2, attr(1, data)))


def jump(chain, code=NFT_JUMP):
    verdict = nest(2, be32(1, code), string(2, chain))
    return expr("immediate", be32(1, VERDICT), nest(2, verdict))


def cmp_eq(sreg, data):
    return expr("cmp", be32(1, sreg), be32(2, 0), nest(3, attr(1, data)))


def counter():
    return expr("counter")


def error_name(code):
    # The kernel's name; python prefers the other of the two that share a number.
    if code == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"
    return errno.errorcode.get(code, str(code))


# Messages; each is (type, flags, family, payload)

def new_table(family, name):
    return NEWTABLE, NLM_F_CREATE, family, string(1, name)


def del_table(family, name):
    return DELTABLE, 0, family, string(1, name)


def new_chain(family, table, name, hook=None, priority=0, kind="filter", dev=None):
    """hook is the number the family gives it; without one it is a chain to jump to."""
    attrs = [string(1, table), string(3, name)]
    if hook is not None:
        base = [be32(1, hook), be32(2, priority)]
        if dev:
            base.append(string(3, dev))
        attrs += [nest(4, *base), string(7, kind)]
    return NEWCHAIN, NLM_F_CREATE, family, b"".join(attrs)


def new_rule(family, table, chain, *exprs):
    return (NEWRULE, NLM_F_CREATE | NLM_F_APPEND, family,
            string(1, table) + string(2, chain) + nest(4, *exprs))


class Nft:
    def __init__(self):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.sock.bind((0, 0))
        self.sock.settimeout(10)
        self.seq = os.getpid()

    def _message(self, kind, flags, family, payload, res_id=0):
        self.seq += 1
        body = struct.pack("!BBH", family, 0, res_id) + payload
        return struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | flags, self.seq,
                           0) + body

    def receive(self):
        """(type, number, payload) of each message of one answer"""
        data, at = self.sock.recv(1 << 18), 0
        while at < len(data):
            length, kind, _, seq, _ = struct.unpack_from("=IHHII", data, at)
            yield kind, seq, data[at + 16:at + length]
            at += (length + 3) & ~3

    def encode(self, messages):
        """One transaction, as it is sent; and which message has which number."""
        data = self._message(BATCH_BEGIN, 0, 0, b"", SUBSYS_NFTABLES)
        index = {}
        for i, (kind, flags, family, payload) in enumerate(messages):
            data += self._message(SUBSYS_NFTABLES << 8 | kind, flags | NLM_F_ACK,
                                  FAMILIES[family], payload)
            index[self.seq] = i
        return data + self._message(BATCH_END, 0, 0, b"", SUBSYS_NFTABLES), index

    def batch(self, *messages):
        """Send as one transaction. The name of the first error, and which message it is for;
        ("ok", None) when all went in."""
        data, index = self.encode(messages)
        self.sock.send(data)
        failure, acked = None, 0
        while acked < len(messages):
            for kind, seq, payload in self.receive():
                if kind != NLMSG_ERROR:
                    continue
                acked += 1
                code = -struct.unpack_from("=i", payload)[0]
                if code and failure is None:
                    failure = error_name(code), index.get(seq)
                if code and seq not in index:
                    return failure
        return failure or ("ok", None)

    def dump_rules(self, family, table, chain):
        """The expressions of each rule: [[(name, [(type, payload)])]]."""
        self.sock.send(self._message(SUBSYS_NFTABLES << 8 | GETRULE, NLM_F_DUMP,
                                     FAMILIES[family], string(1, table) + string(2, chain)))
        rules = []
        while True:
            for kind, _, payload in self.receive():
                if kind == NLMSG_DONE:
                    return rules
                if kind == NLMSG_ERROR:
                    raise OSError(-struct.unpack_from("=i", payload)[0], "dump")
                rule = dict(attributes(payload[4:]))
                exprs = []
                for _, element in attributes(rule[4]):
                    parts = dict(attributes(element))
                    exprs.append((parts[1].rstrip(b"\0").decode(),
                                  attributes(parts.get(2, b""))))
                rules.append(exprs)
