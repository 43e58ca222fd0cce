#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Fragments: the first one has ports and finds the socket, the others never do, whatever their
# payload looks like. And the expression does not switch defragmentation on.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 58
setup_pair

# Before defragmentation (-400), after it, and at the input hook.
for chain in early late input; do
	case $chain in
	early)	hook=prerouting priority=-450 ;;
	late)	hook=prerouting priority=0 ;;
	input)	hook=input priority=0 ;;
	esac
	for kind in udp tiny icmp atomic; do
		mark=0x11
		[ $kind != tiny ] || mark=0x21
		cat >>"$tmp/rules" <<-EOF
			table inet observe {
				counter ${chain}_${kind} { }
				counter ${chain}_${kind}_found { }
				chain ${chain}_${kind} {
					counter name ${chain}_${kind}
					socket mark $mark socket transparent 0 \\
						counter name ${chain}_${kind}_found
				}
			}
		EOF
	done
	# The address a packet comes from says which kind it is.
	cat >>"$tmp/rules" <<-EOF
		table inet observe {
			chain $chain {
				type filter hook $hook priority $priority
				ip saddr vmap { 10.0.1.11 : jump ${chain}_udp, \\
					10.0.1.12 : jump ${chain}_tiny, \\
					10.0.1.13 : jump ${chain}_icmp }
				ip6 saddr vmap { dead:1::11 : jump ${chain}_udp, \\
					dead:1::12 : jump ${chain}_tiny, \\
					dead:1::13 : jump ${chain}_icmp, \\
					dead:1::14 : jump ${chain}_atomic }
			}
		}
	EOF
done
cat >"$tmp/track" <<-EOF
	table inet tracked {
		chain late {
			type filter hook prerouting priority 0
			ct state new accept
		}
	}
EOF
cat >"$tmp/notrack" <<-EOF
	table inet untracked {
		chain early {
			type filter hook prerouting priority -460
			notrack
		}
	}
EOF

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" "$tmp" <<-'EOF'
	import sys
	from net import *

	client, server, tmp = sys.argv[1:]
	wire = Wire(client)
	enter(server)
	kept = [udp("0.0.0.0", 7001, mark=0x11), udp("::", 7001, mark=0x11, v6only=1),
	        listener("0.0.0.0", 7002, mark=0x21), listener("::", 7002, mark=0x21, v6only=1)]
	ident = 0

	def fragments(src, dst, proto, segment, size):
	    """The packet in pieces of that size (a multiple of 8)."""
	    global ident
	    ident += 1
	    pieces = range(0, len(segment), size)
	    for at in pieces:
	        piece = segment[at:at + size]
	        more = at != pieces[-1]
	        if ":" in src:
	            header = struct.pack("!BBHI", proto, 0, at | more, ident)
	            # The flow label is where a port would be, if the header's place were not known.
	            yield ip6(src, dst, 44, header + piece, flow=7001)
	        else:
	            yield ip4(src, dst, proto, piece, ident=ident, fragment=at // 8 | more << 13)

	def send(mine, net, sport):
	    """What each kind is counted as is in the table below."""
	    echo, quoted = (128, 58) if ":" in mine else (8, 1)
	    # 4,000 bytes that look like UDP headers for our port, wherever they are cut.
	    payload = struct.pack("!HHHH", 9000, 7001, 8, 0) * 499
	    src = net + "11"
	    for piece in fragments(src, mine, 17, udp_header(src, mine, 9000, 7001, payload), 1480):
	        wire.send(piece)
	    # A TCP header cut in the middle; a new connection each time.
	    src = net + "12"
	    for piece in fragments(src, mine, 6, tcp_header(src, mine, sport, 7002), 16):
	        wire.send(piece)
	    # An error whose second fragment looks like one of its own.
	    src = net + "13"
	    error = icmp(src, mine, udp_packet(mine, src, 7001, 9000, bytes(72)))
	    header = 40 if ":" in mine else 20
	    error = error[header:][:104] + error[header:][:104]
	    for piece in fragments(src, mine, quoted, error, 104):
	        wire.send(piece)
	    # IPv6 alone has fragments that are whole packets.
	    if ":" in mine:
	        src = net + "14"
	        wire.send(ip6(src, mine, 44, struct.pack("!BBHI", 17, 0, 0, 99) +
	                      udp_header(src, mine, 9000, 7001)))

	for sport, step in enumerate(("plain", "track", "notrack"), 9000):
	    nft("flush", "ruleset")
	    nft("-f", f"{tmp}/rules")
	    for rules in (), ("track",), ("track", "notrack"):
	        if rules and rules[-1] == step:
	            for table in rules:
	                nft("-f", f"{tmp}/{table}")
	    for mine, net in ("10.0.1.2", "10.0.1."), ("dead:1::2", "dead:1::"):
	        send(mine, net, sport)
	        settle()
	        for name, packets in counters().items():
	            print(f"{step} IPv{6 if ':' in mine else 4} {name} {packets}")
	        nft("reset", "counters")
EOF

declare -A seen
while read -r step protocol name packets; do
	seen[$step $protocol $name]=$packets
done <"$tmp/traffic"

# In pieces: three of UDP, two of TCP and two of ICMP. When they are whole, one each; but IPv6
# does not put a packet together whose first fragment is short of its header: that fragment goes
# its way, and the other waits.
while read -r step protocol kind early1 early2 late1 late2 input1 input2 what; do
	[ -n "$step" ] || continue
	for expected in "early $early1 $early2" "late $late1 $late2" "input $input1 $input2"; do
		read -r where expected <<<"$expected"
		counter="$step $protocol ${where}_$kind"
		got="${seen[$counter]:-none} ${seen[${counter}_found]:-none}"
		if [ "$got" = "$expected" ]; then
			pass "$step, $protocol, $where: $what"
		else
			msg "$where packets and matches: $got, expected $expected"
			fail "$step, $protocol, $where: $what"
		fi
	done
done <<-EOF
	plain IPv4 udp 3 1 3 1 1 1		UDP in three fragments
	plain IPv4 tiny 2 0 2 0 1 1		TCP with its header in two
	plain IPv4 icmp 2 1 2 1 1 1		ICMP error in two
	plain IPv6 udp 3 1 3 1 3 1		UDP in three fragments
	plain IPv6 tiny 2 0 2 0 2 0		TCP with its header in two
	plain IPv6 icmp 2 1 2 1 2 1		ICMP error in two
	plain IPv6 atomic 1 1 1 1 1 1		UDP in a fragment that is all of it
	track IPv4 udp 3 1 1 1 1 1		UDP in three fragments
	track IPv4 tiny 2 0 1 1 1 1		TCP with its header in two
	track IPv4 icmp 2 1 1 1 1 1		ICMP error in two
	track IPv6 udp 3 1 1 1 1 1		UDP in three fragments
	track IPv6 tiny 2 0 1 0 1 0		TCP with its header in two
	track IPv6 icmp 2 1 1 1 1 1		ICMP error in two
	track IPv6 atomic 1 1 1 1 1 1		UDP in a fragment that is all of it
	notrack IPv4 udp 3 1 3 1 1 1		UDP in three fragments
	notrack IPv4 tiny 2 0 2 0 1 1		TCP with its header in two
	notrack IPv4 icmp 2 1 2 1 1 1		ICMP error in two
	notrack IPv6 udp 3 1 3 1 3 1		UDP in three fragments
	notrack IPv6 atomic 1 1 1 1 1 1		UDP in a fragment that is all of it
EOF
served 24
finish
