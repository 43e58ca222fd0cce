#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets that have a route when they come to the prerouting hook: what comes out of ESP in transport
# mode was routed before, as ESP. When their destination changes there they are routed anew; when it
# does not, they keep the route. And what is translated on its way into, or after it came out of,
# a tunnel.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 19
setup_router
null="enc ecb(cipher_null) '' auth digest_null ''"
# The client's packets to the router go as ESP, and out of it they come with these ports.
for version in 4 6; do
	family=ip one=10.0.1. two=10.0.2.
	[ $version = 4 ] || family=ip6 one=dead:1:: two=dead:2::
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$client" -batch - <<-EOF
		xfrm state add src ${one}1 dst ${one}2 proto esp spi 1 reqid 1 mode transport $null
		xfrm policy add dir out src ${one}1 dst ${one}2 proto udp tmpl proto esp reqid 1 \
			mode transport
		xfrm state add src ${one}1 dst ${one}2 proto esp spi 2 reqid 2 mode tunnel $null
		xfrm policy add dir out src ${one}1 dst ${two}66 proto udp tmpl src ${one}1 \
			dst ${one}2 proto esp reqid 2 mode tunnel
	EOF
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$router" -batch - <<-EOF
		xfrm state add src ${one}1 dst ${one}2 proto esp spi 1 reqid 1 mode transport $null
		xfrm state add src ${one}1 dst ${one}2 proto esp spi 2 reqid 2 mode tunnel $null
		xfrm policy add dir in src ${one}1 dst ${two}66 proto udp tmpl src ${one}1 \
			dst ${one}2 proto esp reqid 2 mode tunnel
		xfrm policy add dir fwd src ${one}1 dst ${two}66 proto udp tmpl src ${one}1 \
			dst ${one}2 proto esp reqid 2 mode tunnel
	EOF
	cat <<-EOF
		table $family nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				udp dport { 7001, 7005 } dnat to ${two}1
				udp dport 7002 redirect to :7102
				udp dport 7003 dnat to ${two}2
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				udp dport 7005 snat to ${two}50
			}
		}
	EOF
done >"$tmp/rules"
rules "$router" <"$tmp/rules"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *

	client, router, server = sys.argv[1:]
	number = 6000

	for version in 4, 6:
	    one, here, there = addr(version, 1, 1), addr(version, 1, 2), addr(version, 2, 1)
	    virtual, other = addr(version, 2, 66), addr(version, 2, 2)
	    any_ = "0.0.0.0" if version == 4 else "::"

	    def case(name, port, expected, to=here, answered=True):
	        """Who receives it, by which address, and from whom"""
	        global number
	        number += 1
	        ends = {}
	        for ns, where in (router, "router"), (server, "server"):
	            for end in {port, 7102}:
	                with netns(ns):
	                    s = udp(any_, end)
	                    if version == 4:
	                        s.setsockopt(socket.IPPROTO_IP, 8, 1)
	                    else:
	                        s.setsockopt(socket.IPPROTO_IPV6, 49, 1)
	                s.setblocking(False)
	                ends[s] = f"{where} {end}"
	        with netns(client):
	            c = udp(one, number)
	        c.sendto(b"x", (to, port))
	        result = "nobody"
	        for _ in range(50):
	            for s, where in ends.items():
	                try:
	                    data, control, _, peer = s.recvmsg(9, 99)
	                except BlockingIOError:
	                    continue
	                info = control[0][2]
	                at = socket.inet_ntop(family(here), info[8:12] if version == 4 else info[:16])
	                result = f"{where} at {at} from {peer[0]}"
	                break
	            else:
	                time.sleep(0.01)
	                continue
	            break
	        for s in ends:
	            s.close()
	        print(f"{result}|{expected}|IPv{version}, {name}")

	    case("out of transport mode, no rule", 7000, f"router 7000 at {here} from {one}")
	    case("out of transport mode, dnat to another host", 7001,
	         f"server 7001 at {there} from {one}")
	    case("out of transport mode, redirect", 7002, f"router 7102 at {here} from {one}")
	    case("out of transport mode, dnat to another address of this host", 7003,
	         f"router 7003 at {other} from {one}")
	    case("out of transport mode, dnat and snat", 7005,
	         f"server 7005 at {there} from {addr(version, 2, 50)}")
	    case("out of tunnel mode, dnat to another host", 7001, f"server 7001 at {there} from {one}",
	         virtual)
	    case("out of tunnel mode, dnat to an address of this host", 7003,
	         f"router 7003 at {other} from {one}", virtual)
EOF
results
served 4
# packets SPI VERSION: how many came out of ESP
packets()
{
	local one=10.0.1.

	[ "$2" = 4 ] || one=dead:1::
	ip -n "$router" -s xfrm state list src ${one}1 dst ${one}2 spi "$1" |
		sed -n 's/.* \([0-9]*\)(packets)$/\1/p' | tail -n 1
}
for version in 4 6; do
	check "IPv$version, as many as that came out of transport mode" [ "$(packets 1 $version)" = 5 ]
	check "IPv$version, as many as that came out of tunnel mode" [ "$(packets 2 $version)" = 2 ]
done
finish
