#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What comes out of a transformation passes output and postrouting again, as ESP in UDP or plain ESP,
# and may be translated there. It is not looked up a second time because of that, whether its port
# changed or its source; only where its destination changed is it routed anew, without policies.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 23
setup_router
null="enc ecb(cipher_null) '' auth digest_null ''"
# By port: 7001 is in UDP from 4501 to 4601 and the port of the destination changes, 7002 in UDP
# from 4502 to 4602 and the port of the source changes, 7003 likewise and the source changes, 7004
# is plain, to .7, and the destination changes. What they become is blocked, and so is the rest.
for version in 4 6; do
	family=ip one=10.0.1. two=10.0.2. at="10.0.2.1" any=0.0.0.0
	[ $version = 4 ] || family=ip6 one=dead:1:: two=dead:2:: at="[dead:2::1]" any=::
	{
		for n in 1 2 3 4; do
			gateway=${two}1 encap="encap espinudp 450$n 460$n $any"
			[ $n != 4 ] || gateway=${two}7 encap=
			for from in ${one}1 ${two}2; do
				echo "xfrm policy add dir out src $from dst ${two}1 proto udp" \
					"dport 700$n tmpl src ${two}2 dst $gateway proto esp" \
					"reqid 700$n mode tunnel"
			done
			echo "xfrm state add src ${two}2 dst $gateway proto esp spi 700$n" \
				"reqid 700$n mode tunnel $null $encap"
		done
		echo "xfrm policy add dir out src ${two}2 dst ${two}1 proto udp dport 4701 action block"
		echo "xfrm policy add dir out src ${two}2 dst ${two}1 proto udp sport 4702 action block"
		echo "xfrm policy add dir out src ${two}53 dst ${two}1 action block"
		echo "xfrm policy add dir out src ${two}2 dst ${two}9 action block"
		echo "neigh add ${two}7 lladdr $server_mac dev eth1 nud permanent"
	} >"$tmp/batch"
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$router" -batch "$tmp/batch" || ktap_exit_fail_msg "cannot set up IPsec"
	cat <<-EOF
		table $family nat {
			chain output {
				type nat hook output priority -100
				udp sport 4501 dnat to $at:4701
				meta l4proto esp $family daddr ${two}7 dnat to ${two}9
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				udp sport 4502 snat to :4702
				udp sport 4503 snat to ${two}53
			}
		}
	EOF
done >"$tmp/rules"
rules "$router" <"$tmp/rules"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	client, router, server = sys.argv[1:]
	wire, policies = Wire(server), Policies(router)

	def outer(packet):
	    """Source and destination of ESP, with ports if it is in UDP, and its number"""
	    start, proto = (20, packet[9]) if packet[0] >> 4 == 4 else (40, packet[6])
	    at = slice(12, 16), slice(16, 20)
	    if packet[0] >> 4 == 6:
	        at = slice(8, 24), slice(24, 40)
	    kind = socket.AF_INET if packet[0] >> 4 == 4 else socket.AF_INET6
	    src, dst = (socket.inet_ntop(kind, packet[each]) for each in at)
	    if proto == socket.IPPROTO_UDP:
	        sport, dport = struct.unpack("!HH", packet[start:start + 4])
	        src, dst, start = f"{src} {sport}", f"{dst} {dport}", start + 8
	    elif proto != socket.IPPROTO_ESP:
	        return None
	    spi, = struct.unpack("!I", packet[start:start + 4])
	    return f"{src} > {dst} {spi}"

	for version in 4, 6:
	    one, two, there = addr(version, 1, 1), addr(version, 2, 2), addr(version, 2, 1)
	    for what, ns, src in ("forwarded", client, one), ("sent", router, two):
	        for name, port, expected in \
	                (("the destination's port changes", 7001, f"{two} 4501 > {there} 4701"),
	                 ("the source's port changes", 7002, f"{two} 4702 > {there} 4602"),
	                 ("the source changes", 7003, f"{addr(version, 2, 53)} 4503 > {there} 4603"),
	                 ("the destination changes", 7004, f"{two} > {addr(version, 2, 9)}")):
	            with netns(ns):
	                s = udp(src, 0)
	            results = []
	            for _ in range(3):
	                try:
	                    s.sendto(b"x", (there, port))
	                except OSError as exc:
	                    results.append(error(exc))
	                    continue
	                packet = wire.receive(outer, 2)
	                results.append(outer(packet) if packet else "dropped")
	            s.close()
	            results = ", ".join(sorted(set(results)))
	            print(f"{results}|{expected} {port}|IPv{version}, {what}: {name}")
	    # The policies are not for nothing: the same, sent without a transformation.
	    with netns(router):
	        s = udp(two, 4702)
	    for name, sport, to in (("to that port", 0, (there, 4701)), ("from that port", 4702, (there, 9)),
	                            ("to that destination", 0, (addr(version, 2, 9), 9))):
	        with netns(router):
	            c = s if sport else udp(two, 0)
	        try:
	            c.sendto(b"x", to)
	            result = "sent"
	        except OSError as exc:
	            result = error(exc)
	        print(f"{result}|EPERM|IPv{version}, without a transformation, {name}")
	    s.close()
	policies.do(policies.FLUSH)
EOF
results
served 4
finish
