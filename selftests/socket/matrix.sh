#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Every key in every table family and hook, for every kind of packet that can belong to a socket:
# what each of them stores, and where the rule breaks.
#
# A connection is brought into its state first. Then the rules are loaded, and one packet of each
# kind is sent. Rules store what they see in sets: (kind of packet, value). The kind of a packet
# is the port on the server's side, put into the packet's mark; 65536 more for an ICMP error,
# where it is the quoted port, and 131072 more for an error that the server sends.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

top=nfrust-matrix
mkdir -p "/sys/fs/cgroup/$top/sub"
remove_cgroup()
{
	rmdir "/sys/fs/cgroup/$top/sub" "/sys/fs/cgroup/$top"
}
cleanup_hooks+=(remove_cgroup)

# Port for IPv4 (IPv6: 1000 more), what the packet is, and the four values: transparent, mark,
# wildcard, and "cg" where the cgroup is found at both its levels. A dash is a break.
incoming="
7001 0 0x11 0 cg	UDP, bound to an address
7002 1 0x12 1 cg	UDP, wildcard and transparent
7003 0 0x13 0 cg	UDP, connected
7004 - - - -		UDP, no socket
7005 0 0x15 1 cg	UDP, the dual-stack or IPv6-only socket
7006 0 0x16 1 cg	UDP, bound to the device
7007 - - - -		UDP, bound to another device
7008 0 0xffffffff 1 cg	UDP, the largest mark
7009 0 0x0 1 cg		UDP, no mark
7021 0 0x21 0 cg	TCP SYN to a listener
7022 1 0x22 1 cg	TCP SYN to a wildcard and transparent listener
7023 0 - - -		TCP NEW_SYN_RECV
7024 1 - - -		TCP NEW_SYN_RECV, transparent
7025 0 0x21 0 cg	TCP established
7026 1 0x22 0 cg	TCP established, transparent
7027 0 - - -		TCP TIME_WAIT
7028 1 - - -		TCP TIME_WAIT, transparent
7029 - - - -		TCP, no socket
7030 0 - - -		TCP FIN_WAIT2 without an owner
7031 0 0x31 1 cg	TCP SYN to the dual-stack or IPv6-only listener
7032 0 0x31 0 cg	TCP established at the dual-stack or IPv6-only listener
"
# Errors find what the quoted packet came from, so the same; but no error is quoted for 7029.
errors=$(sed -n '/7029/d; s/^7/7/p' <<<"$incoming")
# What the server sends: the socket in skb->sk.
outgoing_all="
7001 0 0x11 0 cg	UDP, bound to an address
7002 1 0x12 1 cg	UDP, wildcard and transparent
7003 0 0x13 0 cg	UDP, connected
7005 0 0x15 1 cg	UDP, the dual-stack or IPv6-only socket
7006 0 0x16 1 cg	UDP, bound to the device
7008 0 0xffffffff 1 cg	UDP, the largest mark
7009 0 0x0 1 cg		UDP, no mark
7021 0 - - -		TCP SYN-ACK
7022 1 - - -		TCP SYN-ACK, transparent
7023 0 - - -		TCP SYN-ACK again
7024 1 - - -		TCP SYN-ACK again, transparent
7025 0 0x21 0 cg	TCP established
7026 1 0x22 0 cg	TCP established, transparent
7027 0 - - -		TCP TIME_WAIT
7028 1 - - -		TCP TIME_WAIT, transparent
7031 0 - - -		TCP SYN-ACK of the dual-stack or IPv6-only listener
7032 0 0x31 0 cg	TCP established at the dual-stack or IPv6-only listener
"
# Resets and ICMP errors are sent by sockets of the kernel; the IPv6 reset by none.
outgoing4="
7029 0 0x0 1 -		TCP reset
138076 0 0x0 1 -	ICMP error
"
outgoing6="
7029 - - - -		TCP reset
138076 0 0x0 1 -	ICMP error
"

classify()
{
	local chain

	echo "table inet classify {"
	for chain in prerouting output; do
		cat <<-EOF
			chain $chain {
				type filter hook $chain priority -400
				meta mark set 0
				icmp type { 3, 11 } meta mark set @th,208,32 & 0xffff
				icmpv6 type { 1, 3 } meta mark set @th,368,32 & 0xffff
		EOF
		if [ $chain = prerouting ]; then
			cat <<-EOF
				meta l4proto { icmp, icmpv6 } meta mark > 0 \\
					meta mark set mark | 0x10000
				meta l4proto { tcp, udp } meta mark set th dport
			EOF
		else
			cat <<-EOF
				icmp type 3 meta mark set @th,224,32 & 0xffff
				icmpv6 type 1 meta mark set @th,384,32 & 0xffff
				meta l4proto { icmp, icmpv6 } meta mark > 0 \\
					meta mark set mark | 0x20000
				meta l4proto { tcp, udp } meta mark set th sport
			EOF
		fi
		echo "}"
	done
	echo "}"
}

# With the plan comes the number of rows: a kind of packet that gets lost is a failure.
plan $((4 * (2 * 41 + 19) + 4 * 41 + 1))
setup_pair
classify >"$tmp/classify"
observe "ip ip6 inet" "prerouting input output" >"$tmp/observe"

# send PHASE PORT: all the traffic, from that port; what was observed goes into $seen[]
send()
{
	local where values

	# shellcheck disable=SC2154 # set by setup_ns
	traffic "$client" "$server" "$tmp/classify" "$tmp/observe" "$top" "$2" <<-'EOF'
	import sys
	from net import *

	client, server, classify, observe, top = sys.argv[1:6]
	peer_port = int(sys.argv[6])
	wire = Wire(client)
	join_cgroup(f"{top}/sub")
	enter(server)

	def run(base, mine, peer):
	    """The sockets and connections of one family; a function that sends all the packets."""
	    other = "::" if ":" in mine else "0.0.0.0"
	    # Received by a socket that is IPv6 in both cases.
	    six = dict(v6only=":" in mine)
	    udps = {
	        7001: udp(mine, base + 1, mark=0x11),
	        7002: udp(other, base + 2, mark=0x12, transparent=True),
	        7003: udp(mine, base + 3, mark=0x13, peer=(peer, peer_port)),
	        7005: udp("::", base + 5, mark=0x15, **six),
	        7006: udp(other, base + 6, mark=0x16, dev="eth0"),
	        7007: udp(other, base + 7, mark=0x17, dev="lo"),
	        7008: udp(other, base + 8, mark=0xffffffff),
	        7009: udp(other, base + 9),
	    }
	    plain = dict(mark=0x21)
	    transparent = dict(mark=0x22, transparent=True)
	    tcps = {}
	    for port in 21, 23, 25, 27, 30:
	        tcps[base + port] = listener(mine, base + port, **plain)
	    for port in 22, 24, 26, 28:
	        tcps[base + port] = listener(other, base + port, **transparent)
	    for port in 31, 32:
	        tcps[base + port] = listener("::", base + port, mark=0x31, **six)
	    peers = {port: Peer(wire, peer, mine, peer_port, base + port) for port in range(21, 33)}

	    for port in 23, 24:
	        peers[port].syn()
	    kept = []
	    for port in 25, 26, 27, 28, 30, 32:
	        peers[port].establish()
	        accepted = tcps[base + port].accept()[0]
	        if port in (27, 28):
	            peers[port].time_wait(accepted)
	        elif port == 30:
	            close_with_fin(accepted)
	            peers[port].wait(FIN)
	            peers[port].send(ACK)
	        else:
	            kept.append(accepted)

	    def send():
	        for port in range(1, 10):
	            wire.send(udp_packet(peer, mine, peer_port, base + port, b"hello"))
	            wire.send(icmp(peer, mine, udp_packet(mine, peer, base + port, peer_port),
	                           kind=3 if ":" in mine else 11, code=0))
	        for port, s in udps.items():
	            if port == 7007:
	                continue
	            to = f"::ffff:{peer}" if port == 7005 and base == 7000 else peer
	            s.send(b"") if port == 7003 else s.sendto(b"", (to, peer_port))
	        for port in range(21, 33):
	            # Quoted with a sequence number that was never sent: nobody acts on the error.
	            if port != 29:
	                wire.send(icmp(peer, mine, peers[port].sent_by_server(seq=77),
	                               kind=3 if ":" in mine else 11, code=0))
	        for port in 21, 22, 29, 31:
	            peers[port].send(SYN)
	        for port in 23, 24:
	            peers[port].seq = 1000
	            peers[port].send(SYN)
	            peers[port].seq += 1
	        for port in 25, 26, 32:
	            peers[port].send(ACK | PSH, b"x")
	            peers[port].seq += 1
	        for port in 27, 28:
	            peers[port].seq -= 1
	            peers[port].send(FIN | ACK)
	            peers[port].seq += 1
	        peers[30].send(ACK)

	    return send, (udps, tcps, kept)

	four, sockets4 = run(7000, "10.0.1.2", "10.0.1.9")
	six, sockets6 = run(8000, "dead:1::2", "dead:1::9")
	settle()
	nft("flush", "ruleset")
	nft("-f", classify)
	nft("-f", observe)
	four()
	six()
	settle(0.2)
	for family, hook, port, values in observed("ip ip6 inet", top):
	    print(family, hook, port, f"| {values}")
EOF
while IFS='|' read -r where values; do
	seen[$1 $where]=$values
done <"$tmp/traffic"
}

# expect PHASE FAMILY HOOK ADD ROWS WHAT: one case for each row; ADD makes the port of the row that
# of the packet
expect()
{
	local phase=$1 family=$2 hook=$3 add=$4 what=$6 port transparent mark wildcard cgroup kind
	local values

	while read -r port transparent mark wildcard cgroup kind; do
		[ -n "$port" ] || continue
		values=" $transparent $mark $wildcard $cgroup"
		check "$what: $kind" \
			[ "${seen[$phase $family $hook $((port + add)) ]:-none seen}" = "$values" ]
	done <<<"$5"
}

declare -A seen
send demux 9000
served $((9 * 6))
in_ns "$server" sysctl -qw net.ipv4.ip_early_demux=0
send lookup 9001

while read -r table protocol add; do
	for hook in prerouting input; do
		what="$table table, $protocol $hook"
		expect demux "$table" $hook "$add" "$incoming" "$what"
		expect demux "$table" $hook $((add + 65536)) "$errors" "$what, ICMP error for"
	done
	what="$table table, $protocol input without early demux"
	expect lookup "$table" input "$add" "$incoming" "$what"
	expect lookup "$table" input $((add + 65536)) "$errors" "$what, ICMP error for"
	what="$table table, $protocol output"
	expect demux "$table" output "$add" "$outgoing_all" "$what"
	if [ "$protocol" = IPv4 ]; then
		outgoing=$outgoing4
	else
		outgoing=$outgoing6
	fi
	expect demux "$table" output "$add" "$outgoing" "$what"
done <<-EOF
	ip IPv4 0
	inet IPv4 0
	ip6 IPv6 1000
	inet IPv6 1000
EOF
finish
