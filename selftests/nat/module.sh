#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module's life: loaded by the kernel when a chain of type nat needs it, held by each of them,
# gone when they are. With the file for modprobe.d that is Rust's, and C's stays away.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 36
setup_router

# add_chain FAMILY NETNS: a chain and a rule
add_chain()
{
	in_ns "$2" nft -f - <<-EOF
		table $1 t$1 {
			chain c {
				type nat hook postrouting priority srcnat
				udp dport 7001 masquerade
			}
		}
	EOF
}

# unload: by the system call, so that it is the kernel who decides, and not rmmod
unload()
{
	python3 -S - "$module" <<-'EOF'
		import ctypes, errno, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		if libc.syscall(176, sys.argv[1].encode(), os.O_NONBLOCK):
		    print(errno.errorcode[ctypes.get_errno()])
	EOF
}

only_loaded()
{
	[ -e "/sys/module/$module" ] && [ ! -e "/sys/module/$other" ]
}

# shellcheck disable=SC2154 # set by setup_ns
add_chain inet "$router"
served 1 idle
check "unload with a chain is refused" [ "$(unload)" = EAGAIN ]
check "and it stays loaded" only_loaded
translated()
{
	# shellcheck disable=SC2154 # set by setup_ns
	traffic "$client" "$server" <<-'EOF'
		import sys
		from nat import *

		client, server = sys.argv[1:]
		far = Echo(server)
		for version in 4, 6:
		    print(exchange("udp", client, (addr(version, 1, 1), 0), (addr(version, 2, 1), 7001),
		                   far.at("udp", addr(version, 2, 1), 7001))[0])
	EOF
	[ "$(tr '\n' ' ' <"$tmp/traffic")" = "10.0.2.2 dead:2::2 " ]
}
check "and the rule works on" translated

# Chains in other places hold it as well.
# shellcheck disable=SC2154 # set by setup_ns
setup_ns another || exit "$?"
# shellcheck disable=SC2154 # set by setup_ns
add_chain ip "$another"
in_ns "$router" nft add chain inet tinet jumped
in_ns "$router" nft add chain inet tinet more '{ type nat hook output priority 7; }'
check "every chain at a hook is a reference" has_references "$module" 3
in_ns "$router" nft delete chain inet tinet more
check "a chain that is deleted releases its own" has_references "$module" 2
cleanup_ns "$another"
check "the end of a namespace releases its own" has_references "$module" 1
in_ns "$router" nft add table inet dormant '{ flags dormant; }'
in_ns "$router" nft add chain inet dormant c '{ type nat hook input priority 7; }'
check "a chain of a dormant table is a reference" has_references "$module" 2
check "but at no hook" [ "$(in_ns "$router" nft list hooks | grep -c 'inet dormant c')" = 0 ]
in_ns "$router" nft add table inet dormant
check "until the table wakes up" \
	[ "$(in_ns "$router" nft list hooks | grep -c "inet dormant c .$module")" = 2 ]
in_ns "$router" nft add table inet dormant '{ flags dormant; }'
check "and it can sleep again" [ "$(in_ns "$router" nft list hooks | grep -c 'dormant c')" = 0 ]
in_ns "$router" nft delete table inet dormant
check "a table that is deleted releases those of its chains" has_references "$module" 1

# What is refused leaves nothing behind.
refused()
{
	! in_ns "$router" nft "$@" 2>/dev/null
}
check "a chain at the hook forward is refused" refused add chain inet tinet c2 \
	'{ type nat hook forward priority 0; }'
check "a chain at the hook ingress is refused" refused add chain inet tinet c2 \
	'{ type nat hook ingress device eth0 priority 0; }'
check "a chain before connection tracking is refused" refused add chain inet tinet c2 \
	'{ type nat hook prerouting priority -200; }'
for family in bridge netdev arp; do
	check "a chain of family $family is refused" refused "add table $family t
		add chain $family t c { type nat hook input priority 0; }"
done
check "a transaction that fails later is refused" refused \
	'add chain inet tinet c2 { type nat hook prerouting priority 0; }
	 add rule inet tinet missing accept'
check "and none of them has left a reference" has_references "$module" 1
check "nor a chain" [ "$(in_ns "$router" nft list hooks | grep -c "$module")" = 2 ]
check "the rule works on after that" translated

in_ns "$router" nft flush ruleset
check "without chains nothing holds it" has_references "$module" 0
check "unload without chains" [ -z "$(unload)" ]
check "and it is gone" [ ! -e "/sys/module/$module" ]

# The kernel asks for it when the first chain needs it, whichever family that is for.
for family in inet ip ip6; do
	check "the first chain of family $family loads it" add_chain $family "$router"
	check "the first chain of family $family loads nothing else" only_loaded
	in_ns "$router" nft flush ruleset
	has_references "$module" 0
	unload >"$tmp/unload"
done

# The other one beside it. C's would overwrite Rust's types and take them away when it goes: the
# file for modprobe.d is what stands before that.
add_chain inet "$router"
refuses_other()
{
	! modprobe "$other" 2>/dev/null && only_loaded
}
check "the other module is refused beside it" refuses_other
check "by its alias it is this one" modprobe nft-chain-2-nat
check "and nothing else comes with it" only_loaded
check "rules are not disturbed by the attempt" translated
# shellcheck disable=SC2034 # lib.sh reads it; the counters are those of a module loaded since
evaluations_before=0
served 1
finish
