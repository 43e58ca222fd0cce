#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The expression as people use it in rules: compared, masked, looked up in sets and verdict maps,
# copied into the packet's mark and the connection's, in chains that are jumped to, and with the
# expressions before and after it.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 24
setup_pair
cgroup=nfrust-rules
mkdir -p "/sys/fs/cgroup/$cgroup/web" "/sys/fs/cgroup/$cgroup/mail"
remove_cgroup()
{
	rmdir "/sys/fs/cgroup/$cgroup"/{web,mail,}
}
cleanup_hooks+=(remove_cgroup)

# Port 7001: mark 0x1234, cgroup web, transparent. 7002: mark 0, cgroup mail. 7003: no socket.
for name in equal unequal masked in_set in_named_set in_no_set range vmap_a vmap_b mapped copied \
	copied_ct jumped returned web mail not_web two_keys order before_break after_break \
	limited negated_cgroup; do
	echo "add table inet t"
	echo "add counter inet t $name"
done >"$tmp/rules"
cat >>"$tmp/rules" <<-EOF
	table inet t {
		set marks { typeof socket mark; elements = { 0x1234, 0x5678 }; }
		chain user { socket transparent 1 return; counter name jumped; }
		chain a { counter name vmap_a; }
		chain b { counter name vmap_b; }
		chain copy {
			type filter hook prerouting priority -150
			udp dport 7001-7003 meta mark set socket mark
			udp dport 7001-7003 ct mark set socket mark
		}
		chain rules {
			type filter hook input priority 0
			udp dport != 7001-7003 accept
			socket mark 0x1234 counter name equal
			socket mark != 0x1234 counter name unequal
			socket mark & 0xff == 0x34 counter name masked
			socket mark { 1, 0x1234 } counter name in_set
			socket mark @marks counter name in_named_set
			socket mark != { 1, 0x1234 } counter name in_no_set
			socket mark 0x1000-0x2000 counter name range
			socket mark vmap { 0x1234 : jump a, 0 : jump b }
			meta mark set socket mark map { 0x1234 : 7, 0 : 8 }
			meta mark 7 counter name mapped
			ct mark 0x1234 counter name copied_ct
			jump user
			counter name returned
			socket cgroupv2 level 2 "$cgroup/web" counter name web
			socket cgroupv2 level 2 "$cgroup/mail" counter name mail
			socket cgroupv2 level 2 != "$cgroup/web" counter name not_web
			socket cgroupv2 level 2 { "$cgroup/mail" } counter name negated_cgroup
			socket transparent 1 socket wildcard 0 socket mark 0x1234 \\
				counter name two_keys
			socket wildcard 0 udp dport 7001 socket transparent 1 ip version 4 \\
				counter name order
			counter name before_break socket mark 0x1234 counter name after_break
			limit rate 1/day burst 1 packets socket mark 0x1234 counter name limited
		}
		chain copied {
			type filter hook input priority -1
			meta mark 0x1234 counter name copied
		}
	}
EOF
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <"$tmp/rules"
served 23 idle

traffic "$client" "$server" "$cgroup" <<-'EOF'
	import sys
	from net import *

	client, server, cgroup = sys.argv[1:]
	wire = Wire(client)
	enter(server)
	kept = []
	for mine in "10.0.1.2", "dead:1::2":
	    join_cgroup(f"{cgroup}/web")
	    kept.append(udp(mine, 7001, mark=0x1234, transparent=True))
	    join_cgroup(f"{cgroup}/mail")
	    kept.append(udp(mine, 7002))
	join_cgroup("")
	for peer, mine in ("10.0.1.9", "10.0.1.2"), ("dead:1::9", "dead:1::2"):
	    for port in 7001, 7002, 7003:
	        wire.send(udp_packet(peer, mine, 9000, port))
	settle()
EOF
read_counters "$server"

# Two packets, one of each version, for each of the three ports.
counted equal 2 "mark equal to a value"
counted unequal 2 "mark unequal: other sockets, but not packets without one"
counted masked 2 "mark under a mask"
counted in_set 2 "mark in a set"
counted in_named_set 2 "mark in a named set"
counted in_no_set 2 "mark in no set: other sockets, but not packets without one"
counted range 2 "mark in a range"
counted vmap_a 2 "verdict map, first element"
counted vmap_b 2 "verdict map, second element"
counted mapped 2 "map to another value"
counted copied 2 "copied into the packet's mark"
counted copied_ct 2 "copied into the connection's mark"
counted jumped 4 "return from a chain, by the key: the others stay"
counted returned 6 "return from a chain: all come back"
counted web 2 "cgroup by its path"
counted mail 2 "another cgroup by its path"
counted not_web 2 "not in a cgroup: other sockets, but not packets without one"
counted negated_cgroup 2 "cgroup in a set"
counted two_keys 2 "three keys in a rule"
counted order 1 "keys among other expressions"
counted before_break 6 "expressions before it are evaluated in any case"
counted after_break 2 "expressions after it only on a match"
counted limited 1 "a limit before it"
finish
