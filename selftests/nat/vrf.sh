#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Where the router's devices belong to a VRF, a packet that is sent from here passes output and
# postrouting twice, with the VRF's device and with the one below: it is translated at the one below
# only, and looked up after that.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 51
setup_router
# shellcheck disable=SC2154 # set by setup_ns
if ! ip -n "$router" link add red type vrf table 10; then
	ktap_skip_all "no VRF"
	exit "$KSFT_SKIP"
fi
# A device that enters a VRF goes down and up, and loses IPv6 addresses and neighbours on that way.
{
	echo "link set red up"
	for dev in eth0 eth1; do
		echo "link set $dev master red"
	done
	echo "addr add dead:1::2/64 dev eth0 nodad"
	echo "addr add dead:2::2/64 dev eth1 nodad"
	for net in 1 2; do
		mac=$client_mac
		[ $net = 1 ] || mac=$server_mac
		for host in 1 9; do
			for ip in 10.0.$net.$host dead:$net::$host; do
				echo "neigh replace $ip lladdr $mac dev eth$((net - 1)) nud permanent"
			done
		done
	done
	for version in 4 6; do
		two=10.0.2.
		[ $version = 4 ] || two=dead:2::
		echo "xfrm state add src ${two}2 dst ${two}1 proto esp spi $version reqid 1" \
			"mode tunnel enc ecb(cipher_null) '' auth digest_null ''"
	done
} | ip -n "$router" -batch -
for version in 4 6; do
	family=ip one=10.0.1. two=10.0.2. at="10.0.2.1"
	[ $version = 4 ] || family=ip6 one=dead:1:: two=dead:2:: at="[dead:2::1]"
	cat <<-EOF
		table $family nat {
			counter red$version { }
			counter below$version { }
			chain prerouting {
				type nat hook prerouting priority dstnat
				iif eth0 $family daddr ${two}66 dnat to ${two}1
				meta l4proto { tcp, udp } th dport 7030 redirect to :7130
			}
			chain input {
				type nat hook input priority 100
				meta l4proto { tcp, udp } th dport 7031 snat to ${one}77
			}
			chain output {
				type nat hook output priority -100
				$family daddr ${two}66 dnat to ${two}1
				udp dport 7012 dnat to $at:7112
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				meta l4proto { tcp, udp } th dport 7001 oif red counter name red$version \\
					snat to ${two}58
				meta l4proto { tcp, udp } th dport 7001 oif eth1 \\
					counter name below$version snat to ${two}50
				meta l4proto { tcp, udp } th dport 7002 masquerade
				ct original proto-dst 7003 snat to ${two}51
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <"$tmp/rules"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	client, router, server = sys.argv[1:]
	far, policies, wire = Echo(server), Policies(router), Wire(server)
	number = 6000

	def bound(proto, address, number):
	    """A socket of the router, in the VRF"""
	    kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
	    with netns(router):
	        return sock(kind, address, number, dev="red")

	def talk(c, to, end):
	    """What the far end sees of a connected UDP socket's packets; all are answered."""
	    c.settimeout(5)
	    end.settimeout(5)
	    try:
	        c.connect(to)
	        for _ in range(3):
	            c.send(b"x")
	            _, peer = end.recvfrom(9)
	            end.sendto(b"y", peer)
	            c.recv(9)
	        return peer[0], "same" if peer[1] == c.getsockname()[1] else peer[1]
	    except OSError as exc:
	        return error(exc)

	def talk_tcp(c, to, end):
	    c.settimeout(5)
	    end.settimeout(5)
	    try:
	        c.connect(to)
	        s, peer = end.accept()
	        s.settimeout(5)
	        for a, b in (c, s), (s, c):
	            a.sendall(b"x")
	            b.recv(9)
	        linger(s, 1)
	        s.close()
	        return peer[0], "same" if peer[1] == c.getsockname()[1] else peer[1]
	    except OSError as exc:
	        return error(exc)

	for version in 4, 6:
	    one, here, two = addr(version, 1, 1), addr(version, 1, 2), addr(version, 2, 2)
	    there, virtual, snat = addr(version, 2, 1), addr(version, 2, 66), addr(version, 2, 50)
	    for proto, say in ("udp", talk), ("tcp", talk_tcp):
	        def case(name, where, to, end, expected):
	            global number
	            number += 1
	            if where == router:
	                c = bound(proto, two, number)
	            else:
	                with netns(client):
	                    c = make(proto, one, number)
	            seen = say(c, to, end)
	            c.close()
	            print(f"{seen}|{expected}|IPv{version}, {proto}: {name}")

	        def at(port):
	            return far.at(proto, there, port)

	        def near(port):
	            s = bound(proto, here, port)
	            if proto == "tcp":
	                s.listen(16)
	            return s

	        case("forwarded, snat", client, (there, 7001), at(7001), (snat, "same"))
	        case("forwarded, masquerade", client, (there, 7002), at(7002), (two, "same"))
	        case("forwarded, dnat", client, (virtual, 7005), at(7005), (one, "same"))
	        case("forwarded, dnat and snat", client, (virtual, 7003), at(7003),
	             (addr(version, 2, 51), "same"))
	        case("redirect", client, (there, 7030), near(7130), (one, "same"))
	        case("delivered, snat", client, (here, 7031), near(7031), (addr(version, 1, 77), "same"))
	        case("sent, snat", router, (there, 7001), at(7001), (snat, "same"))
	        case("sent, masquerade", router, (there, 7002), at(7002), (two, "same"))
	        case("sent, dnat", router, (virtual, 7005), at(7005), (two, "same"))
	    with netns(router):
	        seen = counters()
	    print(f"{seen[f'red{version}'], seen[f'below{version}']}|(0, 4)|"
	          f"IPv{version}, rules are asked at the device below, not at the VRF's")

	    # Policies that match only what it becomes
	    for where, what in (client, "forwarded"), (router, "sent"):
	        def lookup(name, expected, *messages):
	            global number
	            number += 1
	            policies.do(*messages)
	            # What came before is still there.
	            wire.receive(lambda packet: False, 0.05)
	            if where == router:
	                c = bound("udp", two, number)
	            else:
	                with netns(client):
	                    c = make("udp", one, number)
	            try:
	                c.sendto(b"x", (there, 7001))
	                result = arrival(wire, 7001, expected)
	            except OSError as exc:
	                result = error(exc)
	            c.close()
	            policies.do(policies.FLUSH, policies.default(DEFAULT_ACCEPT))
	            print(f"{result}|{expected}|IPv{version}, {what}: {name}")

	        new = selector(snat, there, 17, dport=7001)
	        lookup("a policy encrypts after snat", "ESP",
	               policies.new(new, [template(two, there)]))
	        blocked = "dropped" if where == client else "EPERM"
	        lookup("a policy blocks after snat", blocked, policies.new(new, action=BLOCK))
	        lookup("the default blocks", blocked, policies.default(DEFAULT_BLOCK))
EOF
results
served 8
finish
