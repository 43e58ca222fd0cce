#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Which bytes of the registers a store writes: an 8-bit value clears the rest of its 32-bit
# register, and what is next to it stays as it was. And what a break does to a rule.
#
# Rules are sent as raw netlink: all registers are filled, the socket expression stores, all
# registers are compared.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 54
setup_pair
cgroup=/sys/fs/cgroup/nfrust-register
mkdir -p "$cgroup"
remove_cgroup()
{
	rmdir "$cgroup"
}
cleanup_hooks+=(remove_cgroup)

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOF'
	import os, sys
	from net import *
	from nfnl import *

	client, server = sys.argv[1:]
	wire = Wire(client)
	enter(server)
	join_cgroup("nfrust-register")
	MARK = 0x44332211
	kept = [udp("0.0.0.0", 7001, transparent=True, mark=MARK),
	        udp("::", 7001, transparent=True, mark=MARK, v6only=1),
	        udp("10.0.1.2", 7002), udp("dead:1::2", 7002)]
	ONE, ZERO = bytes([1, 0, 0, 0]), bytes(4)
	cgroup = struct.pack("=Q", os.stat("/sys/fs/cgroup/nfrust-register").st_ino)
	netlink = Nft()
	cases, names = [], []

	def counted(name):
	    return expr("objref", be32(1, 1), string(2, name))

	def to_port(port):
	    load = expr("payload", be32(1, 8), be32(2, 2), be32(3, 2), be32(4, 2))
	    return load + cmp_eq(8, struct.pack("!H", port))

	def case(description, expected, port, *exprs):
	    """expected: how many of the two packets, one of each IP version, get to the end."""
	    name = f"c{len(cases)}"
	    names.append(f"counter {name} {{ }}")
	    cases.append((name, expected, description, port, exprs))

	def fill():
	    """All sixteen registers, so that each of them may be read."""
	    return [immediate(register, b"\xaa" * 16) for register in (8, 12, 16, 20)]

	def registers(at, data):
	    """All sixteen hold what they were filled with, but for the data at that register."""
	    want = bytearray(b"\xaa" * 64)
	    want[4 * (at - 8):4 * (at - 8) + len(data)] = data
	    return [cmp_eq(8 + i, bytes(want[4 * i:4 * i + 16])) for i in (0, 4, 8, 12)]

	for key, level, port, data in (
	    ("transparent", None, 7001, ONE), ("transparent", None, 7002, ZERO),
	    ("wildcard", None, 7001, ONE), ("wildcard", None, 7002, ZERO),
	    ("mark", None, 7001, struct.pack("=I", MARK)), ("mark", None, 7002, ZERO),
	    ("cgroupv2", 1, 7001, cgroup), ("cgroupv2", 1, 7002, cgroup),
	):
	    for at in 8, 9, 11, 12, 23 - (len(data) == 8):
	        case(f"{key} in register {at}, port {port}", 2, port, *fill(),
	             socket_expr(key, at, level), *registers(at, data))
	    # The 128-bit registers begin where every fourth of the others is.
	    case(f"{key} in the third register of 128 bits, port {port}", 2, port, *fill(),
	         socket_expr(key, 3, level), *registers(16, data))

	case("the second store wins", 2, 7001, *fill(), socket_expr("mark", 9),
	     socket_expr("transparent", 9), *registers(9, ONE))
	case("no match by value ends the rule", 0, 7001, socket_expr("mark", 8), cmp_eq(8, ZERO))
	case("no socket ends the rule", 0, 7003, socket_expr("mark", 8))
	case("no cgroup at that level ends the rule", 0, 7001, socket_expr("cgroupv2", 8, 2))
	case("and none of what it says afterwards is done", 2, 7003)

	nft("-f", "-", text="table inet t {\n%s\nchain c { type filter hook input priority 0\n }\n}\n"
	    % "\n".join(names))
	# A drop that must not happen; the last case counts who got past it.
	result = netlink.batch(*(
	    [new_rule("inet", "t", "c", to_port(port), *exprs, counted(name))
	     for name, _, _, port, exprs in cases[:-1]] +
	    [new_rule("inet", "t", "c", to_port(7003), socket_expr("mark", 8),
	              expr("immediate", be32(1, VERDICT), nest(2, nest(2, be32(1, 0))))),
	     new_rule("inet", "t", "c", to_port(7003), counted(cases[-1][0]))]))
	if result != ("ok", None):
	    raise SystemExit(f"rules: {result}")
	for port in 7001, 7002, 7003:
	    wire.send(udp_packet("10.0.1.9", "10.0.1.2", 9000, port))
	    wire.send(udp_packet("dead:1::9", "dead:1::2", 9000, port))
	settle()
	counts = counters()
	for name, expected, description, _, _ in cases:
	    print(f"{counts[name]}|{expected}|{description}")
EOF

while IFS='|' read -r got expected description; do
	check "$description" [ "$got" = "$expected" ]
done <"$tmp/traffic"
served 54
finish
