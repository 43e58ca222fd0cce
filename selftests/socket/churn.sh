#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Sockets that come and go on one CPU while packets look for them on another: what is found is the
# right socket or none, never a value of somebody else's, and nothing is left behind. A socket may
# be caught when its last reference is gone already; then there is no match.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 27
setup_pair
# At least that long, and that often: the machine may be a slow one.
: "${CHURN_SECONDS:=4}" "${CHURN_ROUNDS:=40}"

# The sockets of a port all have the mark of that port, and none is transparent. Others with
# mark 0x99 take the memory that was freed.
for version in 4 6; do
	for kind in udp:7001:0x11 connected:7002:0x12 listener:7003:0x13 established:7004:0x14; do
		IFS=: read -r name _ mark <<<"$kind"
		cat <<-EOF
			table inet t {
				counter all_$name$version { }
				counter right_$name$version { }
				counter wrong_$name$version { }
				chain $name$version {
					counter name all_$name$version
					socket transparent 1 counter name wrong_$name$version
					socket mark $mark counter name right_$name$version
					socket mark != $mark counter name wrong_$name$version
				}
			}
		EOF
	done
	cat <<-EOF
		table inet t {
			chain prerouting$version {
				type filter hook prerouting priority 0
				meta nfproto ipv$version meta l4proto { tcp, udp } th dport vmap {
					7001 : jump udp$version, 7002 : jump connected$version,
					7003 : jump listener$version,
					7004 : jump established$version }
			}
		}
	EOF
done >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <"$tmp/rules"

traffic "$client" "$server" "$CHURN_SECONDS" "$CHURN_ROUNDS" <<-'EOF'
	import os, signal, sys
	from net import *

	client, server, seconds, least = sys.argv[1:]
	PAIRS = ("10.0.1.2", "10.0.1.9"), ("dead:1::2", "dead:1::9")
	cpus = sorted(os.sched_getaffinity(0))

	# The packets, without pause
	sender = os.fork()
	if not sender:
	    os.sched_setaffinity(0, {cpus[-1]})
	    wire = Wire(client)
	    frames = []
	    for mine, peer in PAIRS:
	        for port in 7001, 7002:
	            frames.append(wire.frame(udp_packet(peer, mine, 9000, port)))
	        # An ACK that nobody expects, so that a listener does not begin anything.
	        frames.append(wire.frame(tcp_packet(peer, mine, 9000, 7003, flags=RST)))
	        frames += [wire.frame(tcp_packet("10.0.1.1" if "." in mine else "dead:1::1", mine,
	                                         9000 + i, 7004, seq=1 << 30, flags=0))
	                   for i in range(2)]
	    while True:
	        for frame in frames:
	            wire.raw.send(frame)

	# Connections to the server, from ports that are used again and again
	os.sched_setaffinity(0, {cpus[0]})
	with netns(server):
	    listens = [listener(mine, 7004, mark=0x14) for mine, _ in PAIRS]

	def connect(i, mine):
	    with netns(client):
	        s = sock(socket.SOCK_STREAM, "10.0.1.1" if "." in mine else "dead:1::1", 9000 + i)
	    linger(s, 1)
	    s.connect((mine, 7004))
	    return s

	enter(server)
	rounds, end = 0, time.monotonic() + float(seconds)
	while time.monotonic() < end or rounds < int(least):
	    rounds += 1
	    for (mine, peer), lists in zip(PAIRS, listens):
	        others = [udp(mine, 0, mark=0x99) for _ in range(2)]
	        a = udp(mine, 7001, mark=0x11)
	        b = udp(mine, 7002, mark=0x12, peer=(peer, 9000))
	        c = listener(mine, 7003, mark=0x13)
	        ends = [(connect(i, mine), lists.accept()[0]) for i in range(2)]
	        a.close()
	        b.close()
	        others += [udp(mine, 0, mark=0x99) for _ in range(2)]
	        c.close()
	        for near, far in ends:
	            near.close()
	            far.close()
	os.kill(sender, signal.SIGKILL)
	os.waitpid(sender, 0)
	settle()
	print("rounds", rounds)
EOF
read -r _ rounds <"$tmp/traffic"
msg "sockets made and closed $rounds times"
check "sockets came and went" [ "${rounds:-0}" -ge "$CHURN_ROUNDS" ]

served 24
read_counters "$server"
for version in 4 6; do
	for name in udp connected listener established; do
		all=${count[all_$name$version]} right=${count[right_$name$version]}
		wrong=${count[wrong_$name$version]}
		msg "$name, IPv$version: $all packets, $right found, $wrong wrong"
		check "IPv$version, $name: no value of another socket" [ "$wrong" = 0 ]
		# The scheduler may give one side more than the other, but both happen.
		check "IPv$version, $name: found while it was there" [ "$right" -gt 0 ]
		check "IPv$version, $name: not found while it was not" [ "$right" -lt "$all" ]
	done
done

device_gone()
{
	! ip -n "$client" link show eth0 >/dev/null 2>&1
}
ip netns del "$server"
check "the namespace exits" slowwait 20 device_gone
finish
