#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets whose route is being destroyed when they come to the hook at postrouting: the policy lookup
# cannot take a reference to it, and they are dropped as unreachable. Without outbound policies
# Rust does not look up, takes no reference, and lets them go: a difference that it makes on purpose.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 13
if ! modprobe -q nfrust_deadroute; then
	ktap_skip_all "no nfrust_deadroute: built without modules for tests"
	exit "$KSFT_SKIP"
fi
unload()
{
	rmmod nfrust_deadroute
}
cleanup_hooks+=(unload)
setup_router
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <<-EOF
	table inet nat {
		chain postrouting {
			type nat hook postrouting priority srcnat
			meta nfproto ipv4 udp dport 7001 snat ip to 10.0.2.50
			meta nfproto ipv6 udp dport 7001 snat ip6 to dead:2::50
		}
	}
	table inet t {
		chain forward {
			type filter hook forward priority 0
			udp dport 7001-7002 meta mark set 0xdead
		}
		chain output {
			type filter hook output priority 0
			udp dport 7001-7002 meta mark set 0xdead
		}
	}
EOF
silent_server

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" "$IMPL" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	client, router, server, impl = sys.argv[1:]
	policies, wire = Policies(router), Wire(server)

	def send(ns, version, port, expected):
	    """Three packets of one connection"""
	    results = set()
	    with netns(ns):
	        s = udp(addr(version, *((1, 1) if ns == client else (2, 2))), 0)
	    for _ in range(3):
	        try:
	            s.sendto(b"x", (addr(version, 2, 1), port))
	            results.add(arrival(wire, port, expected))
	        except OSError as exc:
	            results.add(error(exc))
	    s.close()
	    return ", ".join(sorted(results))

	for version in 4, 6:
	    other = policies.new(selector(addr(version, 2, 77), addr(version, 2, 78)), action=BLOCK)
	    for what, ns in ("forwarded", client), ("sent", router):
	        def case(name, expected, port, *messages):
	            policies.do(policies.FLUSH, *messages)
	            result = send(ns, version, port, expected)
	            print(f"{result == expected or result}|True|IPv{version}, {what}: {name}")

	        unreachable = "dropped" if ns == client else "EHOSTUNREACH"
	        case("not translated", "in clear", 7002, other)
	        case("translated, with a policy for others", unreachable, 7001, other)
	        case("translated, without a policy", unreachable if impl == "c" else "in clear", 7001)
EOF
results
served 1
finish
