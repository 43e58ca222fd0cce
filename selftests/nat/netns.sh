#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets that come out of a tunnel's device in one namespace, and are sent, translated and looked
# up in another: the policies that count are those of the hook's namespace, and a socket of another
# one is nobody there.
#
#	inner -- vxlan device, whose other half is in the router -- server

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 19
setup_router
setup_ns inner || exit "$?"
# vx4 and vx6 go to the other namespace, near4 and near6 stay.
for version in 4 6; do
	local=10.0.2.2 remote=10.0.2.1 net=10.7.0. length=24
	[ $version = 4 ] || local=dead:2::2 remote=dead:2::1 net=dead:7:: length=64
	for name in vx near; do
		other=$net
		[ $name = vx ] || other=${net/7/8}
		# shellcheck disable=SC2154 # set by setup_ns
		ip -n "$router" link add $name$version type vxlan id ${version}${#name} \
			dstport 478$version local $local remote $remote noudpcsum udp6zerocsumtx || {
			ktap_skip_all "no vxlan device"
			exit "$KSFT_SKIP"
		}
		ns=$router
		in_ns "${inner:?}" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
			net.ipv6.conf.default.accept_dad=0
		if [ $name = vx ]; then
			ns=$inner
			ip -n "$router" link set vx$version netns "$inner"
		fi
		ip -n "$ns" -batch - <<-EOF
			link set $name$version addrgenmode none
			link set $name$version up
			addr add ${other}1/$length dev $name$version
			neigh add ${other}2 lladdr 02:00:00:00:07:02 dev $name$version nud permanent
		EOF
	done
done
# The port alone changes; then the route need not be asked for again.
rules "$router" <<-EOF
	table inet nat {
		chain output {
			type nat hook output priority -100
			meta nfproto ipv4 udp dport 4784 dnat ip to 10.0.2.1:4794
			meta nfproto ipv6 udp dport 4786 dnat ip6 to [dead:2::1]:4796
		}
	}
EOF
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <<-EOF
	table inet t {
		chain prerouting {
			type filter hook prerouting priority -300
			udp dport 4780-4799 drop
		}
	}
EOF

# shellcheck disable=SC2154 # set by setup_ns
traffic "$inner" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	inner, router, server = sys.argv[1:]
	wire = Wire(server)
	theirs, ours = Policies(inner), Policies(router)

	for version in 4, 6:
	    inside, near = ("10.7.0.2", "10.8.0.2") if version == 4 else ("dead:7::2", "dead:8::2")
	    source = {inside: inside[:-1] + "1", near: near[:-1] + "1"}
	    there = addr(version, 2, 1)
	    outer = selector(addr(version, 2, 2), there)
	    unrelated = ours.new(selector(addr(version, 2, 77), there), action=BLOCK)

	    def case(name, expected, ns=inner, to=inside, prepare=None, messages=()):
	        theirs.do(theirs.FLUSH)
	        ours.do(ours.FLUSH, ours.default(DEFAULT_ACCEPT), *messages)
	        with netns(ns):
	            s = udp(source[to], 0)
	        if prepare:
	            prepare(s)
	        results = []
	        for _ in range(2):
	            try:
	                s.sendto(b"x", (to, 9))
	                results.append(arrival(wire, 4790 + version, expected))
	            except OSError as exc:
	                results.append(error(exc))
	        s.close()
	        result = results[0] if results[0] == results[1] else ", ".join(results)
	        print(f"{result}|{expected}|IPv{version}, {name}")

	    def own_policy(s):
	        set_socket_policy(s, outer, action=BLOCK)

	    case("no policy", "in clear")
	    case("a policy of the sender's namespace is for the tunnel", "in clear",
	         prepare=lambda s: theirs.add(outer, action=BLOCK))
	    case("the same, and the router has a policy about others", "in clear",
	         prepare=lambda s: theirs.add(outer, action=BLOCK), messages=[unrelated])
	    case("a policy of the sender's socket is for the tunnel", "in clear", prepare=own_policy)
	    case("that, and the router has a policy about others", "in clear", prepare=own_policy,
	         messages=[unrelated])
	    case("a policy of the router is for the tunnel", "dropped",
	         messages=[ours.new(outer, action=BLOCK)])
	    case("the router's default is block", "dropped", messages=[ours.default(DEFAULT_BLOCK)])
	    # The device and the socket are in the router: the same socket counts.
	    case("all in one namespace", "in clear", router, near)
	    case("all in one namespace, a policy of the sender's socket is for the tunnel", "dropped",
	         router, near, prepare=own_policy)
EOF
results
served 1
finish
