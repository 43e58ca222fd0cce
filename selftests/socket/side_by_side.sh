#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust
#
# C's module and Rust's loaded together: rules that exist keep the one they have, new ones get
# Rust, both see the same, either goes when its rules are gone, and C serves when Rust is not
# there.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 31
setup_pair

c=nft_socket rust=nft_socket_rust

# add_rules NAME: 8 expressions
add_rules()
{
	local name=$1 family

	for family in ip ip6 inet inet; do
		cat <<-EOF
			table $family $name {
				counter ${name}_${family}_mark { }
				counter ${name}_${family}_transparent { }
				chain c {
					type filter hook prerouting priority 0
					socket mark 0x11 counter name ${name}_${family}_mark
					socket transparent 1 \\
						counter name ${name}_${family}_transparent
				}
			}
		EOF
	done | in_ns "$server" nft -f -
}

remove_rules()
{
	local family

	for family in ip ip6 inet; do
		in_ns "$server" nft delete table $family "$1"
	done
}

# held C RUST: that many references on each of the two
held()
{
	has_references $c "$1" && has_references $rust "$2"
}

send()
{
	# shellcheck disable=SC2154 # set by setup_ns
	traffic "$client" "$server" "$1" <<-'EOF'
		import sys
		from net import *

		wire = Wire(sys.argv[1])
		enter(sys.argv[2])
		sport = int(sys.argv[3])
		kept = []
		for mine, peer in ("10.0.1.2", "10.0.1.9"), ("dead:1::2", "dead:1::9"):
		    kept += [udp(mine, 7001, mark=0x11), udp(mine, 7002, transparent=True),
		             listener(mine, 7001, mark=0x11)]
		    for port in 7001, 7002, 7003:
		        wire.send(udp_packet(peer, mine, 9000, port))
		    wire.send(tcp_packet(peer, mine, sport, 7001))
		    wire.send(icmp(peer, mine, udp_packet(mine, peer, 7001, 9000)))
		settle()
	EOF
	read_counters "$server"
}

# found NAME TIMES: three packets of each version match by mark, and one as transparent
found()
{
	[ "${count[${1}_ip_mark]:-}" = $((3 * $2)) ] &&
		[ "${count[${1}_ip6_mark]:-}" = $((3 * $2)) ] &&
		[ "${count[${1}_inet_mark]:-}" = $((12 * $2)) ] &&
		[ "${count[${1}_ip_transparent]:-}" = "$2" ] &&
		[ "${count[${1}_ip6_transparent]:-}" = "$2" ] &&
		[ "${count[${1}_inet_transparent]:-}" = $((4 * $2)) ]
}

listed()
{
	in_ns "$server" nft list table inet "$1" | sed "s/$1/name/g; s/packets .*//"
}

# C first, then Rust
rmmod $rust
modprobe $c
add_rules old
check "rules from before Rust are C's" held 8 0
modprobe $rust
check "loading Rust does not change that" held 8 0
add_rules new
check "rules from then on are Rust's" held 8 8
send 9001
check "C's rules still find what they should" found old 1
check "Rust's rules find the same" found new 1
check "both list the same text" [ "$(listed old)" = "$(listed new)" ]
check "C's module does not go while it has rules" [ "$(rmmod $c 2>&1 | grep -c 'in use')" = 1 ]
check "Rust's module does not go while it has rules" \
	[ "$(rmmod $rust 2>&1 | grep -c 'in use')" = 1 ]
handle=$(in_ns "$server" nft -a list chain ip old c | sed -n 's/.*socket mark.*# handle //p')
in_ns "$server" nft replace rule ip old c handle "$handle" \
	socket mark 0x11 counter name old_ip_mark
check "a rule of C's that is replaced becomes Rust's" held 7 9
send 9002
check "and goes on counting" found old 2
check "as the others do" found new 2
remove_rules old
check "when the old rules go, only C loses references" held 0 8
check "and can be unloaded" rmmod $c
send 9003
check "Rust's rules do not mind" found new 3

# Rust first, then C
modprobe $c
check "C can be loaded again" held 0 8
add_rules more
check "and new rules are still Rust's" held 0 16
send 9004
check "old rules go on" found new 4
check "new ones find the same" found more 1
check "C's module goes at any time" rmmod $c
modprobe $c
remove_rules new
remove_rules more
check "without rules Rust has no references" held 0 0
check "and can be unloaded" rmmod $rust
add_rules back
check "then C serves again" has_references $c 8
check "without Rust coming back" [ ! -e /sys/module/$rust ]
send 9005
check "and finds what it should" found back 1

# Families that Rust does not register are C's, beside it as well.
modprobe $rust
refused()
{
	in_ns "$server" nft "$@" 2>&1 | grep -q "Operation not supported"
}
check "bridge: refused as by C" refused \
	'add table bridge b; add chain bridge b c { type filter hook input priority 0; };
	 add rule bridge b c socket mark 1'
check "nothing is left of that" held 8 0

# Each of the two may go first.
add_rules both
check "both have rules again" held 8 8
remove_rules both
check "Rust's go first" held 8 0
check "Rust can be unloaded while C has rules" rmmod $rust
send 9006
check "C goes on" found back 2
remove_rules back
check "at the end neither has references" has_references $c 0
rmmod $c
modprobe $rust
finish
