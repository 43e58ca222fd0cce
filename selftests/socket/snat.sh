#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The reply direction of a connection whose source was translated: its packets carry the
# translated address until the NAT hook (-100) has put the original one back. Before that, the
# socket is found by the address that conntrack remembers. (Where it is the destination that was
# translated, the answer's source is put back at the input hook, and nothing is remembered here.)
#
#	server: a socket at .2, translated to .50 on the way out; the client answers to .50

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 43
setup_pair
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$client" -batch - <<-EOF
	neigh add 10.0.1.50 lladdr $server_mac dev eth0 nud permanent
	neigh add dead:1::50 lladdr $server_mac dev eth0 nud permanent
EOF
rules "$client" <<-EOF
	table inet t {
		chain input {
			type filter hook input priority 0
			tcp dport 9004 reject with icmpx type host-unreachable
		}
	}
EOF
# What is sent to 9007 is translated by its destination, and what is sent to 9008 not at all.
rules "$server" <<-EOF
	table inet nat {
		chain postrouting {
			type nat hook postrouting priority 100
			meta nfproto ipv4 udp dport 9001-9003 snat ip to 10.0.1.50:17000-17999
			meta nfproto ipv4 tcp dport 9001-9004 snat ip to 10.0.1.50:17000-17999
			meta nfproto ipv6 udp dport 9001-9003 snat ip6 to [dead:1::50]:17000-17999
			meta nfproto ipv6 tcp dport 9001-9004 snat ip6 to [dead:1::50]:17000-17999
		}
		chain output {
			type nat hook output priority -100
			ip daddr 10.0.1.77 udp dport 9007 dnat ip to 10.0.1.1
			ip6 daddr dead:1::77 udp dport 9007 dnat ip6 to dead:1::1
		}
	}
EOF
for when in before:prerouting:-150 after:prerouting:-50 input:input:200; do
	IFS=: read -r when hook priority <<<"$when"
	for protocol in ip ip6; do
		name=${when}_$protocol
		for what in udp udp_new tcp icmp_udp icmp_tcp dnat plain; do
			echo "add table inet observe"
			echo "add counter inet observe ${name}_${what}"
			echo "add counter inet observe ${name}_${what}_found"
			echo "add chain inet observe ${name}_$what"
			echo "add rule inet observe ${name}_$what counter name ${name}_$what"
			echo "add rule inet observe ${name}_$what socket mark 0x31" \
				"socket wildcard 0 socket transparent 0" \
				"counter name ${name}_${what}_found"
		done
		if [ $protocol = ip ]; then
			icmp="icmp type 3" at="@th,240,16" proto="ip protocol"
		else
			icmp="icmpv6 type 1" at="@th,400,16" proto="meta l4proto"
		fi
		cat <<-EOF
			add chain inet observe $name { \\
				type filter hook $hook priority $priority; }
			add rule inet observe $name $protocol version { 4, 6 } \\
				$proto udp udp sport vmap { 9001 : jump ${name}_udp, \\
				9002 : jump ${name}_udp_new, 9007 : jump ${name}_dnat, \\
				9008 : jump ${name}_plain }
			add rule inet observe $name $protocol version { 4, 6 } \\
				$proto tcp tcp sport 9001 jump ${name}_tcp
			add rule inet observe $name $icmp $at 9003 jump ${name}_icmp_udp
			add rule inet observe $name $icmp $at 9004 jump ${name}_icmp_tcp
		EOF
	done
done >"$tmp/rules"
rules "$server" <"$tmp/rules"

traffic "$client" "$server" <<-'EOF'
	import sys
	from net import *

	client, server = sys.argv[1:]
	# A closed socket would have no mark any more, when the other side's last packet comes.
	kept = []
	for there, here, other in ("10.0.1.1", "10.0.1.2", "10.0.1.77"), \
	        ("dead:1::1", "dead:1::2", "dead:1::77"):
	    enter(client)
	    peers = {port: udp(there, port) for port in (9001, 9002, 9007, 9008)}
	    lists = listener(there, 9001)
	    enter(server)
	    mark = dict(mark=0x31)
	    socks = {port: udp(here, port - 2000, peer=(other, port) if port == 9007 else None, **mark)
	             for port in peers}

	    # Two answers each.
	    for port, s in socks.items():
	        if port == 9002:
	            # A new socket after the first packet, which conntrack has not seen.
	            s.sendto(b"x", (there, port))
	            where = peers[port].recvfrom(10)[1]
	            s.close()
	            s = socks[port] = udp(here, port - 2000, **mark)
	        else:
	            s.send(b"x") if port == 9007 else s.sendto(b"x", (there, port))
	            where = peers[port].recvfrom(10)[1]
	        for _ in range(2):
	            peers[port].sendto(b"y", where)
	            s.recv(10)

	    conn = tcp_client(here, 7001, (there, 9001), **mark)
	    accepted = lists.accept()[0]
	    for _ in range(3):
	        accepted.send(b"y")
	        conn.recv(10)

	    # Nobody listens, and a router is in the way.
	    quiet = udp(here, 7003, **mark)
	    kept.append((lists, conn, accepted, quiet))
	    quiet.sendto(b"x", (there, 9003))
	    try:
	        tcp_client(here, 7004, (there, 9004), **mark)
	    except OSError:
	        pass
	    settle()
	for name, packets in counters().items():
	    print(name, packets)
EOF
while read -r name packets; do
	count[$name]=$packets
done <"$tmp/traffic"

# found COUNTER all|none DESCRIPTION
found()
{
	local packets=${count[$1]:-0} found=${count[${1}_found]:-0} expected=0

	[ "$2" = none ] || expected=$packets
	if [ "$packets" -gt 0 ] && [ "$found" = "$expected" ]; then
		pass "$3"
	else
		msg "$1: $packets packets, $found found, expected $2"
		fail "$3"
	fi
}

served 126
while read -r what before after input description; do
	for protocol in ip ip6; do
		version=IPv4
		[ $protocol = ip ] || version=IPv6
		found "before_${protocol}_$what" "$before" "$version, before NAT: $description"
		found "after_${protocol}_$what" "$after" "$version, after NAT: $description"
		found "input_${protocol}_$what" "$input" "$version, input: $description"
	done
done <<-EOF
	udp all all all		UDP answer
	udp_new all all all	UDP answer to a socket bound since
	tcp all all all		TCP answer
	icmp_udp all all all	ICMP error for UDP
	icmp_tcp all all all	ICMP error for TCP
	dnat none none all	UDP answer, destination translated, connected socket
	plain all all all	UDP answer, not translated
EOF
finish
