# SPDX-License-Identifier: GPL-2.0
"""The packets, class by class. Each class is a generator of packets for one version of IP."""

import struct
from collections import namedtuple

from net import ACK, FIN, RST, SYN, icmp, ip, ip4, ip6, tcp_header, udp_header
from observe import NAT_ERROR, NAT_REPLY
from world import (ANY, BOUND, CGROUP, CLOSED, CONNECTED, FORWARDED, KEEPS_PORT, NATED,
                   NATED_SYN_SENT, NATED_TIME_WAIT, NAT_OFFSET, PROGRAM, PROXIED, REUSEPORT, SERVER,
                   TPROXY, VRF, WAITING)

UDP, TCP = 17, 6
HOP, ROUTING, FRAGMENT, ESP, AUTH, NONE, DEST, MOBILITY, HIP, SHIM6 = \
    0, 43, 44, 50, 51, 59, 60, 135, 139, 140

# data: the packet. what: a word for a person. linear, piece: how it is laid out, see Tap.send.
# proves: what some packet of the class has to prove, (FULL or another, protocol, port): that the
# connection is in the state that the class is about.
Packet = namedtuple("Packet", "data what linear piece proves", defaults=(None,) * 3)

EVERY_PHASE = "early demux", "no early demux", "conntrack"


class Case:
    """A class of packets.

    reach, finds and misses say what it has to do, so that one that does nothing is noticed: the
    hooks it comes to, that a socket is found, that none is. prepare is a method of the world to be
    called before. pairs: both versions of IP have the same packets in the same order. mutates: the
    packets are made from those of the other classes. wire: where they come in.
    """

    def __init__(self, function, name, versions=(4, 6), phases=("early demux", "conntrack"),
                 reach=("prerouting", "input"), finds=True, misses=True, prepare=None,
                 pairs=False, mutates=False, wire="main"):
        self.function, self.name, self.versions, self.phases = function, name, versions, phases
        self.reach, self.finds, self.misses = reach, finds, misses
        self.prepare, self.pairs, self.mutates, self.wire = prepare, pairs, mutates, wire


CASES = []


def case(name, **expected):
    def register(function):
        CASES.append(Case(function, name, **expected))
        return function
    return register


# Packets

def transport(net, src, dst, proto, sport, dport, payload=b"", flags=ACK, **fields):
    """A UDP or a TCP packet. The TCP checksum is wrong, so that no connection changes."""
    if proto == UDP:
        segment = udp_header(src, dst, sport, dport, payload)
    else:
        segment = tcp_segment(src, dst, sport, dport, payload, flags)
    return ip(src, dst, proto, segment, **fields)


def tcp_segment(src, dst, sport, dport, payload=b"", flags=ACK, doff=5):
    """With a wrong checksum."""
    segment = tcp_header(src, dst, sport, dport, flags=flags, payload=payload, doff=doff)
    return segment[:16] + bytes((segment[16] ^ 0x55, segment[17] ^ 0x55)) + segment[18:]


def sized(packet, length=None):
    """The same bytes with that total length in the header, and the checksum of an IPv4 header."""
    if packet[0] >> 4 == 6:
        length = len(packet) if length is None else length
        return packet[:4] + struct.pack("!H", max(length - 40, 0)) + packet[6:]
    header = bytearray(packet[:(packet[0] & 15) * 4])
    header[2:4] = struct.pack("!H", len(packet) if length is None else length)
    header[10:12] = b"\0\0"
    total = sum(struct.unpack(f"!{len(header) // 2}H", header[:len(header) & ~1]))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack("!H", ~total & 0xFFFF)
    return bytes(header) + packet[len(header):]


def extension(kind, following, units=0, field=0):
    """One extension header; field is a fragment header's offset and flags, or a routing header's
    type and segments left."""
    if kind == FRAGMENT:
        return struct.pack("!BBHI", following, units, field, 0x1234)
    if kind == AUTH:
        return struct.pack("!BB", following, units) + bytes((units + 2) * 4 - 2)
    if kind == ROUTING:
        return struct.pack("!BBH", following, units, field) + bytes((units + 1) * 8 - 4)
    length = (units + 1) * 8 - 2
    options = b""
    while length:           # PadN of as much as one may have, Pad1
        part = min(length, 257)
        options += b"\0" if part == 1 else bytes([1, part - 2]) + bytes(part - 2)
        length -= part
    return struct.pack("!BB", following, units) + options


def chained(headers, last, payload):
    """(next header, bytes) of extension headers [(kind, units, field)] in front of a payload."""
    following = last
    for kind, units, field in reversed(headers):
        payload = extension(kind, following, units, field) + payload
        following = kind
    return following, payload


def labelled(packet, port):
    """With a flow label that looks like that destination port, to who takes the IPv6 header for
    one of UDP or TCP: nf_tables says of a later fragment that its payload is at offset 0."""
    return packet[:2] + struct.pack("!H", port) + packet[4:]


def random_chain(rng):
    kinds = (HOP, ROUTING, FRAGMENT, AUTH, DEST, DEST, DEST, ROUTING, MOBILITY, NONE, ESP)
    weights = (2, 6, 5, 6, 8, 8, 8, 6, 1, 1, 1)
    headers = []
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 5, 8, 11, 12, 13, 16))):
        kind = rng.choices(kinds, weights)[0]
        units = rng.choice((0, 0, 0, 1, 2, 7))
        field = 0
        if kind == FRAGMENT:
            units = rng.choice((0, 0, 0, 3, 255))
            field = rng.choice((0, 0, 0, 0, 1, 2, 4, 6, 7, 8, 9, 0xFFF8))
        elif kind == ROUTING:
            field = rng.choice((0, 0x0200, 0x0300, 0x0400, 0x0001, 0x0201, 0xFD00))
        headers.append((kind, units, field))
    return headers


def quoted(net, proto, port, peer_port=2000, size=28, **fields):
    """What the host had sent from that port to the peer. The TCP sequence number is none of
    its, so that the error about it is ignored."""
    return transport(net, net.local, net.peer, proto, port, peer_port, bytes(size - 8), **fields)


def layouts(upto, start=0):
    """(linear, piece) of every layout that cuts the first bytes of a packet, see Tap.send."""
    for linear in range(start, upto + 1):
        yield linear, None
        yield linear, 1 + linear % 7


# Classes

@case("every socket, and none", phases=EVERY_PHASE)
def every_socket(net, world, rng):
    ports = [*WAITING, *(c.port for c in world.connections[net.version]), CLOSED]
    for proto in UDP, TCP:
        for port in ports:
            for dst in net.local, net.other, net.proxied, net.foreign:
                for src, sport in (net.peer, 2000), (net.peer, 4000), (net.stranger, 2000):
                    yield Packet(transport(net, src, dst, proto, sport, port, b"data",
                                           rng.choice((SYN, ACK, RST, FIN | ACK))),
                                 f"port {port}")


@case("reuseport groups: the same member", misses=False)
def reuseport_members(net, world, rng):
    for proto in UDP, TCP:
        for port in PROGRAM, REUSEPORT:
            for i in range(40):
                yield Packet(transport(net, net.stranger, net.local, proto, 3000 + i, port,
                                       bytes([i]) * 8, SYN), f"port {port}, byte {i}")


@case("cut at every length, and padded to it")
def truncated(net, world, rng):
    wholes = [(transport(net, net.peer, net.local, proto, 2000, port, bytes(range(16))), proto)
              for proto in (UDP, TCP) for port in (ANY, CONNECTED)]
    wholes += [(icmp(net.peer, net.local, quoted(net, proto, ANY)), net.icmp)
               for proto in (UDP, TCP)]
    for whole, proto in wholes:
        payload = whole[net.header:]
        variants = [whole]
        if net.version == 4:
            variants += [ip4(net.peer, net.local, proto, payload, options=b"\1" * n)
                         for n in (4, 40)]
        else:
            variants += [ip6(net.peer, net.local, *chained(headers, proto, payload))
                         for headers in ([(AUTH, 1, 0)], [(FRAGMENT, 0, 0)],
                                         [(ROUTING, 0, 0), (DEST, 1, 0)])]
        for packet in variants:
            start = (packet[0] & 15) * 4 if net.version == 4 else 40
            for length in range(start, min(len(packet), start + 90) + 1):
                cut = sized(packet[:length])
                yield Packet(cut, f"cut to {length} bytes")
                yield Packet(cut + packet[length:] + bytes(32), f"{length} bytes, padded")


@case("lengths that are not those of the packet", misses=False)
def lengths(net, world, rng):
    for proto in UDP, TCP:
        packet = transport(net, net.peer, net.local, proto, 2000, ANY, bytes(100))
        for length in (0, 1, 8, 19, 20, 27, 28, 39, 40, 41, 48, 60, 0xFFFF, len(packet) + 1,
                       len(packet) - 1):
            yield Packet(sized(packet, length), f"length {length}")
        # The length in the UDP header is nobody's business.
        for length in 0, 7, 8, 9, 0xFFFF:
            at = net.header + 4
            yield Packet(packet[:at] + struct.pack("!H", length) + packet[at + 2:],
                         f"UDP length {length}")


@case("fragments alone", reach=("prerouting",))
def fragments(net, world, rng):
    ports = struct.pack("!HHHH", 2000, ANY, 40, 0)
    for proto in UDP, TCP, net.icmp, ESP:
        if proto == net.icmp:
            whole = icmp(net.peer, net.local, quoted(net, UDP, ANY))[net.header:]
        elif proto == ESP:
            whole = ports * 5
        else:
            whole = transport(net, net.peer, net.local, proto, 2000, ANY,
                              ports * 5)[net.header:]
        for size in 4, 8, 16, 20, 24, len(whole):
            for offset in 0, 1, 2, 3, 185, 0x1FFF:
                for more in 0, 1:
                    what = f"protocol {proto}, offset {offset}, {size} bytes, more {more}"
                    piece = whole[:size]
                    ident = rng.randrange(1 << 16)
                    if net.version == 4:
                        for other in 0, 0x4000, 0x8000:
                            yield Packet(ip4(net.peer, net.local, proto, piece, ident=ident,
                                             fragment=more << 13 | other | offset), what)
                        continue
                    for reserved in 0, 2, 6:
                        header = struct.pack("!BBHI", proto, 0, offset << 3 | reserved | more,
                                             ident)
                        packet = ip6(net.peer, net.local, FRAGMENT, header + piece)
                        yield Packet(labelled(packet, ANY), what)
                    header = struct.pack("!BBHI", DEST, 0, offset << 3 | more, ident)
                    following, rest = chained([(DEST, 0, 0)], proto, piece)
                    packet = ip6(net.peer, net.local, FRAGMENT, header + rest)
                    yield Packet(labelled(packet, ANY), what)


@case("fragments of whole packets, in and out of order")
def reassembled(net, world, rng):
    ident = 0x7000
    for proto in UDP, TCP, net.icmp:
        for port in ANY, BOUND, CGROUP, CLOSED:
            for size in 8, 16, 24, 32, 64:
                if proto == net.icmp:
                    whole = icmp(net.peer, net.local, quoted(net, UDP, port, size=100))
                else:
                    whole = transport(net, net.peer, net.local, proto, 2000, port, bytes(96))
                whole = whole[net.header:]
                ident += 1
                pieces = []
                for at in range(0, len(whole), size):
                    piece, more = whole[at:at + size], at + size < len(whole)
                    if net.version == 4:
                        pieces.append(ip4(net.peer, net.local, proto, piece, ident=ident,
                                          fragment=more << 13 | at // 8))
                    else:
                        header = struct.pack("!BBHI", proto, 0, at | more, ident)
                        pieces.append(ip6(net.peer, net.local, FRAGMENT, header + piece))
                order = rng.choice((list, lambda p: p[::-1], lambda p: rng.sample(p, len(p))))
                for piece in order(pieces):
                    yield Packet(piece, f"protocol {proto} in pieces of {size}")


@case("IPv4 options", versions=(4,), misses=False)
def options(net, world, rng):
    kinds = (b"\1", b"\0", b"\1\1\1\1", b"\x07\x07\x04\0\0\0\0", b"\x44\x0c\x05\0" + bytes(8),
             b"\x44\x08\x0d\1" + bytes(4), b"\x94\4\0\0", b"\x82\x0b" + bytes(9),
             b"\x83\7\4\x0a\0\0\1", b"\x89\7\4\x0a\0\0\1", b"\x86\4\0\0", b"\x99\0", b"\x99\xff",
             b"\x07\3\4", b"\x44\4\5\0")
    for proto in UDP, TCP, net.icmp:
        if proto == net.icmp:
            payload = icmp(net.peer, net.local, quoted(net, UDP, ANY))[20:]
        else:
            payload = transport(net, net.peer, net.local, proto, 2000, ANY, b"12345678")[20:]
        for option in kinds:
            for words in range((len(option) + 3) // 4, 11):
                data = option + rng.choice((b"\0", b"\1")) * (words * 4 - len(option))
                yield Packet(ip4(net.peer, net.local, proto, payload, options=data),
                             f"option {option[0]}, ihl {5 + words}")


@case("IPv6 extension headers", versions=(6,))
def extensions(net, world, rng):
    def end(proto, port=ANY):
        if proto == net.icmp:
            return icmp(net.peer, net.local, quoted(net, rng.choice((UDP, TCP)), port))[40:]
        if proto in (UDP, TCP):
            return transport(net, net.peer, net.local, proto, 2000, port, b"12345678")[40:]
        return struct.pack("!HHI", 2000, port, 0) * 4

    def packet(headers, proto, port=ANY):
        return Packet(ip6(net.peer, net.local, *chained(headers, proto, end(proto, port))),
                      " ".join(f"{k}/{u}/{f:#x}" for k, u, f in headers) + f" {proto}")

    # Each alone, in pairs and many times; 12 is the most that the kernel walks.
    kinds = HOP, ROUTING, FRAGMENT, AUTH, DEST, MOBILITY, HIP, SHIM6, NONE, ESP
    for proto in UDP, TCP, net.icmp, NONE, ESP:
        for first in kinds:
            yield packet([(first, 0, 0)], proto)
            for second in kinds:
                yield packet([(first, 1, 0), (second, 0, 0)], proto)
    for proto in UDP, TCP, net.icmp, NONE:
        for kind in ROUTING, FRAGMENT, AUTH, DEST:
            for count in 1, 2, 10, 11, 12, 13, 14, 30:
                yield packet([(kind, 0, 0)] * count, proto)
                yield packet([(kind, 0, 0)] * (count - 1) + [(AUTH, 1, 0)], proto)
                yield packet([(AUTH, 1, 0)] + [(kind, 0, 0)] * (count - 1), proto)
    # A length that leads out of the packet, or just not.
    for kind in ROUTING, AUTH, DEST, FRAGMENT:
        for proto in UDP, TCP, net.icmp:
            good = packet([(kind, 1 if kind != FRAGMENT else 0, 0)], proto).data
            for units in *range(0, 12), 255:
                yield Packet(good[:41] + bytes([units]) + good[42:],
                             f"{kind} claims {units} units before {proto}")
    # Headers cut at every length.
    for headers in ([(DEST, 0, 0), (AUTH, 2, 0), (ROUTING, 1, 0)],
                    [(HOP, 0, 0), (FRAGMENT, 0, 0), (DEST, 1, 0)],
                    [(AUTH, 0, 0), (FRAGMENT, 0, 8), (DEST, 0, 0)]):
        for proto in UDP, TCP, net.icmp:
            whole = packet(headers, proto).data
            for length in range(40, min(len(whole), 120)):
                yield Packet(sized(whole[:length]), f"{headers} {proto} cut to {length}")
    for _ in range(400):
        yield packet(random_chain(rng), rng.choice((UDP, TCP, net.icmp, ESP, NONE, 4, 132)),
                     rng.choice((ANY, BOUND, CGROUP, CLOSED)))


@case("ICMP messages of every type")
def icmp_types(net, world, rng):
    for kind in range(256):
        for proto in UDP, TCP:
            yield Packet(icmp(net.peer, net.local, quoted(net, proto, ANY), kind=kind,
                              code=rng.choice((0, 1, 3, 4))), f"type {kind}")


@case("ICMP quotes cut at every length")
def cut_quotes(net, world, rng):
    for proto in UDP, TCP:
        quotes = [quoted(net, proto, CGROUP)]
        if net.version == 4:
            quotes.append(quoted(net, proto, CGROUP, options=b"\1" * 16))
        else:
            payload = quotes[0][40:]
            quotes += [ip6(net.local, net.peer, *chained(headers, proto, payload))
                       for headers in ([(DEST, 0, 0)], [(AUTH, 1, 0), (FRAGMENT, 0, 0)],
                                       [(HOP, 0, 0), (ROUTING, 0, 0), (DEST, 1, 0)])]
        for quote in quotes:
            for length in range(len(quote) + 1):
                yield Packet(icmp(net.router, net.local, quote[:length]), f"{length} bytes quoted")
    for length in range(9):
        whole = icmp(net.router, net.local, b"")
        yield Packet(sized(whole[:net.header + length]), f"{length} bytes of ICMP")


@case("ICMP quotes with odd headers")
def odd_quotes(net, world, rng):
    for proto in UDP, TCP:
        quote = quoted(net, proto, BOUND, size=80)
        for first in range(256):
            yield Packet(icmp(net.router, net.local, bytes([first]) + quote[1:]),
                         f"first byte {first:#x}")
        for number in range(256):
            at = 9 if net.version == 4 else 6
            yield Packet(icmp(net.router, net.local, quote[:at] + bytes([number]) + quote[at + 1:]),
                         f"protocol {number}")
        if net.version == 4:
            for field in 0x2000, 1, 0x1FFF, 0x4000, 0x8000:
                yield Packet(icmp(net.router, net.local,
                                  quote[:6] + struct.pack("!H", field) + quote[8:]),
                             f"fragment field {field:#x}")
        for port in WAITING:
            yield Packet(icmp(net.router, net.local, quoted(net, proto, port)), f"port {port}")


@case("ICMPv6 quotes with extension headers", versions=(6,))
def extended_quotes(net, world, rng):
    for proto in UDP, TCP:
        payload = quoted(net, proto, ANY)[40:]
        for kind in HOP, ROUTING, FRAGMENT, AUTH, DEST, MOBILITY, NONE, ESP:
            for count in 1, 2, 11, 12, 13:
                quote = ip6(net.local, net.peer, *chained([(kind, 0, 0)] * count, proto, payload))
                yield Packet(icmp(net.router, net.local, quote), f"{count} of {kind}")
            for units in range(0, 8):
                quote = ip6(net.local, net.peer, *chained([(kind, 0, 0)], proto, payload))
                quote = quote[:41] + bytes([units]) + quote[42:]
                yield Packet(icmp(net.router, net.local, quote), f"{kind} claims {units} units")
        for _ in range(300):
            quote = ip6(net.local, net.peer, *chained(random_chain(rng), proto, payload))
            yield Packet(icmp(net.router, net.local, quote), "random headers")


@case("TCP data offsets, seen by a program", misses=False)
def data_offsets(net, world, rng):
    for doff in range(16):
        for length in 0, 1, 3, 4, 8, 20, 44, 60:
            for flags in SYN, ACK:
                payload = bytes((i * 7 + doff) & 0xFF for i in range(length))
                segment = tcp_segment(net.stranger, net.local, 2000 + length, PROGRAM, payload,
                                      flags, doff)
                # The program pulls the packet, so each of the two has to be first once.
                linear = rng.choice((None, net.header + 1, net.header + 20, net.header + 33))
                for _ in "cr":
                    yield Packet(ip(net.stranger, net.local, TCP, segment),
                                 f"doff {doff}, {length} bytes", linear, 8)


@case("every protocol")
def protocols(net, world, rng):
    for number in range(256):
        payload = struct.pack("!HHI", 2000, ANY, 8) * 5
        yield Packet(ip(net.peer, net.local, number, payload), f"protocol {number}")


@case("headers in page fragments, at every split", misses=False, phases=EVERY_PHASE)
def split(net, world, rng):
    packets = []
    for proto, port in (UDP, ANY), (TCP, BOUND), (TCP, SERVER), (UDP, PROXIED):
        dst = net.proxied if port == PROXIED else net.local
        sport = 4000 if port == SERVER else 2000
        packets.append(transport(net, net.peer, dst, proto, sport, port, bytes(range(64, 96))))
    packets.append(icmp(net.router, net.local, quoted(net, UDP, CGROUP)))
    packets.append(icmp(net.router, net.local, quoted(net, TCP, CGROUP, size=20)))
    if net.version == 4:
        payload = packets[1][20:]
        packets.append(ip4(net.peer, net.local, TCP, payload, options=b"\1" * 12))
    else:
        payload = packets[1][40:]
        for headers in ([(DEST, 0, 0), (AUTH, 1, 0)], [(FRAGMENT, 0, 0), (ROUTING, 0, 0)],
                        [(AUTH, 1, 0), (FRAGMENT, 0, 8)]):
            packets.append(ip6(net.peer, net.local, *chained(headers, TCP, payload)))
        quote = ip6(net.local, net.peer, *chained([(DEST, 0, 0), (AUTH, 1, 0)], UDP,
                                                  quoted(net, UDP, CGROUP)[40:]))
        packets.append(icmp(net.router, net.local, quote))
    for packet in packets:
        for linear, piece in layouts(min(len(packet), net.header + 72), net.header - 2):
            yield Packet(packet, f"{linear} bytes linear, then {piece or 'all'}", linear, piece)


@case("cut and in page fragments", reach=("prerouting", "input"))
def cut_and_split(net, world, rng):
    for proto in UDP, TCP:
        whole = transport(net, net.peer, net.local, proto, 2000, ANY, bytes(8))
        for length in range(net.header, len(whole)):
            for linear, piece in layouts(length - 1, net.header):
                yield Packet(sized(whole[:length]), f"cut to {length}", linear, piece)


@case("connections in every state", prepare="renew_time_wait", phases=EVERY_PHASE)
def states(net, world, rng):
    for c in world.connections[net.version]:
        for flags in SYN, ACK, FIN | ACK, RST, SYN | ACK, 0:
            for size in 0, 100:
                for sport in c.peer_port, c.peer_port + 1:
                    yield Packet(transport(net, c.peer, c.local, TCP, sport, c.port, bytes(size),
                                           flags), f"port {c.port} from {sport}",
                                 proves=(c.kind, TCP, c.port) if sport == c.peer_port else None)
        packet = transport(net, c.peer, c.local, TCP, c.peer_port, c.port, bytes(8))
        for length in range(net.header, net.header + 24):
            yield Packet(sized(packet[:length]), f"port {c.port} cut to {length}")
            yield Packet(packet, f"port {c.port} split at {length}", length, 3)
        quote = ip(c.local, c.peer, TCP, tcp_header(c.local, c.peer, c.port, c.peer_port,
                                                    seq=1 << 31))
        for kind in range(6):
            yield Packet(icmp(net.router, net.local, quote, kind=kind), f"error for {c.port}")
        for length in range(net.header, len(quote)):
            yield Packet(icmp(net.router, net.local, quote[:length]), f"error for {c.port}, cut")


@case("addresses of every kind")
def odd_addresses(net, world, rng):
    if net.version == 4:
        others = ("10.0.0.255", "255.255.255.255", "224.0.0.1", "239.1.2.3", "0.0.0.0",
                  "127.0.0.1", "10.0.0.1", "10.0.0.77", "169.254.1.1", "240.0.0.1")
    else:
        others = ("::", "::1", "ff02::1", "ff01::1", "ff05::2", "fe80::1", "::ffff:10.0.0.1",
                  "::10.0.0.1", "fd00::1", "fd00::77", "2002:a00:1::1")
    for other in others:
        for proto in UDP, TCP:
            for port in ANY, BOUND, PROXIED, ANY + 8, CLOSED:
                yield Packet(transport(net, net.peer, other, proto, 2000, port, b"x" * 8),
                             f"to {other} port {port}")
                yield Packet(transport(net, other, net.local, proto, 2000, port, b"x" * 8),
                             f"from {other} to port {port}")
            yield Packet(icmp(net.router, net.local,
                              transport(net, other, net.peer, proto, ANY, 2000, bytes(8))),
                         f"error for {other}")


@case("mutated", mutates=True)
def mutated(net, world, rng, pool):
    """Packets of the other classes with a few bytes or their length changed."""
    for _ in range(600):
        yield mutate(net, rng, rng.choice(pool))


INTERESTING = 0, 1, 5, 6, 17, 43, 44, 50, 51, 58, 59, 60, 0x45, 0x4F, 0x60, 0x7F, 0x80, 0xFF


def mutate(net, rng, packet):
    data = bytearray(packet)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        how = rng.randrange(8)
        at = rng.randrange(min(len(data), 140)) if data else 0
        if how == 0:
            del data[rng.randrange(net.header, len(data) + 1) if len(data) > net.header else at:]
        elif how == 1:
            data += rng.randbytes(rng.choice((1, 4, 8, 40, 200)))
        elif how == 2:
            size = rng.choice((1, 2, 4, 8))
            del data[max(at, net.header):max(at, net.header) + size]
        elif how == 3:
            at = max(at, net.header)
            data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8)))
        elif how == 4 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif data:
            data[at] = rng.choice(INTERESTING) if how < 7 else rng.randrange(256)
    if len(data) < net.header:
        data += bytes(net.header - len(data))
    if rng.random() < 0.97:
        low = data[0] & 15
        if net.version == 4 and (low < 5 or low * 4 > len(data)):
            low = 5
        data[0] = net.version << 4 | low
    length = None if rng.random() < 0.9 else rng.randrange(net.header, len(data) + 1)
    data = bytes(data)
    if net.version == 6 or (data[0] & 15) >= 5:
        data = sized(data, length)
    if rng.random() < 0.5:
        return Packet(data, "mutated")
    return Packet(data, "mutated", rng.randrange(len(data)), rng.choice((None, 1, 2, 3, 8)))


# Conntrack and NAT

def translated(net):
    """(protocol, the host's port, the peer's port, that port as the peer knows it)."""
    yield UDP, NATED, 53, NATED + NAT_OFFSET
    yield UDP, KEEPS_PORT, 53, KEEPS_PORT
    yield TCP, NATED, 80, NATED + NAT_OFFSET
    yield TCP, KEEPS_PORT, 83, KEEPS_PORT
    yield TCP, NATED_SYN_SENT, 81, NATED_SYN_SENT + NAT_OFFSET
    yield TCP, NATED_TIME_WAIT, 82, NATED_TIME_WAIT + NAT_OFFSET


@case("replies to a translated source", phases=("conntrack",),
      prepare="nated_time_wait")
def nat_replies(net, world, rng):
    for proto, port, far, near in translated(net):
        for i in range(12):
            payload = bytes(rng.randrange(40))
            packet = transport(net, net.server, net.nat, proto, far, near, payload,
                               rng.choice((ACK, ACK, SYN | ACK, FIN | ACK)))
            yield Packet(packet, f"protocol {proto} to {near}",
                         proves=(NAT_REPLY, proto, port))
            for length in range(net.header, net.header + 22, 1 + i % 3):
                yield Packet(packet, f"protocol {proto} to {near}, {length} linear", length, 2)
        # Not of the connection: another peer, another port, the address from before.
        for src, dst, sport, dport in ((net.peer, net.nat, far, near),
                                       (net.server, net.nat, far + 1, near),
                                       (net.server, net.nat, far, near + 10),
                                       (net.server, net.local, far, port)):
            yield Packet(transport(net, src, dst, proto, sport, dport, bytes(8)),
                         f"protocol {proto}, no reply")
        whole = transport(net, net.server, net.nat, proto, far, near, bytes(8))
        for length in range(net.header, len(whole)):
            yield Packet(sized(whole[:length]), f"protocol {proto}, cut to {length}")


@case("replies in fragments", phases=("conntrack",))
def nat_fragments(net, world, rng):
    for number, (proto, port, far, near) in enumerate(translated(net)):
        whole = transport(net, net.server, net.nat, proto, far, near, bytes(64))[net.header:]
        for size in 24, 32, 48:
            ident = 0x6000 + number * 8 + size // 8
            for at in range(0, len(whole), size):
                more = at + size < len(whole)
                if net.version == 4:
                    packet = ip4(net.server, net.nat, proto, whole[at:at + size], ident=ident,
                                 fragment=more << 13 | at // 8)
                else:
                    packet = ip6(net.server, net.nat, FRAGMENT, struct.pack(
                        "!BBHI", proto, 0, at | more, ident) + whole[at:at + size])
                yield Packet(packet, f"protocol {proto} in pieces of {size}",
                             proves=(NAT_REPLY, proto, port))


# What Rust says of an ICMPv6 error is compared with what C says of the same ICMP error.
@case("ICMP errors about a translated source", phases=("conntrack",),
      prepare="nated_time_wait", pairs=True)
def nat_errors(net, world, rng):
    kinds = ((3, 3), (3, 1), (3, 4), (11, 0), (12, 0)) if net.version == 4 else \
        ((1, 4), (1, 0), (2, 0), (3, 0), (4, 0))
    for proto, port, far, near in translated(net):
        quote = ip(net.nat, net.server, proto,
                   tcp_header(net.nat, net.server, near, far, seq=1 << 31) if proto == TCP else
                   udp_header(net.nat, net.server, near, far, bytes(12)))
        for src in net.router, net.server:
            for kind, code in kinds:
                yield Packet(icmp(src, net.nat, quote, kind=kind, code=code),
                             f"protocol {proto} from {near}, type {kind}",
                             proves=(NAT_ERROR, proto, port))
        for after in range(0, 21):
            yield Packet(icmp(net.router, net.nat, quote[:net.header + after]),
                         f"protocol {proto} from {near}, {after} bytes quoted")
        for linear in range(0, 41, 2):
            for _ in "cr":
                yield Packet(icmp(net.router, net.nat, quote),
                             f"protocol {proto} from {near}, split",
                             net.header + linear + (net.header if linear > 8 else 0), 3)
        other = ip(net.nat, net.server, proto,
                   tcp_header(net.nat, net.server, near + 10, far) if proto == TCP else
                   udp_header(net.nat, net.server, near + 10, far, bytes(12)))
        yield Packet(icmp(net.router, net.nat, other), f"protocol {proto}, no connection")


@case("forwarded connections with a translated source", phases=("conntrack",),
      reach=("prerouting",), pairs=True)
def forwarded(net, world, rng):
    near = FORWARDED + NAT_OFFSET
    for proto, far in (UDP, 53), (TCP, 80):
        for _ in range(4):
            yield Packet(transport(net, net.client, net.server, proto, FORWARDED, far, bytes(8),
                                   SYN), "out")
            yield Packet(transport(net, net.server, net.nat, proto, far, near, bytes(8),
                                   SYN | ACK), "reply", proves=(NAT_REPLY, proto, FORWARDED))
        quote = transport(net, net.nat, net.server, proto, near, far, bytes(12))
        yield Packet(icmp(net.router, net.nat, quote), "error about what went out")
        quote = transport(net, net.server, net.client, proto, far, FORWARDED, bytes(12))
        yield Packet(icmp(net.client, net.server, quote), "error about a reply")


@case("translated destination", phases=("conntrack",))
def nat_destination(net, world, rng):
    for proto in UDP, TCP:
        for sport in range(2100, 2110):
            packet = transport(net, net.peer, net.local, proto, sport, 3000, bytes(8), SYN)
            yield Packet(packet, f"protocol {proto}")
            yield Packet(icmp(net.peer, net.local,
                              transport(net, net.local, net.peer, proto, 3000, sport, bytes(8))),
                         f"error about the reply, protocol {proto}")


@case("given a socket by tproxy", phases=("conntrack",))
def tproxy(net, world, rng):
    for proto in UDP, TCP:
        for src in net.peer, net.stranger:
            for sport in range(2200, 2210):
                packet = transport(net, src, net.local, proto, sport, TPROXY, bytes(24), SYN)
                yield Packet(packet, f"protocol {proto}")
                yield Packet(packet, f"protocol {proto}, split", rng.randrange(70), 2)
            for length in range(net.header, net.header + 24):
                yield Packet(sized(packet[:length]), f"protocol {proto} cut to {length}")


# Devices

@case("through a VRF", wire="vrf", phases=("early demux",))
def vrf(net, world, rng):
    for proto in UDP, TCP:
        for port in VRF, VRF + 1, VRF + 2, VRF + 3, ANY, CLOSED:
            for src in net.peer, net.stranger:
                packet = transport(net, src, net.local, proto, 2000, port, bytes(20))
                for linear in None, None, net.header + 3, net.header + 6:
                    yield Packet(packet, f"protocol {proto} to port {port}", linear, 4)
            yield Packet(icmp(net.router, net.local, quoted(net, proto, port)),
                         f"error for port {port}")


@case("as far behind as the kernel walks", versions=(6,))
def far_away(net, world, rng):
    for proto in UDP, TCP, net.icmp:
        if proto == net.icmp:
            end = icmp(net.peer, net.local, quoted(net, UDP, ANY, size=8))[40:]
        else:
            end = transport(net, net.peer, net.local, proto, 2000, ANY)[40:]
        for count in 1, 2, 11, 12, 13:
            for kind in DEST, ROUTING, AUTH:
                packet = ip6(net.peer, net.local, *chained([(kind, 255, 0)] * count, proto, end))
                for linear, piece in (None, None), (40, 4096), (41, 4095), (len(packet) - 5, 3):
                    yield Packet(packet, f"{count} of {kind}", linear, piece)
