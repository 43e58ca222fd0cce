#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# NAMESPACES network namespaces with chains of type nat, made and deleted again and again while
# packets for them come in without end and their own connections go on: they all exit, and nothing
# is left of them. At least two rounds, and DURATION seconds.
# run.sh: timeout=300

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

: "${NAMESPACES:=50}" "${DURATION:=10}"
plan 8
setup_ns hub || exit "$?"
in_ns "${hub:?}" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1

# All three families, each hook, and rules for everything that the packets below are.
cat >"$tmp/rules" <<-EOF
	table inet nat {
		chain prerouting {
			type nat hook prerouting priority dstnat
			udp dport 7001 redirect to :7002
			tcp dport 7001 redirect to :7002
		}
		chain output {
			type nat hook output priority -100
			udp dport 7001 redirect to :7002
			tcp dport 7001 redirect to :7002
		}
		chain postrouting {
			type nat hook postrouting priority srcnat
			oifname eth0 masquerade
		}
	}
	table ip nat {
		chain input {
			type nat hook input priority 100
			udp dport 7002 snat to 10.9.0.100-10.9.0.200
		}
	}
	table ip6 nat {
		chain postrouting {
			type nat hook postrouting priority 90
			oifname lo snat to ::1
		}
	}
EOF

# flood: to every namespace's device, whether it is there or not
flood()
{
	exec python3 -S - "$hub" "$NAMESPACES" "$tmp" >"$tmp/flood" 2>&1 <<-'EOF'
		import os, sys
		from nat import *

		hub, namespaces, tmp = sys.argv[1:]
		wire = Wire(hub, "lo")
		enter(hub)
		raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
		peer, mine, other = "10.9.0.1", "10.9.0.2", "10.9.0.3"
		peer6, mine6, other6 = "dead:9::1", "dead:9::2", "dead:9::3"
		frames, sent, missing, number = [], 0, 0, 0
		for port in range(9000, 9004):
		    for a, b, c in (peer, mine, other), (peer6, mine6, other6):
		        frames += [wire.frame(udp_packet(a, b, port, 7001)),
		                   wire.frame(tcp_packet(a, b, port, 7001)),
		                   wire.frame(udp_packet(a, c, port, 7003)),
		                   wire.frame(icmp(a, b, udp_packet(b, a, 7001, port)))]
		while not os.path.exists(f"{tmp}/stop"):
		    for i in range(int(namespaces)):
		        for _ in range(4):
		            number += 1
		            try:
		                raw.sendto(frames[number % len(frames)], (f"h{i}", 0))
		                sent += 1
		            except OSError:
		                missing += 1
		print(f"sent {sent}, without a device {missing}")
	EOF
}

# world: addresses, chains and connections in each of them, which go on until the namespace goes
world()
{
	exec python3 -S - "$NAMESPACES" "$tmp" "$1" <<-'EOF'
		import ctypes, fcntl, os, sys
		from nat import *

		namespaces, tmp, number = sys.argv[1:]
		libnftables = ctypes.CDLL("libnftables.so.1")
		libnftables.nft_ctx_new.restype = ctypes.c_void_p
		with open(f"{tmp}/rules", "rb") as file:
		    text = file.read()
		flows, kept, made = [], [], 0

		def ioctl(s, request, *fields):
		    return fcntl.ioctl(s, request, struct.pack(*fields))

		for i in range(int(namespaces)):
		    enter(f"many-{i}")
		    # Devices up, an address of each version. (Other processes for it take too long.)
		    four, six = (socket.socket(f, socket.SOCK_DGRAM)
		                 for f in (socket.AF_INET, socket.AF_INET6))
		    for name in b"lo", b"eth0":
		        ioctl(four, 0x8914, "=16sH14x", name, 0x41)
		    for request, address in (0x8916, "10.9.0.2"), (0x891C, "255.255.255.0"):
		        ioctl(four, request, "=16sHxx4s16x", b"eth0", socket.AF_INET,
		              socket.inet_aton(address))
		    index = struct.unpack("=16si", ioctl(four, 0x8933, "=16si20x", b"eth0", 0)[:20])[1]
		    ioctl(six, 0x8916, "=16sIi", socket.inet_pton(socket.AF_INET6, "dead:9::2"), 64, index)
		    for name in "ipv4/ip_forward", "ipv6/conf/all/forwarding":
		        with open(f"/proc/sys/net/{name}", "w") as file:
		            file.write("1")
		    context = ctypes.c_void_p(libnftables.nft_ctx_new(0))
		    made += not libnftables.nft_run_cmd_from_buffer(context, text)
		    libnftables.nft_ctx_free(context)
		    for local in "127.0.0.1", "::1":
		        server = udp(local, 7002)
		        client = udp(local, 0, peer=(local, 7001))
		        lists = listener(local, 7002)
		        near = tcp_client(local, 0, (local, 7001))
		        flows.append((server, client, near, lists.accept()[0]))
		        kept.append(lists)
		rounds = 0
		while rounds < 3 or not os.path.exists(f"{tmp}/go.{number}"):
		    for server, client, near, far in flows:
		        client.send(b"x")
		        data, where = server.recvfrom(9)
		        server.sendto(b"y", where)
		        assert client.recv(9) == b"y"
		        near.sendall(b"x")
		        assert far.recv(9) == b"x"
		    rounds += 1
		    if rounds == 1:
		        open(f"{tmp}/ready.{number}", "w").close()
		print(f"chains in {made}, connections went on for {rounds} turns", flush=True)
		# Nothing is closed: it all ends with this process.
		os._exit(made != int(namespaces))
	EOF
}

# active CACHE: how many objects of a kind exist
active()
{
	local name number _

	[ ! -e "/sys/kernel/slab/$1" ] || echo 1 >"/sys/kernel/slab/$1/shrink"
	while read -r name number _; do
		[ "$name" != "$1" ] || echo "$number"
	done </proc/slabinfo
}
namespaces_before=$(active net_namespace)
connections_before=$(active nf_conntrack)
# CPUs keep some that are free.
nobody_left()
{
	[ "$(active net_namespace)" -lt "$((namespaces_before + NAMESPACES))" ] &&
		[ "$(active nf_conntrack)" -lt "$((connections_before + NAMESPACES))" ]
}

# What hooks and chains are allocated from
slabs="kmalloc-32 kmalloc-64 kmalloc-96 kmalloc-128 kmalloc-192 kmalloc-256 kmalloc-512 kmalloc-1k
	kmalloc-cg-32 kmalloc-cg-64 kmalloc-cg-96 kmalloc-cg-128 kmalloc-cg-192 kmalloc-cg-256
	kmalloc-cg-512 kmalloc-cg-1k"
declare -A before after
read_slabs()
{
	local -n into=$1
	local slab

	for slab in $slabs; do
		# shellcheck disable=SC2034 # another name for an array
		into["$slab"]=$(active "$slab")
	done
}

# One object for each namespace of one round would show.
no_growth()
{
	local slab grown=

	read_slabs after
	for slab in $slabs; do
		if [ $((after[$slab] - before[$slab])) -ge "$NAMESPACES" ]; then
			grown+=" $slab ${before[$slab]} -> ${after[$slab]}"
		fi
	done
	[ -z "$grown" ] || msg "grown:$grown"
	[ -z "$grown" ]
}

flood &
flooder=$!
exited=0 spoke=0 rounds=0
begin=$SECONDS
while [ $rounds -lt 2 ] || [ $((SECONDS - begin)) -lt "$DURATION" ]; do
	rounds=$((rounds + 1))
	for ((i = 0; i < NAMESPACES; i++)); do
		echo "netns add many-$i"
	done >"$tmp/batch"
	for ((i = 0; i < NAMESPACES; i++)); do
		echo "link add h$i type veth peer name eth0 netns many-$i address 02:00:00:00:00:02"
		echo "link set h$i up"
	done >"$tmp/links"
	ip -batch "$tmp/batch" && ip -n "$hub" -batch "$tmp/links"
	world $rounds >"$tmp/world" 2>&1 &
	worlds=$!
	ready()
	{
		[ -e "$tmp/ready.$rounds" ] || ! kill -0 "$worlds" 2>/dev/null
	}
	slowwait 60 ready
	# Half of them go while their connections live, for the others it is the connections first.
	for ((i = 0; i < NAMESPACES; i += 2)); do
		echo "netns del many-$i"
	done | ip -batch -
	touch "$tmp/go.$rounds"
	wait "$worlds" && spoke=$((spoke + 1))
	msg "round $rounds: $(tail -n 1 "$tmp/world")"
	for ((i = 1; i < NAMESPACES; i += 2)); do
		echo "netns del many-$i"
	done | ip -batch -
	gone()
	{
		[ "$(ip -n "$hub" -o link | grep -c ' h[0-9]')" = 0 ]
	}
	slowwait 60 gone && exited=$((exited + 1))
	[ $rounds -gt 1 ] || read_slabs before
done
touch "$tmp/stop"
wait $flooder
msg "$rounds rounds in $((SECONDS - begin)) s; $(cat "$tmp/flood")"

check "chains and connections in all namespaces" [ $spoke = $rounds ]
check "all namespaces exit" [ $exited = $rounds ]
check "packets came in meanwhile" grep -q "^sent [1-9][0-9][0-9][0-9]" "$tmp/flood"
check "no namespace and no connection is left" slowwait 30 nobody_left
if [ -e /sys/kernel/debug/kmemleak ]; then
	# It knows which memory is lost, where few namespaces are no more than the noise of all else.
	ktap_test_skip "no memory is left"
else
	check "no memory is left" no_growth
fi
check "nothing holds the module" has_references "$module" 0
served 0
unloads()
{
	rmmod "$module" && modprobe "$module"
}
check "it can be unloaded" unloads
finish
