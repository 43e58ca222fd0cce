# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every test script shares: KTAP, network namespaces, counters, and the check that the
# rules are evaluated by the implementation under test.
#
# IMPL=c     nft_socket.ko, the kernel's own module
# IMPL=rust  nft_socket_rust.ko
#
# A script reads
#
#	source "$(dirname "$0")/../lib.sh"
#	plan 3
#	setup_pair			# $client and $server, joined by a veth pair
#	rules "$server" <<-EOF ...
#	traffic "$client" "$server" <<-EOF ...
#	check "what must be true" [ "$(packets counter)" = 1 ]
#	served
#	finish

: "${IMPL:=rust}"
: "${KSELFTEST:=/kselftest}"

selftests=$(dirname "$(readlink -e "${BASH_SOURCE[0]}")")

set +u # neither of the kernel's two files is written for it
# shellcheck source=/dev/null
source "$KSELFTEST/kselftest/ktap_helpers.sh"
# shellcheck source=/dev/null
source "$KSELFTEST/net/lib.sh"

case $IMPL in
c)	module=nft_socket other=nft_socket_rust ;;
rust)	module=nft_socket_rust other=nft_socket ;;
*)	echo "Bail out! IMPL=$IMPL: neither c nor rust"; exit "$KSFT_FAIL" ;;
esac
debugfs=/sys/kernel/debug/nft_socket_rust/counters

# Helper modules are read from a file system that python cannot write its cache to.
export PYTHONPATH=$selftests/socket PYTHONPYCACHEPREFIX=/tmp/pycache

client_mac=02:00:00:00:00:01
server_mac=02:00:00:00:00:02

tmp=$(mktemp -d)
cleanup_hooks=()
cleanup()
{
	local hook pid

	for hook in "${cleanup_hooks[@]}"; do
		$hook
	done
	for pid in $(jobs -p); do
		kill "$pid" 2>/dev/null
	done
	cleanup_all_ns
	rm -rf "$tmp"
}
trap cleanup EXIT

# references MODULE: how many expressions hold it, empty when it is not loaded
references()
{
	local refs=

	[ ! -e "/sys/module/$1/refcnt" ] || read -r refs <"/sys/module/$1/refcnt"
	echo "$refs"
}

# has_references MODULE NUMBER: rules that were removed let go of it a little later, after a grace
# period, so this waits. Not being loaded is as good as 0.
has_references()
{
	local module=$1 number=$2

	exactly()
	{
		[ "$(($(references "$module")))" = "$number" ]
	}
	exactly || slowwait 5 exactly
}

# evaluations: how often Rust has looked at a packet; the sum of all its counters
evaluations()
{
	local _ value sum=0

	[ -r "$debugfs" ] || return 0
	while read -r _ value; do
		sum=$((sum + value))
	done <"$debugfs"
	echo "$sum"
}

plan()
{
	ktap_print_header
	ktap_set_plan "$1"
	if ! has_references "$module" 0 || ! has_references "$other" 0; then
		msg "somebody else uses $module or $other"
	fi
	evaluations_before=$(evaluations)
}

msg()
{
	ktap_print_msg "$@"
}

# The kernel's helpers write to global variables that have common names.
# shellcheck disable=SC2034
pass()
{
	local result description directive

	ktap_test_pass "$1"
}

# shellcheck disable=SC2034
fail()
{
	local result description directive

	ktap_test_fail "$1"
}

# shellcheck disable=SC2034
skip()
{
	local result description directive

	ktap_test_skip "$1"
}

# check DESCRIPTION COMMAND...: one case
check()
{
	local what=$1
	shift

	if "$@"; then
		pass "$what"
	else
		msg "failed: $*"
		fail "$what"
	fi
}

finish()
{
	ktap_finished
}

# setup_pair: $client (10.0.1.1, dead:1::1) and $server (10.0.1.2, dead:1::2), devices eth0.
# 10.0.1.9 and dead:1::9 are nobody: packets made by hand come from there, and no stack answers
# what is sent back. Neighbours are known beforehand, and there are no link-local addresses: the
# only packets are those of the test.
setup_pair()
{
	setup_ns client server || exit "$?"
	# shellcheck disable=SC2154 # set by setup_ns
	ip link add eth0 netns "$client" address "$client_mac" type veth \
		peer name eth0 netns "$server" address "$server_mac" || exit "$KSFT_FAIL"
	ip -n "$client" -batch - <<-EOF
		link set eth0 addrgenmode none
		link set eth0 mtu 9000 up
		addr add 10.0.1.1/24 dev eth0
		addr add dead:1::1/64 dev eth0 nodad
		neigh add 10.0.1.2 lladdr $server_mac dev eth0 nud permanent
		neigh add dead:1::2 lladdr $server_mac dev eth0 nud permanent
	EOF
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$server" -batch - <<-EOF
		link set eth0 addrgenmode none
		link set eth0 mtu 9000 up
		addr add 10.0.1.2/24 dev eth0
		addr add dead:1::2/64 dev eth0 nodad
		neigh add 10.0.1.1 lladdr $client_mac dev eth0 nud permanent
		neigh add dead:1::1 lladdr $client_mac dev eth0 nud permanent
		neigh add 10.0.1.9 lladdr $client_mac dev eth0 nud permanent
		neigh add dead:1::9 lladdr $client_mac dev eth0 nud permanent
	EOF
}

# in_ns NETNS COMMAND...: unlike "ip netns exec" this leaves the mounts alone, and nft finds the
# cgroups that rules name.
in_ns()
{
	local ns=$1
	shift

	nsenter --net="/run/netns/$ns" "$@"
}

# rules NETNS: load the rule set on standard input
rules()
{
	if ! in_ns "$1" nft -f - >"$tmp/nft" 2>&1; then
		while read -r line; do
			msg "$line"
		done <"$tmp/nft"
		ktap_exit_fail_msg "cannot load the rules"
	fi
}

# traffic ARG...: run the python program on standard input; the packets of a script
traffic()
{
	if ! python3 -S - "$@" >"$tmp/traffic" 2>&1; then
		while read -r line; do
			msg "$line"
		done <"$tmp/traffic"
		ktap_exit_fail_msg "traffic failed"
	fi
}

# read_counters NETNS: the packet counts of all named counters there into $count[]
declare -A count
# shellcheck disable=SC2034 # read where a test sums up
read_counters()
{
	local words name=

	count=()
	while read -r -a words; do
		case ${words[0]:-} in
		counter)
			name=${words[1]} ;;
		packets)
			count[$name]=${words[1]} ;;
		esac
	done < <(in_ns "$1" nft list counters)
}

# counted NAME PACKETS DESCRIPTION: one case, after read_counters
counted()
{
	if [ "${count[$1]:-}" = "$2" ]; then
		pass "$3"
	else
		msg "counter $1: ${count[$1]:-absent}, expected $2"
		fail "$3"
	fi
}

# results: one case for each line "RESULT|EXPECTED|DESCRIPTION" that traffic has printed; result
# "skip" is for what this kernel has not got; a line of another form is a message
results()
{
	local result expected description

	while IFS='|' read -r result expected description; do
		if [ -z "$description" ]; then
			msg "$result"
		elif [ "$result" = skip ]; then
			skip "$description: $expected"
		else
			check "$description: $expected" [ "$result" = "$expected" ]
		fi
	done <"$tmp/traffic"
}

# observe FAMILIES HOOKS: rules that store, for each kind of packet, every value of every key. The
# kind is the packet's mark; rules that come before these set it, and those without one are not
# observed. net.py's observed() reads the sets. Expressions: 6 for each family and hook.
observe()
{
	local family hook key

	for family in $1; do
		echo "table $family observe {"
		for hook in $2; do
			echo "set $hook-all { typeof meta mark; size 256; flags dynamic; }"
			for key in transparent mark wildcard "cgroupv2 level "{1,2,3}; do
				echo "set $hook-${key// /} { typeof meta mark . socket $key"
				echo "size 256; flags dynamic; }"
			done
			echo "chain $hook { type filter hook $hook priority -150"
			echo "meta mark 0 accept"
			echo "update @$hook-all { meta mark counter }"
			for key in transparent mark wildcard "cgroupv2 level "{1,2,3}; do
				echo -n "update @$hook-${key// /} "
				echo "{ meta mark . socket $key counter }"
			done
			echo "}"
		done
		echo "}"
	done
}

# is_served EXPRESSIONS [idle]: the rules that are loaded hold that many references on the module
# under test and none on the other; and Rust's own counters have moved, unless idle.
is_served()
{
	if [ ! -e "/sys/module/$module" ]; then
		msg "$module is not loaded"
		return 1
	fi
	if ! has_references "$module" "$1" || ! has_references "$other" 0; then
		msg "$1 expressions, references: $(references "$module") on $module," \
			"$(references "$other") on $other"
		return 1
	fi
	if [ "$IMPL" = rust ] && [ "${2:-}" != idle ] &&
	   [ "$(evaluations)" = "$evaluations_before" ]; then
		msg "$debugfs did not move from $evaluations_before"
		return 1
	fi
}

served()
{
	check "rules are served by the module under test" is_served "$@"
}
