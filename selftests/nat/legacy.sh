#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Chains of type nat beside a legacy iptables nat table, which was there first: C's hooks serve both,
# since of two sets of hooks the first would decide for the second. Rust adds its chains to them.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 32
setup_router

if ! iptables-legacy --version >/dev/null 2>&1 || ! modprobe -q iptable_nat ||
   ! modprobe -q ip6table_nat; then
	ktap_skip_all "no legacy iptables"
	exit "$KSFT_SKIP"
fi

to_c()
{
	[ "$IMPL" = c ] || sed -n 's/^chain_to_c //p' "$debugfs"
}

# Chains that were added to C's hooks since the last call; where there is nothing else, all of them.
went_to_c()
{
	local number before=${to_c_before:-0}

	[ "$IMPL" = rust ] || return 0
	number=$(to_c)
	to_c_before=$number
	[ $((number - before)) = "$1" ]
}
to_c_before=$(to_c)

# One process talks when it is asked to: a line with the source that is seen at the other end for
# each of the ports, and IP version.
# shellcheck disable=SC2154 # set by setup_ns
coproc talker { exec python3 -S -c "$(
	cat <<-'EOF'
		import sys
		from nat import *

		client, router, server = sys.argv[1:]
		far, number = Echo(server), 6000
		for line in sys.stdin:
		    version, *ports = map(int, line.split())
		    result = []
		    for dport in ports:
		        # 75xx goes to nobody, and has to be told where.
		        number, there = number + 1, addr(version, 2, 1)
		        to = addr(version, 2, 66) if dport >= 7500 else there
		        ns, source = (router, (2, 2)) if dport % 100 >= 50 else (client, (1, 1))
		        end = far.at("udp", there, dport)
		        seen = exchange("udp", ns, (addr(version, *source), number), (to, dport), end,
		                        timeout=0.5)
		        result.append(seen[0].split(".")[-1].split(":")[-1] if isinstance(seen, tuple)
		                      else seen)
		    print(*result, flush=True)
	EOF
)" "$client" "$router" "$server"; }

# expect VERSION SOURCES DESCRIPTION PORT...
expect()
{
	local version=$1 expected=$2 what=$3 got
	shift 3

	echo "$version $*" >&"${talker[1]}"
	read -r -t 20 got <&"${talker[0]}"
	check "IPv$version, $what: $expected" [ "$got" = "$expected" ]
}

legacy()
{
	local program=iptables-legacy
	[ "$1" = 4 ] || program=ip6tables-legacy
	shift
	# shellcheck disable=SC2154 # set by setup_ns
	in_ns "$router" $program -t nat "$@"
}

both="7001 7002 7003 7004 7051 7052 7501 7502 7551 7552"
# What the table of iptables does, and what chains of ours do: by port, both of them for 7003.
for version in 4 6; do
	two=10.0.2.
	[ $version = 4 ] || two=dead:2::
	for port in 7001 7003 7051; do
		legacy $version -A POSTROUTING -p udp --dport $port -j SNAT --to-source ${two}51
	done
	legacy $version -A PREROUTING -p udp --dport 7501 -j DNAT --to-destination ${two}1
	legacy $version -A OUTPUT -p udp --dport 7551 -j DNAT --to-destination ${two}1
	# shellcheck disable=SC2086 # words
	expect $version "51 1 51 1 51 2 1 timeout 2 timeout" "iptables alone" $both
done
chains()
{
	local family=$1 priority=$2 version=4 two=10.0.2. only=

	[ "$family" != ip6 ] || version=6 two=dead:2::
	[ "$family" != inet ] || only="ip "
	cat <<-EOF
		table $family nat$priority {
			chain prerouting {
				type nat hook prerouting priority $((priority - 200))
			}
			chain output {
				type nat hook output priority $((priority - 200))
			}
			chain input {
				type nat hook input priority $priority
			}
			chain postrouting {
				type nat hook postrouting priority $priority
			}
		}
	EOF
	for version in 4 6; do
		two=10.0.2. only="ip " guard="meta nfproto ipv4 "
		[ $version = 4 ] || two=dead:2:: only="ip6 " guard="meta nfproto ipv6 "
		case $family$version in
		ip4|ip66)	only='' guard='' ;;
		ip6|ip64)	continue ;;
		esac
		cat <<-EOF
			table $family nat$priority {
				chain prerouting {
					${guard}udp dport 7502 dnat ${only}to ${two}1
				}
				chain output {
					${guard}udp dport 7552 dnat ${only}to ${two}1
				}
				chain postrouting {
					${guard}udp dport { 7002, 7003, 7052 } snat ${only}to ${two}52
				}
			}
		EOF
	done
}
chains ip 101 >"$tmp/rules"
rules "$router" <"$tmp/rules"
# shellcheck disable=SC2086 # words
expect 4 "51 52 51 1 51 52 1 1 2 2" "chains of ip after iptables" $both
check "chains of ip went to C's hooks" went_to_c 4
check "nft lists them as the chains that they are" \
	[ "$(in_ns "$router" nft list hooks | grep -c "chain ip nat101 .* \[$module\]")" = 4 ]
served 4
in_ns "$router" nft flush ruleset
chains ip 99 >"$tmp/rules"
rules "$router" <"$tmp/rules"
# shellcheck disable=SC2086
expect 4 "51 52 52 1 51 52 1 1 2 2" "chains of ip before iptables" $both
check "those, too" went_to_c 4
in_ns "$router" nft flush ruleset
# shellcheck disable=SC2086
expect 4 "51 1 51 1 51 2 1 timeout 2 timeout" "iptables alone again" $both

for priority in 101 100 99; do
	middle=52 when=with
	case $priority in
	101)	middle=51 when=after ;;
	99)	when=before ;;
	esac
	chains inet $priority >"$tmp/rules"
	rules "$router" <"$tmp/rules"
	# shellcheck disable=SC2086
	expect 4 "51 52 $middle 1 51 52 1 1 2 2" "chains of inet $when iptables" $both
	# shellcheck disable=SC2086
	expect 6 "51 52 $middle 1 51 52 1 1 2 2" "chains of inet $when iptables" $both
	check "chains of inet $when iptables went to C's hooks" went_to_c 8
	in_ns "$router" nft flush ruleset
done

# Either may go first.
chains inet 101 >"$tmp/rules"
rules "$router" <"$tmp/rules"
went_to_c 8
legacy 4 -F
legacy 6 -F
for name in iptable_nat ip6table_nat; do
	check "$name goes while there are chains" rmmod $name
done
for version in 4 6; do
	# shellcheck disable=SC2086
	expect $version "1 52 52 1 2 52 timeout 1 timeout 2" "chains alone, on C's hooks" $both
done
in_ns "$router" nft add chain inet nat101 more '{ type nat hook postrouting priority 95; }'
in_ns "$router" nft add rule inet nat101 more meta nfproto ipv4 udp dport 7004 snat ip to 10.0.2.53
# shellcheck disable=SC2086
expect 4 "1 52 52 53 2 52 timeout 1 timeout 2" "one more beside them" $both
check "goes to the same hooks" went_to_c 2
in_ns "$router" nft flush ruleset
check "without chains nothing holds the module" has_references "$module" 0
chains inet 101 >"$tmp/rules"
rules "$router" <"$tmp/rules"
for version in 4 6; do
	# shellcheck disable=SC2086
	expect $version "1 52 52 1 2 52 timeout 1 timeout 2" "new chains, without iptables" $both
done
check "go to their own hooks" went_to_c 0

# A namespace with both exits.
in_ns "$router" nft flush ruleset
modprobe -a iptable_nat ip6table_nat
for version in 4 6; do
	legacy $version -A POSTROUTING -p udp --dport 7001 -j MASQUERADE
done
rules "$router" <"$tmp/rules"
# shellcheck disable=SC2086
expect 4 "2 52 52 1 2 52 timeout 1 timeout 2" "both again" $both
check "they are C's again" went_to_c 8
eval "exec ${talker[1]}>&-"
# shellcheck disable=SC2154 # set by coproc
wait "$talker_PID"
router_gone()
{
	! ip -n "$client" link show eth0 >/dev/null 2>&1
}
ip netns del "$router"
check "a namespace with both exits" slowwait 20 router_gone
check "and nothing holds the module" has_references "$module" 0
finish
