#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: module=nft_chain_nat timeout=300
#
# The n-th allocation of adding chains of type nat fails, for every n: all of the transaction is
# there, or nothing of it, not a reference on the module and not a hook; also where there are chains
# already, and where they go to the hooks of a legacy iptables nat table.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/../nat/lib.bash"
# shellcheck source=selftests/faults/lib.bash
source "$(dirname "$0")/lib.bash"

plan 23
setup_ns router || exit "$?"
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$router" link set lo up
modprobe -q -a iptable_nat ip6table_nat

# shellcheck disable=SC2154 # set by setup_ns
traffic "$router" "$module" <<-'EOF'
	import sys
	from faults import *
	from net import *
	from nfnl import *

	ns, module = sys.argv[1:]
	enter(ns)
	faults, name, module = Faults(), module, Module(module)
	HOOKS = {"prerouting": (0, -100), "input": (1, 100), "output": (3, -100),
	         "postrouting": (4, 100)}

	def seen():
	    """How many packets Rust's hooks have seen; one is sent."""
	    for address in "127.0.0.1", "::1":
	        udp(address, 0).sendto(b"x", (address, 9))
	    try:
	        with open(f"/sys/kernel/debug/{name}/counters") as file:
	            return sum(int(line.split()[1]) for line in file if line.startswith("hook_"))
	    except FileNotFoundError:
	        return 0

	def chains(family, table, hooks):
	    return [new_table(family, table)] + [
	        new_chain(family, table, hook, *HOOKS[hook], kind="nat") for hook in hooks]

	def quiet():
	    """Packets pass none of Rust's hooks."""
	    before = seen()
	    return seen() == before

	def case(what, family, hooks, quiet=quiet):
	    transactions(faults, what, module, chains(family, "t", hooks), [del_table(family, "t")],
	                 new_chain(family, "t", "jumped"), len(hooks), quiet)

	def legacy(command):
	    for program in "iptables-legacy", "ip6tables-legacy":
	        subprocess.run(f"{program} -t nat {command} >/dev/null", shell=True, check=True)

	case("ip, one chain", "ip", ["postrouting"])
	case("ip6, one chain", "ip6", ["output"])
	case("inet, four chains", "inet", list(HOOKS))
	Nft().batch(*chains("inet", "first", HOOKS))
	case("inet, beside chains of the same kind", "inet", ["postrouting", "output"], lambda: True)
	Nft().batch(del_table("inet", "first"))
	module.settles(0)
	legacy("-L")
	before = seen()
	case("inet, beside iptables", "inet", ["postrouting"])
	Nft().batch(*chains("inet", "last", HOOKS))
	Nft().batch(del_table("inet", "last"))
	print(f"{module.settles(0)}|True|nothing holds the module")
	print(f"{seen() - before}|0|beside iptables, hooks of Rust saw nothing")
EOF
results
check "it can be unloaded, and loaded" eval "rmmod $module && modprobe $module"
finish
