#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Every reference that is taken on a socket is given back, above all where the rule breaks: on
# TIME_WAIT and NEW_SYN_RECV sockets, which have no mark, wildcard or cgroup (CVE-2024-46855).
#
# A socket that is kept by a leaked reference is never freed: it stays in the slab, in the count of
# sockstat, and its network namespace never exits.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 21
setup_pair

caches="TCP TCPv6 UDP UDPv6 tw_sock_TCP tw_sock_TCPv6 request_sock_TCP request_sock_TCPv6"
declare -A objects
# read_objects: how many objects of each kind exist. Free ones that CPUs keep are given back first;
# a slab of sockets that are freed by RCU takes a moment.
read_objects()
{
	local name active _

	for name in $caches; do
		echo 1 >"/sys/kernel/slab/$name/shrink"
	done
	while read -r name active _; do
		case " $caches " in
		*" $name "*)	objects[$name]=$active ;;
		esac
	done </proc/slabinfo
}

# allocated: TCP sockets that exist in any namespace
allocated()
{
	local words

	while read -r -a words; do
		if [ "${words[0]}" = TCP: ]; then
			echo "${words[8]}"
		fi
	done </proc/net/sockstat
}

read_objects
declare -A objects_before
for name in $caches; do
	objects_before[$name]=${objects[$name]:-none}
done
allocated_before=$(allocated)

for hook in prerouting input output; do
	cat <<-EOF
		table inet t {
			counter ${hook}_all { }
			counter ${hook}_mark { }
			counter ${hook}_transparent { }
			chain $hook {
				type filter hook $hook priority 0
				counter name ${hook}_all
				socket mark 0x11 counter name ${hook}_mark
				socket mark 0x99 counter
				socket wildcard 1 counter
				socket cgroupv2 level 9 != "/" counter
				socket transparent 0 counter name ${hook}_transparent
				socket transparent 1 counter
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <"$tmp/rules"
in_ns "$server" sysctl -qw net.ipv4.tcp_max_syn_backlog=200 net.ipv4.tcp_syncookies=0

traffic "$client" "$server" <<-'EOF'
	import sys
	from net import *

	client, server = sys.argv[1:]
	wire = Wire(client)
	TIME_WAITS, ESTABLISHED, FLOOD, TIMES = 24, 8, 200, 2
	kept = []
	enter(server)
	for mine, peer in ("10.0.1.2", "10.0.1.9"), ("dead:1::2", "dead:1::9"):
	    lists = listener(mine, 7001, mark=0x11, backlog=200)
	    peers = []
	    for i in range(TIME_WAITS + ESTABLISHED):
	        conn = Peer(wire, peer, mine, 10000 + i, 7001)
	        conn.establish()
	        accepted = lists.accept()[0]
	        if i < TIME_WAITS:
	            conn.time_wait(accepted)
	        else:
	            kept.append(accepted)
	        peers.append(conn)
	    # The listener again and again, and the same SYN twice finds the request socket.
	    flood = [tcp_packet(peer, mine, 20000 + i, 7001) for i in range(FLOOD)]
	    for packet in flood + flood:
	        wire.send(packet)
	    for _ in range(TIMES):
	        for i, conn in enumerate(peers):
	            wire.send(conn.packet(ACK))
	            wire.send(icmp(peer, mine, conn.sent_by_server(seq=77), kind=None, code=None))
	        for i in range(20):
	            wire.send(icmp(peer, mine, tcp_packet(mine, peer, 7001, 20000 + i, seq=77,
	                                                  flags=ACK)))
	    # Connected, bound and wildcard sockets
	    any, only = ("::", dict(v6only=1)) if ":" in mine else ("0.0.0.0", {})
	    for port, s in ((7001, udp(mine, 7001, mark=0x11)),
	                    (7002, udp(any, 7002, mark=0x11, **only)),
	                    (7003, udp(mine, 7003, mark=0x11, peer=(peer, 9000)))):
	        for _ in range(20):
	            wire.send(udp_packet(peer, mine, 9000, port))
	            wire.send(icmp(peer, mine, udp_packet(mine, peer, port, 9000), kind=3 if ":" in
	                           mine else 11, code=0))
	        kept.append(s)
	settle()
	with open("/proc/net/sockstat") as f:
	    for line in f:
	        if line.startswith("TCP:"):
	            print(line.strip())
	with open("/proc/net/sockstat6") as f:
	    print(f.readline().strip())
	for name, packets in counters().items():
	    print(name, packets)
EOF

declare -A seen
tw=0
while read -r name packets rest; do
	seen[$name]=$packets
	if [ "$name" = TCP: ]; then
		tw=${rest#*tw }
		tw=${tw%% *}
	fi
done <"$tmp/traffic"

served 18
# The states were there, and the rules were passed by.
check "TIME_WAIT sockets of both versions exist" [ "$tw" = 48 ]
check "prerouting: packets that match by mark" [ "${seen[prerouting_mark]:-0}" -ge 700 ]
check "input: packets that match by mark" [ "${seen[input_mark]:-0}" -ge 700 ]
check "output: packets that match by mark" [ "${seen[output_mark]:-0}" -ge 16 ]
check "prerouting: sockets without mark" \
	[ "$((${seen[prerouting_transparent]:-0} - ${seen[prerouting_mark]:-0}))" -ge 500 ]
check "output: sockets without mark" \
	[ "$((${seen[output_transparent]:-0} - ${seen[output_mark]:-0}))" -ge 200 ]

# All sockets are closed now. Request sockets go with their next timer, and TIME_WAIT sockets with
# the namespace.
in_ns "$server" cat /proc/net/sockstat /proc/net/sockstat6 >"$tmp/sockstat"
check "UDP sockets are gone" [ "$(grep -c '^UDP6*: inuse 0' "$tmp/sockstat")" = 2 ]

# The namespace exits in time: then its end of the veth pair goes, and the other one with it.
device_gone()
{
	! ip -n "$client" link show eth0 >/dev/null 2>&1
}
start=$SECONDS
ip netns del "$server"
check "the namespace exits" slowwait 20 device_gone
msg "it took $((SECONDS - start)) s"

# Its sockets are freed.
as_before()
{
	local name=$1

	read_objects
	[ "${objects[$name]:-none}" != none ] &&
		[ "${objects[$name]}" -le "${objects_before[$name]}" ]
}
for name in $caches; do
	if slowwait 5 as_before "$name"; then
		pass "slab $name: all objects are freed"
	else
		read_objects
		msg "$name: ${objects_before[$name]} before, ${objects[$name]:-none} now"
		fail "slab $name: all objects are freed"
	fi
done
allocated_as_before()
{
	[ "$(allocated)" -le "$allocated_before" ]
}
check "sockstat: no TCP socket is left" slowwait 5 allocated_as_before

# Several at once, left by a process that is killed later: each exits when its last socket goes.
names=()
for i in 1 2 3 4; do
	name=leak-$i-$RANDOM
	names+=("$name")
	NS_LIST+=("$name")
	ip netns add "$name"
	ip -n "$name" link set lo up
	ip link add "up$i" netns "$client" type veth peer name eth0 netns "$name"
	in_ns "$name" nft -f "$tmp/rules"
done
python3 -S - "${names[@]}" >"$tmp/ready" 2>&1 <<-'EOF' &
	import sys, time
	from net import *

	kept = []
	for name in sys.argv[1:]:
	    enter(name)
	    for mine in "127.0.0.1", "::1":
	        lists = listener(mine, 7001, mark=0x11)
	        for i in range(4):
	            conn = tcp_client(mine, 0, (mine, 7001))
	            accepted = lists.accept()[0]
	            if i % 2:
	                close_with_fin(accepted)
	                conn.close()
	            else:
	                kept += conn, accepted
	        u = udp(mine, 7001, mark=0x11)
	        udp(mine, 7002).sendto(b"x", (mine, 7001))
	        kept += lists, u
	print("ready", flush=True)
	time.sleep(60)
EOF
pid=$!
is_ready()
{
	grep -q ready "$tmp/ready"
}
slowwait 20 is_ready
for name in "${names[@]}"; do
	ip netns del "$name"
done
ups()
{
	ip -n "$client" -o link show | grep -c ': up'
}
check "namespaces with open sockets live on without a name" [ "$(ups)" = 4 ]
{ kill -KILL "$pid" && wait "$pid"; } 2>/dev/null
none_up()
{
	[ "$(ups)" = 0 ]
}
check "and exit when the sockets are closed" slowwait 20 none_up
check "all rules have let go of the module" has_references "$module" 0
finish
