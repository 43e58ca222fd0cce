#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets that are held between routing and translation, while what decides about policies changes:
# what counts is what is so when the packet is translated.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 67
setup_router
for version in 4 6; do
	two=10.0.2.
	[ $version = 4 ] || two=dead:2::
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$router" xfrm state add src ${two}2 dst ${two}1 proto esp spi $version reqid 1 \
		mode tunnel enc "ecb(cipher_null)" "" auth digest_null ""
done
# 7001 is forwarded, 7002 sent; 7003 is sent, and it is the port of the destination that changes.
rules "$router" <<-EOF
	table inet nat {
		chain postrouting {
			type nat hook postrouting priority srcnat
			meta nfproto ipv4 udp dport { 7001, 7002 } snat ip to 10.0.2.50
			meta nfproto ipv6 udp dport { 7001, 7002 } snat ip6 to dead:2::50
		}
		chain output {
			type nat hook output priority -100
			meta nfproto ipv4 udp dport 7003 dnat ip to 10.0.2.1:7103
			meta nfproto ipv6 udp dport 7003 dnat ip6 to [dead:2::1]:7103
		}
	}
	table inet hold {
		chain forward {
			type filter hook forward priority 0
			udp dport 7001 queue to 1
		}
		chain output {
			type filter hook output priority -150
			udp dport 7003 queue to 1
		}
		chain output2 {
			type filter hook output priority 50
			udp dport 7002 queue to 1
		}
	}
EOF
silent_server

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from nfqueue import *
	from xfrm import *

	client, router, server = sys.argv[1:]
	queue = Queue(router, 1)
	policies = Policies(router)
	wire = Wire(server)
	number = 5000

	for version in 4, 6:
	    there, tunnel = addr(version, 2, 1), [template(addr(version, 2, 2), addr(version, 2, 1))]
	    for what, ns, src, port in ("forwarded", client, addr(version, 1, 1), 7001), \
	                               ("sent", router, addr(version, 2, 2), 7002), \
	                               ("sent, its port changes", router, addr(version, 2, 2), 7003):
	        changed = 7103 if port == 7003 else port
	        # What the packet is before, and after.
	        old = selector(src, there, 17, dport=port)
	        new = selector(src if port == 7003 else addr(version, 2, 50), there, 17, dport=changed)
	        other = selector(src, addr(version, 2, 7))

	        def case(name, expected, before=None, meanwhile=None):
	            """before and meanwhile are called with the socket"""
	            global number
	            number += 1
	            with netns(ns):
	                s = udp(src, number)
	            if before:
	                before(s)
	            s.sendto(b"x", (there, port))
	            packet = queue.take()
	            if meanwhile:
	                meanwhile(s)
	            queue.accept(packet)
	            result = arrival(wire, changed, expected)
	            s.close()
	            policies.do(policies.FLUSH, policies.default(DEFAULT_ACCEPT))
	            print(f"{result}|{expected}|IPv{version}, {what}: {name}")

	        def do(*messages):
	            return lambda s: policies.do(*messages)

	        new_tunnel, old_tunnel = policies.new(new, tunnel), policies.new(old, tunnel)
	        new_block = policies.new(new, action=BLOCK)
	        case("nothing", "in clear")
	        case("a policy came", "ESP", meanwhile=do(new_tunnel))
	        case("a policy came that blocks", "dropped", meanwhile=do(new_block))
	        case("a policy came that is not about it", "in clear",
	             meanwhile=do(policies.new(other, action=BLOCK)))
	        case("the default became block", "dropped",
	             meanwhile=do(policies.default(DEFAULT_BLOCK)))
	        case("the policy went that it was routed by", "in clear", do(old_tunnel),
	             do(policies.gone(old)))
	        case("all policies went", "in clear", do(old_tunnel, new_tunnel), do(policies.FLUSH))
	        case("one went, another came", "dropped", do(old_tunnel),
	             do(policies.gone(old), new_block))
	        if ns == router:
	            case("its socket got a policy", "ESP",
	                 meanwhile=lambda s: set_socket_policy(s, new, tunnel))
	            case("its socket got a policy that blocks", "dropped",
	                 meanwhile=lambda s: set_socket_policy(s, new, action=BLOCK))
	            case("its socket lost its policy", "in clear",
	                 lambda s: set_socket_policy(s, old, tunnel), set_socket_policy)
	        with netns(router):
	            another = udp(addr(version, 2, 2), 0)
	        case("another socket got a policy", "in clear",
	             meanwhile=lambda s: set_socket_policy(another, new, action=BLOCK))
	        another.close()
EOF
results
served 2
finish
