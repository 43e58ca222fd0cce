#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust
#
# A legacy iptables nat table that comes after chains of type nat: a limit, as its hooks are C's and
# ours are there already. The table's hooks come first, and what they have no rule for is settled,
# too, so rules of ours are not asked. Connections go on, nothing breaks, and chains that are added
# anew share C's hooks.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 15
setup_router
if ! iptables-legacy --version >/dev/null 2>&1 || ! modprobe -q iptable_nat; then
	ktap_skip_all "no legacy iptables"
	exit "$KSFT_SKIP"
fi

to_c()
{
	sed -n 's/^chain_to_c //p' "$debugfs"
}
to_c_before=$(to_c)

# Chains that were added to C's hooks since the test began
went_to_c()
{
	[ $(($(to_c) - to_c_before)) = "$1" ]
}

chain()
{
	# shellcheck disable=SC2154 # set by setup_ns
	rules "$router" <<-EOF
		table inet nat {
			chain postrouting {
				type nat hook postrouting priority srcnat
				meta nfproto ipv4 udp dport 7002 snat ip to 10.0.2.52
				meta nfproto ipv6 udp dport 7002 snat ip6 to dead:2::52
			}
		}
	EOF
}
chain

# shellcheck disable=SC2154 # set by setup_ns
coproc talker { exec python3 -S -c "$(
	cat <<-'EOF'
		import sys
		from nat import *

		client, server = sys.argv[1:]
		far, number = Echo(server), 6000
		for line in sys.stdin:
		    version, dport, sport = map(int, line.split())
		    number, there = number + 1, addr(version, 2, 1)
		    seen = exchange("udp", client, (addr(version, 1, 1), sport or number), (there, dport),
		                    far.at("udp", there, dport), timeout=0.5)
		    print(seen[0].split(".")[-1].split(":")[-1] if isinstance(seen, tuple) else seen,
		          flush=True)
	EOF
)" "$client" "$server"; }

# expect VERSION SOURCE DESCRIPTION PORT [SOURCE_PORT]
expect()
{
	local got

	echo "$1 $4 ${5:-0}" >&"${talker[1]}"
	read -r -t 20 got <&"${talker[0]}"
	check "IPv$1, $3: $2" [ "$got" = "$2" ]
}

expect 4 52 "chain alone" 7002 5000
expect 6 52 "chain alone" 7002
in_ns "$router" iptables-legacy -t nat -A POSTROUTING -p udp --dport 7001 -j SNAT \
	--to-source 10.0.2.51
expect 4 51 "a rule of iptables that came later" 7001
expect 4 1 "a rule of the chain is not asked any more" 7002
expect 4 52 "but what it had translated stays so" 7002 5000
expect 6 52 "the other version is not concerned" 7002
check "the chain was not added to C's hooks" went_to_c 0
in_ns "$router" nft flush ruleset
expect 4 51 "iptables, without the chain" 7001
chain
check "added anew, the chain goes to C's hooks" went_to_c 1
expect 4 51 "added anew: a rule of iptables" 7001
expect 4 52 "added anew: a rule of the chain" 7002
expect 6 52 "added anew: a rule of the chain" 7002
served 1
in_ns "$router" nft flush ruleset
check "nothing holds the module" has_references "$module" 0
expect 4 51 "iptables goes on" 7001
finish
