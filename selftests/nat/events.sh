#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Connections that policies did not concern, until something changes: the very next packet of each
# is judged anew. There is a policy all the time, which is about somebody else, so that packets are
# looked up at all.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 79
setup_router
for version in 4 6; do
	two=10.0.2.
	[ $version = 4 ] || two=dead:2::
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$router" xfrm state add src ${two}2 dst ${two}1 proto esp spi $version reqid 1 \
		mode tunnel enc "ecb(cipher_null)" "" auth digest_null ""
done
rules "$router" <<-EOF
	table inet nat {
		chain postrouting {
			type nat hook postrouting priority srcnat
			meta nfproto ipv4 udp dport 7001-7002 snat ip to 10.0.2.50
			meta nfproto ipv6 udp dport 7001-7002 snat ip6 to dead:2::50
		}
	}
	table inet t {
		set marked { type inet_service; }
		chain postrouting {
			type filter hook postrouting priority 50
			udp sport @marked meta mark set 7
		}
	}
EOF
silent_server

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	client, router, server = sys.argv[1:]
	policies = Policies(router)
	wire = Wire(server)
	number = 5000

	for version in 4, 6:
	    there, tunnel = addr(version, 2, 1), [template(addr(version, 2, 2), addr(version, 2, 1))]
	    snat, net = addr(version, 2, 50), "/24" if version == 4 else "/64"
	    other = policies.new(selector(addr(version, 2, 77), addr(version, 2, 78)), action=BLOCK)
	    for what, ns, src, port in ("forwarded", client, addr(version, 1, 1), 7001), \
	                               ("sent", router, addr(version, 2, 2), 7002):
	        new = selector(snat, there, 17, dport=port)

	        class Flow:
	            """A connection that has gone on for a while"""

	            def __init__(self, before, first):
	                global number
	                number += 1
	                self.number = number
	                policies.do(policies.FLUSH, policies.default(DEFAULT_ACCEPT), other, *before)
	                with netns(ns):
	                    self.s = udp(src, number, peer=(there, port))
	                for _ in range(5):
	                    self.last = self.send(first)

	            def send(self, expected):
	                try:
	                    self.s.send(b"x")
	                except PermissionError:
	                    pass
	                return arrival(wire, port, expected)

	        def case(name, expected, *steps, before=(), first="in clear"):
	            """Each step is one change, and one packet after it."""
	            flow = Flow(before, first)
	            results = [flow.last]
	            for step, each in zip(steps, expected.split(", "), strict=True):
	                step(flow) if callable(step) else policies.do(step)
	                results.append(flow.send(each))
	            results = ", ".join(results)
	            print(f"{results}|{first}, {expected}|IPv{version}, {what}: {name}")
	            flow.s.close()

	        def mark(flow):
	            with netns(router):
	                nft("add", "element", "inet", "t", "marked", f"{{ {flow.number} }}")

	        def pause(flow):
	            time.sleep(1.3)

	        encrypt, block = policies.new(new, tunnel), policies.new(new, action=BLOCK)
	        case("a policy to encrypt comes, and goes", "ESP, in clear", encrypt,
	             policies.gone(new))
	        case("a policy to block comes, and goes", "dropped, in clear", block,
	             policies.gone(new))
	        case("all policies are flushed", "in clear, ESP", policies.FLUSH, encrypt)
	        case("the one that matched is flushed", "in clear", policies.FLUSH, before=[encrypt],
	             first="ESP")
	        case("a policy is updated", "ESP, dropped, in clear",
	             policies.new(new, tunnel, kind=UPDPOLICY),
	             policies.new(new, action=BLOCK, kind=UPDPOLICY),
	             policies.new(new, kind=UPDPOLICY))
	        case("one that allows goes before one that blocks", "dropped, in clear, dropped",
	             policies.new(new, action=BLOCK, priority=100),
	             policies.new(selector(snat, there), priority=50),
	             policies.gone(selector(snat, there)))
	        case("one that blocks comes when another one went", "dropped",
	             lambda f: policies.do(policies.gone(selector(addr(version, 2, 77),
	                                                          addr(version, 2, 78))), block))
	        case("a policy expires", "dropped, in clear",
	             policies.new(new, action=BLOCK, hard_add=1), pause)
	        case("a policy for networks", "ESP, in clear",
	             policies.new(selector(snat + net, there + net), tunnel),
	             policies.gone(selector(snat + net, there + net)))
	        case("a policy for all", "dropped", policies.new(
	            selector("0.0.0.0/0" if version == 4 else "::/0",
	                     "0.0.0.0/0" if version == 4 else "::/0", 17, dport=port), action=BLOCK))
	        case("a policy for the connection's very ports", "dropped, in clear",
	             lambda f: policies.add(selector(snat, there, 17, f.number, port), action=BLOCK),
	             lambda f: policies.delete(selector(snat, there, 17, f.number, port)))
	        case("a policy for other ports, and another protocol", "in clear, in clear",
	             policies.new(selector(snat, there, 17, 1, port), action=BLOCK),
	             policies.new(selector(snat, there, 6), action=BLOCK))
	        case("a policy for the other direction", "in clear",
	             policies.new(selector(there, snat), action=BLOCK))
	        case("an inbound policy of the same kind", "in clear",
	             policies.new(new, action=BLOCK, direction=IN))
	        with netns(router):
	            eth0, eth1 = map(socket.if_nametoindex, ("eth0", "eth1"))
	        case("a policy for the device, and for another one", "in clear, dropped",
	             policies.new(selector(snat, there, 17, ifindex=eth0), action=BLOCK),
	             policies.new(selector(snat, there, 17, ifindex=eth1), action=BLOCK))
	        case("a policy for a mark, and the packet gets it", "in clear, dropped",
	             policies.new(new, action=BLOCK, mark=(7, 0xFF)), mark)
	        case("the default becomes block, and a policy allows", "dropped, dropped, in clear",
	             policies.default(DEFAULT_BLOCK), policies.new(new),
	             policies.default(DEFAULT_ACCEPT))
	        case("policies are hashed anew", "in clear, dropped, dropped",
	             policies.hash_threshold(version, 8, 8), block,
	             policies.hash_threshold(version, 32, 32) if version == 4 else
	             policies.hash_threshold(version, 128, 128))
	        if ns == router:
	            case("its socket gets a policy to encrypt, and loses it", "ESP, in clear",
	                 lambda f: set_socket_policy(f.s, new, tunnel),
	                 lambda f: set_socket_policy(f.s))
	            case("its socket gets a policy to block, and loses it", "dropped, in clear",
	                 lambda f: set_socket_policy(f.s, new, action=BLOCK),
	                 lambda f: set_socket_policy(f.s))
	            case("its socket is allowed what a policy blocks", "dropped, in clear, dropped",
	                 block, lambda f: set_socket_policy(f.s, new),
	                 lambda f: set_socket_policy(f.s))
EOF
results
served 1
finish
