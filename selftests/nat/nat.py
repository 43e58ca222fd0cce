# SPDX-License-Identifier: GPL-2.0
"""Conversations through a router that translates addresses, and what both ends see of them."""

import errno

from net import *

IPPROTO_SCTP = 132


def addr(version, net, host):
    """An address of the networks that setup_router makes."""
    return f"10.0.{net}.{host}" if version == 4 else f"dead:{net}::{host}"


def port(address, number):
    """An address and a port as rules and results have them."""
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


def error(exc):
    """The name of what an exception says."""
    return "timeout" if isinstance(exc, TimeoutError) else errno.errorcode.get(exc.errno, repr(exc))


def make(proto, address, number):
    """A bound socket of a protocol by name."""
    kind, protocol = {"udp": (socket.SOCK_DGRAM, 0), "tcp": (socket.SOCK_STREAM, 0),
                      "sctp": (socket.SOCK_STREAM, IPPROTO_SCTP)}[proto]
    s = socket.socket(family(address), kind, protocol)
    s.settimeout(5)
    if proto == "tcp":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, number))
    return s


class Echo:
    """Sockets of a namespace that answer, by protocol, address and port; None for a protocol that
    this kernel does not know."""

    def __init__(self, ns):
        self.ns, self.socks = ns, {}

    def at(self, proto, address, number):
        key = proto, address, number
        if key not in self.socks:
            try:
                with netns(self.ns):
                    s = make(proto, address, number)
                if proto != "udp":
                    s.listen(16)
            except OSError as exc:
                if exc.errno not in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT):
                    raise
                s = None
            self.socks[key] = s
        return self.socks[key]


def exchange(proto, ns, src, dst, server, sizes=(1, 1000), timeout=5):
    """Talk from src in ns to dst; server is the listening socket where that ends.

    The result is the peer as the server sees it, (address, port), or the name of an error. That
    the client gets the answers from dst is certain: its socket is connected to that.
    """
    with netns(ns):
        c = make(proto, *src)
    c.settimeout(timeout)
    server.settimeout(timeout)
    try:
        c.connect(dst)
        if proto == "udp":
            for size in sizes:
                c.send(bytes(size))
                data, peer = server.recvfrom(65536)
                server.sendto(data, peer)
                if c.recv(65536) != bytes(size):
                    return "damaged"
        else:
            s, peer = server.accept()
            s.settimeout(timeout)
            for size in sizes:
                for a, b in (c, s), (s, c):
                    a.sendall(bytes(size))
                    left = size
                    while left:
                        got = b.recv(65536)
                        if not got or got.strip(b"\0"):
                            return "damaged"
                        left -= len(got)
            linger(s, 1)
            s.close()
        return peer[:2]
    except OSError as exc:
        return error(exc)
    finally:
        c.close()


class Ping:
    """A raw socket: requests that arrive in a namespace, and what is sent and answered."""

    def __init__(self, version, ns, address):
        self.version, self.address = version, address
        with netns(ns):
            if version == 4:
                self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            else:
                self.raw = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
            self.raw.bind((address, 0))
        self.raw.settimeout(5)
        self.request, self.reply = (8, 0) if version == 4 else (128, 129)

    def send(self, dst, ident, seq=1, payload=b"x" * 16):
        header = struct.pack("!BBHHH", self.request, 0, 0, ident, seq) + payload
        if self.version == 4:
            header = header[:2] + struct.pack("!H", checksum(header)) + header[4:]
        self.raw.sendto(header, (dst, 0))

    def receive(self, kind, seq=None, timeout=5):
        """(source, ident, seq) of the next request or reply."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self.raw.settimeout(left)
            data, peer = self.raw.recvfrom(65536)
            if self.version == 4:
                data = data[(data[0] & 15) * 4:]
            if data[0] == kind and (seq is None or data[6:8] == struct.pack("!H", seq)):
                return (peer[0],) + struct.unpack("!HH", data[4:8])
        raise TimeoutError


def ping(client, dst, server, ident, seq=1):
    """Ping dst; server is the Ping where the request ends. Returns the source that is seen there,
    and its ident; or the name of an error."""
    try:
        client.send(dst, ident, seq)
        seen = server.receive(server.request, seq)
        back = client.receive(client.reply, seq)
        if back != (dst, ident, seq):
            return f"answer from {back}"
        return seen[:2]
    except OSError as exc:
        return error(exc)


def arrival(wire, dport, expected):
    """How the next packet to a UDP port comes to the server's wire: "ESP", "in clear", or not. What
    is expected says how long to wait; a packet that comes too late is taken for the next one."""
    def kind(packet):
        proto, at = (packet[9], 20) if packet[0] >> 4 == 4 else (packet[6], 40)
        if proto == socket.IPPROTO_ESP:
            return "ESP"
        if proto == socket.IPPROTO_UDP and packet[at + 2:at + 4] == struct.pack("!H", dport):
            return "in clear"
        return None

    packet = wire.receive(kind, 0.1 if expected == "dropped" else 5)
    return kind(packet) if packet else "dropped"


HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60


def describe(packet, quoted=False):
    """A packet, what an ICMP error quotes included, in words; and which checksums are wrong. Of a
    quote that was cut, what there is."""
    wrong, options = [], ""
    if packet[0] >> 4 == 4:
        start, proto = (packet[0] & 15) * 4, packet[9]
        src, dst = (socket.inet_ntop(socket.AF_INET, packet[at:at + 4]) for at in (12, 16))
        if checksum(packet[:start]):
            wrong.append("header")
        if start > 20:
            options = " options"
        end = struct.unpack("!H", packet[2:4])[0]
    else:
        start, proto = 40, packet[6]
        src, dst = (socket.inet_ntop(socket.AF_INET6, packet[at:at + 16]) for at in (8, 24))
        end = 40 + struct.unpack("!H", packet[4:6])[0]
        while proto in (HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION):
            length = {FRAGMENT: 8, AUTHENTICATION: packet[start + 1] * 4 + 8}.get(
                proto, packet[start + 1] * 8 + 8)
            proto, start = packet[start], start + length
            options = " options"
    segment = packet[start:end]
    if not quoted or len(packet) >= end:
        pseudo = b"" if proto == 1 else _pseudo(src, dst, proto, len(segment))
        if proto in (1, 6, 17, 58) and checksum(pseudo + segment):
            wrong.append("segment")
    head = f"{src} > {dst}{options}"
    if proto in (6, 17):
        sport, dport = struct.unpack("!HH", segment[:4])
        head = f"{src} {sport} > {dst} {dport}{options} {'tcp' if proto == 6 else 'udp'}"
    elif proto in (1, 58) and segment[0] in (0, 8, 128, 129):
        head += f" echo {struct.unpack('!H', segment[4:6])[0]}"
    elif proto == 1 or proto == 58 and segment[0] < 128:
        head += f" error {segment[0]}/{segment[1]} about {describe(segment[8:], True)}"
    else:
        head += f" protocol {proto}"
    return head + "".join(f", wrong {each} checksum" for each in wrong)


def _pseudo(src, dst, proto, length):
    return b"".join(socket.inet_pton(family(a), a) for a in (src, dst)) + \
        struct.pack("!II", length, proto)
