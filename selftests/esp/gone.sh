#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: only-rust
#
# Packets wait for their turn, and their device goes: down, to another namespace, for good. They
# have a reference to it, so that it stays until they are dropped; no packet comes out where it does
# not belong. (C's queue has no reference, and delivers to wherever the device is by then.)

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 18
setup_espdev 2
setup_ns elsewhere || exit "$?"

# back NETNS: the server's device, from there, as it was
# shellcheck disable=SC2154 # set by setup_ns
cat >"$tmp/back" <<-EOT
	ip -n "\$1" link set eth0 netns $server 2>/dev/null
	ip -n $server -batch - <<-EOB
		link set eth0 addrgenmode none
		link set eth0 up
		addr replace 10.0.1.2/24 dev eth0
		addr replace dead:1::2/64 dev eth0 nodad
		neigh replace 10.0.1.9 lladdr $client_mac dev eth0 nud permanent
		neigh replace dead:1::9 lladdr $client_mac dev eth0 nud permanent
	EOB
EOT

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" "$elsewhere" "$tmp/back" <<-'EOT'
	import itertools
	import sys
	from waiting import *

	w = World(*sys.argv[1:3])
	elsewhere, script = sys.argv[3:]

	def run(*words):
	    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

	def down():
	    run("ip", "-n", w.server, "link", "set", "eth0", "down")

	def move():
	    run("ip", "-n", w.server, "link", "set", "eth0", "netns", elsewhere)

	def back(ns):
	    run("bash", script, ns)

	# A packet that is alone goes another way than one of several.
	for version, count in itertools.product((4, 6), (10, 1)):
	    # A device that goes down takes its states along.
	    x = w.state(version=version)
	    waits(w, f"IPv{version}: the device goes down", x, count, down, figures="no state",
	          mib_moved={"XfrmInStateInvalid": count})
	    back(w.server)
	    x = w.state(version=version)
	    w.case(f"IPv{version}: ... and up again", x.good(1, 2), got=(1, 2))

	    x = w.state(version=version)
	    before, there = rust(version), mib(elsewhere)
	    waits(w, f"IPv{version}: the device goes to another namespace", x, count, move,
	          figures="no state")
	    print(f"{moved(before, rust(version)).get('drop_moved')} {moved(there, mib(elsewhere))}|"
	          f"{count} {{}}|IPv{version}: ... its packets do not follow it")
	    back(elsewhere)

	# With the module: it waits for those who have a reference.
	x = w.state(version=4)
	before = mib(w.server)
	let_wait(w, x, 10, stall=1000)
	subprocess.run(("rmmod", "nfrust_espdev"))
	gone = not os.path.exists("/sys/module/nfrust_espdev")
	print(f"{gone} {w.received()} {moved(before, mib(w.server))}|"
	      f"True [] {{'XfrmInStateInvalid': 10}}|the device goes for good")
EOT
results
in_charge
finish
