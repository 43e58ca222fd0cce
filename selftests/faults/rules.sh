#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: timeout=300
#
# The n-th allocation of adding rules with a socket expression fails, for every n: all of the
# transaction is there, or nothing of it, and no reference on the module.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"
# shellcheck source=selftests/faults/lib.bash
source "$(dirname "$0")/lib.bash"

plan 20
setup_ns router || exit "$?"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$router" "$module" <<-'EOF'
	import sys
	from faults import *
	from net import *
	from nfnl import *

	ns, module = sys.argv[1:]
	enter(ns)
	faults, module = Faults(), Module(module)

	def rules(family, keys):
	    return [new_table(family, "t"), new_chain(family, "t", "c", hook=1)] + [
	        new_rule(family, "t", "c", socket_expr(key, REG32_00, *level),
	                 cmp_eq(REG32_00, b"\1" * size))
	        for key, size, *level in keys]

	def case(what, family, keys):
	    transactions(faults, what, module, rules(family, keys), [del_table(family, "t")],
	                 new_chain(family, "t", "jumped"), len(keys))

	MARK, ALL = [("mark", 4)], [("transparent", 1), ("mark", 4), ("wildcard", 1),
	                            ("cgroupv2", 8, 1)]
	for family in "ip", "ip6", "inet":
	    case(f"{family}, one rule", family, MARK)
	case("inet, rules for all keys", "inet", ALL)
	Nft().batch(*rules("inet", MARK))
	held = module.references()
	bad = [new_rule("inet", "t", "missing", socket_expr("mark", REG32_00))]
	wrong, n, failed = [], 0, True
	while failed:
	    n += 1
	    result, failed = transaction(
	        faults, n, [new_rule("inet", "t", "c", socket_expr("mark", REG32_00))] + bad)
	    if result not in ("ENOENT", "ENOMEM", "ENOBUFS") or not module.settles(held):
	        wrong.append((n, result, module.references()))
	print(f"{result}|ENOENT|inet, a transaction that cannot be: without a failure")
	print(f"{wrong}|[]|inet, a transaction that cannot be: nothing")
	Nft().batch(del_table("inet", "t"))
	print(f"{module.settles(0)}|True|nothing holds the module")
EOF
results
check "it can be unloaded, and loaded" eval "rmmod $module && modprobe $module"
finish
