#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fragments: what comes in pieces is translated as a whole, whatever the order, and leaves in pieces
# that fit; and what never is complete does not leave.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 39
setup_router
for version in 4 6; do
	family=ip two=10.0.2. at="10.0.2.50"
	[ $version = 4 ] || family=ip6 two=dead:2:: at="[dead:2::50]"
	cat <<-EOF
		table $family nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				udp dport 7012 redirect to :7102
				iif eth0 $family daddr ${two}66 dnat to ${two}1
			}
			chain output {
				type nat hook output priority -100
				$family daddr ${two}66 dnat to ${two}1
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				udp dport 7001 snat to ${two}50
				udp dport 7003 snat to $at:5003
				udp dport 7009 snat to ${two}50
				tcp dport 7001 snat to ${two}50
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <"$tmp/rules"
# Another size of pieces on the way out; routers do not do that to IPv6.
ip -n "$router" link set eth1 mtu 1300
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$server" link set eth0 mtu 1300
in_ns "$client" sysctl -qw net.ipv6.conf.eth0.mtu=1300

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import random, sys
	from nat import *

	client, router, server = sys.argv[1:]
	near = Wire(client, dst=bytes.fromhex("020000000102"))
	far_end, near_end = Echo(server), Echo(router)
	wire = Wire(server)
	number = 6000

	for version in 4, 6:
	    one, two, there = addr(version, 1, 1), addr(version, 2, 2), addr(version, 2, 1)
	    virtual, snat = addr(version, 2, 66), addr(version, 2, 50)

	    def case(name, proto, ns, src, to, end, expected, sizes=(1200, 3000, 60000)):
	        global number
	        number += 1
	        seen = exchange(proto, ns, (src, number), to, end, sizes=sizes)
	        if isinstance(seen, tuple):
	            seen = seen[0], "same" if seen[1] == number else seen[1]
	        print(f"{seen}|{expected}|IPv{version}, {proto}: {name}")

	    at = far_end.at
	    case("forwarded, no rule", "udp", client, one, (there, 7000), at("udp", there, 7000),
	         (one, "same"))
	    case("forwarded, snat", "udp", client, one, (there, 7001), at("udp", there, 7001),
	         (snat, "same"))
	    case("forwarded, snat with a port", "udp", client, one, (there, 7003),
	         at("udp", there, 7003), (snat, 5003))
	    case("forwarded, dnat", "udp", client, one, (virtual, 7005), at("udp", there, 7005),
	         (one, "same"))
	    case("forwarded, dnat and snat", "udp", client, one, (virtual, 7001),
	         at("udp", there, 7001), (snat, "same"))
	    case("redirect", "udp", client, one, (virtual, 7012),
	         near_end.at("udp", addr(version, 1, 2), 7102), (one, "same"))
	    case("sent, snat", "udp", router, two, (there, 7001), at("udp", there, 7001),
	         (snat, "same"))
	    case("sent, dnat", "udp", router, two, (virtual, 7005), at("udp", there, 7005),
	         (two, "same"))
	    case("snat of large segments", "tcp", client, one, (there, 7001), at("tcp", there, 7001),
	         (snat, "same"), (100000, 300000))

	    # By hand
	    a = addr(version, 1, 9)
	    with netns(server):
	        s = udp(there, 7009)
	    s.settimeout(0.5)

	    def pieces(data, sport, cut, ident):
	        """The fragments of a datagram, cut there (multiples of 8)"""
	        segment = udp_header(a, there, sport, 7009, data)
	        ends, result = list(cut[1:]) + [len(segment)], []
	        for start, end in zip(cut, ends):
	            more = end < len(segment)
	            if version == 4:
	                result.append(ip4(a, there, 17, segment[start:end], ident=ident,
	                                  fragment=0x2000 * more | start // 8))
	            else:
	                result.append(ip6(a, there, FRAGMENT, struct.pack(
	                    "!BBHI", 17, 0, start | more, ident) + segment[start:end]))
	        return result

	    def send(name, order, expected, cut=(0, 400, 800, 1200), data=random.randbytes(1210)):
	        global number
	        number += 1
	        parts = pieces(data, number, cut, number)
	        for i in order:
	            near.send(parts[i])
	        try:
	            got, peer = s.recvfrom(9999)
	            result = "complete" if got == data and peer[:2] == (snat, number) else f"from {peer[:2]}"
	        except TimeoutError:
	            result = "nothing"
	        print(f"{result}|{expected}|IPv{version}, by hand: {name}")

	    came = "complete"
	    send("in order", (0, 1, 2, 3), came)
	    send("in reverse", (3, 2, 1, 0), came)
	    send("the first one last", (1, 2, 3, 0), came)
	    send("small pieces", (0, 1, 2, 3), came, (0, 8, 16, 24))
	    send("small pieces, the first one last", (3, 1, 2, 0), came, (0, 8, 16, 24))
	    send("a single one that is the whole", (0,), came, (0,), random.randbytes(1200))
	    send("the last one is missing", (0, 1, 2), "nothing")
	    send("the first one is missing", (1, 2, 3), "nothing")
	    send("after that, in order", (0, 1, 2, 3), came)
	    # Nothing came out of what was incomplete, not even a piece.
	    left = wire.receive(lambda p: p[0] >> 4 == version and a in describe(p), 0.05)
	    print(f"{left and describe(left)}|None|IPv{version}, by hand: nothing left as it was")
	    s.close()
EOF
results
served 6
finish
