#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh [SECONDS]: the same packets through C's rules and Rust's, in one namespace, and their
# answers compared one by one: whether the expression matched, and what it stored, for each key in
# each hook of the ip, ip6 and inet tables. With SECONDS: mutated packets for that long.
#
#   HOSTILE=S    the same as the argument, which wins
#   SEED=1       what the pseudo-random part of the packets is made from
#   ONLY=REGEX   only the classes of packets whose names match

# run.sh: timeout=400

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

[ $# -gt 0 ] || [ -z "${HOSTILE:-}" ] || set -- "$HOSTILE"
here=$(dirname "$(readlink -e "$0")")
export PYTHONPATH=$PYTHONPATH:$here

# NAT by C: there is one implementation under test.
nat=nft_chain_nat
[ ! -e /sys/module/$nat ] || nat=
modprobe -a tun vrf ipip ip6_tunnel nft_ct nft_nat nft_tproxy $nat || exit "$KSFT_SKIP"
modprobe -r nft_socket_rust
modprobe -r nft_socket
modprobe nft_socket

# A device here whose other end is in the namespace: it goes when the namespace does, and that
# waits for each reference to a socket of it.
setup_ns world far || exit "$?"
# shellcheck disable=SC2154 # set by setup_ns
ip link add equality0 type veth peer name gone netns "$world"
remove_link()
{
	ip link del equality0 2>/dev/null
}
cleanup_hooks+=(remove_link)

namespace_is_gone()
{
	[ ! -e /sys/class/net/equality0 ]
}

started=$SECONDS
# shellcheck disable=SC2154 # set by setup_ns
while read -r kind text; do
	case $kind in
	plan)
		ktap_print_header
		ktap_set_plan "$text" ;;
	note)
		ktap_print_msg "$text" ;;
	pass)
		ktap_test_pass "$text" ;;
	fail)
		ktap_test_fail "$text" ;;
	exit)
		status=$text ;;
	*)
		ktap_print_msg "$kind $text" ;;
	esac
done < <(python3 -S "$here/equality.py" "$world" "$far" "$@" 2>&1; echo "exit $?")
check "all of it was done" [ "$status" = 0 ]

cleanup_ns "$world" "$far"
modprobe -r -a nft_socket_rust nft_socket $nat
check "the namespace ends: every socket was given back" slowwait 20 namespace_is_gone
ktap_print_msg "took $((SECONDS - started)) s"
finish
