# SPDX-License-Identifier: GPL-2.0
"""Packets that the host sends itself: between its own sockets, and out through devices that keep
the sender's socket in the packet."""

import socket
import struct
import time

from cases import EVERY_PHASE, TCP, UDP, Case, transport
from net import ACK, ETH_P, FIN, SYN, Peer, icmp, linger, netns, sock, tcp_packet, udp_packet
from world import (ANY, BOUND, CGROUP, CLOSED, CONNECTED, DEVICE, DUAL, NATED, NATED_UDP,
                   NAT_OFFSET, NEW_SYN_RECV_TRANSPARENT, SERVER, TIME_WAIT, VERSIONS, VRF, batch,
                   mark_of)

CASES = []


def case(name, **expected):
    def register(function):
        CASES.append(Case(function, name, **expected))
        return function
    return register


IPV6_HDRINCL = 36

# The inner networks of the tunnels
INNER = {4: ("192.168.9.1", "192.168.9.2", 24), 6: ("fd99::1", "fd99::2", 64)}


def open_links(world, wire, far):
    """A VRF; and tunnels that leave from the world, one for senders in the same namespace, one for
    senders in the namespace far."""
    world.add_link(wire)
    batch(world.ns, f"""\
        link add vrf0 type vrf table 10
        link set vrf0 up
        link set {wire.name} master vrf0
        """)
    for v in VERSIONS.values():
        nodad = " nodad" if v.version == 6 else ""
        inner, _, prefix = INNER[v.version]
        batch(world.ns, f"""\
            addr add {v.local} dev {wire.name}{nodad}
            neigh add {v.peer} lladdr 02:00:00:00:00:02 dev {wire.name} nud permanent
            route add default dev {wire.name} table 10 via {v.peer} onlink
            """)
        kind = "ipip" if v.version == 4 else "ip6tnl mode any"
        for ns, name, remote in ((world.ns, f"near{v.version}", v.peer),
                                 (far, f"far{v.version}", v.server)):
            batch(world.ns, f"link add {name} type {kind} local {v.local} remote {remote}\n" +
                  (f"link set {name} netns {far}\n" if ns == far else ""))
            batch(ns, f"""\
                link set {name} addrgenmode none
                link set {name} up
                addr add {inner}/{prefix} dev {name}{nodad}
                """)
        for kind, proto in (socket.SOCK_DGRAM, UDP), (socket.SOCK_STREAM, TCP):
            for which, dev in enumerate((None, "vrf0", wire.name)):
                for port in VRF + 3, VRF + which:
                    s = sock(kind, v.any, port, dev=dev, mark=mark_of(proto, port, which),
                             reuseport=port == VRF + 3, v6only=v.v6only)
                    if kind == socket.SOCK_STREAM:
                        s.listen(8)
                    world.kept.append(s)


def datagram(v, addr=None, port=0, **options):
    if v.version == 6:
        options.setdefault("v6only", 1)
    return sock(socket.SOCK_DGRAM, addr or v.any, port, **options)


@case("UDP between the host's sockets", phases=EVERY_PHASE,
      reach=("prerouting", "input", "output"))
def udp_local(v, world, far):
    for dst in v.loopback, v.local:
        for port in ANY, BOUND, CGROUP, CONNECTED, DEVICE, DUAL, CLOSED:
            for size in 0, 1, 1000, 20000:
                with datagram(v, mark=0x77000000 | port) as s:
                    s.sendto(bytes(size), (dst, port))
        with datagram(v, dst, mark=0x78000001) as one, datagram(v, dst, mark=0x78000002) as two:
            one.connect(two.getsockname())
            two.connect(one.getsockname())
            one.send(b"1")
            two.send(b"2")


@case("TCP between the host's sockets", phases=EVERY_PHASE,
      reach=("prerouting", "input", "output"))
def tcp_local(v, world, far):
    for dst in v.loopback, v.local:
        for transparent in False, True:
            with sock(socket.SOCK_STREAM, v.any, 0, mark=0x79000001, transparent=transparent,
                      v6only=v.v6only) as server:
                server.listen(4)
                to = dst, server.getsockname()[1]
                for closer in "client", "server", "reset":
                    with sock(socket.SOCK_STREAM, v.any, 0, mark=0x79000002, peer=to,
                              v6only=v.v6only) as client:
                        accepted, _ = server.accept()
                        with accepted:
                            client.sendall(bytes(3000))
                            accepted.sendall(bytes(70000))
                            if closer == "reset":
                                linger(client, 1)
                            if closer != "server":
                                client.close()
                        client.close()
        with sock(socket.SOCK_STREAM, v.any, 0, v6only=v.v6only) as client:
            try:
                client.connect((dst, CLOSED))
            except ConnectionRefusedError:
                pass


@case("UDP on its way out", reach=("output",), misses=False)
def udp_out(v, world, far):
    for options in ({}, {"transparent": True}, {"mark": 0x7A000001}, {"addr": v.local},
                    {"addr": v.foreign, "transparent": True}, {"v6only": 0} if v.version == 6 else
                    {"mark": 0x7A000002}):
        with datagram(v, **options) as s:
            for size in 0, 100, 20000:
                s.sendto(bytes(size), (v.peer, 2000))
            s.connect((v.server, 2001))
            s.send(b"connected")
    if v.version == 6:
        with datagram(v, v6only=0) as s:
            s.sendto(b"mapped", ("::ffff:10.0.0.2", 2000))


@case("raw and ping sockets on their way out", reach=("output",), misses=False)
def raw_out(v, world, far):
    family = socket.AF_INET if v.version == 4 else socket.AF_INET6
    packet = udp_packet(v.local, v.peer, ANY, 2000, b"raw")
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as s:
        if v.version == 6:
            s.setsockopt(socket.IPPROTO_IPV6, IPV6_HDRINCL, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0x7B000001)
        s.sendto(packet, (v.peer, 0))
    with socket.socket(family, socket.SOCK_RAW, 253) as s:
        s.sendto(bytes(30), (v.peer, 0))
    with socket.socket(family, socket.SOCK_DGRAM, v.icmp) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0x7B000002)
        s.sendto(struct.pack("!BBHI", 8 if v.version == 4 else 128, 0, 0, 1), (v.peer, 0))


@case("the kernel's own packets", reach=("output",), prepare="renew_time_wait")
def kernel_out(v, world, far):
    wire = world.wire

    # A reset, a port unreachable, an echo reply.
    wire.send(tcp_packet(v.peer, v.local, 4100, CLOSED, flags=SYN))
    wire.send(tcp_packet(v.peer, v.proxied, 4100, CLOSED, flags=ACK))
    wire.send(udp_packet(v.peer, v.local, 4100, CLOSED, b"x"))
    wire.send(icmp(v.peer, v.local, b"", kind=8 if v.version == 4 else 128, code=0))
    # An acknowledgement out of TIME_WAIT, and one of an established connection.
    wire.send(tcp_packet(v.peer, v.local, 4000, TIME_WAIT, seq=5, ack=6, flags=ACK, payload=b"old"))
    wire.send(tcp_packet(v.peer, v.local, 4000, SERVER, seq=5, ack=6, flags=ACK, payload=b"old"))
    # SYN/ACK from a listener, once more to the same SYN, and a reset.
    for port in ANY, NEW_SYN_RECV_TRANSPARENT:
        far_end = Peer(wire, v.stranger, v.local, 4200, port)
        far_end.syn()
        far_end.seq -= 1
        far_end.send(SYN)
        far_end.seq += 1
        far_end.send(SYN | ACK)
    # Neighbour discovery and multicast listeners.
    with datagram(v) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, wire.name.encode() + b"\0")
        for number in range(3):
            s.sendto(b"who has", (v.peer[:-1] + f"{40 + number}", 2000))
    group = "239.7.7.7" if v.version == 4 else "ff05::7:7"
    with datagram(v) as s:
        packed = socket.inet_pton(s.family, group)
        if v.version == 4:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                         packed + socket.inet_aton(v.local))
        else:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
                         packed + struct.pack("=I", socket.if_nametoindex(wire.name)))
        time.sleep(0.1)


@case("TCP clients and servers on their way out", reach=("output",), misses=False)
def tcp_out(v, world, far):
    world.wire.drain()
    for number, transparent in enumerate((False, True)):
        port = 4300 + number
        with sock(socket.SOCK_STREAM, v.any, 0, mark=0x7C000001, transparent=transparent,
                  v6only=v.v6only) as s:
            s.setblocking(False)
            try:
                s.connect((v.peer, port))
            except BlockingIOError:
                pass
            far_end = world.answer(port)
            far_end.send(SYN | ACK)
            far_end.seq += 1
            s.send(bytes(1000))
            s.shutdown(socket.SHUT_WR)
            far_end.wait(FIN)
            far_end.send(ACK)


# The tunnel's own packets pass the output hook of its namespace with the sender's socket.

@case("through a tunnel, from a socket of another namespace", reach=("output",), finds=False,
      phases=("early demux",))
def tunnel_far(v, world, far):
    _, to, _ = INNER[v.version]
    with netns(far):
        with datagram(v, mark=0x7D000001, transparent=True) as s:
            s.sendto(b"tunnel", (to, 2000))
            s.sendto(bytes(5000), (to, 2000))
        with sock(socket.SOCK_STREAM, v.any, 0, mark=0x7D000002, v6only=v.v6only) as s:
            s.setblocking(False)
            try:
                s.connect((to, 80))
            except BlockingIOError:
                pass


@case("through a tunnel, from an inet socket", reach=("output",), misses=False,
      phases=("early demux",))
def tunnel_near(v, world, far):
    _, to, _ = INNER[v.version]
    for transparent in False, True:
        with datagram(v, mark=0x7E000001, transparent=transparent) as s:
            s.sendto(b"tunnel", (to, 2000))


@case("through a tunnel, from a packet socket", reach=("output",), misses=False,
      phases=("early demux",))
def tunnel_packet(v, world, far):
    local, to, _ = INNER[v.version]
    family = socket.AF_INET if v.version == 4 else socket.AF_INET6
    packet = udp_packet(local, to, 2000, ANY, b"packet")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0x7F000001)
        for _ in range(4):
            s.sendto(packet, (f"near{v.version}", ETH_P[family]))


@case("replies to the host's own translated packets", phases=("conntrack",),
      reach=("output", "input", "prerouting"), misses=False)
def nat_live(v, world, far):
    for port in NATED_UDP:
        near = port + NAT_OFFSET if port == NATED else port
        for s in world.kept:
            if s.type == socket.SOCK_DGRAM and s.fileno() >= 0 and \
                    s.getsockname()[:2] == (v.local, port):
                # An error that came in before would be the answer to the next call.
                s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                s.send(b"again")
        world.wire.send(transport(v, v.server, v.nat, UDP, 53, near, b"answer"))
