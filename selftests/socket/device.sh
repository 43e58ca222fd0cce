#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The device a packet came in by: sockets that are bound to one, loopback, VRF, where a packet
# passes prerouting twice; and packets that are for many.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 119
setup_pair
# A second link, in a VRF.
# shellcheck disable=SC2154 # set by setup_ns
ip link add eth1 netns "$client" address "$client_mac" type veth \
	peer name eth1 netns "$server" address "$server_mac"
ip -n "$client" link set eth1 up
vrf=1
# shellcheck disable=SC2154 # set by setup_ns
if ip -n "$server" link add vrf0 type vrf table 100 2>/dev/null; then
	ip -n "$server" link set vrf0 up
	ip -n "$server" link set eth1 master vrf0
else
	vrf=
fi
ip -n "$server" -batch - <<-EOF
	link set eth1 addrgenmode none
	link set eth1 up
	addr add 10.0.2.2/24 dev eth1
	addr add dead:2::2/64 dev eth1 nodad
	neigh add 10.0.2.9 lladdr $client_mac dev eth1 nud permanent
	neigh add dead:2::9 lladdr $client_mac dev eth1 nud permanent
EOF

for hook in prerouting input; do
	for version in 4 6; do
		cat <<-EOF
			table inet t {
				set ${hook}_all$version {
					typeof iifname . th dport; size 256; flags dynamic
				}
				set ${hook}_found$version {
					typeof iifname . th dport . socket mark; size 256
					flags dynamic
				}
				chain $hook$version {
					type filter hook $hook priority 0
					meta nfproto ipv$version meta l4proto { tcp, udp } \\
						update @${hook}_all$version { iifname . th dport }
					meta nfproto ipv$version update @${hook}_found$version \\
						{ iifname . th dport . socket mark counter }
				}
			}
		EOF
	done
done >"$tmp/rules"
rules "$server" <"$tmp/rules"

traffic "$client" "$server" "$vrf" <<-'EOF'
	import sys
	from net import *

	client, server, vrf = sys.argv[1:]
	wire = Wire(client)
	wire1 = Wire(client, "eth1")
	enter(server)
	kept = []
	devices = None, "eth0", "lo", "eth1"
	if vrf:
	    devices += "vrf0",
	for any in "0.0.0.0", "::":
	    six = dict(v6only=1) if ":" in any else {}
	    for i, dev in enumerate(devices):
	        options = dict(mark=0x60 + i, dev=dev, **six)
	        kept += udp(any, 7000 + i, **options), listener(any, 7010 + i, **options)
	kept += [udp("10.0.1.2", 7020, mark=0x70), udp("0.0.0.0", 7021, mark=0x71),
	         udp("239.1.2.3", 7022, mark=0x72), udp("10.0.1.255", 7023, mark=0x73),
	         udp("dead:1::2", 7020, mark=0x70), udp("::", 7021, mark=0x71, v6only=1),
	         udp("ff05::77", 7022, mark=0x72, v6only=1)]
	index = struct.pack("=I", socket.if_nametoindex("eth0"))
	groups = udp("0.0.0.0", 0), udp("::", 0)
	groups[0].setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
	                     socket.inet_aton("239.1.2.3") + socket.inet_aton("10.0.1.2"))
	groups[1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP,
	                     socket.inet_pton(socket.AF_INET6, "ff05::77") + index)

	for w, net in (wire, 1), (wire1, 2):
	    for peer, mine in (f"10.0.{net}.9", f"10.0.{net}.2"), (f"dead:{net}::9", f"dead:{net}::2"):
	        for i in range(5):
	            w.send(udp_packet(peer, mine, 9000, 7000 + i))
	            w.send(tcp_packet(peer, mine, 9000, 7010 + i))
	for mine in "127.0.0.1", "::1":
	    for i in range(5):
	        udp(mine, 0).sendto(b"", (mine, 7000 + i))

	group4 = bytes.fromhex("01005e010203")
	group6 = bytes.fromhex("333300000077")
	for port in 7020, 7021, 7022, 7023:
	    for dst, mac in ("239.1.2.3", group4), ("10.0.1.255", b"\xff" * 6), ("ff05::77", group6):
	        if (port == 7023) != (dst == "10.0.1.255") and port != 7021:
	            continue
	        wire.dst = mac
	        wire.send(udp_packet("dead:1::9" if ":" in dst else "10.0.1.9", dst, 9000, port))
	settle()
	for version in 4, 6:
	    for hook in "prerouting", "input":
	        found = {}
	        for name in f"{hook}_all{version}", f"{hook}_found{version}":
	            for s in json.loads(nft("-j", "list", "set", "inet", "t", name))["nftables"]:
	                for element in s.get("set", {}).get("elem", ()):
	                    if "elem" in element:
	                        element = element["elem"]["val"]
	                    dev, port, *mark = element["concat"]
	                    found.setdefault((dev, port), []).extend(map(hex, mark))
	        for (dev, port), marks in found.items():
	            print(f"IPv{version} {hook} {dev} {port}", ",".join(marks) or "-")
EOF

declare -A seen
while read -r version hook dev port marks; do
	seen[$version $hook $dev $port]=$marks
done <"$tmp/traffic"

# expect HOOKS DEVICE PORT MARK DESCRIPTION
expect()
{
	local hook version

	for hook in $1; do
		for version in ${6:-IPv4 IPv6}; do
			check "$version $hook, $5" \
				[ "${seen[$version $hook $2 $3]:-none seen}" = "$4" ]
		done
	done
}

served 4
for protocol in UDP TCP; do
	base=7000
	[ $protocol = UDP ] || base=7010
	what="$protocol from eth0, socket bound to"
	expect "prerouting input" eth0 $base 0x60 "$what none"
	expect "prerouting input" eth0 $((base + 1)) 0x61 "$what it"
	expect "prerouting input" eth0 $((base + 2)) - "$what lo"
	expect "prerouting input" eth0 $((base + 3)) - "$what eth1"
	for dev in eth1 vrf0; do
		hooks=prerouting
		[ $dev = eth1 ] || hooks="prerouting input"
		what="$protocol in a VRF, as seen from $dev, socket bound to"
		bound=(0x60 - - - -)
		[ $dev = eth1 ] && bound[3]=0x63 || bound[4]=0x64
		names=(none eth0 lo "the device" "the VRF")
		for i in 0 1 2 3 4; do
			if [ -n "$vrf" ]; then
				expect "$hooks" $dev $((base + i)) "${bound[i]}" "$what ${names[i]}"
			else
				for hook in $hooks; do
					skip "IPv4 $hook, $what ${names[i]}"
					skip "IPv6 $hook, $what ${names[i]}"
				done
			fi
		done
	done
done
expect "prerouting input" lo 7000 0x60 "UDP from lo, socket bound to none"
expect "prerouting input" lo 7001 - "UDP from lo, socket bound to eth0"
expect "prerouting input" lo 7002 0x62 "UDP from lo, socket bound to it"
expect "prerouting input" eth0 7020 - "multicast, socket bound to an address of the host"
expect "prerouting input" eth0 7022 0x72 "multicast, socket bound to the group"
expect "prerouting input" eth0 7021 0x71 "multicast and broadcast, wildcard socket"
expect "prerouting input" eth0 7023 0x73 "broadcast, socket bound to the address" IPv4
finish
