#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ICMP errors about translated connections, in both directions: they and what they quote are
# translated, to the byte; those that the router makes itself; and echo requests whose numbers
# clash. Packets are made by hand and read where they come out, unless a socket says otherwise.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 108
setup_router
for version in 4 6; do
	family=ip two=10.0.2. at="10.0.2.50"
	[ $version = 4 ] || family=ip6 two=dead:2:: at="[dead:2::50]"
	cat <<-EOF
		table $family nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				meta l4proto { tcp, udp } th dport 7012 redirect to :7102
				iif eth0 $family daddr ${two}66 dnat to ${two}9
			}
			chain output {
				type nat hook output priority -100
				$family daddr ${two}66 dnat to ${two}1
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				meta l4proto { icmp, ipv6-icmp } oif eth1 snat to ${two}50
				meta l4proto { tcp, udp } th dport 7001 snat to ${two}50
				meta l4proto { tcp, udp } th dport 7003 snat to $at:5003
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <"$tmp/rules"
ip -n "$router" link set eth1 mtu 1400

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *

	client, router, server = sys.argv[1:]
	near = Wire(client, dst=bytes.fromhex("020000000102"))
	far = Wire(server, dst=bytes.fromhex("020000000202"), src=SERVER_MAC)
	UDP, TCP = udp_packet, tcp_packet
	sport = 6000

	def known(packet):
	    """Not what a stack says of itself now and then"""
	    return " protocol " not in describe(packet)

	for version in 4, 6:
	    a, b = addr(version, 1, 9), addr(version, 2, 9)
	    virtual, snat = addr(version, 2, 66), addr(version, 2, 50)
	    between, between1 = addr(version, 2, 8), addr(version, 1, 8)
	    protocol = socket.IPPROTO_ICMP if version == 4 else socket.IPPROTO_ICMPV6
	    unreachable = "3/3" if version == 4 else "1/4"

	    def through(source, sink, packet):
	        """Send a packet on one side; what comes out on the other, or None."""
	        source.send(packet)
	        return sink.receive(known, 2)

	    def out(name, packet, expected, source=far, sink=near, timeout=2):
	        source.send(packet)
	        got = sink.receive(known, timeout)
	        print(f"{describe(got) if got else 'nothing'}|{expected}|IPv{version}, {name}")

	    # Errors of the reply direction: about what the client has sent
	    for what, make in ("udp", UDP), ("tcp", TCP):
	        for name, to, dport, src, seen, number in \
	                ("snat", b, 7001, snat, b, None), ("snat with a port", b, 7003, snat, b, 5003), \
	                ("dnat", virtual, 7005, a, b, None), ("dnat and snat", virtual, 7001, snat, b, None):
	            sport += 1
	            sent = through(near, far, make(a, to, sport, dport))
	            expected = f"{src} {number or sport} > {seen} {dport} {what}"
	            print(f"{describe(sent)}|{expected}|IPv{version}, {what}: {name}")
	            quote = f"{a} {sport} > {to} {dport} {what}"
	            out(f"{what}: error about {name}", icmp(seen, src, sent),
	                f"{to} > {a} error {unreachable} about {quote}")
	            out(f"{what}: error about {name}, from a router", icmp(between, src, sent),
	                f"{to if to == virtual else between} > {a} error {unreachable} about {quote}")
	            # And of the original direction: about the answer
	            back = through(far, near, make(seen, src, dport, number or sport))
	            out(f"{what}: error about the answer, {name}", icmp(a, to, back),
	                f"{src} > {seen} error {unreachable} about {seen} {dport} > {src} "
	                f"{number or sport} {what}", near, far)
	    # What has more headers, and what has fewer bytes
	    sport += 1
	    sent = through(near, far, UDP(a, virtual, sport, 7001, b"x" * 64))
	    quote = f"{a} {sport} > {virtual} 7001"
	    error = icmp(b, snat, sent)
	    if version == 4:
	        out("error with IP options", ip4(b, snat, 1, error[20:], options=b"\1" * 8),
	            f"{virtual} > {a} options error 3/3 about {quote} udp")
	        short = sent[:28]
	        inner = ip4(snat, b, 17, sent[20:], options=b"\1" * 4)
	        out("error about a packet with IP options", icmp(b, snat, inner),
	            f"{virtual} > {a} error 3/3 about {a} {sport} > {virtual} 7001 options udp")
	    else:
	        # What follows the number of the next header: a length, and options that are padding
	        hop = HOP_BY_HOP, b"\0\x01\x04\0\0\0\0"
	        dest, route = (DESTINATION, b"\0" * 7), (ROUTING, b"\0" * 7)
	        auth = AUTHENTICATION, b"\4" + b"\0" * 22
	        for headers, name in ([hop], "hop-by-hop options"), ([dest], "destination options"), \
	                ([route], "a routing header"), ([auth], "an authentication header"), \
	                ([hop, dest, route, dest, auth], "many headers"):
	            payload, following = error[40:], protocol
	            for kind, data in reversed(headers):
	                payload, following = bytes((following,)) + data + payload, kind
	            out(f"error with {name}", ip6(b, snat, following, payload),
	                f"{virtual} > {a} options error 1/4 about {quote} udp")
	        inner = ip6(snat, b, DESTINATION, b"\x11" + dest[1] + sent[40:])
	        out("error about a packet with destination options", icmp(b, snat, inner),
	            f"{virtual} > {a} error 1/4 about {a} {sport} > {virtual} 7001 options udp")
	        short = sent[:48]
	    out("error about a packet that was cut", icmp(b, snat, short),
	        f"{virtual} > {a} error {unreachable} about {quote} udp")
	    broken = bytearray(error)
	    broken[-1] ^= 1
	    with netns(router), open("/proc/sys/net/netfilter/nf_conntrack_checksum", "r+") as file:
	        file.write("0")
	        file.flush()
	        out("error with a wrong checksum is dropped", bytes(broken), "nothing", timeout=0.2)
	        file.seek(0)
	        file.write("1")
	    if version == 4:
	        out("redirect is dropped", icmp(b, snat, sent, 5, 1), "nothing", timeout=0.2)
	    out("the same, right", error, f"{virtual} > {a} error {unreachable} about {quote} udp")

	    # Errors by the router itself, about what it has translated already
	    here = addr(version, 1, 2)
	    sport += 1
	    hops = {"ttl" if version == 4 else "hops": 1}
	    out("no more hops after dnat", UDP(a, virtual, sport, 7005, **hops),
	        f"{virtual} > {a} error {'11/0' if version == 4 else '3/0'} about "
	        f"{a} {sport} > {virtual} 7005 udp", near)
	    big = UDP(a, virtual, sport + 1, 7005, bytes(1430 - (28 if version == 4 else 48)),
	              **({"fragment": 0x4000} if version == 4 else {}))
	    out("too big after dnat", big, f"{virtual} > {a} error {'3/4' if version == 4 else '2/0'} about "
	        f"{a} {sport + 1} > {virtual} 7005 udp", near)
	    out("redirected to a closed port", UDP(a, virtual, sport + 2, 7012),
	        f"{virtual} > {a} error {unreachable} about {a} {sport + 2} > {virtual} 7012 udp", near)
	    sport += 2

	    # Errors that arrive at sockets
	    def refused(name, ns, src, to, dport):
	        with netns(ns):
	            s = udp(src, 0, peer=(to, dport))
	        s.settimeout(2)
	        try:
	            s.send(b"x")
	            s.recv(1)
	        except OSError as exc:
	            print(f"{errno.errorcode[exc.errno] if exc.errno else exc}|ECONNREFUSED|"
	                  f"IPv{version}, {name}")

	    refused("socket of a client, snat", client, addr(version, 1, 1), addr(version, 2, 1), 7001)
	    refused("socket of a client, redirect", client, addr(version, 1, 1), virtual, 7012)
	    refused("socket of the router, snat", router, addr(version, 2, 2), addr(version, 2, 1), 7001)
	    refused("socket of the router, dnat", router, addr(version, 2, 2), virtual, 7005)
	    refused("socket of the router, dnat and snat", router, addr(version, 2, 2), virtual, 7001)

	    # Echo: numbers that clash are translated, like ports.
	    def request(src, dst, kind, number):
	        segment = struct.pack("!BBHHH", kind, 0, 0, number, 1) + b"x" * 8
	        if version == 4:
	            return ip4(src, dst, 1, segment[:2] + struct.pack("!H", checksum(segment)) + segment[4:])
	        return ip6(src, dst, 58, l4_checksum(src, dst, 58, segment, 2))

	    # Forget what those sockets have sent.
	    for wire in near, far:
	        wire.receive(lambda packet: False, 0.1)
	    ask, answer = (8, 0) if version == 4 else (128, 129)
	    seen = []
	    for source in a, addr(version, 1, 1), addr(version, 1, 9):
	        got = through(near, far, request(source, b, ask, 77))
	        seen.append(describe(got).rsplit(" ", 1))
	    print(f"{seen[0][0]} {seen[0][1]}|{snat} > {b} echo 77|IPv{version}, ping: snat")
	    print(f"{seen[1][0]} {seen[1][1] != '77'}|{snat} > {b} echo True|"
	          f"IPv{version}, ping: another one with the same number gets another number")
	    print(f"{seen[2][1]}|77|IPv{version}, ping: the first one keeps its number")
	    out("ping: answer", request(b, snat, answer, 77), f"{b} > {a} echo 77")
	    out("ping: answer to the other one", request(b, snat, answer, int(seen[1][1])),
	        f"{b} > {addr(version, 1, 1)} echo 77")
	    sent = request(snat, b, ask, int(seen[1][1]))
	    out("ping: error", icmp(b, snat, sent),
	        f"{b} > {addr(version, 1, 1)} error {unreachable} about {addr(version, 1, 1)} > {b} echo 77")
EOF
results
served 6
finish
