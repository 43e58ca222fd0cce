#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust module=nft_chain_nat timeout=600
#
# The n-th allocation of loading a module fails, for every n: the module is not there then, none of
# its types is left with nf_tables, nothing of its state in any namespace, and no file; and it can be
# loaded the next time. There are some namespaces, so that the state of one can fail after that of
# others.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/../nat/lib.bash"
# shellcheck source=selftests/faults/lib.bash
source "$(dirname "$0")/lib.bash"

plan 10
setup_ns one two three || exit "$?"
rmmod nft_chain_nat_rust
rmmod nft_socket_rust 2>"$tmp/rmmod"
# What they need stays, and the kernel loads nothing by itself.
modprobe -a nf_nat nf_conntrack
autoload=$(cat /proc/sys/kernel/modprobe)
put_back()
{
	echo "$autoload" >/proc/sys/kernel/modprobe
}
cleanup_hooks+=(put_back)
echo >/proc/sys/kernel/modprobe

# shellcheck disable=SC2154 # set by setup_ns
traffic "$one" "$(modinfo -n nft_chain_nat_rust)" "$(modinfo -n nft_socket_rust)" <<-'EOF'
	import ctypes, sys
	from faults import *
	from net import *
	from nfnl import *

	ns, *files = sys.argv[1:]
	libc = ctypes.CDLL(None, use_errno=True)
	enter(ns)
	nft, faults = Nft(), Faults()

	def load(image):
	    return ctypes.get_errno() if libc.syscall(175, image, len(image), b"") else 0

	def unload(module):
	    return ctypes.get_errno() if libc.syscall(176, module, os.O_NONBLOCK) else 0

	def probe_chain(family):
	    return nft.batch(new_table(family, "t"),
	                     new_chain(family, "t", "c", hook=4, priority=100, kind="nat"))[0]

	def probe_rule(family):
	    return nft.batch(new_table(family, "t"), new_chain(family, "t", "c"),
	                     new_rule(family, "t", "c", socket_expr("mark", REG32_00)))[0]

	# Where it cannot be written down who uses a symbol, the kernel says that the symbol is unknown.
	faults.reject("simplify_symbols")
	for path, probe in zip(files, (probe_chain, probe_rule)):
	    module = os.path.basename(path)[:-3].encode()
	    # Not the file: where reading it finds no room, the kernel prints a backtrace.
	    with open(path, "rb") as file:
	        image = file.read()
	    tally, left, types, again = Tally(), [], [], []
	    assert load(image) == 0 and unload(module) == 0
	    for n, result in faults.each(load, image):
	        tally.add(name(result))
	        if not result:
	            # It does without what could not be allocated.
	            if unload(module):
	                left.append((n, "does not unload"))
	            continue
	        for place in "/sys/module", "/sys/kernel/debug":
	            if os.path.exists(f"{place}/{module.decode()}"):
	                left.append((n, place))
	        # Whose type there is none of, is not found.
	        family = ("ip", "ip6", "inet")[n % 3]
	        if (answer := probe(family)) != "ENOENT":
	            types.append((n, family, answer))
	        if n % 8 == 0 and (result := load(image) or unload(module)):
	            again.append((n, name(result)))
	    what = module.decode()
	    print(f"{what}: {n} allocations: {tally}")
	    print(f"{n > 20}|True|{what}: there were allocations to fail")
	    print(f"{tally.others('ENOMEM', 'ok')}|[]|{what}: the error is that there is no memory")
	    print(f"{left}|[]|{what}: nothing of it is left")
	    print(f"{types}|[]|{what}: no type is left")
	    print(f"{again}|[]|{what}: can be loaded the next time")
EOF
results
finish
