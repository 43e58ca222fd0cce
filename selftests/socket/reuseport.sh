#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Groups of sockets that share a port. Without a program the hash chooses, and the rule finds the
# very socket that gets the packet. With a program: the lookup for UDP does not run it, and finds
# what the hash chooses; the one for TCP does, and the program sees the payload of the packet.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 33
setup_pair
# shellcheck disable=SC2154 # set by setup_ns
rules "$server" <<-'EOF'
	table inet t {
		set udp4 { typeof udp sport . socket mark; size 1024; flags dynamic; }
		set udp6 { typeof udp sport . socket mark; size 1024; flags dynamic; }
		set tcp4 { typeof tcp sport . socket mark; size 1024; flags dynamic; }
		set tcp6 { typeof tcp sport . socket mark; size 1024; flags dynamic; }
		chain c {
			type filter hook prerouting priority 0
			meta nfproto ipv4 update @udp4 { udp sport . socket mark counter }
			meta nfproto ipv6 update @udp6 { udp sport . socket mark counter }
			tcp flags ! syn accept
			meta nfproto ipv4 update @tcp4 { tcp sport . socket mark counter }
			meta nfproto ipv6 update @tcp6 { tcp sport . socket mark counter }
		}
	}
EOF

traffic "$client" "$server" <<-'EOF'
	import ctypes, select, sys
	from net import *

	client, server = sys.argv[1:]
	wire = Wire(client)
	enter(server)
	SIZE, FLOWS = 4, 48
	SO_ATTACH_REUSEPORT_CBPF = 51

	def attach(group, *instructions):
	    """A classic BPF program: (code, k) each. What it returns is the index of a socket."""
	    program = b"".join(struct.pack("=HBBI", code, 0, 0, k) for code, k in instructions)
	    buffer = ctypes.create_string_buffer(program)
	    group[0].setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
	                        struct.pack("HL", len(instructions), ctypes.addressof(buffer)))

	def always(index):
	    return (0x06, index),                     # return the constant

	# The first byte of the payload
	first_byte = (0x30, 0), (0x16, 0)             # load it, return it

	def marks(name):
	    """{source port: the set of marks that were found for it}"""
	    found = {}
	    for s in json.loads(nft("-j", "list", "set", "inet", "t", name))["nftables"]:
	        for element in s.get("set", {}).get("elem", ()):
	            port, mark = element["elem"]["val"]["concat"]
	            found.setdefault(port, set()).add(mark)
	    return found

	def case(description, fine, detail=""):
	    print(f"{'ok' if fine else 'not ok'}|{description}|{detail}")

	for version, mine, peer in ("4", "10.0.1.2", "10.0.1.9"), ("6", "dead:1::2", "dead:1::9"):
	    ip_ = f"IPv{version}"
	    group = [udp(mine, 7001, mark=0x40 + i, reuseport=True) for i in range(SIZE)]
	    got = {}

	    def send_udp(base):
	        for port in range(base, base + FLOWS):
	            for _ in range(2):
	                wire.send(udp_packet(peer, mine, port, 7001))
	        settle()
	        for s in group:
	            s.setblocking(False)
	            try:
	                while True:
	                    port = s.recvfrom(10)[1][1]
	                    got.setdefault(port, set()).add(group.index(s) + 0x40)
	            except BlockingIOError:
	                pass

	    send_udp(10000)
	    found = marks(f"udp{version}")
	    case(f"{ip_}: UDP, every packet finds one socket",
	         len(found) == FLOWS and all(len(m) == 1 for m in found.values()), found)
	    case(f"{ip_}: UDP, the hash uses the whole group", set.union(*found.values()) ==
	         set(range(0x40, 0x40 + SIZE)), found)
	    case(f"{ip_}: UDP, the socket found is the one that receives", found == got, got)

	    attach(group, *always(1))
	    nft("flush", "set", "inet", "t", f"udp{version}")
	    before, got = found, {}
	    send_udp(10000)
	    found = marks(f"udp{version}")
	    case(f"{ip_}: UDP with a program, the socket found is still the hash's", found == before,
	         found)
	    case(f"{ip_}: UDP with a program, another one receives",
	         all(m == {0x41} for m in got.values()) and len(got) == FLOWS, got)

	    # TCP. Nothing accepts, so each listener's queue says what it got.
	    group = [listener(mine, 7001, mark=0x50 + i, reuseport=True, backlog=1000)
	             for i in range(SIZE)]
	    connected = {}
	    for port in range(20000, 20000 + FLOWS):
	        Peer(wire, peer, mine, port, 7001).establish()
	    settle()
	    for s in group:
	        while select.select([s], [], [], 0)[0]:
	            port = s.accept()[1][1]
	            connected.setdefault(port, set()).add(group.index(s) + 0x50)
	    found = marks(f"tcp{version}")
	    case(f"{ip_}: TCP, every SYN finds one listener",
	         len(found) == FLOWS and all(len(m) == 1 for m in found.values()), found)
	    case(f"{ip_}: TCP, the hash uses the whole group", set.union(*found.values()) ==
	         set(range(0x50, 0x50 + SIZE)), found)
	    case(f"{ip_}: TCP, the listener found is the one that is asked", found == connected,
	         connected)

	    # A SYN with data, of which the program takes the first byte: it is where the data offset
	    # says, after options of TCP and of IP, and it may be in a page.
	    attach(group, *first_byte)
	    nft("flush", "set", "inet", "t", f"tcp{version}")
	    big = bytes(5000)
	    expected, what = {}, {}
	    port = 30000
	    for index in range(SIZE):
	        for name, words, ip_options, linear in (
	            ("plain", 0, 0, None), ("after TCP options", 5, 0, None),
	            ("after IP options", 0, 1, None), ("after both", 5, 1, None),
	            ("in a page", 0, 0, 20), ("in a page, after TCP options", 5, 0, 40),
	            ("with the header in a page", 0, 0, 0), ("after both, in a page", 5, 1, 10),
	        ):
	            port += 1
	            data = b"\1" * (4 * words) + bytes([index]) + (b"" if linear is None else big)
	            segment = tcp_header(peer, mine, port, 7001, payload=data, doff=5 + words)
	            if version == "4":
	                packet = ip4(peer, mine, 6, segment, options=b"\1" * (8 * ip_options))
	            elif ip_options:
	                packet = ip6(peer, mine, 60, bytes([6, 0, 1, 4, 0, 0, 0, 0]) + segment)
	            else:
	                packet = ip6(peer, mine, 6, segment)
	            if linear is None:
	                wire.send(packet)
	            else:
	                header = (20 if version == "4" else 40) + 8 * ip_options
	                wire.send_paged(packet, header + linear)
	            expected[port] = {0x50 + index}
	            what.setdefault(name, []).append(port)
	    settle()
	    found = marks(f"tcp{version}")
	    for name, ports in what.items():
	        case(f"{ip_}: TCP with a program, its byte {name}",
	             all(found.get(port) == expected[port] for port in ports),
	             [found.get(port) for port in ports])
	    for s in group:
	        s.close()
EOF
while IFS='|' read -r result description detail; do
	if [ "$result" = ok ]; then
		pass "$description"
	else
		msg "$detail"
		fail "$description"
	fi
done <"$tmp/traffic"
served 4
finish
