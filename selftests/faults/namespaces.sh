#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: module=nft_chain_nat timeout=600
#
# The n-th allocation of making a network namespace fails, for every n, while the module keeps its
# state in each: the namespace is not there then, the module's state of it is gone or never was, and
# the next one works. What the error is, is the choice of whose allocation it was.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/../nat/lib.bash"
# shellcheck source=selftests/faults/lib.bash
source "$(dirname "$0")/lib.bash"

# Every STRIDE-th allocation only, to be faster, but each of the last, where the module is: what came
# last is initialized last. Without it, none of the last thirty makes a namespace fail.
: "${STRIDE:=1}"
plan 8

traffic "$module" "$STRIDE" <<-'EOF'
	import ctypes, itertools, sys
	from faults import *
	from net import *
	from nfnl import *

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

	# The first ones make more, which is kept for later.
	for _ in range(3):
	    total = faults.count(unshare)
	    os.setns(home, os.CLONE_NEWNET)
	results = []
	for n in itertools.count(1):
	    if n % stride and n < total - 200:
	        continue
	    result, failed = faults.nth(n, unshare)
	    if not result:
	        # What could not be allocated is not needed, such as a file in /proc/sys.
	        chains.add(chain())
	        os.setns(home, os.CLONE_NEWNET)
	    elif n % 50 == 0:
	        unshare()
	        chains.add(chain())
	        os.setns(home, os.CLONE_NEWNET)
	    if not failed:
	        break
	    results.append((n, name(result)))
	last = Tally()
	for at, result in results:
	    (last if at >= n - 30 else tally).add(result)
	print(f"{n - 1} allocations: {tally}; of the last, {last}; chains: {chains}")
	print(f"{n > 100}|True|there were allocations to fail")
	print(f"{tally.number.get('ENOMEM', 0) > 20}|True|namespaces could not be made")
	print(f"{last.number.get('ENOMEM', 0) > 0}|True|... for want of the module's part, too")
	print(f"{last.others('ENOMEM', 'ok')}|[]|there, the error is that there is no memory")
	print(f"{chains.others('ok')}|[]|those that could have chains")
	unshare()
	print(f"{chain()}|ok|the last one has chains")
	os.setns(home, os.CLONE_NEWNET)
	print(f"{module.settles(0)}|True|nothing holds the module")
EOF
results
check "it can be unloaded, and loaded" eval "rmmod $module && modprobe $module"
finish
