# SPDX-License-Identifier: GPL-2.0
"""Sockets and packets for the tests, on python's standard library alone.

The tests run in an emulated machine, where importing scapy takes longer than most of them.
Addresses say which family is meant: one with a colon is IPv6.
"""

import json
import os
import socket
import struct
import subprocess
import time

IP_TRANSPARENT = 19
IPV6_TRANSPARENT = 75
SOL_PACKET = 263
PACKET_VNET_HDR = 15
ETH_P = {socket.AF_INET: 0x0800, socket.AF_INET6: 0x86DD}

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
CLIENT_MAC = bytes.fromhex("020000000001")
SERVER_MAC = bytes.fromhex("020000000002")


# Namespaces and cgroups

def enter(ns):
    """Move this process into a network namespace, by name."""
    fd = os.open(f"/run/netns/{ns}", os.O_RDONLY)
    os.setns(fd, os.CLONE_NEWNET)
    os.close(fd)


class netns:
    """with netns(name): sockets made here belong there."""

    def __init__(self, ns):
        self.ns = ns

    def __enter__(self):
        self.old = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter(self.ns)

    def __exit__(self, *exc):
        os.setns(self.old, os.CLONE_NEWNET)
        os.close(self.old)


def join_cgroup(path):
    """Sockets made from now on belong to this cgroup (a path below the mount)."""
    with open(f"/sys/fs/cgroup/{path}/cgroup.procs", "w") as procs:
        procs.write("0")


# Rules

def nft(*args, text=None):
    """Run nft in the namespace this process is in; what it printed."""
    return subprocess.run(("nft",) + args, check=True, stdout=subprocess.PIPE, input=text,
                          text=True).stdout


def counters():
    """{name: packets} of the named counters in the namespace this process is in."""
    listed = json.loads(nft("-j", "list", "counters"))["nftables"]
    return {c["counter"]["name"]: c["counter"]["packets"] for c in listed if "counter" in c}


def observed(families, cgroup):
    """What lib.sh's observe() has stored: (family, hook, kind, values). Values are those of
    transparent, mark, wildcard and cgroupv2; a dash where the rule broke. The cgroup is "cg"
    when it is the given one at level 1, its child "sub" at level 2, and nothing at level 3."""
    for family in families.split():
        listed = json.loads(nft("-j", "list", "table", family, "observe"))["nftables"]
        seen = {}
        for s in (entry["set"] for entry in listed if "set" in entry):
            hook, key = s["name"].split("-")
            for element in s.get("elem", ()):
                value = element["elem"]["val"]
                kind, value = (value, None) if key == "all" else value["concat"]
                seen.setdefault((hook, kind), {}).setdefault(key, []).append(value)
        for (hook, kind), values in seen.items():
            def shown(key, text=str):
                return ",".join(map(text, values.get(key, ()))) or "-"
            levels = tuple(shown(f"cgroupv2level{level}") for level in (1, 2, 3))
            levels = {(cgroup, f"{cgroup}/sub", "-"): "cg", ("-", "-", "-"): "-"}.get(
                levels, "/".join(levels))
            yield family, hook, kind, " ".join((shown("transparent"), shown("mark", hex),
                                                shown("wildcard"), levels))


# Sockets

def family(addr):
    return socket.AF_INET6 if ":" in addr else socket.AF_INET


def sock(kind, addr, port, mark=0, transparent=False, dev=None, peer=None, reuseport=False,
         v6only=None):
    """A bound socket; kind is SOCK_DGRAM or SOCK_STREAM, peer is connected to."""
    s = socket.socket(family(addr), kind)
    s.settimeout(5)
    if mark:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("=I", mark))
    if transparent and s.family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
    elif transparent:
        s.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    if dev:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, dev.encode() + b"\0")
    if reuseport:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    elif kind == socket.SOCK_STREAM:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if v6only is not None:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
    s.bind((addr, port))
    if peer:
        s.connect(peer)
    return s


def udp(addr, port, **options):
    return sock(socket.SOCK_DGRAM, addr, port, **options)


def linger(s, on):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=II", on, 0))


def listener(addr, port, backlog=64, **options):
    """What it accepts is closed with a reset. An orderly close to a peer that does not answer
    would leave an orphan, which keeps its namespace and the rules there for minutes."""
    s = sock(socket.SOCK_STREAM, addr, port, **options)
    linger(s, 1)
    s.listen(backlog)
    return s


def close_with_fin(s):
    linger(s, 0)
    s.close()


def tcp_client(addr, port, peer, **options):
    return sock(socket.SOCK_STREAM, addr, port, peer=peer, **options)


# Packets

def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    total += total >> 16
    return ~total & 0xFFFF


def _addr(addr):
    return socket.inet_pton(family(addr), addr)


def l4_checksum(src, dst, proto, segment, at):
    """Fill in the checksum that the transport header has at that offset."""
    pseudo = _addr(src) + _addr(dst) + struct.pack("!II", len(segment), proto)
    value = checksum(pseudo + segment)
    return segment[:at] + struct.pack("!H", value or 0xFFFF) + segment[at + 2:]


def ip4(src, dst, proto, payload, options=b"", ttl=64, ident=1, fragment=0, length=None):
    """fragment: the 16-bit field with flags (0x2000: more) and the offset in 8-byte units."""
    ihl = 5 + len(options) // 4
    if length is None:
        length = ihl * 4 + len(payload)
    header = struct.pack("!BBHHHBBH", 0x40 | ihl, 0, length, ident, fragment, ttl, proto, 0)
    header += _addr(src) + _addr(dst) + options
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def ip6(src, dst, nexthdr, payload, hops=64, flow=0):
    header = struct.pack("!IHBB", 6 << 28 | flow, len(payload), nexthdr, hops)
    return header + _addr(src) + _addr(dst) + payload


def ip(src, dst, proto, payload, **fields):
    return (ip6 if ":" in src else ip4)(src, dst, proto, payload, **fields)


def udp_header(src, dst, sport, dport, payload=b"", length=None):
    segment = struct.pack("!HHHH", sport, dport, length or 8 + len(payload), 0) + payload
    return l4_checksum(src, dst, socket.IPPROTO_UDP, segment, 6)


def tcp_header(src, dst, sport, dport, seq=1, ack=0, flags=SYN, payload=b"", doff=5):
    segment = struct.pack("!HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF,
                          doff << 4, flags, 0xFFFF, 0, 0) + payload
    return l4_checksum(src, dst, socket.IPPROTO_TCP, segment, 16)


def udp_packet(src, dst, sport, dport, payload=b"", **fields):
    return ip(src, dst, socket.IPPROTO_UDP, udp_header(src, dst, sport, dport, payload),
              **fields)


def tcp_packet(src, dst, sport, dport, **fields):
    return ip(src, dst, socket.IPPROTO_TCP, tcp_header(src, dst, sport, dport, **fields))


def icmp(src, dst, quote, kind=None, code=None):
    """An error (port unreachable unless said otherwise) that quotes a packet dst has sent."""
    if ":" in src:
        kind, code = 1 if kind is None else kind, 4 if code is None else code
        segment = struct.pack("!BBHI", kind, code, 0, 0) + quote
        return ip6(src, dst, socket.IPPROTO_ICMPV6,
                   l4_checksum(src, dst, socket.IPPROTO_ICMPV6, segment, 2))
    kind, code = 3 if kind is None else kind, 3 if code is None else code
    segment = struct.pack("!BBHI", kind, code, 0, 0) + quote
    segment = segment[:2] + struct.pack("!H", checksum(segment)) + segment[4:]
    return ip4(src, dst, socket.IPPROTO_ICMP, segment)


class Wire:
    """The client's end of the veth pair: sends frames as they are, and reads them."""

    def __init__(self, ns, dev="eth0", dst=SERVER_MAC, src=CLIENT_MAC):
        self.dst, self.src, self.dev = dst, src, dev
        with netns(ns):
            self.raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.raw.bind((dev, 3))
            self.paged = None
            self.ns = ns

    def frame(self, packet):
        proto = ETH_P[socket.AF_INET6 if packet[0] >> 4 == 6 else socket.AF_INET]
        return self.dst + self.src + struct.pack("!H", proto) + packet

    def send(self, packet):
        self.raw.send(self.frame(packet))

    def send_paged(self, packet, linear):
        """Only the first bytes of the packet are in the linear part, the rest is in pages.
        The kernel does this for frames of a page and more."""
        if not self.paged:
            with netns(self.ns):
                self.paged = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                self.paged.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
                self.paged.bind((self.dev, 0))
        frame = self.frame(packet)
        assert len(frame) >= 4096
        self.paged.send(struct.pack("=BBHHHH", 0, 0, 14 + linear, 0, 0, 0) + frame)

    def receive(self, test, timeout=5):
        """The first packet that came in for which test(packet) is true, or None."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self.raw.settimeout(left)
            try:
                frame, where = self.raw.recvfrom(65536)
            except TimeoutError:
                break
            if where[2] != socket.PACKET_OUTGOING and test(frame[14:]):
                return frame[14:]
        return None


def tcp_fields(packet):
    """(source port, destination port, seq, ack, flags) of a TCP packet without options and
    extension headers before it; None of any other."""
    if packet[0] >> 4 == 6:
        proto, at = packet[6], 40
    else:
        proto, at = packet[9], (packet[0] & 15) * 4
    if proto != socket.IPPROTO_TCP:
        return None
    sport, dport, seq, ack, _, flags = struct.unpack("!HHIIBB", packet[at:at + 14])
    return sport, dport, seq, ack, flags


class Peer:
    """A TCP client made by hand, so that each packet of a connection is sent when the test
    wants it, or not at all."""

    def __init__(self, wire, src, dst, sport, dport):
        self.wire, self.src, self.dst, self.sport, self.dport = wire, src, dst, sport, dport
        self.seq, self.ack = 1000, 0

    def packet(self, flags, payload=b""):
        return tcp_packet(self.src, self.dst, self.sport, self.dport, seq=self.seq,
                          ack=self.ack, flags=flags, payload=payload)

    def send(self, flags, payload=b""):
        self.wire.send(self.packet(flags, payload))

    def sent_by_server(self, flags=ACK, seq=None):
        """A packet of the other direction, to be quoted in an ICMP error."""
        return tcp_packet(self.dst, self.src, self.dport, self.sport,
                          seq=self.ack if seq is None else seq, ack=self.seq, flags=flags)

    def wait(self, flags):
        """Wait for a packet with these flags set, and acknowledge what it carries."""
        def mine(packet):
            fields = tcp_fields(packet)
            return (fields and fields[:2] == (self.dport, self.sport)
                    and fields[4] & flags == flags)

        packet = self.wire.receive(mine)
        if packet is None:
            raise SystemExit(f"no answer from port {self.dport} to {self.sport}")
        self.ack = (tcp_fields(packet)[2] + 1) & 0xFFFFFFFF

    def syn(self):
        """The server has a request socket afterwards (NEW_SYN_RECV)."""
        self.send(SYN)
        self.wait(SYN | ACK)
        self.seq += 1

    def establish(self):
        self.syn()
        self.send(ACK)

    def time_wait(self, accepted):
        """The server closes first, so TIME_WAIT is on its side."""
        close_with_fin(accepted)
        self.wait(FIN)
        self.send(FIN | ACK)
        self.seq += 1


def settle(seconds=0.05):
    """veth delivers in the sender's softirq; this is for what is left over."""
    time.sleep(seconds)
