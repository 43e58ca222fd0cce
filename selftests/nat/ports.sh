#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Ranges of addresses and ports, random ones, the same address again for the same client, networks
# mapped to networks, and what happens when a range is exhausted.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 63
setup_router
for version in 4 6; do
	if [ $version = 4 ]; then
		family=ip two=10.0.2. at="10.0.2.50" to="10.0.2.1"
		mapped=10.0.9.0/24 net=10.0.2.0/24
	else
		family=ip6 two=dead:2:: at="[dead:2::50]" to="[dead:2::1]"
		mapped=dead:9::/64 net=dead:2::/64
	fi
	cat <<-EOF
		table $family nat {
			map services {
				type inet_service : ipv${version}_addr . inet_service
				elements = { 7020 : ${two}1 . 7120, 7021 : ${two}1 . 7121 }
			}
			chain prerouting {
				type nat hook prerouting priority dstnat
				meta l4proto { tcp, udp } th dport 7010 dnat to $to:7110-7113
				meta l4proto { tcp, udp } th dport 7011 dnat to $to:7110-7113 random
				meta l4proto { tcp, udp } th dport 7012 redirect to :7110-7113
				meta l4proto { tcp, udp } th dport 7013 redirect to :7110-7113 random
				meta l4proto { tcp, udp } dnat to th dport map @services
				$family daddr $mapped dnat $family prefix to $family daddr map { $mapped : $net }
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				meta l4proto { tcp, udp } th dport 7001 snat to $at:20000-20015
				meta l4proto { tcp, udp } th dport 7002 masquerade to :20000-20015
				meta l4proto { tcp, udp } th dport 7003 masquerade random
				meta l4proto { tcp, udp } th dport 7004 masquerade fully-random
				meta l4proto { tcp, udp } th dport 7005 masquerade to :20000-20999 random
				meta l4proto { tcp, udp } th dport 7006 masquerade to :20000-20999 fully-random
				meta l4proto { tcp, udp } th dport 7007 snat to ${two}50-${two}59
				meta l4proto { tcp, udp } th dport 7008 snat to ${two}50-${two}59 persistent
				meta l4proto { tcp, udp } th dport 7009 snat to ${two}50 fully-random
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

	client, router, server = sys.argv[1:]
	# What connections from this many ports look like at the other end
	FLOWS = 16
	first = 30000

	for version in 4, 6:
	    one, two, there = addr(version, 1, 1), addr(version, 2, 2), addr(version, 2, 1)
	    snat, virtual = addr(version, 2, 50), addr(version, 2, 66)
	    pool = {addr(version, 2, host) for host in range(50, 60)}

	    def flows(ns, ends, to, dport, number=FLOWS):
	        """[(source, source port, port it came to)]; all are answered."""
	        global first
	        with netns(ns):
	            socks = [udp(at, p) for at, p in ends]
	        result = []
	        for sport in range(first, first + number):
	            with netns(client):
	                c = udp(one, sport, peer=(to, dport))
	            c.send(b"x")
	            c.settimeout(0.2)
	            for _ in range(30):
	                for s in socks:
	                    s.setblocking(False)
	                    try:
	                        _, peer = s.recvfrom(9)
	                    except BlockingIOError:
	                        continue
	                    s.sendto(b"y", peer)
	                    c.recv(9)
	                    result.append((peer[0], peer[1], s.getsockname()[1]))
	                    break
	                else:
	                    time.sleep(0.01)
	                    continue
	                break
	            c.close()
	        first += number
	        for s in socks:
	            s.close()
	        return result

	    def say(name, result, expected):
	        print(f"{result}|{expected}|IPv{version}, {name}")

	    def sources(dport, number=FLOWS):
	        seen = flows(server, [(there, dport)], there, dport, number)
	        return {s for s, _, _ in seen}, [p for _, p, _ in seen]

	    low, high = range(20000, 20016), range(20000, 21000)
	    hosts, ports = sources(7001)
	    say("snat to a range of ports: all of them are used", (hosts, set(ports)) == ({snat}, set(low)), True)
	    say("and one more is not sent", sources(7001, 1), (set(), []))
	    hosts, ports = sources(7002)
	    say("masquerade to a range of ports: all of them are used",
	        (hosts, set(ports)) == ({two}, set(low)), True)
	    for name, dport, source, limits in \
	            ("masquerade random", 7003, two, range(1024, 65536)), \
	            ("masquerade fully-random", 7004, two, range(1024, 65536)), \
	            ("masquerade to a range, random", 7005, two, high), \
	            ("masquerade to a range, fully-random", 7006, two, high), \
	            ("snat fully-random", 7009, snat, range(1024, 65536)):
	        before = first
	        hosts, ports = sources(dport)
	        kept = sum(a == b for a, b in zip(ports, range(before, first)))
	        steps = {b - a for a, b in zip(ports, ports[1:])}
	        say(f"{name}: source", hosts, {source})
	        say(f"{name}: ports are different and of the range",
	            (len(set(ports)), all(p in limits for p in ports)), (FLOWS, True))
	        say(f"{name}: they are others, and in no order", (kept < 3, len(steps) > 4), (True, True))
	    hosts, ports = sources(7007)
	    say("snat to a range of addresses: sources are of it", hosts <= pool and len(hosts) > 0, True)
	    say("snat to a range of addresses: the same client, the same one", len(hosts), 1)
	    before = first
	    hosts, ports = sources(7008)
	    say("snat to a range of addresses, persistent: sources", hosts <= pool and len(hosts) == 1,
	        True)
	    say("snat to a range of addresses: ports stay", ports == list(range(before, first)), True)

	    ends = [(there, number) for number in range(7110, 7114)]
	    local = [(addr(version, 1, 2), number) for number in range(7110, 7114)]
	    for name, ns, at, dport, everywhere in \
	            ("dnat to a range of ports", server, ends, 7010, False), \
	            ("dnat to a range of ports, random", server, ends, 7011, True), \
	            ("redirect to a range of ports", router, local, 7012, False), \
	            ("redirect to a range of ports, random", router, local, 7013, True):
	        seen = flows(ns, at, virtual, dport, 32)
	        came = {p for _, _, p in seen}
	        say(f"{name}: all arrive in it, with their sources",
	            (len(seen), came <= set(range(7110, 7114)), {s for s, _, _ in seen}), (32, True, {one}))
	        if everywhere:
	            say(f"{name}: not all at one", len(came) > 1, True)
	    for number in 7020, 7021:
	        seen = flows(server, [(there, number + 100)], virtual, number, 2)
	        say(f"dnat by a map, {number}", [p for _, _, p in seen], [number + 100] * 2)
	    seen = flows(server, [(there, 7030)], addr(version, 9, 1), 7030, 2)
	    say("dnat of a network to a network", [s for s, _, _ in seen], [one, one])
EOF
results
served 4
finish
