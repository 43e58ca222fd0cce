#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module loaded and unloaded ten times while UDP and TCP traffic goes on and rules come and go,
# here and in another namespace: connections are not disturbed, rules match in every round,
# unloading is refused while there are rules, nothing is left behind. (A bug that the kernel
# reports fails the whole run.)
# run.sh: timeout=600

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

: "${CYCLES:=10}"
plan 13
setup_pair
setup_ns elsewhere || exit "$?"

echo "table inet t {" >"$tmp/rules"
for family in ipv4 ipv6; do
	for hook in prerouting input output; do
		cat <<-EOF
			counter ${hook}_$family { }
			chain ${hook}_$family {
				type filter hook $hook priority 0
				meta nfproto != $family accept
				socket mark 0x11 counter name ${hook}_$family
				socket wildcard 1 counter
				socket transparent 1 counter
				socket cgroupv2 level 1 != "/" counter
			}
		EOF
	done
done >>"$tmp/rules"
echo "}" >>"$tmp/rules"

# One process talks over UDP and TCP and checks every answer; another sends what has to be looked
# up without end: listeners, request sockets, TIME_WAIT, errors.
# shellcheck disable=SC2154 # set by setup_ns
python3 -S - "$client" "$server" "$tmp" >"$tmp/talk" 2>&1 <<-'EOF' &
	import os, sys
	from net import *

	client, server, tmp = sys.argv[1:]
	PAIRS = ("10.0.1.1", "10.0.1.2"), ("dead:1::1", "dead:1::2")
	done = lambda: os.path.exists(f"{tmp}/stop")
	flows, rounds = [], 0
	for there, mine in PAIRS:
	    with netns(server):
	        s, lists = udp(mine, 7001, mark=0x11), listener(mine, 7001, mark=0x11)
	    with netns(client):
	        u, conn = udp(there, 0, peer=(mine, 7001)), tcp_client(there, 0, (mine, 7001))
	    flows.append((there, mine, s, lists, u, conn, lists.accept()[0]))
	print("ready", flush=True)
	while not done():
	    rounds += 1
	    text = b"%d" % rounds
	    for there, mine, s, lists, u, conn, accepted in flows:
	        u.send(text)
	        data, where = s.recvfrom(100)
	        s.sendto(data, where)
	        assert u.recv(100) == text, "UDP"
	        conn.sendall(text)
	        assert accepted.recv(100) == text, "TCP"
	        accepted.sendall(text)
	        assert conn.recv(100) == text, "TCP"
	        # A connection more, of which the server's end stays behind in TIME_WAIT
	        if rounds % 8 == 0:
	            with netns(client):
	                short = tcp_client(there, 0, (mine, 7001))
	            end = lists.accept()[0]
	            close_with_fin(end)
	            assert short.recv(10) == b"", "TCP"
	            short.close()
	print(f"talked {rounds}", flush=True)
EOF
talker=$!
python3 -S - "$client" "$server" "$tmp" >"$tmp/flood" 2>&1 <<-'EOF' &
	import os, sys
	from net import *

	client, server, tmp = sys.argv[1:]
	wire = Wire(client)
	frames, rounds = [], 0
	with netns(server):
	    kept = [udp("10.0.1.2", 7002, mark=0x11), udp("dead:1::2", 7002, mark=0x11),
	            listener("10.0.1.2", 7002, mark=0x11), listener("dead:1::2", 7002, mark=0x11)]
	for peer, mine in ("10.0.1.9", "10.0.1.2"), ("dead:1::9", "dead:1::2"):
	    for port in range(10000, 10020):
	        frames += [tcp_packet(peer, mine, port, 7002), udp_packet(peer, mine, port, 7002),
	                   icmp(peer, mine, tcp_packet(mine, peer, 7002, port, flags=ACK)),
	                   icmp(peer, mine, udp_packet(mine, peer, 7002, port))]
	frames = [wire.frame(packet) for packet in frames]
	while not os.path.exists(f"{tmp}/stop"):
	    rounds += 1
	    for frame in frames:
	        wire.raw.send(frame)
	    time.sleep(0.02)
	print(f"sent {rounds * len(frames)}", flush=True)
EOF
flooder=$!
# Somebody else who adds and removes rules all the time. Where there is no module at that moment
# the kernel loads it; a rule that comes while it is going is refused (ENOENT).
(
	added=0 missed=0
	while [ ! -e "$tmp/stop" ]; do
		# shellcheck disable=SC2154 # set by setup_ns
		if in_ns "$elsewhere" nft -f "$tmp/rules" 2>"$tmp/other.error"; then
			added=$((added + 1))
		elif grep -q "No such file" "$tmp/other.error"; then
			missed=$((missed + 1))
		else
			cat "$tmp/other.error"
		fi
		in_ns "$elsewhere" nft flush ruleset
		sleep 1
	done
	echo "added $added times, too late $missed times"
) >"$tmp/other" 2>&1 &
adder=$!

is_ready()
{
	grep -q ready "$tmp/talk"
}
slowwait 20 is_ready

gone()
{
	rmmod "$module" 2>/dev/null
	[ ! -e "/sys/module/$module" ]
}
loaded=0 refused=0 unloaded=0
declare -A matched
for ((cycle = 0; cycle < CYCLES; cycle++)); do
	# The first rule loads it: half of the time the kernel by itself.
	if ((cycle % 2)); then
		modprobe "$module"
	fi
	# Too early once in a while: the module may be on its way out for the others' rules.
	for attempt in 1 2 3 4 5; do
		if in_ns "$server" nft -f "$tmp/rules" 2>"$tmp/error"; then
			loaded=$((loaded + 1))
			break
		fi
		msg "round $cycle, attempt $attempt: $(grep -m1 Error "$tmp/error")"
	done
	sleep 0.3
	rmmod "$module" 2>/dev/null || refused=$((refused + 1))
	read_counters "$server"
	for name in "${!count[@]}"; do
		if [ "${count[$name]}" -gt 0 ]; then
			matched[$name]=$((${matched[$name]:-0} + 1))
		fi
	done
	in_ns "$server" nft flush ruleset
	if slowwait 60 gone; then
		unloaded=$((unloaded + 1))
	fi
done
touch "$tmp/stop"
wait "$talker"
talked=$?
wait "$flooder"
flooded=$?
wait "$adder"
for file in talk flood other; do
	msg "$file: $(tr '\n' ' ' <"$tmp/$file")"
done

check "rules were loaded in each of the rounds" [ "$loaded" = "$CYCLES" ]
check "unloading was refused in each of them while there were rules" [ "$refused" = "$CYCLES" ]
check "it was unloaded in each of them" [ "$unloaded" = "$CYCLES" ]
for hook in prerouting input output; do
	for family in ipv4 ipv6; do
		check "$family, $hook: rules matched in each of them" \
			[ "${matched[${hook}_$family]:-0}" = "$CYCLES" ]
	done
done
check "the connections were not disturbed" [ "$talked" = 0 ]
check "everything was sent" [ "$flooded" = 0 ]

has_references "$module" 0
device_gone()
{
	! ip -n "$client" link show eth0 >/dev/null 2>&1
}
ip netns del "$server"
check "the namespace exits" slowwait 20 device_gone
check "no reference is left" has_references "$module" 0
finish
