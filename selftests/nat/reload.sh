#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module is loaded, gets chains, loses them and is unloaded, CYCLES times, while packets of old and
# new connections go through the router without end: translated while there are chains, as they are
# else.
# run.sh: timeout=300

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

: "${CYCLES:=10}"
plan 4
setup_router
# Connections are made faster than they would be forgotten.
# shellcheck disable=SC2154 # set by setup_ns
in_ns "$router" sysctl -qw net.netfilter.nf_conntrack_udp_timeout=1
for version in 4 6; do
	two=10.0.2. only="ip "
	[ $version = 4 ] || two=dead:2:: only="ip6 "
	cat <<-EOF
		table ${only}nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				udp dport 7005 redirect to :7105
			}
			chain output {
				type nat hook output priority -100
				udp dport 7006 dnat to ${two}1
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				udp dport 7001 snat to ${two}50
			}
		}
		table inet nat {
			chain input {
				type nat hook input priority 100
				${only}saddr ${two}1 accept
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <<-EOF
	table inet t {
		counter as_it_is4 { }
		counter as_it_is6 { }
		counter translated4 { }
		counter translated6 { }
		chain prerouting {
			type filter hook prerouting priority -300
			ip saddr 10.0.1.1 udp dport 7001 counter name as_it_is4 drop
			ip saddr 10.0.2.50 udp dport 7001 counter name translated4 drop
			ip6 saddr dead:1::1 udp dport 7001 counter name as_it_is6 drop
			ip6 saddr dead:2::50 udp dport 7001 counter name translated6 drop
			udp dport 7000-7199 drop
		}
	}
EOF

flood()
{
	# shellcheck disable=SC2154 # set by setup_ns
	exec python3 -S - "$client" "$router" "$tmp" >"$tmp/flood" 2>&1 <<-'EOF'
		import os, sys
		from nat import *

		client, router, tmp = sys.argv[1:]
		old, sent, refused, number = [], 0, 0, 0
		for version in 4, 6:
		    with netns(client):
		        old += [udp(addr(version, 1, 1), 0, peer=(addr(version, 2, 1), port))
		                for port in (7000, 7001, 7005)]
		    with netns(router):
		        old.append(udp(addr(version, 2, 2), 0, peer=(addr(version, 2, 1), 7006)))
		while not os.path.exists(f"{tmp}/stop"):
		    enter(client)
		    for version in 4, 6:
		        for _ in range(8):
		            number += 1
		            new = udp(addr(version, 1, 1), 10000 + number % 20000)
		            new.sendto(b"x", (addr(version, 2, 1), 7001))
		            new.close()
		            sent += 1
		    for s in old:
		        try:
		            s.send(b"x")
		        except OSError: # nobody listens
		            refused += 1
		        sent += 1
		print(f"sent {sent}, refused {refused}")
	EOF
}
flood &
flooder=$!

# move NAME: packets of that kind come in, of both versions
moves()
{
	local name=$1

	more()
	{
		read_counters "$server"
		[ "${count[${name}4]}" -gt 0 ] && [ "${count[${name}6]}" -gt 0 ]
	}
	in_ns "$server" nft reset counters >"$tmp/reset"
	slowwait 10 more
}
moves as_it_is

translates=0 stops=0 unloads=0
begin=$SECONDS
for ((i = 1; i <= CYCLES; i++)); do
	[ -e "/sys/module/$module" ] || modprobe "$module" || break
	# shellcheck disable=SC2154 # set by setup_ns
	in_ns "$router" nft -f "$tmp/rules"
	! moves translated || translates=$((translates + 1))
	# Every other time, connections are not forgotten before the hooks go.
	[ $((i % 2)) = 0 ] || in_ns "$router" conntrack -F >"$tmp/conntrack" 2>&1
	in_ns "$router" nft flush ruleset
	has_references "$module" 0
	! rmmod "$module" || unloads=$((unloads + 1))
	! moves as_it_is || stops=$((stops + 1))
done
touch "$tmp/stop"
wait $flooder
msg "$CYCLES cycles in $((SECONDS - begin)) s; $(cat "$tmp/flood")"
check "packets came in meanwhile" grep -q "^sent [1-9][0-9][0-9][0-9]" "$tmp/flood"
check "translated each time" [ $translates = "$CYCLES" ]
check "as they are after that, each time" [ $stops = "$CYCLES" ]
check "unloaded each time" [ $unloads = "$CYCLES" ]
finish
