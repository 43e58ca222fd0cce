#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets that go on after a match: routed over veth, and bridged. Somebody else's sockets must
# come out of it as they went in; a socket left in the packet without its destructor is a BUG in
# skb_orphan().
#
#	client .1 ---- .2 server .2 ---- .1 remote
#	       10.0.1.0/24       10.0.2.0/24
#	       the bridge has 10.0.3.0/24 on both sides

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 33
setup_pair
setup_ns remote || exit "$?"
# shellcheck disable=SC2154 # set by setup_ns
ip link add eth1 netns "$server" type veth peer name eth0 netns "$remote"
ip link add port1 netns "$server" type veth peer name eth1 netns "$client"
ip link add port2 netns "$server" type veth peer name eth1 netns "$remote"
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$server" -batch - <<-EOF
	link set eth1 up
	addr add 10.0.2.2/24 dev eth1
	addr add dead:2::2/64 dev eth1 nodad
	link add br0 type bridge forward_delay 0 mcast_snooping 0
	link set port1 master br0 up
	link set port2 master br0 up
	link set br0 up
EOF
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$client" -batch - <<-EOF
	route add 10.0.2.0/24 via 10.0.1.2
	route add dead:2::/64 via dead:1::2
	link set eth1 up
	addr add 10.0.3.1/24 dev eth1
	addr add dead:3::1/64 dev eth1 nodad
EOF
ip -n "$remote" -batch - <<-EOF
	link set eth0 up
	addr add 10.0.2.1/24 dev eth0
	addr add dead:2::1/64 dev eth0 nodad
	route add default via 10.0.2.2
	route add default via dead:2::2
	link set eth1 up
	addr add 10.0.3.2/24 dev eth1
	addr add dead:3::2/64 dev eth1 nodad
EOF
in_ns "$server" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
modprobe -q br_netfilter
bridged=
if in_ns "$server" sysctl -qw net.bridge.bridge-nf-call-iptables=1 \
	net.bridge.bridge-nf-call-ip6tables=1 2>/dev/null; then
	bridged=1
fi

for hook in prerouting forward postrouting; do
	for family in ip ip6; do
		cat <<-EOF
			table $family count_$hook {
				counter ${family}_${hook}_udp { }
				counter ${family}_${hook}_tcp { }
				chain c {
					type filter hook $hook priority 10
					udp dport 7001 counter name ${family}_${hook}_udp
					tcp dport 7001 counter name ${family}_${hook}_tcp
				}
			}
		EOF
	done
done >"$tmp/rules"
for family in ip ip6; do
	for key in transparent mark wildcard; do
		value=1
		case $key in
		mark)		value=0x11 ;;
		wildcard)	value=0 ;;
		esac
		cat <<-EOF
			table $family find_$key {
				counter ${family}_${key}_udp { }
				counter ${family}_${key}_tcp { }
				chain c {
					type filter hook prerouting priority 0
					udp dport 7001 socket $key $value \\
						counter name ${family}_${key}_udp
					tcp dport 7001 socket $key $value \\
						counter name ${family}_${key}_tcp
				}
			}
		EOF
	done
done >>"$tmp/rules"
rules "$server" <"$tmp/rules"

traffic "$client" "$server" "$remote" "$bridged" <<-'EOF'
	import sys
	from net import *

	client, server, remote, bridged = sys.argv[1:]
	kept = []

	def run(there):
	    """Talk with the remote, while the router has sockets with the remote's address."""
	    with netns(server):
	        options = dict(mark=0x11, transparent=True)
	        kept.append((udp(there, 7001, **options), listener(there, 7001, **options)))
	    with netns(remote):
	        echo, lists = udp(there, 7001), listener(there, 7001)
	    with netns(client):
	        u = udp("::" if ":" in there else "0.0.0.0", 0)
	        for size in 0, 1, 1400:
	            u.sendto(bytes(size), (there, 7001))
	            data, where = echo.recvfrom(2000)
	            echo.sendto(data, where)
	            if len(u.recv(2000)) != size:
	                raise SystemExit("echo")
	        conn = socket.create_connection((there, 7001), 5)
	        accepted = lists.accept()[0]
	        for a, b in (conn, accepted), (accepted, conn):
	            a.sendall(b"x" * 30000)
	            left = 30000
	            while left:
	                got = len(b.recv(65536))
	                if not got:
	                    raise SystemExit("connection closed")
	                left -= got
	        conn.close()
	        accepted.close()
	    settle()

	for way, addrs in ("routed", ("10.0.2.1", "dead:2::1")), ("bridged", ("10.0.3.2", "dead:3::2")):
	    if way == "bridged" and not bridged:
	        continue
	    enter(server)
	    nft("reset", "counters")
	    for there in addrs:
	        run(there)
	    for name, packets in counters().items():
	        print(way, name, packets)
EOF

declare -A seen
while read -r way name packets; do
	seen[$way $name]=$packets
done <"$tmp/traffic"

served 12
# The client has been answered, or the traffic above had failed. Every packet was seen, found and
# sent on.
for way in routed bridged; do
	for family in ip ip6; do
		for protocol in udp tcp; do
			packets=${seen[$way ${family}_prerouting_$protocol]:-0}
			minimum=3
			[ $protocol = udp ] || minimum=4
			for key in transparent mark wildcard; do
				if [ $way = bridged ] && [ -z "$bridged" ]; then
					skip "$way, $family, $protocol: $key"
					continue
				fi
				found=${seen[$way ${family}_${key}_$protocol]:-0}
				if [ "$packets" -ge $minimum ] && [ "$found" = "$packets" ]; then
					pass "$way, $family, $protocol: $key"
				else
					msg "$found of $packets packets found"
					fail "$way, $family, $protocol: $key"
				fi
			done
			sent="${seen[$way ${family}_forward_$protocol]:-0}"
			sent+=" ${seen[$way ${family}_postrouting_$protocol]:-0}"
			if [ $way = bridged ] && [ -z "$bridged" ]; then
				skip "$way, $family, $protocol: sent on"
			else
				check "$way, $family, $protocol: sent on" \
					[ "$sent" = "$packets $packets" ]
			fi
		done
	done
done
finish
