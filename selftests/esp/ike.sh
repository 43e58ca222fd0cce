#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: timeout=300
#
# A real key management daemon: strongSwan at both ends makes the states, offloaded to the devices,
# and replaces them every few seconds, while TCP and UDP go through them both ways. IPv4 goes in a
# tunnel in UDP, as behind NAT; IPv6 in transport mode; both with extended sequence numbers. Nothing
# may be lost.
#
# DURATION=6 seconds of traffic, REKEY=2 seconds between new states, MBITS=20 a second of TCP each way.
# The traffic goes on for no less than twice REKEY, so that states are replaced at least once.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

: "${DURATION:=6}" "${REKEY:=2}" "${MBITS:=20}"
[ "$DURATION" -ge $((2 * REKEY)) ] || DURATION=$((2 * REKEY))

plan 12
setup_espdev 2
patient_tcp
for port in espdev0 espdev1; do
	knob $port spread 1
done

# config END OTHER HOST PEER REKEY: the daemon's configuration. One end asks for new states.
config()
{
	local dir=$tmp/$1 end=$1 other=$2 host=$3 peer=$4 rekey=$5 version address mode

	mkdir "$dir"
	cat >"$dir/strongswan.conf" <<-EOT
		charon-systemd {
			load = random nonce openssl kernel-netlink socket-default vici
			install_routes = no
			filelog {
				log {
					path = $dir/log
					default = 1
					flush_line = yes
				}
			}
			plugins {
				vici {
					socket = unix://$dir/vici
				}
			}
		}
		swanctl {
			load = openssl
			socket = unix://$dir/vici
		}
	EOT
	{
		echo "connections {"
		for version in 4 6; do
			[ $version = 4 ] && address=10.0.1. mode=tunnel || address=dead:1:: mode=transport
			connection
		done
		echo "}"
		echo 'secrets { ike-both { secret = "for this test only" } }'
	} >"$dir/swanctl.conf"
}

# connection: what config() has in its variables
connection()
{
	cat <<-EOT
		v$version {
			version = 2
			proposals = aes128gcm16-prfsha256-x25519
			local_addrs = $address$host
			remote_addrs = $address$peer
			local_port = 4500
			remote_port = 4500
			encap = $([ $version = 4 ] && echo yes || echo no)
			mobike = no
			rekey_time = 0
			local {
				auth = psk
				id = $end
			}
			remote {
				auth = psk
				id = $other
			}
			children {
				v$version {
					mode = $mode
					esp_proposals = aes128gcm16-esn
					hw_offload = crypto
					replay_window = 1024
					rekey_time = $rekey
					life_time = 600
					rand_time = 0
				}
			}
		}
	EOT
}

declare -A charon
# daemon END NETNS
daemon()
{
	STRONGSWAN_CONF=$tmp/$1/strongswan.conf \
		nsenter --net="/run/netns/$2" charon-systemd >"$tmp/$1/out" 2>&1 &
	charon[$1]=$!
	slowwait 20 [ -S "$tmp/$1/vici" ] || give_up "$1: the daemon does not start"
	swan "$1" --load-all --file "$tmp/$1/swanctl.conf" || give_up "$1: bad configuration"
}

# swan END ARG...
swan()
{
	local dir=$tmp/$1
	shift

	STRONGSWAN_CONF=$dir/strongswan.conf swanctl "$@" >>"$dir/swanctl" 2>&1
}

# give_up WHY: with what the daemons had to say
give_up()
{
	local end line

	for end in client server; do
		while read -r line; do
			msg "$end: $line"
		done < <(tail -n 15 "$tmp/$end"/{out,log,swanctl} 2>/dev/null)
	done
	ktap_exit_fail_msg "$*"
}

ended()
{
	! kill -0 "${charon[@]}" 2>/dev/null
}

stop_daemons()
{
	# They delete their states, and wait for each other's answers.
	kill "${charon[@]}" 2>/dev/null
	slowwait 5 ended || kill -KILL "${charon[@]}"
	wait "${charon[@]}" 2>/dev/null
}
cleanup_hooks=(stop_daemons "${cleanup_hooks[@]}")

# The daemon does not ask for GRO on the socket that ESP in UDP arrives at. Without it UDP receives
# such packets, finds that their path has the device's tunnel in it, of which the socket's policy
# does not say a word, and drops them, with C's modules and ours. This asks for it, on the daemon's
# behalf.
gro_in_udp()
{
	python3 -S - "$1" <<-'EOT'
		import ctypes
		import os
		import socket
		import sys

		UDP_GRO, PIDFD_GETFD = 104, 438
		pid, found = int(sys.argv[1]), 0
		pidfd = os.pidfd_open(pid)
		for fd in map(int, os.listdir(f"/proc/{pid}/fd")):
		    if not os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
		        continue
		    s = socket.socket(fileno=ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, fd, 0))
		    if s.family == socket.AF_INET and s.getsockname()[1] == 4500:
		        s.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
		        found += 1
		sys.exit(found != 1)
	EOT
}

# are_as_agreed NETNS: states are the device's, with extended numbers, and IPv4's are in UDP
are_as_agreed()
{
	in_ns "$1" ip -d xfrm state >"$tmp/states"
	[ "$(grep -c '^src' "$tmp/states")" = 4 ] &&
	[ "$(grep -c 'crypto offload parameters: dev eth0 dir in' "$tmp/states")" = 2 ] &&
	[ "$(grep -c 'crypto offload parameters: dev eth0 dir out' "$tmp/states")" = 2 ] &&
	[ "$(grep -c 'flag.* esn' "$tmp/states")" = 4 ] &&
	[ "$(grep -c 'encap type espinudp' "$tmp/states")" = 2 ]
}

config client server 1 2 "$REKEY"
config server client 2 1 0
# shellcheck disable=SC2154 # set by setup_ns
daemon server "$server"
# shellcheck disable=SC2154 # set by setup_ns
daemon client "$client"
for end in client server; do
	gro_in_udp "${charon[$end]}" || give_up "$end: no socket of the daemon's at port 4500"
done
for version in 4 6; do
	swan client --initiate --child v$version || give_up "IPv$version: no states"
done
check "client: states are offloaded, as agreed" are_as_agreed "$client"
check "server: states are offloaded, as agreed" are_as_agreed "$server"

# ---- traffic ----

# flow NAME ADDRESS PORT OPTION...: the way back where an option says -R
flow()
{
	local name=$1 address=$2 port=$3
	shift 3

	nsenter --net="/run/netns/$server" iperf3 -s -1 -p "$port" >/dev/null 2>&1 &
	wait_local_port_listen "$server" "$port" tcp
	nsenter --net="/run/netns/$client" iperf3 -c "$address" -p "$port" -t "$DURATION" \
		--connect-timeout 10000 -J "$@" >"$tmp/$name" 2>&1 &
	flows+=($!)
}

# datagrams: numbered ones, both ways and over both versions, until the time is over. A line for each
# version: how many were sent, how many of them the stack refused to send, and how many are missing.
# (The UDP of iperf3 ends where a datagram is refused.)
datagrams()
{
	python3 -S - "$client" "$server" "$DURATION" <<-'EOT'
		import sys
		from net import *

		PORT, RATE, SO_RCVBUFFORCE = 6000, 100, 33
		ends = dict(zip((1, 2), sys.argv[1:3]))
		flows = []
		for version, prefix in (4, "10.0.1."), (6, "dead:1::"):
		    socks = {}
		    for host, ns in ends.items():
		        with netns(ns):
		            socks[host] = udp(f"{prefix}{host}", PORT)
		        socks[host].setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 21)
		        socks[host].setblocking(False)
		    for src, dst in (1, 2), (2, 1):
		        flows.append((version, socks[src], socks[dst], (f"{prefix}{dst}", PORT), set()))

		def drain():
		    for _, _, receiver, _, numbers in flows:
		        try:
		            while True:
		                numbers.add(receiver.recv(2000)[:4])
		        except BlockingIOError:
		            pass

		sent = 0
		refused = {4: 0, 6: 0}
		begin = time.monotonic()
		while sent < int(sys.argv[3]) * RATE:
		    for version, sender, _, address, _ in flows:
		        try:
		            sender.sendto(struct.pack("!I", sent) + bytes(1000), address)
		        except OSError:
		            refused[version] += 1
		    sent += 1
		    drain()
		    time.sleep(max(0, begin + sent / RATE - time.monotonic()))
		for _ in range(20):
		    time.sleep(0.05)
		    drain()
		for version in 4, 6:
		    got = sum(len(numbers) for flow, _, _, _, numbers in flows if flow == version)
		    print(version, 2 * sent, refused[version], 2 * sent - refused[version] - got)
	EOT
}

# in_rust: how many packets Rust has received
in_rust()
{
	cat /sys/kernel/debug/esp[46]_offload_rust/counters 2>/dev/null |
		awk '$1 == "received" { sum += $2 } END { print sum + 0 }'
}

before=$(in_rust)
# Less than an emulated machine can do: what is lost then was not for want of time.
flows=()
flow tcp4 10.0.1.2 5201 -b "${MBITS}M"
flow tcp6 dead:1::2 5202 -b "${MBITS}M" -R
datagrams >"$tmp/udp" 2>&1 || give_up "datagrams: $(tail -n 1 "$tmp/udp")"
wait "${flows[@]}"

figure()
{
	jq ".end.$2" "$tmp/$1"
}

missing=0
for version in 4 6; do
	got=$(figure tcp$version sum_received.bytes)
	again=$(figure tcp$version sum_sent.retransmits)
	read -r _ sent refused lost < <(grep "^$version " "$tmp/udp")
	msg "IPv$version: TCP: $got bytes, $again segments again; UDP: $sent datagrams," \
		"$refused refused, $lost lost"
	# A slow machine does not do what was asked for.
	check "IPv$version: TCP was received" \
		[ "$((got))" -ge $((DURATION * MBITS * 1000000 / 8 / 10)) ]
	check "IPv$version: TCP sent less than one segment of 300 again" \
		[ "$((again * 300))" -lt $((got / 1400)) ]
	missing=$((missing + refused + lost))

	# One line when they are there, and one for each replacement
	made=$(grep -c "inbound CHILD_SA v$version{[0-9]*} established" "$tmp/server/log")
	msg "IPv$version: states were made $made times"
	check "IPv$version: states were replaced every $REKEY seconds" \
		[ "$made" -ge $((DURATION / REKEY)) ]
done

# ---- what was counted ----

# A state may die while a packet is about to be sent by it, or between two of them there may be none;
# that is up to the sender's way out, which both implementations have from C.
errors=()
not_sent=0
for end in client server; do
	while read -r name number; do
		msg "$end: $name $number"
		case $name in
		XfrmOut*)	not_sent=$((not_sent + number)) ;;
		*)		errors+=("$end: $name $number") ;;
		esac
	done < <(in_ns "${!end}" grep -v '[[:space:]]0$' /proc/net/xfrm_stat)
done
check "no error of packets that arrived was counted" [ ${#errors[@]} = 0 ]
check "every datagram that was sent has arrived" [ "$missing" -le "$not_sent" ]

# Of the two ports together: neither missed a state, and none was asked to let software decrypt.
all_decrypted()
{
	local port

	for port in espdev0 espdev1; do
		msg "$port: $(nic $port rx_esp) packets of ESP, $(nic $port rx_done) decrypted"
		[ "$(nic $port rx_done)" -gt 0 ] &&
		[ "$(nic $port rx_done)" = "$(nic $port rx_esp)" ] &&
		[ "$(nic $port overrun)" = 0 ] || return 1
	done
}
check "the devices decrypted all of it" all_decrypted

# Nearly all of it was received by Rust: but for what was under way when a state was new.
received_here()
{
	local here all

	are_in_charge || return 1
	[ "$IMPL" = rust ] || return 0
	here=$(($(in_rust) - before))
	all=$(($(nic espdev0 rx_done) + $(nic espdev1 rx_done)))
	msg "received in Rust: $here of $all packets"
	[ $((here * 100)) -ge $((all * 99)) ]
}
check "ESP is served by the modules under test" received_here
finish
