#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Connections in a flowtable: what the rules made of them is what the short way makes of their
# packets, too, and most packets take it. When policies or their default change, the next packet
# takes the long way again, where it is looked up.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 34
setup_router
for version in 4 6; do
	two=10.0.2.
	[ $version = 4 ] || two=dead:2::
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$router" xfrm state add src ${two}2 dst ${two}1 proto esp spi $version reqid 1 \
		mode tunnel enc "ecb(cipher_null)" "" auth digest_null ""
done
if ! modprobe -q nft_flow_offload; then
	ktap_skip_all "no flowtables"
	exit "$KSFT_SKIP"
fi
rules "$router" <<-EOF
	table inet nat {
		flowtable f {
			hook ingress priority 0
			devices = { eth0, eth1 }
		}
		counter long_way { }
		chain forward {
			type filter hook forward priority 0
			meta l4proto { tcp, udp } counter name long_way flow add @f
		}
		chain prerouting {
			type nat hook prerouting priority dstnat
			iif eth0 meta nfproto ipv4 meta l4proto { tcp, udp } th dport { 7010, 7013 } \\
				dnat ip to 10.0.2.1:7100
			iif eth0 meta nfproto ipv6 meta l4proto { tcp, udp } th dport { 7010, 7013 } \\
				dnat ip6 to [dead:2::1]:7100
		}
		chain postrouting {
			type nat hook postrouting priority srcnat
			meta l4proto { tcp, udp } th dport 7001 masquerade
			meta nfproto ipv4 meta l4proto { tcp, udp } th dport 7002 \\
				snat ip to 10.0.2.50:5002
			meta nfproto ipv6 meta l4proto { tcp, udp } th dport 7002 \\
				snat ip6 to [dead:2::50]:5002
			meta nfproto ipv4 ct original proto-dst 7013 snat ip to 10.0.2.51
			meta nfproto ipv6 ct original proto-dst 7013 snat ip6 to dead:2::51
			meta nfproto ipv4 udp dport 7003 snat ip to 10.0.2.52
			meta nfproto ipv6 udp dport 7003 snat ip6 to dead:2::52
		}
	}
EOF

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	client, router, server = sys.argv[1:]
	far, policies, wire = Echo(server), Policies(router), Wire(server)
	number = 6000

	def long_way():
	    with netns(router):
	        return counters()["long_way"]

	for version in 4, 6:
	    one, two, there = addr(version, 1, 1), addr(version, 2, 2), addr(version, 2, 1)
	    virtual = addr(version, 2, 66)
	    for proto in "udp", "tcp":
	        for name, to, end, source in (("no rule", (there, 7000), 7000, (one, "same")),
	                                      ("masquerade", (there, 7001), 7001, (two, "same")),
	                                      ("snat with a port", (there, 7002), 7002,
	                                       (addr(version, 2, 50), 5002)),
	                                      ("dnat", (virtual, 7010), 7100, (one, "same")),
	                                      ("dnat and snat", (virtual, 7013), 7100,
	                                       (addr(version, 2, 51), "same"))):
	            number += 1
	            before = long_way()
	            seen = exchange(proto, client, (one, number), to, far.at(proto, there, end),
	                            sizes=range(1, 31))
	            if isinstance(seen, tuple):
	                seen = seen[0], "same" if seen[1] == number else seen[1]
	            # 60 messages; of TCP also what opens, confirms and closes.
	            mostly = "short" if long_way() - before < 20 else "long"
	            print(f"{seen}, {mostly} way|{source}, short way|IPv{version}, {proto}: {name}")

	    snat = addr(version, 2, 52)
	    new = selector(snat, there, 17, dport=7003)
	    end = far.at("udp", there, 7003)

	    def drain():
	        end.setblocking(False)
	        try:
	            while True:
	                end.recv(9)
	        except BlockingIOError:
	            end.settimeout(5)

	    def case(name, expected, *steps):
	        """Each step is one change and one packet after it; before the first, packets take the
	        short way."""
	        global number
	        number += 1
	        policies.do(policies.FLUSH, policies.default(DEFAULT_ACCEPT))
	        with netns(client):
	            s = udp(one, number, peer=(there, 7003))
	        s.settimeout(5)
	        drain()
	        for _ in range(5):
	            before = long_way()
	            s.send(b"x")
	            _, peer = end.recvfrom(9)
	            end.sendto(b"y", peer)
	            s.recv(9)
	        way = "long" if long_way() > before else "short"
	        wire.receive(lambda packet: False, 0.05)
	        results = []
	        for step, each in zip(steps, expected.split(", "), strict=True):
	            policies.do(step)
	            s.send(b"x")
	            results.append(arrival(wire, 7003, each))
	        s.close()
	        results = ", ".join(results)
	        print(f"{peer[0]}, {way} way, {results}|{snat}, short way, {expected}|"
	              f"IPv{version}, {name}")

	    tunnel = [template(two, there)]
	    encrypt, block = policies.new(new, tunnel), policies.new(new, action=BLOCK)
	    case("a policy to encrypt comes, and goes", "ESP, in clear", encrypt, policies.gone(new))
	    case("a policy to block comes, and goes", "dropped, in clear", block, policies.gone(new))
	    case("a policy is updated", "ESP, dropped", policies.new(new, tunnel, kind=UPDPOLICY),
	         policies.new(new, action=BLOCK, kind=UPDPOLICY))
	    case("a policy about somebody else comes", "in clear",
	         policies.new(selector(addr(version, 2, 77), there), action=BLOCK))
	    case("the default becomes block, and accept", "dropped, in clear",
	         policies.default(DEFAULT_BLOCK), policies.default(DEFAULT_ACCEPT))
	    case("a policy for all comes", "dropped",
	         policies.new(selector("0.0.0.0/0" if version == 4 else "::/0", there, 17, dport=7003),
	                      action=BLOCK))
	    policies.do(policies.FLUSH)
EOF
results
served 2
# The namespace goes with connections in the flowtable.
cleanup_ns "$router"
check "a namespace with a flowtable exits" has_references "$module" 0
finish
