# SPDX-License-Identifier: GPL-2.0
"""IPsec policies over netlink, and those of sockets.

A message and its acknowledgement, without another process: what a test sends next is sent after
the kernel has said that the policy stands.
"""

import os
import socket
import struct

from net import family, netns

NETLINK_XFRM = 6
NLM_F_REQUEST, NLM_F_ACK = 1, 4
NLMSG_ERROR = 2
NEWPOLICY, DELPOLICY, UPDPOLICY, FLUSHPOLICY = 0x13, 0x14, 0x19, 0x1D
NEWSPDINFO, SETDEFAULT = 0x24, 0x27
XFRMA_TMPL, XFRMA_MARK, XFRMA_SPD_IPV4_HTHRESH, XFRMA_SPD_IPV6_HTHRESH = 5, 21, 3, 4
IP_XFRM_POLICY, IPV6_XFRM_POLICY = 17, 35
IN, OUT, FWD = 0, 1, 2
ALLOW, BLOCK = 0, 1
UNSPEC, DEFAULT_BLOCK, DEFAULT_ACCEPT = 0, 1, 2
TRANSPORT, TUNNEL = 0, 1
INFINITE = (1 << 64) - 1


def _address(text):
    return socket.inet_pton(family(text), text).ljust(16, b"\0")


def _network(text):
    """An address and the length of its prefix."""
    address, _, length = text.partition("/")
    return _address(address), int(length or (128 if ":" in address else 32))


def selector(src, dst, proto=0, sport=0, dport=0, ifindex=0):
    """Networks (or addresses) and perhaps a protocol, ports, a device."""
    (saddr, slen), (daddr, dlen) = _network(src), _network(dst)
    return struct.pack("=16s16s4HHBBBxxxiI", daddr, saddr,
                       socket.htons(dport), 0xFFFF if dport else 0,
                       socket.htons(sport), 0xFFFF if sport else 0,
                       family(dst), dlen, slen, proto, ifindex, 0)


def template(src, dst, reqid=1, mode=TUNNEL, proto=socket.IPPROTO_ESP):
    """A tunnel (or transport) that the policy requires."""
    return struct.pack("=16sIBxxxHxx16sIBBBxIII", _address(dst), 0, proto, family(dst),
                       _address(src), reqid, mode, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)


def policy(sel, action=ALLOW, direction=OUT, priority=0, hard_add=0):
    """A struct xfrm_userpolicy_info; it lives that many seconds, or for ever."""
    lifetime = struct.pack("=8Q", INFINITE, INFINITE, INFINITE, INFINITE, 0, hard_add, 0, 0)
    return sel + lifetime + bytes(32) + struct.pack("=IIBBBBxxxx", priority, 0, direction, action,
                                                    0, 0)


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


class Policies:
    """The policies of a namespace."""

    def __init__(self, ns):
        with netns(ns):
            self.nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_XFRM)
            self.nl.bind((0, 0))
        self.nl.settimeout(10)
        self.seq = 0

    def do(self, *messages):
        """Send messages, (type, payload) each, and wait until all are acknowledged."""
        data = b""
        for kind, payload in messages:
            self.seq += 1
            data += struct.pack("=IHHII", 16 + len(payload), kind, NLM_F_REQUEST | NLM_F_ACK,
                                self.seq, 0) + payload + bytes(-len(payload) % 4)
        self.nl.send(data)
        waiting = len(messages)
        while waiting:
            answer = self.nl.recv(65536)
            while answer:
                length, kind = struct.unpack("=IH", answer[:6])
                if kind == NLMSG_ERROR:
                    error = struct.unpack("=i", answer[16:20])[0]
                    if error:
                        raise OSError(-error, os.strerror(-error))
                    waiting -= 1
                answer = answer[(length + 3) & ~3:]

    @staticmethod
    def new(sel, templates=(), mark=None, kind=NEWPOLICY, **options):
        """A message that adds or updates a policy."""
        payload = policy(sel, **options)
        if templates:
            payload += attribute(XFRMA_TMPL, b"".join(templates))
        if mark:
            payload += attribute(XFRMA_MARK, struct.pack("=II", *mark))
        return kind, payload

    @staticmethod
    def gone(sel, direction=OUT, mark=None):
        """A message that deletes one."""
        payload = sel + struct.pack("=IBxxx", 0, direction)
        if mark:
            payload += attribute(XFRMA_MARK, struct.pack("=II", *mark))
        return DELPOLICY, payload

    @staticmethod
    def default(out):
        """A message that sets what happens to packets without a policy; the others stay."""
        return SETDEFAULT, struct.pack("=BBB", UNSPEC, UNSPEC, out)

    FLUSH = (FLUSHPOLICY, b"")

    @staticmethod
    def hash_threshold(version, local, remote):
        """A message that changes how policies are hashed: all of them are hashed anew."""
        kind = XFRMA_SPD_IPV4_HTHRESH if version == 4 else XFRMA_SPD_IPV6_HTHRESH
        return NEWSPDINFO, struct.pack("=I", 0) + attribute(kind, bytes((local, remote)))

    def add(self, sel, templates=(), **options):
        self.do(self.new(sel, templates, **options))

    def delete(self, sel, **options):
        self.do(self.gone(sel, **options))


def set_socket_policy(s, sel=None, templates=(), **options):
    """Give a socket a policy, or take all of its policies away."""
    level, name = (socket.IPPROTO_IP, IP_XFRM_POLICY) if s.family == socket.AF_INET else \
                  (socket.IPPROTO_IPV6, IPV6_XFRM_POLICY)
    if sel is None:
        s.setsockopt(level, name, None, 0)
    else:
        s.setsockopt(level, name, policy(sel, **options) + b"".join(templates))
