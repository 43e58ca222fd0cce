#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Early demultiplexing finds a socket by what a packet's source is before the input hook changes it.
# The packet must then go to the socket that fits the new source; except that a transparent socket
# keeps what it got.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 25
setup_router
# 7101 is redirected to 7102, where connections with the same source are already: the source port
# has to change. 7103 gets another source address, 7104 and 7106 another source port, 7105 nothing.
for version in 4 6; do
	family=ip one=10.0.1. at="10.0.1.1"
	[ $version = 4 ] || family=ip6 one=dead:1:: at="[dead:1::1]"
	cat <<-EOF
		table $family nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				meta l4proto { tcp, udp } th dport 7101 redirect to :7102
			}
			chain input {
				type nat hook input priority 100
				udp dport 7103 snat to ${one}77
				udp dport 7104 snat to $at:5104
				udp dport 7106 snat to $at:5106
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <"$tmp/rules"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" <<-'EOF'
	import sys
	from nat import *

	client, router = sys.argv[1:]

	def reused(address, number, peer):
	    s = socket.socket(family(address), socket.SOCK_STREAM)
	    s.settimeout(3)
	    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
	    linger(s, 1)
	    s.bind((address, number))
	    s.connect(peer)
	    return s

	for version in 4, 6:
	    there, here = addr(version, 1, 1), addr(version, 1, 2)

	    def say(name, result, expected):
	        print(f"{result}|{expected}|IPv{version}, {name}")

	    # TCP: two connections from one port, to 7102 and to what becomes 7102
	    with netns(router):
	        lists = listener(here, 7102)
	    with netns(client):
	        first = reused(there, 10000, (here, 7102))
	        first_end, peer = lists.accept()
	        say("TCP: the first connection", peer[:2], (there, 10000))
	        second = reused(there, 10000, (here, 7101))
	    second_end, peer = lists.accept()
	    say("TCP: the second one has another source port", peer[1] != 10000, True)
	    for s in first_end, second_end:
	        s.settimeout(3)
	    texts = []
	    for i in range(3):
	        second.sendall(b"second")
	        first.sendall(b"first")
	        texts += [first_end.recv(99), second_end.recv(99)]
	    say("TCP: data goes to the right one", texts == [b"first", b"second"] * 3, True)
	    second_end.sendall(b"to second")
	    first_end.sendall(b"to first")
	    say("TCP: and back", (first.recv(99), second.recv(99)), (b"to first", b"to second"))

	    # UDP: a socket that is connected to the source as it was, and one for all others
	    def udp_case(name, port, sport, expected, transparent=False, at=None):
	        with netns(router):
	            any_, connected = (socket.socket(family(here), socket.SOCK_DGRAM) for _ in "12")
	            for s in any_, connected:
	                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
	                if transparent and s is connected:
	                    if version == 4:
	                        s.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
	                    else:
	                        s.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
	                s.bind((here, at or port))
	            connected.connect((there, sport))
	        with netns(client):
	            c = udp(there, sport)
	        if at:
	            # There is a connection by that name already.
	            c.sendto(b"direct", (here, at))
	            connected.recv(9)
	        results = []
	        for _ in range(3):
	            c.sendto(b"x", (here, port))
	            settle(0.02)
	            got = []
	            for s, who in (connected, "connected"), (any_, "any"):
	                s.setblocking(False)
	                try:
	                    s.recv(9)
	                    got.append(who)
	                except BlockingIOError:
	                    pass
	            results.append(" and ".join(got) or "nobody")
	        say(f"UDP: {name}", ", ".join(sorted(set(results))), expected)
	        for s in any_, connected, c:
	            s.close()

	    udp_case("not translated, to the connected socket", 7105, 10001, "connected")
	    udp_case("another source address, not to the socket connected to the old one", 7103, 10002,
	             "any")
	    udp_case("another source port, not to the socket connected to the old one", 7104, 10003,
	             "any")
	    udp_case("another port for a clash, not to the connected socket", 7101, 10004, "any",
	             at=7102)
	    udp_case("not translated, transparent socket", 7105, 10005, "connected", True)
	    udp_case("another source address, but a transparent socket keeps it", 7103, 10006,
	             "connected", True)
	    udp_case("another source port, but a transparent socket keeps it", 7106, 10007, "connected",
	             True)
	    # Without early demultiplexing nothing is there to keep.
	    with netns(router), open("/proc/sys/net/ipv4/udp_early_demux", "r+") as file:
	        file.write("0")
	        file.flush()
	        udp_case("without early demultiplexing, another source address, transparent", 7103,
	                 10008, "any", True)
	        file.seek(0)
	        file.write("1")
EOF
results
served 4
finish
