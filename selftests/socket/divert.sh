#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A transparent proxy as documented: tproxy takes new connections, "socket transparent 1" keeps
# those that exist with the proxy. The client talks to addresses that nobody has, and is answered
# from there.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 13
setup_pair
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$client" -batch - <<-EOF
	route add default via 10.0.1.2
	route add default via dead:1::2
EOF
# shellcheck disable=SC2154 # set by setup_ns
for version in -4 -6; do
	ip -n "$server" $version rule add fwmark 1 lookup 100
	ip -n "$server" $version route add local default dev lo table 100
done
in_ns "$server" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
rules "$server" <<-'EOF'
	table inet divert {
		counter kept4_tcp { }
		counter kept4_udp { }
		counter kept6_tcp { }
		counter kept6_udp { }
		counter new4_tcp { }
		counter new4_udp { }
		counter new6_tcp { }
		counter new6_udp { }
		chain kept {
			meta nfproto ipv4 meta l4proto tcp counter name kept4_tcp
			meta nfproto ipv4 meta l4proto udp counter name kept4_udp
			meta nfproto ipv6 meta l4proto tcp counter name kept6_tcp
			meta nfproto ipv6 meta l4proto udp counter name kept6_udp
			meta mark set 1 accept
		}
		chain new {
			meta nfproto ipv4 meta l4proto tcp counter name new4_tcp
			meta nfproto ipv4 meta l4proto udp counter name new4_udp
			meta nfproto ipv6 meta l4proto tcp counter name new6_tcp
			meta nfproto ipv6 meta l4proto udp counter name new6_udp
			meta nfproto ipv4 meta l4proto { tcp, udp } tproxy ip to 127.0.0.1:7080 meta mark set 1 accept
			meta nfproto ipv6 meta l4proto { tcp, udp } tproxy ip6 to [::1]:7080 meta mark set 1 accept
		}
		chain prerouting {
			type filter hook prerouting priority -150
			iif lo accept
			meta l4proto { tcp, udp } socket transparent 1 jump kept
			meta l4proto { tcp, udp } th dport 80 jump new
		}
	}
EOF

traffic "$client" "$server" <<-'EOF'
	import sys
	from net import *

	client, server = sys.argv[1:]
	IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR = 20, 74

	for version, any, there in ("4", "0.0.0.0", "203.0.113.7"), ("6", "::", "2001:db8::7"):
	    v = socket.AF_INET6 if version == "6" else socket.AF_INET
	    only = dict(v6only=1) if version == "6" else {}
	    with netns(server):
	        proxy = listener(any, 7080, transparent=True, **only)
	        proxy_udp = udp(any, 7080, transparent=True, **only)
	        if version == "6":
	            proxy_udp.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1)
	        else:
	            proxy_udp.setsockopt(socket.IPPROTO_IP, IP_RECVORIGDSTADDR, 1)
	    with netns(client):
	        conn = socket.create_connection((there, 80), 5)
	        u = socket.socket(v, socket.SOCK_DGRAM)
	        u.settimeout(5)

	    # TCP: the proxy's end has the address that the client meant.
	    accepted = proxy.accept()[0]
	    fine = accepted.getsockname()[:2] == (there, 80)
	    for i in range(3):
	        conn.sendall(b"ping %d" % i)
	        data = accepted.recv(100)
	        accepted.sendall(b"pong " + data)
	        fine = fine and conn.recv(100) == b"pong ping %d" % i
	    print(f"{fine}|IPv{version}: TCP through the proxy")
	    accepted.shutdown(socket.SHUT_WR)
	    print(f"{conn.recv(1) == b''}|IPv{version}: TCP, the end comes through")
	    conn.close()

	    # UDP: the first packet is for the wildcard socket, which makes one for this connection;
	    # that one gets the others, and answers from the address that the client meant.
	    u.sendto(b"first", (there, 80))
	    data, info, _, peer = proxy_udp.recvmsg(100, 100)
	    raw = info[0][2]
	    port, = struct.unpack_from("!H", raw, 2)
	    original = socket.inet_ntop(v, raw[8:24] if version == "6" else raw[4:8])
	    with netns(server):
	        answer = sock(socket.SOCK_DGRAM, original, port, transparent=True, reuseport=False,
	                      peer=peer[:2])
	    answer.send(b"answer")
	    data, where = u.recvfrom(100)
	    fine = data == b"answer" and where[:2] == (there, 80)
	    for i in range(3):
	        u.sendto(b"more", (there, 80))
	        fine = fine and answer.recv(100) == b"more"
	    print(f"{fine}|IPv{version}: UDP through the proxy")
EOF
while IFS='|' read -r result description; do
	check "$description" [ "$result" = True ]
done <"$tmp/traffic"
served 1

read_counters "$server"
for version in 4 6; do
	# The SYN, but nothing after it; and of UDP the first packet.
	counted "new${version}_tcp" 1 "IPv$version: TCP, tproxy was asked once"
	counted "new${version}_udp" 1 "IPv$version: UDP, tproxy was asked once"
	counted "kept${version}_udp" 3 "IPv$version: UDP, the other packets were kept"
done
finish
