#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The output hook: there is no input device, so what counts is the socket that sent the packet, or
# nothing. Behind a tunnel that is whoever sent the inner packet, and may be of the other IP
# version, no IP socket at all, or of another network namespace.
#
#	server:     vx4, vx6	tunnels over IPv4 and IPv6
#	elsewhere:  vo4, vo6	the same, with the outer packets still in the server's namespace

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 123
setup_pair
setup_ns elsewhere || exit "$?"

top=nfrust-output
mkdir -p "/sys/fs/cgroup/$top/sub"
remove_cgroup()
{
	rmdir "/sys/fs/cgroup/$top/sub" "/sys/fs/cgroup/$top"
}
cleanup_hooks+=(remove_cgroup)

peer_mac=02:00:00:00:00:0a
id=0
for dev in vx4 vx6 vo4 vo6; do
	id=$((id + 1))
	case $dev in
	*4)	ends=(local 10.0.1.2 remote 10.0.1.1) ;;
	*6)	ends=(local dead:1::2 remote dead:1::1 udp6zerocsumtx) ;;
	esac
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$server" link add "$dev" type vxlan id $id dstport 4789 nolearning "${ends[@]}"
	ns=$server
	# shellcheck disable=SC2154 # set by setup_ns
	if [[ $dev == vo* ]]; then
		ns=$elsewhere
		ip -n "$server" link set "$dev" netns "$ns"
	fi
	ip -n "$ns" -batch - <<-EOF
		link set $dev addrgenmode none
		link set $dev up
		addr add 10.1.$id.2/24 dev $dev
		addr add dead:1$id::2/64 dev $dev nodad
		neigh add 10.1.$id.1 lladdr $peer_mac dev $dev nud permanent
		neigh add dead:1$id::1 lladdr $peer_mac dev $dev nud permanent
	EOF
done

# Behind a tunnel a packet is known by its inner destination port, after 8 bytes of UDP, 8 of
# VXLAN and 14 of Ethernet.
rules "$server" <<-'EOF'
	table inet classify {
		chain output {
			type filter hook output priority -400
			meta mark set 0
			meta l4proto udp udp dport 4789 @th,240,4 4 meta mark set @th,400,32 & 0xffff
			meta l4proto udp udp dport 4789 @th,240,4 6 meta mark set @th,560,32 & 0xffff
			meta l4proto { tcp, udp } th dport 7500-7599 meta mark set th dport
			ip protocol igmp meta mark set 1
			icmpv6 type 143 meta mark set 2
			icmpv6 type 135 ip6 daddr ff02::/16 meta mark set 3
			icmp type echo-reply meta mark set 4
			icmpv6 type echo-reply meta mark set 5
		}
	}
EOF
observe "ip ip6 inet" output >"$tmp/observe"
rules "$server" <"$tmp/observe"

traffic "$client" "$server" "$elsewhere" "$top" <<-'EOF'
	import sys
	from net import *

	client, server, other, top = sys.argv[1:]
	peer_mac = bytes.fromhex("02000000000a")
	wire = Wire(client)
	join_cgroup(f"{top}/sub")
	kept = []

	def through(id, base, dev):
	    """Packets of every kind through one tunnel; ports from base on say which."""
	    four, six = (f"10.1.{id}.2", f"10.1.{id}.1"), (f"dead:1{id}::2", f"dead:1{id}::1")
	    for i, (mine, to) in enumerate((four, six)):
	        any = "::" if ":" in mine else "0.0.0.0"
	        at = base + 10 * i
	        only = dict(v6only=1) if i else {}
	        udp(mine, 0, mark=0x11).sendto(b"", (to, at + 1))
	        udp(any, 0, mark=0x12, transparent=True, **only).sendto(b"", (to, at + 2))
	        udp(mine, 0, mark=0x13, peer=(to, at + 3)).send(b"")
	        # A connection that is being made
	        s = sock(socket.SOCK_STREAM, mine, 0, mark=0x14)
	        s.setblocking(False)
	        s.connect_ex((to, at + 4))
	        kept.append(s)
	        # Not an IP socket. Its mark and cgroup are as good as any other's.
	        packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
	        packets.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0x15)
	        packets.bind((dev, 0))
	        proto = 0x86DD if i else 0x0800
	        packets.send(peer_mac + peer_mac + struct.pack("!H", proto) +
	                     udp_packet(mine, to, 9000, at + 5))

	enter(server)
	through(1, 7100, "vx4")
	through(2, 7200, "vx6")
	enter(other)
	through(3, 7300, "vo4")
	through(4, 7400, "vo6")

	# Without a tunnel
	enter(server)
	raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
	raw.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0x16)
	raw.sendto(udp_packet("10.0.1.2", "10.0.1.9", 9000, 7501), ("10.0.1.9", 0))
	# A device of another family than the packet's: IPv4 from an IPv6 socket
	udp("::ffff:10.0.1.2", 0, mark=0x17).sendto(b"", ("::ffff:10.0.1.9", 7502))

	# Sent by the kernel: group membership, neighbour discovery, echo replies
	group = udp("0.0.0.0", 0)
	group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
	                 socket.inet_aton("239.1.2.3") + socket.inet_aton("10.0.1.2"))
	group6 = udp("::", 0)
	group6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
	                  socket.inet_pton(socket.AF_INET6, "ff05::1:2:3") +
	                  struct.pack("=I", socket.if_nametoindex("eth0")))
	udp("dead:1::2", 0).sendto(b"", ("dead:1::77", 9))
	wire.send(ip4("10.0.1.9", "10.0.1.2", 1, bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0])))
	segment = bytes([128, 0, 0, 0, 0, 0, 0, 0])
	wire.send(ip6("dead:1::9", "dead:1::2", 58,
	              l4_checksum("dead:1::9", "dead:1::2", 58, segment, 2)))

	# Closing a local connection with a reset, of both versions
	for i, loopback in enumerate(("127.0.0.1", "::1")):
	    lists = listener(loopback, 7510 + i, mark=0x18)
	    conn = tcp_client(loopback, 0, (loopback, 7510 + i), mark=0x18)
	    accepted = lists.accept()[0]
	    accepted.send(b"left unread")
	    linger(conn, 1)
	    conn.close()
	# Group reports are sent after a random while.
	settle(1.5)
	for family, hook, kind, values in observed("ip ip6 inet", top):
	    print(family, kind, values)
	join_cgroup("")
EOF

served 18

declare -A seen
while read -r family kind values; do
	seen[$family $kind]=$values
done <"$tmp/traffic"

# expect FAMILIES KIND VALUES DESCRIPTION: one case in each family
expect()
{
	local family

	for family in $1; do
		check "$family table: $4" [ "${seen[$family $2]:-none seen}" = "$3" ]
	done
}

# The four values are those of transparent, mark, wildcard and cgroupv2; a dash is a break.
none="- - - -"
for version in 4 6; do
	if [ $version = 4 ]; then
		base=7100 families="ip inet" to="in a tunnel over IPv4"
	else
		base=7200 families="ip6 inet" to="in a tunnel over IPv6"
	fi
	for inner in 4 6; do
		what="IPv$inner $to"
		# The address that wildcard looks at is that of the outer packet's version. In an
		# IPv4 socket the one for IPv6 is left at "any" by bind().
		wildcard=0
		[ $version$inner != 64 ] || wildcard=1
		expect "$families" $((base + 1)) "0 0x11 $wildcard cg" "UDP, bound, $what"
		expect "$families" $((base + 2)) "1 0x12 1 cg" "UDP, transparent, $what"
		expect "$families" $((base + 3)) "0 0x13 $wildcard cg" "UDP, connected, $what"
		expect "$families" $((base + 4)) "0 0x14 0 cg" "TCP, connecting, $what"
		# No inet socket: the keys are separate cases.
		for family in $families; do
			read -r transparent mark wildcard cgroup \
				<<<"${seen[$family $((base + 5))]:-none seen}"
			packet="$family table: packet socket, $what"
			check "$packet: mark" [ "$mark" = 0x15 ]
			check "$packet: cgroupv2" [ "$cgroup" = cg ]
			check "$packet: transparent" [ "$transparent" = 0 ]
			check "$packet: wildcard" [ "$wildcard" = 1 ]
		done
		for i in 1 2 3 4 5; do
			kinds=("" "UDP, bound" "UDP, transparent" "UDP, connected" \
				"TCP, connecting" "packet socket")
			expect "$families" $((base + 200 + i)) "$none" \
				"another namespace's: ${kinds[i]}, $what"
		done
		base=$((base + 10))
	done
done
expect "ip inet" 7501 "0 0x16 1 cg" "raw socket"
expect "ip inet" 7502 "0 0x17 0 cg" "IPv4 from an IPv6 socket"
expect "ip inet" 7510 "0 0x18 0 cg" "local connection, reset"
expect "ip6 inet" 7511 "0 0x18 0 cg" "local connection, reset"
expect "ip inet" 1 "$none" "IGMP report, sent by no socket"
expect "ip6 inet" 2 "0 0x0 1 -" "MLD report, sent by the kernel's socket"
expect "ip6 inet" 3 "0 0x0 1 -" "neighbour solicitation, sent by the kernel's socket"
expect "ip inet" 4 "0 0x0 1 -" "echo reply, sent by the kernel's socket"
expect "ip6 inet" 5 "0 0x0 1 -" "echo reply, sent by the kernel's socket"
finish
