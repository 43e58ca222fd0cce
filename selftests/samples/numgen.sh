#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The sample expression: its numbers are in range, and of every value in it; the rule is listed as
# it was added; what it refuses, C's errno; C's own serves again when it is gone.

# shellcheck source=/dev/null
. /kselftest/kselftest/ktap_helpers.sh

ktap_print_header
ktap_set_plan 7

check() {
	local name=$1
	shift
	if "$@"; then
		ktap_test_pass "$name"
	else
		ktap_test_fail "$name"
	fi
}

counter() {
	nft -j list counter ip t "$1" | jq '.nftables[] | select(.counter).counter.packets'
}

in_range() {
	[ "$(counter low)" -gt 0 ] && [ "$(counter high)" -gt 0 ] && [ "$(counter other)" = 0 ] &&
		[ $(($(counter low) + $(counter high))) = "$(counter total)" ]
}

listed() {
	nft list ruleset | grep -qF "numgen random mod 2 offset 41"
}

cannot_unload() {
	! rmmod nft_numgen_rust 2>/dev/null
}

refused_with() {
	local errno=$1
	shift
	nft "$@" 2>&1 | grep -q "$errno"
}

modprobe nft_numgen_rust || exit 1
nft -f - <<'RULES' || exit 1
table ip t {
	counter low { }
	counter high { }
	counter other { }
	counter total { }
	chain o {
		type filter hook output priority 0
		counter name "total"
		counter name numgen random mod 2 offset 41 map {
			41 : "low", 42 : "high", 0-40 : "other", 43-0xffffffff : "other" }
	}
}
RULES
ip link set lo up
ping -c 200 -i 0.002 -q 127.0.0.1 >/dev/null

check "numbers in range" in_range
check "rule uses the sample" [ "$(cat /sys/module/nft_numgen_rust/refcnt)" -gt 0 ]
check "rule is listed" listed
check "numgen inc is refused" refused_with "not supported" add rule ip t o numgen inc mod 2 1
check "in use: cannot be unloaded" cannot_unload
nft flush ruleset
check "unloads" rmmod nft_numgen_rust
nft add table ip t
nft add chain ip t c
check "C serves again" nft add rule ip t c numgen inc mod 2 1
nft flush ruleset

ktap_finished
