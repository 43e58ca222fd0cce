#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The part of `make demo` in the guest; demo.sh is the other. Fails at the first claim that does
# not hold.

set -euo pipefail
samples=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../samples" && pwd)
counters=/sys/kernel/debug/nft_socket_rust/counters
tmp=$(mktemp -d)
cd "$tmp"

# ---- the screen ----

title() {
	printf '\n%s%s%s\n' "${BOLD:-}" "$1" "${PLAIN:-}"
}

row() {
	printf '   %-26s %s\n' "$@"
}

# run COMMAND...: shown, then run
run() {
	printf '   # %s\n' "$*"
	"$@"
}

# on NETNS COMMAND...: unlike "ip netns exec" this keeps the mounts, so nft sees the cgroups.
on() {
	local ns=$1
	shift
	nsenter --net="/run/netns/$ns" "$@"
}

# service NETNS ADDRESS COMMAND [CGROUP]: answers at a socat address with what the command says; to
# be run in the background, where it becomes the process that serves.
service() {
	[ -z "${4:-}" ] || echo 0 >"$4/cgroup.procs"
	exec nsenter --net="/run/netns/$1" socat "$2" EXEC:"$3" 2>/dev/null
}

# load NETNS FILE
load() {
	printf '   %s # nft -f samples/%s\n' "$1" "$2"
	on "$1" nft -f "$samples/$2"
}

fail() {
	printf '\n   FAILED: %s\n' "$1"
	if [ -s proxy.log ]; then
		echo "   The proxy said:"
		sed 's/^/      /' proxy.log
	fi
	nft list ruleset | sed 's/^/      /'
	exit 1
}

# ---- what is checked ----

references() {
	[ -e "/sys/module/$1/refcnt" ] && cat "/sys/module/$1/refcnt"
}

# serves MODULE NUMBER: so many expressions hold it, and none the other. What a rule that was
# replaced held is let go a little later.
serves() {
	local other=nft_socket refs i
	[ "$1" = nft_socket_rust ] || other=nft_socket_rust
	for ((i = 0; i < 50; i++)); do
		refs=$(references "$1") || fail "$1 is not loaded"
		[ "$refs" != "$2" ] || break
		sleep 0.1
	done
	[ "$refs" = "$2" ] || fail "$1 serves $refs expressions, not $2"
	if refs=$(references "$other") && [ "$refs" != 0 ]; then
		fail "$other serves $refs expressions"
	fi
	row "$1" "serves $2 expression$([ "$2" = 1 ] || echo s)"
	if [ -n "$refs" ]; then
		row "$other" "loaded, serves none"
	else
		row "$other" "not loaded"
	fi
}

# packets NETNS TABLE NAME: the count of a named counter
packets() {
	on "$1" nft -j list counter inet "$2" "$3" |
		jq '.nftables[] | select(.counter) | .counter.packets'
}

counter() {
	awk -v name="$1" '$1 == name { print $2 }' "$counters"
}

# ---- three machines: client, router, server ----

network() {
	local ns v only
	for ns in client router server; do
		ip netns add $ns
		ip -n $ns link set lo up
	done
	ip link add eth0 netns client type veth peer name client netns router
	ip link add eth0 netns server type veth peer name server netns router
	ip -n client -batch - <<-EOF
		link set eth0 up
		addr add 192.0.2.2/24 dev eth0
		addr add 2001:db8:1::2/64 dev eth0 nodad
		route add default via 192.0.2.1
		route add default via 2001:db8:1::1
	EOF
	ip -n server -batch - <<-EOF
		link set eth0 up
		addr add 198.51.100.2/24 dev eth0
		addr add 2001:db8:2::2/64 dev eth0 nodad
		route add default via 198.51.100.1
		route add default via 2001:db8:2::1
	EOF
	ip -n router -batch - <<-EOF
		link set client up
		link set server up
		addr add 192.0.2.1/24 dev client
		addr add 2001:db8:1::1/64 dev client nodad
		addr add 198.51.100.1/24 dev server
		addr add 2001:db8:2::1/64 dev server nodad
	EOF
	for v in -4 -6; do
		ip -n router $v rule add fwmark 1 lookup 100
		ip -n router $v route add local default dev lo table 100
	done
	# The router does not forward: what gets through was proxied.
	on router sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0

	# Servers that answer each line, or datagram, with it and the address they see.
	export short='s/[][]//g; s/(^|:)0+([0-9a-f])/\1\2/g; s/(:0)+:/::/' # an IPv6 address
	cat >answer <<-'EOF'
		read -r line
		echo "\"$line\" from $(sed -E "$short" <<<"$SOCAT_PEERADDR")"
	EOF
	for v in 4 6; do
		only=fork,reuseaddr
		[ $v = 4 ] || only+=,ipv6only=1
		service server "TCP$v-LISTEN:80,$only" "bash answer" &
		service server "UDP$v-RECVFROM:53,$only" "bash answer" &
	done
}

# session TCP|UDP ADDRESS LINE...: what the client gets. UDP: one datagram for each line, in one
# session.
session() {
	local to=$1:$2:53 line
	shift 2
	[ "${to%%:*}" = UDP ] || to=${to%:53}:80
	for line; do
		echo "$line"
		sleep 0.3
	done | on client timeout 20 socat -t 5 - "$to" 2>&1
}

# A session, and whether it came through the proxy, from the client, completely.
proxied() {
	local protocol=$1 server=$2 client=$3 got line want=
	shift 3
	got=$(session "$protocol" "$server" "$@") || fail "$protocol to $server: $got"
	for line; do
		want+="[proxied] \"$line\" from $client"$'\n'
	done
	want=${want%$'\n'}
	[ "$got" = "$want" ] || fail "$protocol to $server: got '$got', expected '$want'"
	row "$protocol to $server" "$(sed -n 1p <<<"$got")"
	shift
	for line; do
		row "" "[proxied] \"$line\" from $client"
	done
}

# tproxy MODULE: samples/tproxy.nft, and four sessions through it
tproxy() {
	local kept taken proxy
	echo "   client 192.0.2.2 - router: samples/tproxy.py, no forwarding - server 198.51.100.2"
	load router tproxy.nft
	serves "$1" 2
	nsenter --net=/run/netns/router \
		python3 -S "$samples/tproxy.py" "[proxied]" >proxy.log 2>&1 &
	proxy=$!
	local i
	for ((i = 0; i < 100; i++)); do
		[ "$(on router ss -Hlntu 'sport = 50080 or sport = 50053' | wc -l)" -lt 4 ] ||
			break
		sleep 0.1
	done

	echo
	proxied TCP 198.51.100.2 192.0.2.2 "hello over TCP"
	proxied UDP 198.51.100.2 192.0.2.2 "hello over UDP" "again"
	proxied TCP "[2001:db8:2::2]" 2001:db8:1::2 "hello over IPv6"
	proxied UDP "[2001:db8:2::2]" 2001:db8:1::2 "hello, IPv6"

	taken=$(packets router proxy taken)
	kept=$(packets router proxy kept)
	# The first datagram, or the two packets of the handshake; and all others, of both sides.
	[ "$taken" = 6 ] || fail "tproxy was asked $taken times, not 6 for these 4 sessions"
	[ "$kept" -ge 12 ] || fail "only $kept packets were found to belong to the proxy's sessions"
	[ "$(wc -l <proxy.log)" = 4 ] || fail "the proxy knows of other sessions than 4"
	echo
	row "tproxy" "$taken packets that began a session"
	row "socket transparent 1" "$kept packets of sessions that the proxy had"

	# Without the expression the answers of the server do not find the way to the proxy.
	on router nft flush chain inet proxy prerouting
	on router nft -f - <<-'EOF'
		add rule inet proxy prerouting tcp dport 80 tproxy to :50080 meta mark set 1
		add rule inet proxy prerouting udp dport 53 tproxy to :50053 meta mark set 1
	EOF
	if [ -n "$(echo x | on client timeout 3 socat -T 2 -t 2 - \
	     UDP:198.51.100.2:53 2>&1)" ]; then
		fail "a session got through without 'socket transparent'"
	fi
	row "without that rule" "nothing comes back, as it should be"
	kill $proxy
	wait $proxy 2>/dev/null || :
	rm proxy.log
	on router nft delete table inet proxy
}

# cgroup MODULE: samples/cgroup.nft
cgroup() {
	local group=/sys/fs/cgroup/demo web other got
	mkdir -p $group/web $group/other
	echo "   Two services listen on the server; only that in demo/web may be reached."
	load server cgroup.nft
	serves "$1" 1
	service server TCP-LISTEN:8001,fork,reuseaddr "echo I am in demo/web" $group/web &
	web=$!
	service server TCP-LISTEN:8002,fork,reuseaddr "echo I am not" $group/other &
	other=$!
	on router sysctl -qw net.ipv4.ip_forward=1
	local i
	for ((i = 0; i < 100; i++)); do
		[ "$(on server ss -Hlnt 'sport = 8001 or sport = 8002' | wc -l)" != 2 ] || break
		sleep 0.1
	done
	echo
	got=$(on client timeout 10 socat -u TCP:198.51.100.2:8001 - 2>&1) ||
		fail "port 8001: $got"
	[ "$got" = "I am in demo/web" ] || fail "port 8001 said '$got'"
	row "port 8001, in demo/web" "$got"
	if got=$(on client timeout 10 socat -u TCP:198.51.100.2:8002 - 2>&1); then
		fail "port 8002 is reachable: $got"
	fi
	grep -q "Connection refused" <<<"$got" || fail "port 8002: $got"
	row "port 8002, in demo/other" "Connection refused"
	kill $web $other
	wait $web $other 2>/dev/null || :
	on router sysctl -qw net.ipv4.ip_forward=0
	on server nft delete table inet services
}

# ---- the demo ----

network

title "1. A transparent proxy. No module was loaded by hand: the rules load Rust's"
if references nft_socket_rust || references nft_socket; then
	fail "a module is loaded before there are rules"
fi
tproxy nft_socket_rust

title "2. A rule by control group"
cgroup nft_socket_rust

title "3. What Rust counted, each CPU for itself"
printf '   # cat %s\n' $counters
while read -r name value; do
	[ "$value" = 0 ] || row "$name" "$value"
done <$counters
for name in lookup_tcp_ipv4 lookup_udp_ipv4 lookup_tcp_ipv6 lookup_udp_ipv6 found_borrowed \
	found_owned miss_no_socket; do
	[ "$(counter $name)" -gt 0 ] || fail "$name is 0"
done

title "4. The same rules and traffic with C, without a boot in between"
run rmmod nft_socket_rust
run modprobe nft_socket
[ ! -e $counters ] || fail "the counters are still there"
tproxy nft_socket
echo
cgroup nft_socket
