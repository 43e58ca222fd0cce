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


def arrival(wire, dport, timeout=0.1):
    """How the next packet to a UDP port comes to the server's wire: "ESP", "in clear", or not."""
    def kind(packet):
        proto, at = (packet[9], 20) if packet[0] >> 4 == 4 else (packet[6], 40)
        if proto == socket.IPPROTO_ESP:
            return "ESP"
        if proto == socket.IPPROTO_UDP and packet[at + 2:at + 4] == struct.pack("!H", dport):
            return "in clear"
        return None

    packet = wire.receive(kind, timeout)
    return kind(packet) if packet else "dropped"
