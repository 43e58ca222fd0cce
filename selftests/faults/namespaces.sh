#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: module=nft_chain_nat timeout=600
#
# The n-th allocation of making a network namespace fails, for every n, while the module keeps its
# state in each: the namespace is not there then, the module's state of it is gone or never was, and
# the next one works. It is ops_init() that allocates what a module keeps. What the error is, is the
# choice of whose allocation it was; of those that is always that there is no memory.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/../nat/lib.bash"
# shellcheck source=selftests/faults/lib.bash
source "$(dirname "$0")/lib.bash"

# Of the kernel's own allocations every STRIDE-th only, to be faster.
: "${STRIDE:=1}"
plan 8

traffic "$module" "$STRIDE" <<-'EOF'
	import ctypes, itertools, subprocess, sys
	from faults import *
	from net import *
	from nfnl import *

	# ops_init(), and what is below it on the stack as it allocates
	DEPTH = 3
	module, stride = Module(sys.argv[1]), int(sys.argv[2])
	libc = ctypes.CDLL(None, use_errno=True)
	faults, tally, chains = Faults(), Tally(), Tally()
	home = os.open("/proc/self/ns/net", os.O_RDONLY)

	def unshare():
	    return ctypes.get_errno() if libc.unshare(os.CLONE_NEWNET) else 0

	def chain():
	    """A chain in the namespace that we are in"""
	    return Nft().batch(new_table("inet", "t"),
	                       new_chain("inet", "t", "c", hook=4, priority=100, kind="nat"))[0]

	def fail(n, tally):
	    """Whether there was an n-th one."""
	    result, failed = faults.nth(n, unshare)
	    if failed:
	        tally.add(name(result))
	    if result and (tally is own or n % 50 == 0):
	        result = unshare()
	    # What could not be allocated is not needed, such as a file in /proc/sys, or this is the next
	    # namespace.
	    if not result:
	        chains.add(chain())
	    os.setns(home, os.CLONE_NEWNET)
	    return failed

	# What modules keep: with ours it is more. (A chain would load it.)
	own = Tally()
	with faults.only("ops_init", DEPTH):
	    subprocess.run(("rmmod", module.module), check=True)
	    others = faults.count(unshare)
	    os.setns(home, os.CLONE_NEWNET)
	    subprocess.run(("modprobe", module.module), check=True)
	    made = next(n for n in itertools.count(1) if not fail(n, own)) - 1
	print(f"{made} allocations of what modules keep, {others} without ours: {own}; chains: {chains}")
	more = made > others > 0 if "rust" in module.module else made == others
	print(f"{more}|True|there were allocations of the module's to fail")
	print(f"{own.others('ENOMEM')}|[]|... each is needed, and the error is that there is no memory")

	# Everybody's. The first namespaces make more, which is kept for later.
	for _ in range(3):
	    total = faults.count(unshare)
	    os.setns(home, os.CLONE_NEWNET)
	for n in range(stride, total + 1, stride):
	    fail(n, tally)
	print(f"{total} allocations: {tally}; chains: {chains}")
	print(f"{total > 100}|True|there were allocations to fail")
	print(f"{tally.number.get('ENOMEM', 0) > 20}|True|namespaces could not be made")
	print(f"{chains.others('ok')}|[]|those that could have chains")
	unshare()
	print(f"{chain()}|ok|the last one has chains")
	os.setns(home, os.CLONE_NEWNET)
	print(f"{module.settles(0)}|True|nothing holds the module")
EOF
results
check "it can be unloaded, and loaded" eval "rmmod $module && modprobe $module"
finish
