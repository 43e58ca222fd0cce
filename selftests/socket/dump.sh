#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What comes back from the kernel: the text and the JSON that nft lists, the attributes
# themselves, and that what was listed can be loaded again.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 29
setup_ns server || exit "$?"

cgroup=nfrust-dump
mkdir -p "/sys/fs/cgroup/$cgroup/sub"
remove_cgroup()
{
	rmdir "/sys/fs/cgroup/$cgroup/sub" "/sys/fs/cgroup/$cgroup"
}
cleanup_hooks+=(remove_cgroup)

# As nft prints it, byte by byte.
cat >"$tmp/text" <<EOF
table ip t4 {
	chain pre {
		type filter hook prerouting priority mangle; policy accept;
		socket transparent 1
		socket transparent 0 counter packets 0 bytes 0
		socket mark 0x00000011 accept
	}
}
table ip6 t6 {
	chain in {
		type filter hook input priority filter; policy accept;
		socket wildcard 1
		socket mark != 0x00000000 drop
		meta mark set socket mark
	}
}
table inet t {
	set marks {
		typeof socket mark
		elements = { 0x00000001, 0x00000002 }
	}

	chain pre {
		type filter hook prerouting priority raw; policy accept;
		socket mark & 0x000000ff == 0x00000007 accept
		socket mark { 0x00000003, 0xffffffff } accept
		socket mark @marks accept
		socket mark vmap { 0x00000005 : accept, 0x00000006 : drop }
		socket transparent 1 socket wildcard 0 meta mark set 0x00000001 accept
		ct mark set socket mark
	}

	chain out {
		type filter hook output priority filter; policy accept;
		socket cgroupv2 level 1 "$cgroup" accept
		socket cgroupv2 level 2 "$cgroup/sub" counter packets 0 bytes 0
		socket cgroupv2 level 1 != "$cgroup" return
	}

	chain user {
		socket mark 0x0000002a
		socket wildcard 0 socket transparent 1
	}
}
EOF
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <"$tmp/text"

# same EXPECTED FILE: the same lines; if not, say which differ
same()
{
	diff "$1" "$2" >"$tmp/diff" && return 0
	while read -r line; do
		msg "$line"
	done <"$tmp/diff"
	return 1
}

# list: what the kernel has, in $tmp/listed
list()
{
	in_ns "$server" nft "$@" >"$tmp/listed" 2>&1
}

served 19 idle

list list ruleset
check "nft list ruleset prints what was loaded" same "$tmp/text" "$tmp/listed"

# nft leaves the level out of its JSON.
list -j list ruleset
keys=$(jq -r '.nftables[].rule.expr // empty | .. | .socket?.key // empty' "$tmp/listed")
expected="transparent transparent mark wildcard mark mark mark mark mark mark transparent wildcard"
expected+=" mark cgroupv2 cgroupv2 cgroupv2 mark wildcard transparent"
check "nft -j list ruleset has each key" [ "${keys//$'\n'/ }" = "$expected" ]

list flush ruleset
check "a flush releases the module" has_references "$module" 0
check "the listed text can be loaded again" list -f "$tmp/text"
list reset rules
check "nft reset rules prints the expressions as well" \
	[ "$(grep -v typeof "$tmp/listed" | grep -o 'socket [a-z]' | wc -l)" = 19 ]
list list ruleset
check "and leaves them alone" same "$tmp/text" "$tmp/listed"

# The attributes, one by one: type, order and value.
traffic "$server" <<-'EOF'
	import os, sys
	from net import enter, join_cgroup
	from nfnl import *

	enter(sys.argv[1])
	nft = Nft()

	def case(description, expression, expected):
	    nft.batch(new_table("inet", "d"), new_chain("inet", "d", "c"),
	              new_rule("inet", "d", "c", expression))
	    (name, dumped), = nft.dump_rules("inet", "d", "c")[0]
	    nft.batch(del_table("inet", "d"))
	    shape = " ".join(f"{kind}={data.hex()}" for kind, data in dumped)
	    print(f"{name} {shape}|socket {expected}|{description}")

	def word(value):
	    return f"{value:08x}"

	for key, number in KEYS.items():
	    level = 3 if key == "cgroupv2" else None
	    tail = f" 3={word(3)}" if key == "cgroupv2" else ""
	    # Whichever of its two numbers it was loaded by, a register has one in dumps.
	    for loaded, dumped in (1, 1), (8, 1), (9, 9), (4, 4), (20, 4), (22, 22):
	        if key == "mark" or loaded in (9, 20):
	            case(f"attributes of {key}, register {loaded}", socket_expr(key, loaded, level),
	                 f"1={word(number)} 2={word(dumped)}{tail}")
	case("level is not kept for other keys", socket_expr("wildcard", 1, 7),
	     "1=00000002 2=00000001")
	for level in 0, 1, 254, 255:
	    case(f"level {level}", socket_expr("cgroupv2", 1, level),
	         f"1=00000003 2=00000001 3={word(level)}")

	# The level that comes back is the user's, wherever it counts from.
	join_cgroup("nfrust-dump/sub")
	os.unshare(os.CLONE_NEWCGROUP)
	for level in 0, 1, 253:
	    case(f"level {level} loaded two cgroup namespaces down",
	         socket_expr("cgroupv2", 1, level),
	         f"1=00000003 2=00000001 3={word(level)}")
	nft.batch(new_table("inet", "n"), new_chain("inet", "n", "c"),
	          new_rule("inet", "n", "c", socket_expr("cgroupv2", 1, 1), cmp_eq(1, bytes(8))))
EOF
while IFS='|' read -r result expected description; do
	check "$description" [ "$result" = "$expected" ]
done <"$tmp/traffic"
list list table inet n
check "and is the user's for whoever lists it" grep -q "socket cgroupv2 level 1" "$tmp/listed"

list flush ruleset
check "at the end no reference is left" has_references "$module" 0
finish
