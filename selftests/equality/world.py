# SPDX-License-Identifier: GPL-2.0
"""The host under test: its addresses, and a socket of every kind, each with a mark of its own.

Ports say what a socket is, and are the same for UDP and TCP and for both versions of IP.
"""

import ctypes
import os
import socket
import struct
import subprocess
from collections import namedtuple
from types import SimpleNamespace

from net import ACK, FIN, SYN, Peer, join_cgroup, listener, nft, sock, tcp_fields, udp
from observe import FULL, SMALL

SO_ATTACH_REUSEPORT_CBPF = 51
CGROUPS = "", "equality", "equality/a", "equality/a/b"

# Sockets that only wait
ANY, BOUND, CGROUP, CONNECTED, DEVICE, OTHER_DEVICE, REUSEPORT, PROXIED, DUAL, MAPPED, PROGRAM, \
    FOREIGN = range(1000, 1012)
WAITING = range(ANY, FOREIGN + 1)
CLOSED = 1999
# TCP connections, by what makes them special
SERVER, SERVER_TRANSPARENT, CLIENT, SYN_SENT, NEW_SYN_RECV, NEW_SYN_RECV_TRANSPARENT, TIME_WAIT, \
    TIME_WAIT_TRANSPARENT, FIN_WAIT, CLOSE_WAIT, SERVER_DUAL = range(1100, 1111)
# Connections whose source address is translated; the port too, by this much, except KEEPS_PORT
NATED, NATED_SYN_SENT, NATED_TIME_WAIT, KEEPS_PORT = range(5000, 5004)
NAT_OFFSET = 1000
NATED_UDP = NATED, KEEPS_PORT
FORWARDED = 7000
# Taken over by tproxy, to the port after it
TPROXY = 1200
# Bound to no device, to the VRF, to the device in it; and all of these on one port
VRF = 1300

# kind: FULL or SMALL, what its socket is
Connection = namedtuple("Connection", "peer peer_port local port kind", defaults=(FULL,))


def addresses(version):
    """local, other and nat are the host's; proxied is routed to it; foreign is nobody's."""
    if version == 4:
        return SimpleNamespace(
            version=4, header=20, icmp=1, any="0.0.0.0", loopback="127.0.0.1",
            local="10.0.0.1", other="10.0.0.3", nat="10.0.0.4", peer="10.0.0.2",
            server="10.0.0.5", router="10.0.0.6", client="10.0.0.9", stranger="198.51.100.7",
            foreign="203.0.113.1", proxied="192.0.2.1", v6only=None, prefix=24, table="ip")
    return SimpleNamespace(
        version=6, header=40, icmp=58, any="::", loopback="::1",
        local="fd00::1", other="fd00::3", nat="fd00::4", peer="fd00::2",
        server="fd00::5", router="fd00::6", client="fd00::9", stranger="2001:db8:7::7",
        foreign="2001:db8:1::1", proxied="2001:db8:2::1", v6only=1, prefix=64, table="ip6")


VERSIONS = {4: addresses(4), 6: addresses(6)}


def mark_of(proto, port, which=0):
    return proto << 24 | port << 4 | which


def batch(ns, commands):
    subprocess.run(("ip", "-n", ns, "-batch", "-"), input=commands, text=True, check=True)


def sysctl(name, value):
    """Of the namespace that this process is in."""
    with open(f"/proc/sys/net/{name}", "w") as f:
        f.write(str(value))


def reuseport_program(s):
    """Select the socket by the low bits of the first byte of what the program is shown."""
    code = b"".join(struct.pack("=HBBI", *line) for line in (
        (0x30, 0, 0, 0),    # A = packet[0]
        (0x54, 0, 0, 3),    # A &= 3
        (0x16, 0, 0, 0)))   # return A
    buffer = ctypes.create_string_buffer(code)
    s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
                 struct.pack("HP", len(code) // 8, ctypes.addressof(buffer)))


class World:
    """In the namespace ns, which this process must be in; wire is its device."""

    def __init__(self, ns, wire):
        self.ns, self.wire = ns, wire
        self.kept = []              # sockets that nothing else refers to
        self.connections = {}       # the TCP connections of each IP version
        self.time_waits = []        # listeners of connections that are put into TIME_WAIT
        self.time_wait_seq = 0
        self.closing = []           # connections that will be, with their far ends
        self.setup_links()
        for path in CGROUPS[1:]:
            os.makedirs(f"/sys/fs/cgroup/{path}", exist_ok=True)

    def setup_links(self):
        for name, value in (
                ("ipv4/conf/all/rp_filter", 0), ("ipv4/conf/default/rp_filter", 0),
                ("ipv4/conf/all/accept_redirects", 0), ("ipv4/conf/all/send_redirects", 0),
                ("ipv4/conf/default/send_redirects", 0), ("ipv4/conf/all/accept_local", 1),
                ("ipv6/conf/all/accept_ra", 0), ("ipv6/conf/default/accept_ra", 0),
                ("ipv6/conf/all/accept_redirects", 0), ("ipv6/conf/default/accept_redirects", 0),
                ("ipv6/conf/default/dad_transmits", 0), ("ipv4/tcp_timestamps", 0),
                ("ipv4/tcp_syncookies", 0), ("ipv4/tcp_syn_retries", 30),
                ("ipv4/tcp_synack_retries", 30), ("ipv4/ping_group_range", "0 0"),
                # The state of a connection is not to end when its peer does not answer.
                ("ipv4/tcp_retries2", 60)):
            sysctl(name, value)
        self.add_link(self.wire)
        batch(self.ns, "link set lo up\n")
        self.attach(self.wire.name)

    def add_link(self, wire):
        """Bring a device up, without an address."""
        batch(self.ns, f"link set {wire.name} addrgenmode none address {wire.mac.hex(':')} "
                       f"mtu 9000 txqueuelen 5000 up\n")

    def attach(self, name):
        """Addresses, neighbours and routes of the wire."""
        lines = []
        for v in VERSIONS.values():
            nodad = " nodad" if v.version == 6 else ""
            lines += [f"addr add {a}/{v.prefix} dev {name}{nodad}"
                      for a in (v.local, v.other, v.nat)]
            lines += [f"neigh add {a} lladdr 02:00:00:00:00:02 dev {name} nud permanent"
                      for a in (v.peer, v.server, v.router, v.client)]
            lines += [f"route add default via {v.peer} dev {name}",
                      f"route add local {v.proxied} dev lo"]
        batch(self.ns, "\n".join(lines) + "\n")

    def early_demux(self, on):
        sysctl("ipv4/ip_early_demux", int(on))

    # Sockets

    def open(self):
        for v in VERSIONS.values():
            for kind, proto in (socket.SOCK_DGRAM, 17), (socket.SOCK_STREAM, 6):
                self.open_waiting(v, kind, proto)
            self.open_connections(v)
            self.open_tproxy(v)
        join_cgroup("")

    def open_waiting(self, v, kind, proto):
        def add(port, addr, which=0, cgroup="", **options):
            join_cgroup(cgroup)
            if addr == "::":
                options.setdefault("v6only", 1)
            s = sock(kind, addr, port, mark=mark_of(proto, port, which), **options)
            if kind == socket.SOCK_STREAM and "peer" not in options:
                s.listen(64)
            self.kept.append(s)
            return s

        add(ANY, v.any)
        add(BOUND, v.local, transparent=True)
        add(CGROUP, v.any, cgroup="equality/a")
        add(CONNECTED, v.any, reuseport=True, cgroup="equality")
        if kind == socket.SOCK_DGRAM:
            add(CONNECTED, v.local, 1, reuseport=True, peer=(v.peer, 2000))
        add(DEVICE, v.any, dev=self.wire.name)
        add(OTHER_DEVICE, v.any, dev="lo")
        for which in range(4):
            add(REUSEPORT, v.any, which, reuseport=True)
        add(PROXIED, v.proxied, transparent=True, cgroup="equality/a/b")
        add(FOREIGN, v.foreign, transparent=True)
        group = [add(PROGRAM, v.any, which, reuseport=True) for which in range(4)]
        reuseport_program(group[0])
        if v.version == 6:
            add(DUAL, "::", v6only=0, transparent=True)
            add(MAPPED, "::ffff:10.0.0.1", v6only=0)

    def listen(self, addr, port, cgroup="", **options):
        join_cgroup(cgroup)
        if addr == "::":
            options.setdefault("v6only", 1)
        s = listener(addr, port, mark=mark_of(6, port), **options)
        self.kept.append(s)
        return s

    def connect(self, addr, port, to, cgroup=""):
        """A client whose SYN is on the wire when this returns."""
        join_cgroup(cgroup)
        s = sock(socket.SOCK_STREAM, addr, port, mark=mark_of(6, port))
        s.setblocking(False)
        try:
            s.connect(to)
        except BlockingIOError:
            pass
        self.kept.append(s)
        return s

    def answer(self, dport, flags=SYN):
        """Wait for what the host sends to that port; the far end of its connection."""
        def to_us(packet):
            fields = tcp_fields(packet)
            return fields and fields[1] == dport and fields[4] & flags == flags

        packet = self.wire.receive(to_us)
        if packet is None:
            raise SystemExit(f"the host sent nothing to port {dport}")
        sport, _, seq, _, _ = tcp_fields(packet)
        at, size = (12, 4) if packet[0] >> 4 == 4 else (8, 16)
        source, dest = (socket.inet_ntop(socket.AF_INET if size == 4 else socket.AF_INET6,
                                         packet[i:i + size]) for i in (at, at + size))
        far = Peer(self.wire, dest, source, dport, sport)
        far.ack = (seq + 1) & 0xFFFFFFFF
        return far

    def accepted(self, server, mark=None):
        s, _ = server.accept()
        if mark is not None:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        s.setblocking(False)
        return s

    def open_connections(self, v):
        """One connection in each state of TCP that lasts."""
        wire = self.wire
        wire.drain()
        known = self.connections[v.version] = []

        def peer(port, local=v.local, kind=FULL):
            known.append(Connection(v.peer, 4000, local, port, kind))
            return Peer(wire, v.peer, local, 4000, port)

        server = self.listen(v.any, SERVER, cgroup="equality/a")
        peer(SERVER).establish()
        # The connection's mark is not the listener's, so that one is told from the other.
        self.kept.append(self.accepted(server, mark_of(6, SERVER, 1)))

        server = self.listen(v.proxied, SERVER_TRANSPARENT, transparent=True)
        peer(SERVER_TRANSPARENT, local=v.proxied).establish()
        self.kept.append(self.accepted(server, mark_of(6, SERVER_TRANSPARENT, 1)))

        self.connect(v.local, CLIENT, (v.peer, 80), cgroup="equality/a/b")
        far = self.answer(80)
        far.send(SYN | ACK)
        known.append(Connection(v.peer, 80, v.local, CLIENT))

        self.connect(v.local, SYN_SENT, (v.peer, 81))
        known.append(Connection(v.peer, 81, v.local, SYN_SENT))

        for port, transparent in (NEW_SYN_RECV, False), (NEW_SYN_RECV_TRANSPARENT, True):
            self.listen(v.any, port, transparent=transparent)
            peer(port, kind=SMALL).syn()

        for port, transparent in (TIME_WAIT, False), (TIME_WAIT_TRANSPARENT, True):
            self.time_waits.append((v, port, self.listen(v.any, port, transparent=transparent)))
            known.append(Connection(v.peer, 4000, v.local, port, SMALL))

        server = self.listen(v.any, FIN_WAIT)
        far = peer(FIN_WAIT)
        far.establish()
        s = self.accepted(server)
        s.shutdown(socket.SHUT_WR)
        self.kept.append(s)

        server = self.listen(v.any, CLOSE_WAIT)
        far = peer(CLOSE_WAIT)
        far.establish()
        self.kept.append(self.accepted(server))
        far.send(FIN | ACK)

        if v.version == 4:
            server = self.listen("::", SERVER_DUAL, v6only=0)
            peer(SERVER_DUAL).establish()
            self.kept.append(self.accepted(server, mark_of(6, SERVER_DUAL, 1)))

    def renew_time_wait(self):
        """TIME_WAIT lasts a minute: begin it again. The peer sends a SYN that the kernel takes
        for a new connection, because its sequence number is beyond the old one's."""
        self.wire.drain()
        self.time_wait_seq += 1000000
        for v, port, server in self.time_waits:
            far = Peer(self.wire, v.peer, v.local, 4000, port)
            far.seq += self.time_wait_seq
            far.establish()
            far.time_wait(self.accepted(server))

    def open_tproxy(self, v):
        """The sockets that tproxy hands packets to."""
        for kind, proto in (socket.SOCK_DGRAM, 17), (socket.SOCK_STREAM, 6):
            s = sock(kind, v.any, TPROXY + 1, mark=mark_of(proto, TPROXY + 1), transparent=True,
                     v6only=v.v6only)
            if kind == socket.SOCK_STREAM:
                s.listen(64)
            self.kept.append(s)

    # Conntrack

    def track(self):
        """NAT rules (and with them conntrack and defragmentation), and connections they change."""
        for name, value in (("netfilter/nf_conntrack_checksum", 0),
                            ("netfilter/nf_conntrack_tcp_be_liberal", 1),
                            ("ipv4/ip_forward", 1), ("ipv6/conf/all/forwarding", 1)):
            sysctl(name, value)
        # What conntrack knows of a connection is to outlast the test.
        for state in ("udp_timeout", "udp_timeout_stream", *(f"tcp_timeout_{state}" for state in (
                "syn_sent", "syn_recv", "fin_wait", "close_wait", "last_ack", "time_wait",
                "close", "max_retrans", "unacknowledged"))):
            sysctl(f"netfilter/nf_conntrack_{state}", 1000)
        rules = []
        for v in VERSIONS.values():
            def to(port, v=v):
                return f"{v.nat}:{port}" if v.version == 4 else f"[{v.nat}]:{port}"

            rules.append(f"""
                table {v.table} translate {{
                    chain out {{
                        type nat hook postrouting priority srcnat
                        {v.table} saddr {v.local} meta l4proto {{ tcp, udp }} \\
                            th sport {KEEPS_PORT} snat to {v.nat}""")
            for source, ports in ((v.local, (NATED, NATED_SYN_SENT, NATED_TIME_WAIT)),
                                  (v.client, (FORWARDED,))):
                rules += [f"""{v.table} saddr {source} meta l4proto {{ tcp, udp }} \\
                              th sport {port} snat to {to(port + NAT_OFFSET)}""" for port in ports]
            rules.append(f"""
                    }}
                    chain in {{
                        type nat hook prerouting priority dstnat
                        {v.table} daddr {v.local} udp dport 3000 dnat to :{ANY}
                        {v.table} daddr {v.local} tcp dport 3000 dnat to :{ANY}
                    }}
                }}
                table {v.table} steer {{
                    chain mangle {{
                        type filter hook prerouting priority mangle - 5
                        meta l4proto {{ tcp, udp }} th dport {TPROXY} tproxy to :{TPROXY + 1}
                    }}
                }}""")
        nft("-f", "-", text="\n".join(rules))
        for v in VERSIONS.values():
            self.open_translated(v)
        join_cgroup("")

    def open_translated(self, v):
        wire = self.wire
        wire.drain()
        for port in NATED_UDP:
            join_cgroup("equality/a")
            s = udp(v.local, port, mark=mark_of(17, port), peer=(v.server, 53))
            s.send(b"out")
            self.kept.append(s)

        self.connect(v.local, NATED, (v.server, 80), cgroup="equality/a")
        self.answer(80).send(SYN | ACK)
        self.connect(v.local, KEEPS_PORT, (v.server, 83))
        self.answer(83).send(SYN | ACK)
        self.connect(v.local, NATED_SYN_SENT, (v.server, 81))
        s = self.connect(v.local, NATED_TIME_WAIT, (v.server, 82))
        far = self.answer(82)
        far.send(SYN | ACK)
        far.seq += 1
        self.closing.append((s, far))

        # A client of which a proxy here has the address: its connections are forwarded.
        for kind, proto in (socket.SOCK_DGRAM, 17), (socket.SOCK_STREAM, 6):
            s = sock(kind, v.client, FORWARDED, mark=mark_of(proto, FORWARDED), transparent=True)
            if kind == socket.SOCK_STREAM:
                s.listen(8)
            self.kept.append(s)

    def nated_time_wait(self):
        """Put the connections that are there for it into TIME_WAIT, once."""
        for s, far in self.closing:
            s.shutdown(socket.SHUT_RDWR)
            far.wait(FIN)
            far.send(FIN | ACK)
        self.closing.clear()

    def close(self):
        """End it all now: what waits for its peer would keep the namespace for minutes."""
        for s in self.kept:
            s.close()
        self.kept.clear()
        subprocess.run(("ss", "--kill", "--all", "--tcp"), stdout=subprocess.DEVNULL)
        join_cgroup("")
        for path in reversed(CGROUPS[1:]):
            os.rmdir(f"/sys/fs/cgroup/{path}")
