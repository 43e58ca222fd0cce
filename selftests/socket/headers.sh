#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Headers: how much of a transport header must be there, IPv4 options, IPv6 extension headers,
# and packets whose headers are in pages and not in the linear part.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 293
setup_pair
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <<-EOF
	table inet observe {
		set prerouting4 { typeof ip saddr . socket mark; size 256; flags dynamic; }
		set prerouting6 { typeof ip6 saddr . socket mark; size 256; flags dynamic; }
		set input4 { typeof ip saddr . socket mark; size 256; flags dynamic; }
		set input6 { typeof ip6 saddr . socket mark; size 256; flags dynamic; }
		set all_prerouting4 { typeof ip saddr; size 256; flags dynamic; }
		set all_prerouting6 { typeof ip6 saddr; size 256; flags dynamic; }
		set all_input4 { typeof ip saddr; size 256; flags dynamic; }
		set all_input6 { typeof ip6 saddr; size 256; flags dynamic; }
		chain prerouting {
			type filter hook prerouting priority 0
			update @all_prerouting4 { ip saddr }
			update @all_prerouting6 { ip6 saddr }
			update @prerouting4 { ip saddr . socket mark }
			update @prerouting6 { ip6 saddr . socket mark }
		}
		chain input {
			type filter hook input priority 0
			update @all_input4 { ip saddr }
			update @all_input6 { ip6 saddr }
			update @input4 { ip saddr . socket mark }
			update @input6 { ip6 saddr . socket mark }
		}
	}
EOF

traffic "$client" "$server" <<-'EOF'
	import sys
	from net import *

	client, server = sys.argv[1:]
	wire = Wire(client)
	enter(server)
	kept = [udp("0.0.0.0", 7001, mark=0x11), udp("::", 7001, mark=0x11, v6only=1),
	        listener("0.0.0.0", 7002, mark=0x21), listener("::", 7002, mark=0x21, v6only=1)]
	UDP, TCP = 0x11, 0x21
	UDP_PROTO, TCP_PROTO = 17, 6
	cases = []

	def case(description, make, expected, linear=None):
	    """One packet; it comes from an address of its own, which says later which one it was.
	    make(src, dst) gives the packet."""
	    for net, mine in ("10.0.1.", "10.0.1.2"), ("dead:1::", "dead:1::2"):
	        src = net + str(100 + len(cases))
	        packet = make(src, mine)
	        if packet is None:
	            continue
	        if linear is None:
	            wire.send(packet)
	        else:
	            wire.send_paged(packet, linear + (20 if ":" in src else 0))
	        cases.append((src, description, expected))

	def four(make):
	    return lambda src, dst: None if ":" in src else make(src, dst)

	def six(make):
	    return lambda src, dst: make(src, dst) if ":" in src else None

	def cut(header, proto, length, **fields):
	    """A transport header of that many bytes."""
	    return lambda src, dst: ip(src, dst, proto, header(src, dst)[:length], **fields)

	def uh(src, dst, payload=b"", **fields):
	    return udp_header(src, dst, 9000, 7001, payload, **fields)

	def th(src, dst, payload=b"", **fields):
	    return tcp_header(src, dst, 9000, 7002, payload=payload, **fields)

	# How much of the header must be there
	for length, found in (0, None), (4, None), (7, None), (8, UDP):
	    case(f"UDP, {length} bytes", cut(uh, UDP_PROTO, length), found)
	for length, found in (0, None), (8, None), (19, None), (20, TCP):
	    case(f"TCP, {length} bytes", cut(th, TCP_PROTO, length), found)
	case("UDP, length field 0", cut(lambda *a: uh(*a)[:4] + bytes(4), UDP_PROTO, 8), UDP)
	case("UDP, length field too large",
	     lambda src, dst: ip(src, dst, UDP_PROTO, uh(src, dst, length=1000)), UDP)
	case("UDP, bad checksum",
	     lambda src, dst: ip(src, dst, UDP_PROTO, uh(src, dst)[:6] + b"\1\2"), UDP)
	for doff in 0, 4, 6, 15:
	    case(f"TCP, data offset {doff} in 20 bytes",
	         lambda src, dst: ip(src, dst, TCP_PROTO, th(src, dst, doff=doff)), TCP)
	case("TCP, no flags", lambda src, dst: ip(src, dst, TCP_PROTO, th(src, dst, flags=0)), TCP)

	# Bytes after the end that the IP header gives are not part of the packet.
	padding = bytes(64)
	case("UDP, 7 bytes and padding", lambda *a: cut(uh, UDP_PROTO, 7)(*a) + padding, None)
	case("UDP, 8 bytes and padding", lambda *a: cut(uh, UDP_PROTO, 8)(*a) + padding, UDP)
	case("TCP, 19 bytes and padding", lambda *a: cut(th, TCP_PROTO, 19)(*a) + padding, None)

	# Ports alone do not make it UDP or TCP.
	for proto, name in (33, "DCCP"), (47, "GRE"), (50, "ESP"), (132, "SCTP"), (136, "UDP-Lite"):
	    case(name, cut(lambda *a: uh(*a, bytes(40)), proto, 48), None)

	# IPv4 options
	for words in 1, 10:
	    options = b"\1" * (4 * words)
	    what = f"{4 * words} bytes of options"
	    case(f"UDP after {what}", four(cut(uh, UDP_PROTO, 8, options=options)), UDP)
	    case(f"UDP of 7 bytes after {what}", four(cut(uh, UDP_PROTO, 7, options=options)), None)
	    case(f"TCP after {what}", four(cut(th, TCP_PROTO, 20, options=options)), TCP)
	    case(f"TCP of 19 bytes after {what}",
	         four(cut(th, TCP_PROTO, 19, options=options)), None)

	# IPv6 extension headers: (its number, next header -> bytes)
	def options(words=0):
	    pad = 6 + 8 * words
	    body = b""
	    while pad:
	        n = min(pad, 257)
	        n -= n == pad - 1      # what is left over must not be a single byte
	        body += struct.pack("!BB", 1, n - 2) + bytes(n - 2)
	        pad -= n
	    return lambda nexthdr: struct.pack("!BB", nexthdr, words) + body

	HOP, DEST, ROUTING, FRAGMENT, AUTH, NONE = 0, 60, 43, 44, 51, 59
	hop, dest, long = (HOP, options()), (DEST, options()), (DEST, options(255))
	routing = ROUTING, lambda nexthdr: struct.pack("!BBBBI", nexthdr, 0, 4, 0, 0)
	fragment = FRAGMENT, lambda nexthdr: struct.pack("!BBHI", nexthdr, 0, 0, 1)
	auth = AUTH, lambda nexthdr: struct.pack("!BBHII", nexthdr, 4, 0, 1, 1) + bytes(12)

	def chain(headers, last, payload):
	    """The extension headers in that order, then what comes last."""
	    def make(src, dst):
	        data, nexthdr = payload(src, dst), last
	        for number, header in reversed(headers):
	            data, nexthdr = header(nexthdr) + data, number
	        return ip6(src, dst, nexthdr, data)
	    return six(make)

	for name, headers in (
	    ("hop-by-hop", [hop]), ("destination options", [dest]), ("routing header", [routing]),
	    ("a whole fragment", [fragment]), ("authentication header", [auth]),
	    ("2,048 bytes of options", [long]), ("two headers of options", [dest, dest]),
	    ("six headers", [hop, dest, routing, fragment, auth, dest]),
	):
	    case(f"UDP after {name}", chain(headers, UDP_PROTO, uh), UDP)
	    case(f"UDP of 7 bytes after {name}", chain(headers, UDP_PROTO,
	                                               lambda *a: uh(*a)[:7]), None)
	    case(f"TCP after {name}", chain(headers, TCP_PROTO, th), TCP)
	    case(f"TCP of 19 bytes after {name}", chain(headers, TCP_PROTO,
	                                                lambda *a: th(*a)[:19]), None)
	case("UDP after no next header", chain([(NONE, lambda nexthdr: b"")], NONE, uh), None)
	case("UDP after options and no next header", chain([dest], NONE, uh), None)
	case("options that end after the packet", chain([(DEST, lambda n: bytes([n, 9]))], UDP_PROTO,
	                                               lambda *a: uh(*a)), None)
	case("options, one byte of them", chain([], DEST, lambda *a: bytes([UDP_PROTO])), None)
	case("fragment header, seven bytes of it", chain([], FRAGMENT,
	                                                 lambda *a: bytes([UDP_PROTO] + [0] * 6)),
	     None)
	case("mobility header", chain([(135, options())], UDP_PROTO, uh), None)
	case("hop-by-hop header in second place", chain([dest, hop], UDP_PROTO, uh), UDP)

	# Headers in pages. The lengths are from the start of the IPv4 header; IPv6's is 20 longer.
	# Of the IPv4 header itself the kernel takes care before.
	big = bytes(5000)
	def paged(header, proto):
	    return lambda src, dst: ip(src, dst, proto, header(src, dst, big))
	for linear in 0, 20, 24, 27, 28, 29, 100:
	    case(f"UDP, {linear} bytes linear", paged(uh, UDP_PROTO), UDP, linear)
	for linear in 0, 20, 28, 39, 40, 41, 100:
	    case(f"TCP, {linear} bytes linear", paged(th, TCP_PROTO), TCP, linear)
	error = lambda src, dst: icmp(src, dst, udp_packet(dst, src, 7001, 9000, big), kind=3)
	for linear in 20, 27, 28, 40, 48, 50, 52, 60, 80:
	    case(f"ICMP error, {linear} bytes linear", error, UDP, linear)
	case("UDP after 40 bytes of options, 20 bytes linear",
	     four(lambda src, dst: ip4(src, dst, UDP_PROTO, uh(src, dst, big), options=b"\1" * 40)),
	     UDP, 20)
	for linear in 20, 24, 30, 60:
	    case(f"UDP after six headers, {20 + linear} bytes linear",
	         chain([dest, routing, fragment, auth, dest], UDP_PROTO, lambda *a: uh(*a, big)),
	         UDP, linear)
	settle()

	def elements(name):
	    for s in json.loads(nft("-j", "list", "set", "inet", "observe", name))["nftables"]:
	        yield from s.get("set", {}).get("elem", ())

	for hook in "prerouting", "input":
	    seen, found = set(), {}
	    for version in 4, 6:
	        seen.update(elements(f"all_{hook}{version}"))
	        for element in elements(f"{hook}{version}"):
	            src, mark = element["concat"]
	            found[src] = mark
	    for src, description, expected in cases:
	        if hook == "input" and src not in seen:
	            continue      # dropped before
	        got = found.get(src, "break") if src in seen else "none seen"
	        print(f"{got}|{expected or 'break'}|"
	              f"{hook}, IPv{6 if ':' in src else 4}: {description}")
EOF

while IFS='|' read -r result expected description; do
	check "$description" [ "$result" = "$expected" ]
done <"$tmp/traffic"
served 4
finish
