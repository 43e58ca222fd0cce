#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ICMP and ICMPv6: which types count as errors, and what is found for the packet they quote,
# however little of it there is.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 156
setup_pair
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <<-EOF
	table inet observe {
		set all4 { typeof ip saddr; size 512; flags dynamic; }
		set all6 { typeof ip6 saddr; size 512; flags dynamic; }
		set found4 { typeof ip saddr . socket mark; size 512; flags dynamic; }
		set found6 { typeof ip6 saddr . socket mark; size 512; flags dynamic; }
		chain prerouting {
			type filter hook prerouting priority 0
			update @all4 { ip saddr }
			update @all6 { ip6 saddr }
			update @found4 { ip saddr . socket mark }
			update @found6 { ip6 saddr . socket mark }
		}
	}
EOF

traffic "$client" "$server" <<-'EOF'
	import sys
	from net import *

	client, server = sys.argv[1:]
	wire = Wire(client)
	enter(server)
	kept = []
	for any, mine, peer in ("0.0.0.0", "10.0.1.2", "10.0.1.9"), ("::", "dead:1::2", "dead:1::9"):
	    six = dict(v6only=1) if ":" in any else {}
	    kept += [udp(any, 7001, mark=0x11, **six),
	             udp(mine, 7002, mark=0x12, **six),
	             udp(mine, 7003, mark=0x13, peer=(peer, 9000), **six),
	             udp(any, 0x4000, mark=0x14, **six),
	             listener(any, 7001, mark=0x21, **six)]
	UDP, TCP = 17, 6
	cases = []

	def case(description, make, expected):
	    """make(router, mine, peer): an error that a router sends about a packet from us to a peer.
	    Each comes from a router of its own."""
	    for net, mine, peer in ("10.0.", "10.0.1.2", "10.0.1.9"), \
	            ("dead:2::", "dead:1::2", "dead:1::9"):
	        router = f"{net}{len(cases):x}"
	        if ":" not in net:
	            router = f"10.0.{8 + len(cases) // 200}.{1 + len(cases) % 200}"
	        packet = make(router, mine, peer)
	        if packet is not None:
	            wire.send(packet)
	            cases.append((router, description, expected))

	def four(make):
	    return lambda router, mine, peer: None if ":" in mine else make(router, mine, peer)

	def six(make):
	    return lambda router, mine, peer: make(router, mine, peer) if ":" in mine else None

	def quote(mine, peer, sport=7001, dport=9000, payload=bytes(8), **fields):
	    return udp_packet(mine, peer, sport, dport, payload, **fields)

	def quote_tcp(mine, peer, sport=7001, dport=9000):
	    return tcp_packet(mine, peer, sport, dport, flags=ACK)

	# Types
	for kind in list(range(0, 20)) + [30, 42, 43, 127, 128, 255]:
	    found = 0x11 if kind in (3, 4, 5, 11, 12) else None
	    case(f"type {kind}", four(lambda router, mine, peer: icmp(
	        router, mine, quote(mine, peer), kind=kind, code=1)), found)
	for kind in 0, 1, 2, 3, 4, 5, 100, 127, 128, 129, 133, 134, 135, 136, 137, 143, 200, 255:
	    found = 0x11 if kind < 128 else None
	    case(f"type {kind}", six(lambda router, mine, peer: icmp(
	        router, mine, quote(mine, peer), kind=kind, code=0)), found)
	for code in 0, 1, 4, 15, 255:
	    case(f"unreachable, code {code}", lambda router, mine, peer: icmp(
	        router, mine, quote(mine, peer), code=code), 0x11)

	# What is quoted
	case("UDP", lambda r, m, p: icmp(r, m, quote(m, p)), 0x11)
	case("TCP", lambda r, m, p: icmp(r, m, quote_tcp(m, p)), 0x21)
	case("UDP from a port without socket", lambda r, m, p: icmp(r, m, quote(m, p, 7009)), None)
	case("UDP from the bound address", lambda r, m, p: icmp(r, m, quote(m, p, 7002)), 0x12)
	case("UDP from another address than the bound one",
	     lambda r, m, p: icmp(r, m, quote(p, r, 7002)), None)
	case("UDP from another address, socket bound to none",
	     lambda r, m, p: icmp(r, m, quote(p, r, 7001)), 0x11)
	case("UDP to the connected peer", lambda r, m, p: icmp(r, m, quote(m, p, 7003)), 0x13)
	case("UDP to another port of the peer",
	     lambda r, m, p: icmp(r, m, quote(m, p, 7003, 9001)), None)
	case("UDP to us: ports the other way round",
	     lambda r, m, p: icmp(r, m, quote(p, m, 9000, 7001)), None)
	for proto, name in (1, "ICMP"), (58, "ICMPv6"), (33, "DCCP"), (47, "GRE"), (132, "SCTP"), \
	        (136, "UDP-Lite"):
	    case(name, lambda r, m, p: icmp(r, m, ip(m, p, proto, udp_header(
	        m, p, 7001, 9000, bytes(16)))), None)
	case("an ICMP error", lambda r, m, p: icmp(r, m, icmp(m, p, quote(p, m))), None)

	# How much of it is quoted: of the transport header, the ports are enough.
	for name, make, found in ("UDP", quote, 0x11), ("TCP", quote_tcp, 0x21):
	    for length in 0, 1, 2, 3, 4, 5, 7, 8:
	        case(f"{name}, {length} bytes after the IP header", lambda r, m, p: icmp(
	            r, m, make(m, p)[:(40 if ":" in m else 20) + length]),
	            found if length >= 4 else None)
	for length in 0, 1, 8, 19:
	    case(f"{length} bytes of the IP header", lambda r, m, p: icmp(r, m, quote(m, p)[:length]),
	         None)
	case("39 bytes of the IPv6 header", six(lambda r, m, p: icmp(r, m, quote(m, p)[:39])), None)
	for length in 0, 4, 7:
	    case(f"{length} bytes of the ICMP header", lambda r, m, p: ip(
	        r, m, 58 if ":" in m else 1, bytes([1 if ":" in m else 3] + [0] * 7)[:length]), None)

	# IPv4 headers in the quote are believed.
	options = b"\1" * 40
	case("quote with 40 bytes of options",
	     four(lambda r, m, p: icmp(r, m, quote(m, p, options=options))), 0x11)
	case("quote with 40 bytes of options, and three more",
	     four(lambda r, m, p: icmp(r, m, quote(m, p, options=options)[:63])), None)
	case("quote that is a later fragment",
	     four(lambda r, m, p: icmp(r, m, quote(m, p, fragment=8))), 0x11)
	case("quote with version 0", four(lambda r, m, p: icmp(
	    r, m, bytes([0x05]) + quote(m, p)[1:])), 0x11)
	case("quote with a wrong total length", four(lambda r, m, p: icmp(
	    r, m, quote(m, p, length=65535))), 0x11)
	# 27.89.0.0 is port 7001 where a header of 16 bytes ends; and one of none starts with 0x4000.
	case("quote with a header length of 16", four(lambda r, m, p: icmp(
	    r, m, bytes([0x44]) + quote(m, "27.89.0.0")[1:])), 0x11)
	case("quote with a header length of 0", four(lambda r, m, p: icmp(
	    r, m, bytes([0x40]) + quote(m, p)[1:])), 0x14)

	# IPv6 extension headers in the quote
	def chain(*headers, last=UDP, payload=None):
	    def make(r, m, p):
	        data = udp_header(m, p, 7001, 9000, bytes(8)) if payload is None else payload
	        nexthdr = last
	        for number, header in reversed(headers):
	            data, nexthdr = bytes([nexthdr]) + header[1:] + data, number
	        return icmp(r, m, ip6(m, p, nexthdr, data))
	    return six(make)

	hop, dest = (0, bytes([0, 0, 1, 4, 0, 0, 0, 0])), (60, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
	routing, auth = (43, bytes(8)), (51, bytes([0, 4]) + bytes(22))
	def frag(offset, more=0):
	    return 44, struct.pack("!BBHI", 0, 0, offset | more, 1)
	case("quote with options", chain(dest), 0x11)
	case("quote with hop-by-hop and routing header", chain(hop, routing), 0x11)
	case("quote with authentication header", chain(auth), 0x11)
	case("quote that is a first fragment", chain(frag(0, 1)), 0x11)
	case("quote that is a later fragment", chain(frag(8)), None)
	case("quote with five headers", chain(hop, dest, routing, frag(0), auth), 0x11)
	case("quote with no next header", chain(dest, last=59), None)
	case("quote that ends in options", chain(dest, payload=b""), None)
	case("quote that ends after two bytes of ports", chain(dest, payload=b"\x1b\x59"), None)
	case("quote that ends after the ports", chain(dest, payload=b"\x1b\x59\0\1"), 0x11)
	case("quote with options longer than itself", chain((60, bytes([0, 20]) + bytes(6))), None)

	# What comes before the error
	case("error after 40 bytes of options", four(lambda r, m, p: ip4(
	    r, m, 1, icmp(r, m, quote(m, p))[20:], options=options)), 0x11)
	case("error after destination options", six(lambda r, m, p: ip6(
	    r, m, 60, bytes([58]) + dest[1][1:] + icmp(r, m, quote(m, p))[40:])), 0x11)
	case("error with a bad checksum", lambda r, m, p: (
	    lambda packet, at: packet[:at] + b"\1\2" + packet[at + 2:])(
	        icmp(r, m, quote(m, p)), 42 if ":" in m else 22), 0x11)
	settle()

	def elements(name):
	    for s in json.loads(nft("-j", "list", "set", "inet", "observe", name))["nftables"]:
	        yield from s.get("set", {}).get("elem", ())

	seen, found = set(), {}
	for version in 4, 6:
	    seen.update(elements(f"all{version}"))
	    for element in elements(f"found{version}"):
	        src, mark = element["concat"]
	        found[src] = mark
	for router, description, expected in cases:
	    got = found.get(router, "break") if router in seen else "none seen"
	    print(f"{got}|{expected or 'break'}|IPv{6 if ':' in router else 4}: {description}")
EOF

while IFS='|' read -r result expected description; do
	check "$description" [ "$result" = "$expected" ]
done <"$tmp/traffic"
served 2
finish
