#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# IPsec tunnels whose policies begin or cease to match when addresses and ports are translated: what
# left as ESP, and what in clear, as tcpdump saw it go. By the number of the port a
# packet meets its rule, and the policy and tunnel of that number.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 46
setup_router

null="enc ecb(cipher_null) '' auth digest_null ''"
# tunnel NUMBER SELECTOR...: a policy of the router, and its tunnel; to somebody else in $gateway
tunnel()
{
	local number=$1 to=${gateway:-${two}1}
	shift

	echo "xfrm policy add dir out $* tmpl src ${two}2 dst $to proto esp reqid $number mode tunnel"
	echo "xfrm state add src ${two}2 dst $to proto esp spi $number reqid $number mode tunnel $null"
}

for version in 4 6; do
	if [ $version = 4 ]; then
		family=ip one=10.0.1. two=10.0.2. at="10.0.2.1" request=(icmp)
	else
		family=ip6 one=dead:1:: two=dead:2:: at="[dead:2::1]" request=(ipv6-icmp type 128)
	fi
	{
		tunnel 7000 src ${one}1 dst ${two}1 proto udp dport 7000
		tunnel 7001 src ${two}2 dst ${two}1 proto udp dport 7001
		tunnel 7002 src ${one}1 dst ${two}1 proto udp dport 7002
		tunnel 7003 src ${one}1 dst ${two}1 proto udp sport 5003 dport 7003
		tunnel 7004 src ${one}1 dst ${two}1 proto udp sport 6004 dport 7004
		tunnel 7006 src ${two}1 dst ${two}2 proto udp dport 7006
		gateway=${two}9 tunnel 7007 src ${two}50 dst ${two}1 proto udp dport 7007
		tunnel 7010 src ${two}2 dst ${two}1 proto udp dport 7110
		tunnel 7011 src ${two}2 dst ${two}1 proto udp dport 7011
		tunnel 7012 src ${two}2 dst ${two}1 proto udp dport 7012
		tunnel 7013 src ${two}2 dst ${two}66 proto udp dport 7013
		tunnel 7014 src ${two}50 dst ${two}1 proto udp dport 7014
		tunnel 7015 src ${two}2 dst ${two}1 proto udp dport 7015
		tunnel 7020 src ${one}1 dst ${two}1 proto udp dport 7020
		tunnel 7021 src ${one}1 dst ${two}66 proto udp dport 7021
		tunnel 7030 src ${two}52 dst ${two}1 proto "${request[@]}"
		tunnel 7031 src ${one}2 dst ${two}1 proto "${request[@]}"
		tunnel 7040 src ${two}54 dst ${two}1 proto tcp
		cat <<-EOF
			xfrm policy add dir out src ${two}53 dst ${two}9 proto esp action block
			xfrm state add src ${two}1 dst ${two}2 proto esp spi 7041 reqid 7041 \
				mode tunnel $null
			xfrm policy add dir fwd src ${two}1 dst ${two}54 tmpl src ${two}1 dst ${two}2 \
				proto esp reqid 7041 mode tunnel
		EOF
	} >"$tmp/batch"
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$router" -batch "$tmp/batch" || ktap_exit_fail_msg "cannot set up IPsec"
	# TCP goes both ways.
	# shellcheck disable=SC2154 # set by setup_ns
	ip -n "$server" -batch - <<-EOF
		xfrm state add src ${two}2 dst ${two}1 proto esp spi 7040 reqid 7040 mode tunnel $null
		xfrm policy add dir in src ${two}54 dst ${two}1 tmpl src ${two}2 dst ${two}1 \
			proto esp reqid 7040 mode tunnel
		xfrm state add src ${two}1 dst ${two}2 proto esp spi 7041 reqid 7041 mode tunnel $null
		xfrm policy add dir out src ${two}1 dst ${two}54 tmpl src ${two}1 dst ${two}2 \
			proto esp reqid 7041 mode tunnel
	EOF
	cat <<-EOF
		table $family nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				udp dport { 7020, 7021 } dnat to ${two}1
			}
			chain output {
				type nat hook output priority -100
				udp dport 7010 dnat to $at:7110
				udp dport { 7011, 7013 } dnat to ${two}1
				udp dport 7012 dnat to $at:7112
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				udp dport { 7001, 7002, 7005, 7006 } masquerade
				udp dport 7003 snat to :5003
				udp dport 7004 snat to :5004
				udp dport { 7007, 7014, 7015 } snat to ${two}50
				meta l4proto { icmp, ipv6-icmp } $family saddr ${one}1 snat to ${two}52
				meta l4proto { icmp, ipv6-icmp } $family saddr ${one}2 snat to ${two}55
				meta l4proto esp $family daddr ${two}9 snat to ${two}53
				tcp dport 7040 snat to ${two}54
			}
		}
	EOF
done >"$tmp/rules"
rules "$router" <"$tmp/rules"
# Nobody answers what comes in clear.
rules "$server" <<-EOF
	table inet t {
		chain prerouting {
			type filter hook prerouting priority -300
			udp dport 7000-7199 drop
			meta l4proto { icmp, ipv6-icmp } drop
		}
	}
EOF

# What leaves: at the other end, packets that came as ESP are seen again in clear.
nsenter --net="/run/netns/$router" tcpdump -i eth1 -Q out -n -U --immediate-mode -w "$tmp/pcap" \
	2>"$tmp/tcpdump" &
tcpdump=$!
listening()
{
	grep -q "listening on" "$tmp/tcpdump"
}
slowwait 20 listening
# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *

	client, router, server = sys.argv[1:]
	far = Echo(server)
	for version in 4, 6:
	    one, two, virtual = addr(version, 1, 1), addr(version, 2, 2), addr(version, 2, 66)
	    there = addr(version, 2, 1)
	    with netns(client):
	        for port in 7000, 7001, 7002, 7003, 7004, 7005, 7006, 7007, 7020, 7021:
	            s = udp(one, port - 1000)
	            for _ in range(3):
	                s.sendto(b"x", (virtual if port >= 7020 else there, port))
	    with netns(router):
	        for port in range(7010, 7016):
	            s = udp(two, port - 1000)
	            for _ in range(3):
	                s.sendto(b"x", (virtual if port in (7011, 7013) else there, port))
	    for ns, address in (client, one), (router, addr(version, 1, 2)):
	        p = Ping(version, ns, address)
	        for seq in range(3):
	            p.send(there, 7, seq)
	    print(exchange("tcp", client, (one, 6040), (there, 7040), far.at("tcp", there, 7040)))
	settle()
EOF
kill $tcpdump
wait $tcpdump
msg "$(grep dropped "$tmp/tcpdump")"
tcpdump -n -t -r "$tmp/pcap" >"$tmp/seen" 2>/dev/null

# saw ESP CLEAR VERSION NUMBER WHAT [TO]: how many packets of each; TO is the port where it arrives
saw()
{
	local ip=IP two=10.0.2. esp clear to=${6:-$4}

	[ "$3" = 4 ] || ip=IP6 two=dead:2::
	esp=$(grep -cF "$(printf 'ESP(spi=0x%08x,' "$4")" < <(grep "^$ip " "$tmp/seen"))
	clear=$(grep -cE "^$ip [^ ]* > ${two//./\\.}1[.:]$to" "$tmp/seen")
	check "IPv$3, $5: ESP $1, in clear $2" [ "$esp $clear" = "$1 $2" ]
}
for version in 4 6; do
	saw 3 0 $version 7000 "forwarded, policy matches, no rule"
	saw 3 0 $version 7001 "forwarded, policy matches after masquerade"
	saw 0 3 $version 7002 "forwarded, policy does not match after masquerade"
	saw 3 0 $version 7003 "forwarded, policy matches after snat of the port alone"
	saw 0 3 $version 7004 "forwarded, policy does not match after snat of the port alone"
	saw 0 3 $version 7005 "forwarded, masquerade, no policy"
	saw 0 3 $version 7006 "forwarded, masquerade, policy of the other direction"
	saw 3 0 $version 7007 "forwarded, and the tunnel's packets are translated, too"
	saw 3 0 $version 7020 "forwarded, policy matches after dnat"
	saw 0 3 $version 7021 "forwarded, policy does not match after dnat"
	saw 3 0 $version 7010 "sent, policy matches after dnat of the port alone" 7110
	saw 3 0 $version 7011 "sent, policy matches after dnat"
	saw 0 3 $version 7012 "sent, policy does not match after dnat of the port alone" 7112
	saw 0 3 $version 7013 "sent, policy does not match after dnat"
	saw 3 0 $version 7014 "sent, policy matches after snat"
	saw 0 3 $version 7015 "sent, policy does not match after snat"
	what=" ICMP echo request" from=10.0.2.55
	[ $version = 4 ] || what=" ICMP6, echo request" from=dead:2::55
	saw 3 0 $version 7030 "forwarded ping, policy matches after snat" "$what-none"
	saw 0 0 $version 7031 "sent ping, policy does not match after snat" "$what-none"
	check "IPv$version, sent ping: in clear" \
		[ "$(grep -c "^IP6* $from > .*$what" "$tmp/seen")" = 3 ]
	check "IPv$version: no other ping was in clear" \
		[ "$(grep -c "^IP$([ $version = 4 ] || echo 6) .*$what" "$tmp/seen")" = 3 ]
	outer="IP 10.0.2.53 > 10.0.2.9: ESP(spi=0x00001b5f,"
	[ $version = 4 ] || outer="IP6 dead:2::53 > dead:2::9: ESP(spi=0x00001b5f,"
	check "IPv$version: the tunnel's translated packets are not looked up again" \
		[ "$(grep -cF "$outer" "$tmp/seen")" = 3 ]
done
check "TCP through a tunnel, both ways" [ "$(tr '\n' ' ' <"$tmp/traffic")" = \
	"('10.0.2.54', 6040) ('dead:2::54', 6040) " ]
check "and nothing of it in clear" [ "$(grep -c '[.]7040: ' "$tmp/seen")" = 0 ]
check "but as ESP" [ "$(grep -c 'ESP(spi=0x00001b80,' "$tmp/seen")" -ge 10 ]
served 6
finish
