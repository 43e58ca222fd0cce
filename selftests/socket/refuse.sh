#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the expression refuses when a rule is loaded, and with which error: attributes,
# registers, levels, families and hooks. Sent as raw netlink, because nft checks before the
# kernel can.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 134
setup_ns server || exit "$?"
mkdir -p /sys/fs/cgroup/nfrust-refuse
remove_cgroup()
{
	rmdir /sys/fs/cgroup/nfrust-refuse
}
cleanup_hooks+=(remove_cgroup)

# shellcheck disable=SC2154 # set by setup_ns
traffic "$server" <<-'EOF'
	import os, sys
	from net import enter, join_cgroup
	from nfnl import *

	enter(sys.argv[1])
	nft = Nft()

	def case(description, expected, expression, family="inet", hook=0, setup=(), **chain):
	    """Load one rule. Errors must be for the rule, not for what comes before it."""
	    messages = [new_table(family, "t"), new_chain(family, "t", "c", hook, **chain), *setup,
	                new_rule(family, "t", "c", expression)]
	    result, message = nft.batch(*messages)
	    if result == "ok":
	        nft.batch(del_table(family, "t"))
	    elif message != len(messages) - 1:
	        result += f" for message {message}"
	    print(f"{result}|{expected}|{description}")

	# Attributes
	case("no key", "EINVAL", socket_expr(None, 1))
	case("no destination register", "EINVAL", socket_expr("mark"))
	case("no attribute at all", "EINVAL", socket_expr())
	case("cgroupv2 without level", "EINVAL", socket_expr("cgroupv2", 1))
	case("level is ignored for other keys", "ok", socket_expr("mark", 1, 3))
	case("level above the policy is refused for other keys too", "ERANGE",
	     socket_expr("mark", 1, 256))
	case("unknown attribute is ignored", "ok", socket_expr("mark", 1, None, be32(9, 1)))
	for key in 4, 255:
	    case(f"key {key}", "EOPNOTSUPP", socket_expr(key, 1))
	for key in 256, 0xffffffff:
	    case(f"key {key}", "ERANGE", socket_expr(key, 1))
	case("key of two bytes", "ERANGE", socket_expr(None, 1, None, attr(SOCKET_KEY, b"\0\1")))
	case("register of two bytes", "ERANGE",
	     socket_expr("mark", None, None, attr(SOCKET_DREG, b"\0\1")))
	case("level of one byte", "ERANGE",
	     socket_expr("cgroupv2", 1, None, attr(SOCKET_LEVEL, b"\1")))
	case("unknown key and no register", "EINVAL", socket_expr(4))

	# Registers: the last ones of 32 bits each, and the four of 128
	for key, last in ("transparent", 23), ("wildcard", 23), ("mark", 23), ("cgroupv2", 22):
	    level = 0 if key == "cgroupv2" else None
	    case(f"{key} into the last register that holds it", "ok",
	         socket_expr(key, last, level))
	    case(f"{key} into the register after it", "ERANGE", socket_expr(key, last + 1, level))
	    case(f"{key} into the first 32-bit register", "ok", socket_expr(key, REG32_00, level))
	    case(f"{key} into the last 128-bit register", "ok", socket_expr(key, 4, level))
	    case(f"{key} into the verdict register", "EINVAL", socket_expr(key, VERDICT, level))
	    case(f"{key} into a register number between the two ranges", "ERANGE",
	         socket_expr(key, 5, level))
	case("register 0xffffffff", "ERANGE", socket_expr("mark", 0xffffffff))

	# A store makes as many registers readable as it fills
	case("what the store filled can be read", "ok",
	     socket_expr("cgroupv2", 8, 0) + cmp_eq(8, bytes(8)))
	case("reading more than the store filled", "ENODATA",
	     socket_expr("mark", 8) + cmp_eq(8, bytes(8)))
	case("reading the register after an 8-bit store", "ENODATA",
	     socket_expr("transparent", 8) + cmp_eq(9, bytes(4)))

	# Levels
	for level in 0, 1, 254, 255:
	    case(f"level {level}", "ok", socket_expr("cgroupv2", 1, level))
	for level in 256, 257, 0x10000, 0xffffffff:
	    case(f"level {level}", "ERANGE", socket_expr("cgroupv2", 1, level))

	# Families and hooks
	for family in "inet", "ip", "ip6":
	    hooks = "prerouting", "input", "forward", "output", "postrouting"
	    for hook, name in enumerate(hooks):
	        for key in KEYS:
	            level = 1 if key == "cgroupv2" else None
	            refused = name in ("forward", "postrouting")
	            case(f"{key} in {family} {name}", "EOPNOTSUPP" if refused else "ok",
	                 socket_expr(key, 1, level), family, hook)
	case("inet ingress", "EOPNOTSUPP", socket_expr("mark", 1), hook=5, dev="lo")
	case("nat prerouting", "ok", socket_expr("mark", 1), kind="nat", priority=-100)
	case("nat postrouting", "EOPNOTSUPP", socket_expr("mark", 1), kind="nat", hook=4,
	     priority=100)
	case("route output", "ok", socket_expr("mark", 1), kind="route", hook=3)
	for family, hook, dev in ("bridge", 0, None), ("bridge", 1, None), ("bridge", 3, None), \
	        ("arp", 0, None), ("netdev", 0, "lo"):
	    case(f"{family} hook {hook}", "EOPNOTSUPP", socket_expr("mark", 1), family, hook,
	         dev=dev)
	case("bridge, attributes are looked at first", "EINVAL", socket_expr("mark"), "bridge")

	# Chains that are only jumped to: the hook counts from which they are reached
	for hook, name, expected in (0, "prerouting", "ok"), (2, "forward", "EOPNOTSUPP"), \
	        (4, "postrouting", "EOPNOTSUPP"):
	    for code, how in (NFT_JUMP, "jump"), (NFT_GOTO, "goto"):
	        setup = [new_chain("inet", "t", "user"),
	                 new_rule("inet", "t", "user", socket_expr("mark", 1))]
	        case(f"{how} from {name}", expected, jump("user", code), hook=hook, setup=setup)
	setup = [new_chain("inet", "t", "user"), new_rule("inet", "t", "c", jump("user"))]
	messages = [new_table("inet", "t"), new_chain("inet", "t", "c", 2), *setup]
	assert nft.batch(*messages) == ("ok", None)
	result, _ = nft.batch(new_rule("inet", "t", "user", socket_expr("mark", 1)))
	print(f"{result}|EOPNOTSUPP|rule added to a chain that forward jumps to already")
	nft.batch(del_table("inet", "t"))

	# A socket is no state that a set element could carry
	dynset = [new_table("inet", "t"), new_chain("inet", "t", "c", 0),
	          (NEWSET, NLM_F_CREATE, "inet", string(1, "t") + string(2, "s") + be32(3, 0x20) +
	           be32(5, 4) + be32(10, 1)),
	          new_rule("inet", "t", "c", immediate(8, bytes(4)) +
	                   expr("dynset", string(1, "s"), be32(3, 0), be32(4, 8),
	                        nest(7, string(1, "socket"),
	                             nest(2, be32(SOCKET_KEY, 1), be32(SOCKET_DREG, 9)))))]
	result, message = nft.batch(*dynset)
	print(f"{result}|EOPNOTSUPP|as the expression of a set element")

	# In a nested cgroup namespace its depth is added to the level
	join_cgroup("nfrust-refuse")
	os.unshare(os.CLONE_NEWCGROUP)
	for level, expected in (0, "ok"), (254, "ok"), (255, "EOPNOTSUPP"), (256, "ERANGE"):
	    case(f"level {level} one cgroup namespace down", expected,
	         socket_expr("cgroupv2", 1, level))
	os.unshare(os.CLONE_NEWCGROUP)
EOF

# The families that Rust does not register make the kernel load C for them.
unload_other()
{
	[ "$IMPL" = c ] || rmmod "$other" 2>/dev/null
}
cleanup_hooks+=(unload_other)

while IFS='|' read -r result expected description; do
	check "$description: $expected" [ "$result" = "$expected" ]
done <"$tmp/traffic"

rules "$server" <<-EOF
	table inet t {
		chain c {
			type filter hook input priority 0
			socket mark 1
			socket transparent 1 socket wildcard 0
		}
	}
EOF
served 3 idle
finish
