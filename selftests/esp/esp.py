# SPDX-License-Identifier: GPL-2.0
"""Packets of ESP as a device sees them, in clear, and what became of them.

A case is a list of frames that arrive at the server's device, with what has to come of it: the
payloads that its sockets got, all counters of /proc/net/xfrm_stat that moved, and the figures of
the state.
"""

from net import *
from states import *
from xfrm import *

UDP_ENCAP, UDP_GRO = 100, 104
PORT, NATT = 7000, 4500
UDP, IPIP, IPV6, NONE, ESP = 17, 4, 41, 59, 50
SUCCESS, GENERIC = 1, 2
DEBUGFS = "/sys/kernel/debug/nfrust_espdev"


def addr(version, host):
    return f"10.0.1.{host}" if version == 4 else f"dead:1::{host}"


def mib(ns):
    """All counters of IPsec in a namespace."""
    with netns(ns), open("/proc/thread-self/net/xfrm_stat") as stat:
        return {name: int(value) for name, value in (line.split() for line in stat)}


def moved(before, after):
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


class Port:
    """The knobs and counters of a test device."""

    def __init__(self, name):
        self.dir = f"{DEBUGFS}/{name}"

    def knob(self, name, value):
        with open(f"{self.dir}/{name}", "w") as file:
            file.write(f"{value}\n")

    def counters(self):
        with open(f"{self.dir}/counters") as file:
            return {name: int(value) for name, value in (line.split() for line in file)}

    def counter(self, name):
        return self.counters()[name]

    def frame(self, data):
        """The template of what is injected"""
        with open(f"{self.dir}/frame", "wb") as file:
            file.write(data)


def esp(spi, seq, inner, nexthdr, iv=8, icv=16, pad=None):
    """An ESP packet behind its IP header. Padding is what it takes to a multiple of 4, or given."""
    if pad is None:
        pad = -(len(inner) + 2) % 4
    return (struct.pack("!II", spi, seq & 0xFFFFFFFF) + bytes(iv) + inner +
            bytes(range(1, pad + 1)) + bytes((pad, nexthdr)) + b"\xa5" * icv)


class State:
    """A state of the server for what comes from "nobody", offloaded unless said otherwise. Options
    are those of States.make()."""

    number = 0x1000

    def __init__(self, world, version=4, mode="transport", inner=None, algorithm=GCM, encap=None,
                 offload=True, src=None, **options):
        State.number += 1
        self.world, self.version, self.mode = world, version, mode
        self.encap, self.inner = encap, inner or version
        self.spi, self.src, self.dst = State.number, src or addr(version, 9), addr(version, 2)
        _, self.iv, self.icv = algorithm
        sel = None
        if mode == "beet":
            sel = selector(addr(self.inner, 9), addr(self.inner, 2))
        self.netlink = world.netlink
        self.netlink.do(self.netlink.make(
            self.src, self.dst, self.spi, mode, algorithm, sel=sel,
            encap=(encap, NATT) if encap else None, dev=world.ifindex if offload else None,
            unspec=self.inner != version and mode == "tunnel", **options))

    def udp(self, ident, port=PORT):
        """UDP to the server with a number in it, and what precedes it in a tunnel"""
        src, dst = addr(self.inner, 9), addr(self.inner, 2)
        segment = udp_header(src, dst, 1234, port, struct.pack("!I", ident))
        if self.mode == "tunnel":
            return ip(src, dst, UDP, segment), IPIP if self.inner == 4 else IPV6
        return segment, UDP

    def packet(self, seq, payload, outer=ip, **fields):
        """What comes in an ESP packet of this state: payload is (bytes, next header)"""
        data = esp(self.spi, seq, *payload, **{"iv": self.iv, "icv": self.icv, **fields})
        if self.encap:
            head = struct.pack("!HHHH", self.encap, NATT, 8 + len(data), 0) + data
            if self.version == 6:
                head = l4_checksum(self.src, self.dst, UDP, head, 6)
            return outer(self.src, self.dst, UDP, head)
        return outer(self.src, self.dst, ESP, data)

    def good(self, *numbers, **fields):
        """Packets with these sequence numbers, each with its number as the payload"""
        return [self.packet(seq, self.udp(seq), **fields) for seq in numbers]

    def size(self, count):
        """So many bytes are accounted for so many packets of udp()."""
        return count * len(self.udp(0)[0])

    def figures(self):
        return self.netlink.figures(self.dst, self.spi)

    def delete(self):
        self.netlink.do(self.netlink.gone_state(self.dst, self.spi))


class World:
    """Both ends of a pair of test devices"""

    def __init__(self, client, server, settle=0.02):
        self.client, self.server, self.settle = client, server, settle
        self.wire = Wire(client)
        self.port = Port("espdev1")
        self.netlink = States(server)
        self.socks, self.spent = {}, 0
        with netns(server):
            self.ifindex = socket.if_nametoindex("eth0")
            for version in 4, 6:
                self.add_socket(addr(version, 2), PORT)

    def add_socket(self, address, port):
        s = udp(address, port)
        s.setblocking(False)
        self.socks[address, port] = s
        return s

    def received(self):
        """The numbers that came out, in the order of each socket"""
        numbers = []
        for s in self.socks.values():
            try:
                while True:
                    data = s.recv(65536)
                    numbers.append(struct.unpack("!I", data[:4])[0] if len(data) >= 4 else -1)
            except BlockingIOError:
                pass
        return numbers

    def send(self, packets):
        for packet in packets:
            if callable(packet):
                packet()
            elif packet[:6] == SERVER_MAC:
                self.wire.raw.send(packet)
            else:
                self.wire.send(packet)

    def state(self, **options):
        return State(self, **options)

    def case(self, description, packets, got=(), mib_moved=None, state=None, figures=None,
             ordered=True):
        """Prints RESULT|EXPECTED|DESCRIPTION. A packet is bytes (with or without a MAC header), or
        a function to call at this point."""
        def text(numbers, counters, shown):
            if not ordered:
                numbers = sorted(numbers)
            return (" ".join(map(str, numbers)) or "nothing") + "; " + (
                ", ".join(f"{name} {n}" for name, n in sorted(counters.items())) or "no error") + (
                f"; {shown}" if shown else "")

        expected = text(list(got), mib_moved or {}, figures)
        before = mib(self.server)
        arrived = self.port.counters()
        arrived = arrived["rx_esp"] + arrived["rx_plain"]
        self.send(packets)
        numbers, end = [], time.monotonic() + 2
        while True:
            time.sleep(self.settle)
            numbers += self.received()
            shown = state.figures() if figures else None
            result = text(numbers, moved(before, mib(self.server)), shown)
            if result == expected or time.monotonic() > end:
                break
        print(f"{result}|{expected}|{description}")
