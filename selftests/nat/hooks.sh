#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Where translation happens: at which hooks, at which priority, whatever that of the chain is; what
# "nft list hooks" says about chains; and that functions have names that people can read.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 37
setup_router

for version in 4 6; do
	family=ip what="ip " net1=10.0.1. net2=10.0.2.
	[ $version = 4 ] || { family=ip6 what="ip6 " net1=dead:1:: net2=dead:2::; }
	cat <<-EOF
		table $family nat {
			chain prerouting {
				type nat hook prerouting priority 50
				$what daddr ${net2}66 dnat to ${net2}1
			}
			chain input {
				type nat hook input priority -7
				udp dport 7003 snat to ${net1}77
			}
			chain output {
				type nat hook output priority 1000
				$what daddr ${net2}66 dnat to ${net2}1
			}
			chain postrouting {
				type nat hook postrouting priority -150
				udp dport 7001 snat to ${net2}50
			}
		}
	EOF
	for place in "prerouting -101 daddr 66 before" "prerouting -99 daddr 1 after" \
		"input 99 saddr 1 before" "input 101 saddr 77 after" \
		"output -101 daddr 66 before" "output -99 daddr 1 after" \
		"postrouting 99 saddr 1 before" "postrouting 101 saddr 50 after"; do
		read -r hook priority field host when <<<"$place"
		net=$net2 port=7001
		case $hook in
		input)	net=$net1 port=7003 ;;
		output)	port=7002 ;;
		postrouting)	[ "$when" = after ] || net=$net1 ;;
		esac
		cat <<-EOF
			table $family observe {
				counter ${hook}_${when}_$version { }
				chain ${hook}_$when {
					type filter hook $hook priority $priority
					udp dport $port $what $field $net$host \\
						counter name ${hook}_${when}_$version
				}
			}
		EOF
	done
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <"$tmp/rules"

# The stack of each call of the engine, and of each translation that a chain decides on. A kernel that
# unwinds by frame pointers, which a function has not set up yet where it is probed, leaves out who
# called it: the chain's evaluation there.
tracing=/sys/kernel/tracing
untrace()
{
	echo 0 >$tracing/events/nfrust_nat/enable
	echo 0 >$tracing/options/stacktrace
	echo "-:nfrust_nat/" >>$tracing/kprobe_events
	echo >$tracing/trace
} 2>/dev/null
cleanup_hooks+=(untrace)
echo "p:nfrust_nat/engine nf_nat_inet_fn" >>$tracing/kprobe_events
echo "p:nfrust_nat/chain nft_nat_eval" >>$tracing/kprobe_events
echo 1 >$tracing/options/stacktrace
echo 1 >$tracing/events/nfrust_nat/enable

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *

	client, router, server = sys.argv[1:]
	for version in 4, 6:
	    virtual, far, near = addr(version, 2, 66), addr(version, 2, 1), addr(version, 1, 2)
	    with netns(server):
	        forwarded, sent = udp(far, 7001), udp(far, 7002)
	    with netns(router):
	        delivered = udp(near, 7003)
	        udp(addr(version, 2, 2), 6002).sendto(b"x", (virtual, 7002))
	    with netns(client):
	        udp(addr(version, 1, 1), 6001).sendto(b"x", (virtual, 7001))
	        udp(addr(version, 1, 1), 6003).sendto(b"x", (near, 7003))
	    print(forwarded.recvfrom(9)[1][0], sent.recvfrom(9)[1][0], delivered.recvfrom(9)[1][0])
EOF
grep '^ => ' $tracing/trace | sort -u >"$tmp/stacks"
untrace
check "IPv4 was translated" [ "$(sed -n 1p "$tmp/traffic")" = "10.0.2.50 10.0.2.2 10.0.1.77" ]
check "IPv6 was translated" \
	[ "$(sed -n 2p "$tmp/traffic")" = "dead:2::50 dead:2::2 dead:1::77" ]
served 8

read_counters "$router"
for version in 4 6; do
	for hook in prerouting:dstnat input:srcnat output:dstnat postrouting:srcnat; do
		for when in before after; do
			counted "${hook%:*}_${when}_$version" 1 \
				"IPv$version, ${hook%:*}: $when the priority ${hook#*:}"
		done
	done
done

# name HOOK VERSION: of the function at the hook
name()
{
	local suffix=

	[ "$IMPL" = c ] || suffix=_rust
	case $1 in
	prerouting)	if [ "$2" = 4 ] && [ "$IMPL" = c ]; then
				echo nf_nat_ipv4_pre_routing
			else
				echo "nf_nat_ipv$2_in$suffix"
			fi ;;
	input)		echo "nf_nat_ipv$2_local_in$suffix" ;;
	output)		echo "nf_nat_ipv$2_local_fn$suffix" ;;
	postrouting)	echo "nf_nat_ipv$2_out$suffix" ;;
	esac
}
in_stack()
{
	grep -q "^ => $1\$" "$tmp/stacks"
}
for version in 4 6; do
	for hook in prerouting input output postrouting; do
		check "IPv$version, $hook: a plain name in stack traces" \
			in_stack "$(name $hook $version)"
	done
done
check "chains: a plain name in stack traces" \
	in_stack "nft_nat_do_chain$([ "$IMPL" = c ] || echo _rust)"

in_ns "$router" nft list hooks >"$tmp/hooks"
listed()
{
	sed -n "/^family $1 /,/^}/p" "$tmp/hooks" | sed -n "/hook $2 {/,/}/p" | tr -s ' \t' ' ' |
		grep -qxF " $3 chain $1 nat $2 [$module]"
}
# Chains are listed with the priority of the hook that asks them, not with their own.
for family in ip ip6; do
	check "nft list hooks, $family: prerouting" listed $family prerouting "-0000000100"
	check "nft list hooks, $family: input" listed $family input "+0000000100"
	check "nft list hooks, $family: output" listed $family output "-0000000100"
	check "nft list hooks, $family: postrouting" listed $family postrouting "+0000000100"
done
in_ns "$router" nft flush ruleset
check "without chains nothing holds the module" has_references "$module" 0
finish
