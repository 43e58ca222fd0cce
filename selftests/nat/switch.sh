#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Outbound policies that come and go under traffic, and match only what the source translation makes
# of a packet. Of what is sent while one stands, from the first packet after netlink acknowledged
# it, nothing leaves in clear. ROUNDS times, for PACKETS packets of each IP version,
# by each of:
#
#	encrypt	policies of the namespace that want a tunnel
#	block	policies of the namespace that forbid
#	socket	policies of sockets, of both kinds
#	default	no policy at all, and what happens without one is that packets are blocked; where IPv4 is
#		forwarded, by the hook alone, since devices may have routes that ask for no policy
#
# Two processes send: one on each CPU, forwarded and from the router, IPv4 and IPv6. The first byte of
# a packet says whether its sender knew that the policy stands. A marker, which no policy concerns,
# follows what is sent on a CPU: when it has arrived, so has everything before it, and the policy
# may go.
# run.sh: timeout=300

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

: "${ROUNDS:=200}" "${PACKETS:=10000}"
plan 59
setup_router
# shellcheck disable=SC2154 # set by setup_ns
for version in 4 6; do
	src=10.0.2.2 dst=10.0.2.1
	[ $version = 4 ] || src=dead:2::2 dst=dead:2::1
	ip -n "$router" xfrm state add src $src dst $dst proto esp spi $version reqid 1 \
		mode tunnel enc "ecb(cipher_null)" "" auth digest_null ""
done
rules "$router" <<-EOF
	table inet nat {
		chain postrouting {
			type nat hook postrouting priority srcnat
			meta nfproto ipv4 udp dport 7001-7008 snat ip to 10.0.2.50
			meta nfproto ipv6 udp dport 7001-7008 snat ip6 to dead:2::50
		}
	}
EOF
# What arrives at the server: by version, port and what the sender knew.
{
	echo "table inet observe {"
	for version in 4 6; do
		echo "counter esp$version { }"
		for port in 7001 7002 7003 7004 7005 7006; do
			for knew in 0 1; do
				echo "counter clear${version}_${port}_$knew { }"
			done
		done
	done
	echo "chain prerouting { type filter hook prerouting priority -300"
	for version in 4 6; do
		echo "meta nfproto ipv$version meta l4proto esp counter name esp$version drop"
		for port in 7001 7002 7003 7004 7005 7006; do
			for knew in 0 1; do
				echo "meta nfproto ipv$version udp dport $port @th,64,8 $knew" \
					"counter name clear${version}_${port}_$knew drop"
			done
		done
	done
	echo "}"
	echo "}"
} >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <"$tmp/rules"

# The witness: what tcpdump sees of what must not be there, and of ESP.
capture()
{
	nsenter --net="/run/netns/$server" tcpdump -i eth0 -n -U --immediate-mode -s 100 -B 16384 -w "$tmp/$1.pcap" \
		'esp or (udp and udp[8] = 1) or (ip6[6] = 17 and ip6[48] = 1) or ip6 proto 50' \
		2>"$tmp/$1.tcpdump" &
	tcpdump=$!
	listening()
	{
		grep -q "listening on" "$tmp/$mode.tcpdump"
	}
	slowwait 20 listening
}

switch()
{
	local mode=$1

	in_ns "$server" nft reset counters >"$tmp/reset"
	capture "$mode"
	# shellcheck disable=SC2154 # set by setup_ns
	traffic "$client" "$router" "$server" "$mode" "$ROUNDS" "$PACKETS" <<-'EOF'
		import mmap, os, signal, sys
		from nat import *
		from xfrm import *

		client, router, server, mode = sys.argv[1:5]
		rounds, packets = map(int, sys.argv[5:])
		# Each sender sends as many of one version as of the other.
		per_round = -(-2 * packets // rounds)
		cpus = sorted(os.sched_getaffinity(0))
		memory = memoryview(mmap.mmap(-1, 4096)).cast("Q")
		STATE, SENT, REFUSED = range(3)
		END = 1 << 62

		def connected(ns, version, port):
		    with netns(ns):
		        address = addr(version, 1, 1) if ns == client else addr(version, 2, 2)
		        return udp(address, 0, peer=(addr(version, 2, 1), port))

		VERSIONS = 4, 6
		# By port: 7001 to 7003 of the process that goes on and on, 7004 to 7006 of this one.
		forwarded = {port: [connected(client, v, port) for v in VERSIONS] for port in (7001, 7004)}
		local = {port: [connected(router, v, port) for v in VERSIONS]
		         for port in (7002, 7003, 7005, 7006)}
		markers = [[connected(client, v, 7009) for v in VERSIONS] for _ in range(2)]
		with netns(server):
		    arrive = [udp(addr(v, 2, 1), 7009) for v in VERSIONS]
		    for s in arrive:
		        # Where nobody waits for markers, they pile up: SO_RCVBUFFORCE.
		        s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
		if mode == "socket":
		    busy, own = [local[7002], local[7003]], [local[7005], local[7006]]
		else:
		    busy, own = [forwarded[7001], local[7002]], [forwarded[7004], local[7005]]
		busy, own = sum(busy, []), sum(own, [])

		def send(s, data):
		    """False: it was blocked."""
		    try:
		        s.send(data)
		        return True
		    except PermissionError:
		        return False

		flood = os.fork()
		if not flood:
		    os.sched_setaffinity(0, {cpus[-1]})
		    before = 0
		    while before != END:
		        state = memory[STATE]
		        if state != before:
		            before = state
		            memory[SENT] = 0
		            for s in markers[1]:
		                s.send(struct.pack("!Q", state))
		        data = bytes((state & 1,)) * 32
		        passed = sum(send(s, data) for s in busy)
		        if state & 1:
		            memory[SENT] += len(busy)
		            memory[REFUSED] += len(busy) - passed
		    os._exit(0)
		os.sched_setaffinity(0, {cpus[0]})

		def wait_marker(number):
		    for s in arrive:
		        while struct.unpack("!Q", s.recv(64))[0] != number:
		            pass

		policies = Policies(router)
		selectors = [selector(addr(v, 2, 50), addr(v, 2, 1)) for v in VERSIONS]
		templates = [[template(addr(v, 2, 2), addr(v, 2, 1))] for v in VERSIONS]

		def up():
		    if mode == "encrypt":
		        policies.do(*(policies.new(s, t) for s, t in zip(selectors, templates)))
		    elif mode == "block":
		        policies.do(*(policies.new(s, action=BLOCK) for s in selectors))
		    elif mode == "default":
		        policies.do(policies.default(DEFAULT_BLOCK))
		    else:
		        for i in range(2):
		            for port in 7002, 7005:
		                set_socket_policy(local[port][i], selectors[i], templates[i])
		            for port in 7003, 7006:
		                set_socket_policy(local[port][i], selectors[i], action=BLOCK)

		def down():
		    if mode == "default":
		        policies.do(policies.default(DEFAULT_ACCEPT))
		    elif mode == "socket":
		        for s in sum(local.values(), []):
		            set_socket_policy(s)
		    else:
		        policies.do(*(policies.gone(s) for s in selectors))

		known = refused = 0
		marked = mode != "default"
		for number in range(1, rounds + 1):
		    up()
		    # The first ones after the acknowledgement.
		    for s in own * 2:
		        refused += not send(s, b"\1" * 32)
		        known += 1
		    memory[STATE] = 2 * number + 1
		    deadline = time.monotonic() + 20
		    while memory[SENT] < per_round - 2 * len(own) or memory[STATE] != 2 * number + 1:
		        time.sleep(0.0002)
		        if time.monotonic() > deadline:
		            raise SystemExit("the other process does not send")
		    known += memory[SENT]
		    memory[STATE] = 2 * number + 2
		    if marked:
		        wait_marker(2 * number + 2)
		        for s in markers[0]:
		            s.send(struct.pack("!Q", number))
		        wait_marker(number)
		    else:
		        # Markers are blocked, too.
		        while memory[SENT]:
		            time.sleep(0.0002)
		        time.sleep(0.005)
		    down()
		    for s in own:
		        if not send(s, b"\0" * 32):
		            raise SystemExit("blocked after the policy was gone")
		memory[STATE] = END
		os.waitpid(flood, 0)
		for s in markers[0]:
		    s.send(struct.pack("!Q", END))
		wait_marker(END)
		print("known", known)
		print("refused", refused + memory[REFUSED])
	EOF
	kill "$tcpdump"
	wait "$tcpdump"
	read_counters "$server"
}

# sum PATTERN: of the counters whose names match
sum()
{
	local name total=0

	for name in "${!count[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		[[ $name != $1 ]] || total=$((total + ${count[$name]}))
	done
	echo $total
}

for mode in encrypt block socket default; do
	[ "$mode" != default ] || in_ns "$router" sysctl -qw net.ipv4.conf.eth1.disable_xfrm=1
	switch "$mode"
	known=$(sed -n 's/^known //p' "$tmp/traffic")
	refused=$(sed -n 's/^refused //p' "$tmp/traffic")
	for version in 4 6; do
		msg "$mode, IPv$version: ESP ${count[esp$version]}, in clear" \
			"$(sum "clear${version}_*_0"), in clear though it stood" \
			"$(sum "clear${version}_*_1")"
	done
	msg "$mode: $(tr '\n' ' ' <"$tmp/traffic") $(grep -E 'dropped|captured' "$tmp/$mode.tcpdump" |
		tr '\n' ' ')"
	check "$mode: enough was sent while the policy stood" [ "$known" -ge $((2 * PACKETS)) ]
	ports="7001 7002 7004 7005"
	[ "$mode" != socket ] || ports="7002 7003 7005 7006"
	for version in 4 6; do
		for port in $ports; do
			case $port in
			7001|7004)	what=forwarded ;;
			*)		what="from the router" ;;
			esac
			case $port in
			7004|7005|7006)	what+=", the first ones" ;;
			esac
			[ "$mode" != socket ] || case $port in
			7002|7005)	what+=" (encrypt)" ;;
			*)		what+=" (block)" ;;
			esac
			check "$mode: IPv$version, $what: none in clear while it stood" \
				[ "${count[clear${version}_${port}_1]}" = 0 ]
		done
		check "$mode: IPv$version: in clear again after it was gone" \
			[ "$(sum "clear${version}_700[456]_0")" = $((2 * ROUNDS)) ]
	done
	tcpdump -n -r "$tmp/$mode.pcap" 'not (esp or ip6 proto 50)' >"$tmp/leaked" 2>/dev/null
	esp=$(tcpdump -n -r "$tmp/$mode.pcap" 'esp or ip6 proto 50' 2>/dev/null | wc -l)
	check "$mode: tcpdump saw none either" [ ! -s "$tmp/leaked" ]
	if [ "$mode" = encrypt ]; then
		check "$mode: no sender was told that it may not" [ "$refused" = 0 ]
	else
		check "$mode: every second sender was told that it may not" \
			[ "$refused" -ge $((known / 2)) ]
	fi
	case $mode in
	encrypt)
		check "$mode: all of it went as ESP" [ "$(sum 'esp*')" -ge "$known" ]
		check "$mode: tcpdump saw it" [ "$esp" = "$(sum 'esp*')" ] ;;
	socket)
		check "$mode: half of it went as ESP" [ "$(sum 'esp*')" -ge $((known / 2)) ]
		check "$mode: tcpdump saw it" [ "$esp" = "$(sum 'esp*')" ] ;;
	*)
		check "$mode: nothing went as ESP" [ "$(sum 'esp*') $esp" = "0 0" ] ;;
	esac
done
served 1
finish
