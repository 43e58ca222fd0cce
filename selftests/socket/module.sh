#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module's life: loaded by the kernel when a rule needs it, held by rules, gone when they are.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 21
setup_pair

# add_rule FAMILY NETNS
add_rule()
{
	in_ns "$2" nft -f - <<-EOF
		table $1 t$1 {
			counter found$1 { }
			chain c {
				type filter hook input priority 0
				meta l4proto udp socket mark 0x11 counter name found$1
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

# loaded_are MODULE: that one, and not the other
only_loaded()
{
	[ -e "/sys/module/$module" ] && [ ! -e "/sys/module/$other" ]
}

# shellcheck disable=SC2154 # set by setup_ns
add_rule inet "$server"
served 1 idle
check "unload with a rule is refused" [ "$(unload)" = EAGAIN ]
check "and it stays loaded" only_loaded
traffic "$client" "$server" <<-'EOF'
	import sys
	from net import *

	wire = Wire(sys.argv[1])
	enter(sys.argv[2])
	kept = udp("10.0.1.2", 7001, mark=0x11), udp("dead:1::2", 7001, mark=0x11)
	wire.send(udp_packet("10.0.1.9", "10.0.1.2", 9000, 7001))
	wire.send(udp_packet("dead:1::9", "dead:1::2", 9000, 7001))
	settle()
EOF
read_counters "$server"
counted foundinet 2 "and the rule works on"

# Rules in other places hold it as well.
# shellcheck disable=SC2154 # set by setup_ns
add_rule ip "$client"
in_ns "$server" nft add chain inet tinet unused
in_ns "$server" nft add rule inet tinet unused socket wildcard 1 socket transparent 1
check "every expression is a reference" has_references "$module" 4
in_ns "$server" nft flush chain inet tinet unused
check "a flush of a chain releases its own" has_references "$module" 2
cleanup_ns "$client"
check "the end of a namespace releases its own" has_references "$module" 1
in_ns "$server" nft add rule inet tinet c socket mark 1 drop
check "a rule more is a reference more" has_references "$module" 2
handle=$(in_ns "$server" nft -a list chain inet tinet c | sed -n 's/.*drop # handle //p')
in_ns "$server" nft replace rule inet tinet c handle "$handle" socket transparent 1
check "a rule that replaces another is no reference more" has_references "$module" 2

# What is refused leaves nothing behind.
refused()
{
	! in_ns "$server" nft "$@" 2>/dev/null
}
check "a chain in the forward hook is refused" refused add chain inet tinet forward \
	'{ type filter hook forward priority 0; }; add rule inet tinet forward socket mark 1'
check "a transaction that fails later is refused" refused \
	'add rule inet tinet c socket mark 1; add rule inet tinet missing accept'
check "and neither has left a reference" has_references "$module" 2

in_ns "$server" nft flush ruleset
check "without rules nothing holds it" has_references "$module" 0
check "unload without rules" [ -z "$(unload)" ]
check "and it is gone" [ ! -e "/sys/module/$module" ]

# The kernel asks for it when the first rule needs it, whichever family that is for.
for family in inet ip ip6; do
	check "the first rule of family $family loads it" add_rule $family "$server"
	check "the first rule of family $family loads nothing else" only_loaded
	in_ns "$server" nft flush ruleset
	has_references "$module" 0
	unload >"$tmp/unload"
done
finish
