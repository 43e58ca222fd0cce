# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the scripts of this directory share beyond ../lib.sh: the modules under test are two
# (IMPL=c: esp4_offload.ko and esp6_offload.ko, IMPL=rust: their namesakes with _rust), and the
# network is a pair of devices that imitate ESP crypto offload (../modules/espdev.h).

# shellcheck source=selftests/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
case $IMPL in
c)	modules=(esp4_offload esp6_offload) ;;
rust)	modules=(esp4_offload_rust esp6_offload_rust) ;;
esac
# shellcheck disable=SC2034 # lib.sh reads them
module=${modules[0]}
export PYTHONPATH=$selftests/esp:$selftests/nat:$selftests/socket
espdev=/sys/kernel/debug/nfrust_espdev

# lib.sh's plan is about rules; what counts here are states, which come and go with the namespaces.
plan()
{
	ktap_print_header
	ktap_set_plan "$1"
}

# With PER_BURST=0 or 1 in the environment, that is how Rust receives.
#
# setup_espdev QUEUES: $client (10.0.1.1, dead:1::1) and $server (10.0.1.2, dead:1::2), joined by
# a pair of devices eth0 with that many queues. The client's is port espdev0, the server's espdev1.
# 10.0.1.9 and dead:1::9 are nobody: packets made by hand come from there. Neighbours are known
# beforehand, and there are no link-local addresses: the only packets are those of the test.
setup_espdev()
{
	local ns one=1 two=2 mac=$client_mac peer=$server_mac

	[ ! -e /sys/module/nfrust_espdev ] || rmmod nfrust_espdev || exit "$KSFT_FAIL"
	without_interfaces
	modprobe nfrust_espdev queues="$1" || exit "$KSFT_FAIL"
	cleanup_hooks+=(remove_espdev)
	[ -z "${PER_BURST:-}" ] || per_burst "$PER_BURST"
	setup_ns client server || exit "$?"
	# shellcheck disable=SC2154 # set by setup_ns
	ip link set espdev0 netns "$client" name eth0 || exit "$KSFT_FAIL"
	# shellcheck disable=SC2154 # set by setup_ns
	ip link set espdev1 netns "$server" name eth0 || exit "$KSFT_FAIL"
	for ns in "$client" "$server"; do
		in_ns "$ns" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
			net.ipv6.conf.default.accept_dad=0
		ip -n "$ns" -batch - <<-EOT
			link set eth0 addrgenmode none
			link set eth0 address $mac
			link set eth0 up
			addr add 10.0.1.$one/24 dev eth0
			addr add dead:1::$one/64 dev eth0 nodad
			neigh add 10.0.1.$two lladdr $peer dev eth0 nud permanent
			neigh add dead:1::$two lladdr $peer dev eth0 nud permanent
			neigh add 10.0.1.9 lladdr $peer dev eth0 nud permanent
			neigh add dead:1::9 lladdr $peer dev eth0 nud permanent
		EOT
		one=2 two=1 mac=$server_mac peer=$client_mac
	done
}

# patient_tcp: neither end sends anything again because an answer is late, as it may be for a second
# on a busy machine, but because of what came after it. Then what is sent again was lost.
patient_tcp()
{
	local ns

	for ns in "$client" "$server"; do
		in_ns "$ns" sysctl -qw net.ipv4.tcp_rto_min_us=20000000 \
			net.ipv4.tcp_early_retrans=0 || exit "$KSFT_FAIL"
	done
}

# per_burst 0|1: how Rust receives; C has no choice
per_burst()
{
	local name

	[ "$IMPL" = rust ] || return 0
	for name in "${modules[@]}"; do
		echo "$1" >"/sys/kernel/debug/$name/per_burst" || exit "$KSFT_FAIL"
	done
}

# The kernel keeps packets that were read until their CPU receives again, and with them the states
# that they came through.
free_packets()
{
	local cpu

	for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
		taskset -c "${cpu##*cpu}" ping -q -c 1 127.0.0.1 >/dev/null
	done
}

# VTI and xfrm interfaces handle packets of all states and tunnels as soon as their modules are
# there. A script that does not ask for them runs without; the kernel loads them for who asks for
# such an interface, as key management daemons do.
without_interfaces()
{
	modprobe -q -r -a ip_vti ip6_vti xfrm_interface ip_tunnel ip6_tunnel
}

# The devices come back from namespaces that go, and states on them go before the devices do.
remove_espdev()
{
	cleanup_all_ns
	without_interfaces
	[ ! -e /sys/module/nfrust_espdev ] || slowwait 10 rmmod nfrust_espdev
	free_packets
}

# knob PORT NAME VALUE
knob()
{
	echo "$3" >"$espdev/$1/$2"
}

# nic PORT COUNTER
nic()
{
	sed -n "s/^$2 //p" "$espdev/$1/counters"
}

# mib NETNS: the counters of /proc/net/xfrm_stat that are not 0, "name value" separated by commas
mib()
{
	in_ns "$1" awk '$2 { printf "%s%s %s", comma, $1, $2; comma = ", " }' /proc/net/xfrm_stat
}

# results: one case for each line "RESULT|EXPECTED|DESCRIPTION" that traffic has printed; result
# "skip" is for what this kernel has not got
results()
{
	local result expected description

	while IFS='|' read -r result expected description; do
		if [ "$result" = skip ]; then
			msg "$expected"
			skip "$description"
		elif [ "$result" = "$expected" ]; then
			pass "$description"
		else
			msg "expected: $expected"
			msg "     got: $result"
			fail "$description"
		fi
	done <"$tmp/traffic"
}

# in_charge: one case: ESP is served by the modules under test
in_charge()
{
	check "ESP is served by the modules under test" are_in_charge
}

are_in_charge()
{
	local name

	for name in "${modules[@]}"; do
		if [ ! -e "/sys/module/$name/refcnt" ]; then
			msg "$name is not loaded"
			return 1
		fi
	done
	for name in esp4_offload esp6_offload; do
		[ "$IMPL" = c ] || [ ! -e "/sys/module/$name" ] || return 1
	done
}
