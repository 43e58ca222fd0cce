#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust
#
# Where C's module is loaded, Rust's refuses, with one line that says why and what to do; and the
# way from one to the other by hand, as the file for modprobe.d describes it.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 24
setup_router
c=nft_chain_nat rust=nft_chain_nat_rust

add_chain()
{
	# shellcheck disable=SC2154 # set by setup_ns
	rules "$router" <<-EOF
		table inet t {
			chain c {
				type nat hook postrouting priority srcnat
				udp dport 7001 masquerade
			}
		}
	EOF
}

works()
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

# load: by the system call, so that the answer is the kernel's
load()
{
	python3 -S - "$(modinfo -n $rust)" <<-'EOF'
		import ctypes, errno, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		fd = os.open(sys.argv[1], os.O_RDONLY)
		if libc.syscall(313, fd, b"", 0):
		    print(errno.errorcode[ctypes.get_errno()])
	EOF
}

said()
{
	dmesg | grep -c " $rust: "
}

check "unloaded, to begin with" rmmod $rust
check "C's module by name is refused by the file" \
	[ "$(modprobe $c >/dev/null 2>&1; echo $?)" != 0 ]
check "and is not loaded" [ ! -e /sys/module/$c ]
check "to C by hand: --ignore-install" modprobe --ignore-install $c
check "C is loaded" [ -e /sys/module/$c ]

said=$(said)
# The kernel tells a module that is loaded already by EEXIST, and newer ones make EBUSY of it when
# a module's own initialization says so.
result=$(load)
check "Rust is refused beside C: ${result/EBUSY/EEXIST}" [ "${result/EBUSY/EEXIST}" = EEXIST ]
check "with one line" [ $(($(said) - said)) = 1 ]
line=$(dmesg | grep " $rust: " | tail -n 1)
msg "$line"
check "which says what is in the way" grep -q "nft_chain_nat is loaded" <<<"$line"
check "how to remove it" grep -q "rmmod nft_chain_nat" <<<"$line"
check "and how to keep it away" grep -q "modprobe\.d" <<<"$line"
check "Rust is not loaded" [ ! -e /sys/module/$rust ]
check "and has left no file" [ ! -e /sys/kernel/debug/$rust ]
add_chain
check "C serves after that" has_references $c 1
check "and translates" works
result=$(load)
check "Rust is refused while C has chains" [ "${result/EBUSY/EEXIST}" = EEXIST ]
check "and C goes on" works
check "C does not go while it has chains" [ "$(rmmod $c 2>&1 | grep -c 'in use')" = 1 ]

in_ns "$router" nft flush ruleset
has_references $c 0
check "to Rust by hand: unload C" rmmod $c
check "and load Rust" modprobe $rust
add_chain
check "Rust serves after that" has_references $rust 1
check "and translates" works
check "by its own hooks" [ "$(evaluations)" -gt 0 ]

in_ns "$router" nft flush ruleset
has_references $rust 0
rmmod $rust && modprobe --ignore-install $c && rmmod $c
add_chain
check "with neither of them loaded, a chain gets Rust" has_references $rust 1
check "and translates there" works
finish
