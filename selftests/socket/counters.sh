#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust
#
# The counters in debugfs: each packet moves those that say what happened to it, by one for each
# evaluation, and no other.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 37
setup_pair

# One expression in each hook. What the kernel sends by itself is left out: on the way in by the
# sender, whose address nobody has, on the way out (errors, handshakes again) by the protocol, but
# for group reports.
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <<-'EOF'
	table inet t {
		chain prerouting {
			type filter hook prerouting priority -450
			iif eth0 ip saddr 10.0.1.9 socket mark 0x11 accept
			iif eth0 ip6 saddr dead:1::9 socket mark 0x11 accept
		}
		chain output {
			type filter hook output priority 0
			meta l4proto { udp, igmp } socket mark 0x11 accept
		}
	}
EOF

traffic "$client" "$server" "$debugfs" <<-'EOF'
	import sys
	from net import *

	client, server, debugfs = sys.argv[1:]
	wire = Wire(client)
	enter(server)

	def read():
	    with open(debugfs) as f:
	        return {name: int(value) for name, value in map(str.split, f)}

	def case(description, expected, send, times=7):
	    """Send it that many times; expected are the counters that move by as much."""
	    before = read()
	    for _ in range(times):
	        send()
	    settle(0.02)
	    after = read()
	    moved = {name: after[name] - before[name] for name in after if after[name] != before[name]}
	    print(f"{moved == dict.fromkeys(expected.split(), times)}|{description}|{moved}")

	def both(name, expected, make, **options):
	    """make(mine, peer) gives the packet; %s in the names is the version."""
	    for version, (mine, peer) in (("ipv4", ("10.0.1.2", "10.0.1.9")),
	                                  ("ipv6", ("dead:1::2", "dead:1::9"))):
	        packet = make(mine, peer)
	        if packet is None:
	            continue
	        case(f"{version}: {name}", expected.replace("%s", version),
	             lambda: wire.send(packet), **options)

	kept, peers = [], {}
	for mine, peer in ("10.0.1.2", "10.0.1.9"), ("dead:1::2", "dead:1::9"):
	    lists = listener(mine, 7001, mark=0x11)
	    kept += [udp(mine, 7001, mark=0x11), lists]
	    for i, state in enumerate(("syn", "established", "time-wait")):
	        conn = peers[mine, state] = Peer(wire, peer, mine, 9000 + i, 7001)
	        if state == "syn":
	            conn.syn()
	        else:
	            conn.establish()
	            accepted = lists.accept()[0]
	            if state == "time-wait":
	                conn.time_wait(accepted)
	            else:
	                kept.append(accepted)

	both("UDP", "lookup_udp_%s found_borrowed",
	     lambda mine, peer: udp_packet(peer, mine, 9000, 7001))
	both("UDP without socket", "lookup_udp_%s miss_no_socket",
	     lambda mine, peer: udp_packet(peer, mine, 9000, 7009))
	# A reset of an unknown connection is answered by nobody.
	both("TCP without socket", "lookup_tcp_%s miss_no_socket",
	     lambda mine, peer: tcp_packet(peer, mine, 9000, 7009, flags=RST))
	both("TCP listener", "lookup_tcp_%s found_borrowed",
	     lambda mine, peer: tcp_packet(peer, mine, 9999, 7001, flags=RST))
	both("TCP established", "lookup_tcp_%s found_owned",
	     lambda mine, peer: peers[mine, "established"].packet(0))
	both("TCP NEW_SYN_RECV", "lookup_tcp_%s found_owned miss_not_full",
	     lambda mine, peer: peers[mine, "syn"].packet(0))
	both("TCP TIME_WAIT", "lookup_tcp_%s found_owned miss_not_full",
	     lambda mine, peer: peers[mine, "time-wait"].packet(0))
	both("ICMP error for UDP", "lookup_icmp_%s found_borrowed",
	     lambda mine, peer: icmp(peer, mine, udp_packet(mine, peer, 7001, 9000)))
	both("ICMP error for TCP established", "lookup_icmp_%s found_owned",
	     lambda mine, peer: icmp(peer, mine, peers[mine, "established"].sent_by_server(seq=77)))
	both("ICMP error without socket", "lookup_icmp_%s miss_no_socket",
	     lambda mine, peer: icmp(peer, mine, udp_packet(mine, peer, 7009, 9000)))
	both("ICMP, no error", "miss_not_an_error",
	     lambda mine, peer: icmp(peer, mine, bytes(20), kind=129 if ":" in mine else 0))
	both("ICMP error for another protocol", "miss_other_protocol",
	     lambda mine, peer: icmp(peer, mine, ip(mine, peer, 132, bytes(20))))
	both("ICMP error that quotes too little", "miss_truncated",
	     lambda mine, peer: icmp(peer, mine, udp_packet(mine, peer, 7001, 9000)[:19]))
	both("UDP, seven bytes", "miss_truncated",
	     lambda mine, peer: ip(peer, mine, 17, bytes(7)))
	both("SCTP", "miss_other_protocol", lambda mine, peer: ip(peer, mine, 132, bytes(20)))
	both("later fragment", "miss_later_fragment",
	     lambda mine, peer: ip6(peer, mine, 44, struct.pack("!BBHI", 17, 0, 8, 1) + bytes(8))
	     if ":" in mine else ip4(peer, mine, 17, bytes(8), fragment=1))
	for s, to in (kept[0], ("10.0.1.9", 9000)), (kept[3], ("dead:1::9", 9000)):
	    case(f"sent by a socket, {'ipv6' if ':' in to[0] else 'ipv4'}", "skb_sock",
	         lambda: s.sendto(b"", to))
	# Group reports of IPv4 are sent by no socket.
	def join():
	    s = udp("0.0.0.0", 0)
	    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
	                 socket.inet_aton("239.9.9.9") + socket.inet_aton("10.0.1.2"))
	    kept.append(s)
	before = read()
	join()
	time.sleep(1.2)
	after = read()
	print(f"{after['miss_no_input_device'] > before['miss_no_input_device']}|"
	      "sent by no socket, there is no device either|")
EOF
while IFS='|' read -r result description moved; do
	[ "$result" = True ] || msg "moved: $moved"
	check "$description" [ "$result" = True ]
done <"$tmp/traffic"

check "the file is for root alone" \
	[ "$(stat -c %a%u%g "$debugfs" | sed 's/^[0-7]*\([0-7]\)\([0-7]\)00$/\1\2/')" = 00 ]
served 3
finish
