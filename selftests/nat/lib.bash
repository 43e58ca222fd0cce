# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the scripts of this directory share beyond ../lib.sh: the module under test is another one
# (IMPL=c: nft_chain_nat.ko, IMPL=rust: nft_chain_nat_rust.ko), and there is a router.
#
# "served N" is about N chains of type nat: each holds a reference on its module.

# shellcheck source=selftests/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

# shellcheck disable=SC2034 # lib.sh reads them
case $IMPL in
c)	module=nft_chain_nat other=nft_chain_nat_rust ;;
rust)	module=nft_chain_nat_rust other=nft_chain_nat ;;
esac
debugfs=/sys/kernel/debug/nft_chain_nat_rust/counters
export PYTHONPATH=$selftests/nat:$selftests/socket

# setup_router: $client -- $router -- $server
#
#	client eth0		eth0 router eth1		eth0 server
#	10.0.1.1		10.0.1.2    10.0.2.2		10.0.2.1
#	dead:1::1		dead:1::2   dead:2::2		dead:2::1
#
# 10.0.1.9, 10.0.2.9 and dead:1::9, dead:2::9 are nobody: packets made by hand come from there, and
# no stack answers what is sent back. 10.0.2.50 to .59 and dead:2::50 to ::59 are the router for the
# server, though the router does not have them: addresses to translate to. Neighbours are known
# beforehand, and there are no link-local addresses: the only packets are those of the test.
setup_router()
{
	local ns host

	setup_ns client router server || exit "$?"
	# shellcheck disable=SC2154 # set by setup_ns
	ip link add eth0 netns "$client" address "$client_mac" type veth \
		peer name eth0 netns "$router" address 02:00:00:00:01:02 || exit "$KSFT_FAIL"
	# shellcheck disable=SC2154 # set by setup_ns
	ip link add eth1 netns "$router" address 02:00:00:00:02:02 type veth \
		peer name eth0 netns "$server" address "$server_mac" || exit "$KSFT_FAIL"
	for ns in "$client" "$router" "$server"; do
		in_ns "$ns" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
			net.ipv6.conf.default.accept_dad=0
	done
	in_ns "$router" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
		net.ipv4.conf.all.send_redirects=0
	ip -n "$client" -batch - <<-EOF
		link set eth0 addrgenmode none
		link set eth0 up
		addr add 10.0.1.1/24 dev eth0
		addr add dead:1::1/64 dev eth0 nodad
		neigh add 10.0.1.2 lladdr 02:00:00:00:01:02 dev eth0 nud permanent
		neigh add dead:1::2 lladdr 02:00:00:00:01:02 dev eth0 nud permanent
		route add default via 10.0.1.2
		route add default via dead:1::2
	EOF
	ip -n "$router" -batch - <<-EOF
		link set eth0 addrgenmode none
		link set eth1 addrgenmode none
		link set eth0 up
		link set eth1 up
		addr add 10.0.1.2/24 dev eth0
		addr add dead:1::2/64 dev eth0 nodad
		addr add 10.0.2.2/24 dev eth1
		addr add dead:2::2/64 dev eth1 nodad
		neigh add 10.0.1.1 lladdr $client_mac dev eth0 nud permanent
		neigh add dead:1::1 lladdr $client_mac dev eth0 nud permanent
		neigh add 10.0.1.9 lladdr $client_mac dev eth0 nud permanent
		neigh add dead:1::9 lladdr $client_mac dev eth0 nud permanent
		neigh add 10.0.2.1 lladdr $server_mac dev eth1 nud permanent
		neigh add dead:2::1 lladdr $server_mac dev eth1 nud permanent
		neigh add 10.0.2.9 lladdr $server_mac dev eth1 nud permanent
		neigh add dead:2::9 lladdr $server_mac dev eth1 nud permanent
	EOF
	{
		cat <<-EOF
			link set eth0 addrgenmode none
			link set eth0 up
			addr add 10.0.2.1/24 dev eth0
			addr add dead:2::1/64 dev eth0 nodad
			neigh add 10.0.2.2 lladdr 02:00:00:00:02:02 dev eth0 nud permanent
			neigh add dead:2::2 lladdr 02:00:00:00:02:02 dev eth0 nud permanent
			route add default via 10.0.2.2
			route add default via dead:2::2
		EOF
		for host in 50 51 52 53 54 55 56 57 58 59; do
			for ip in 10.0.2.$host dead:2::$host; do
				echo "neigh add $ip lladdr 02:00:00:00:02:02 dev eth0 nud permanent"
			done
		done
	} | ip -n "$server" -batch -
}

# silent_server: what comes to the ports of the tests there is seen by who looks at the wire, and by
# nobody else, so that no stack answers
silent_server()
{
	# shellcheck disable=SC2154 # set by setup_ns
	rules "$server" <<-EOF
		table inet t {
			chain prerouting {
				type filter hook prerouting priority -300
				udp dport 7000-7199 drop
			}
		}
	EOF
}
