#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets wait for their turn in a queue of the CPU that they arrived on, and the world changes
# meanwhile: the CPU goes offline, the state is deleted. The device's knob "stall" lets them wait as
# long as it takes. With C what waits was received already, with Rust it was not: of a state that is
# deleted then, C still delivers the packets.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

cpu=/sys/devices/system/cpu/cpu1/online

if [ ! -w $cpu ]; then
	ktap_skip_all "no second CPU that can go offline"
	exit "$KSFT_SKIP"
fi
plan 24
setup_espdev 2
online()
{
	echo 1 >$cpu
}
cleanup_hooks=(online "${cleanup_hooks[@]}")
rules "$server" <<-EOT
	table inet count {
		counter passed { }
		chain input {
			type filter hook input priority 0
			udp dport 7001 counter name passed drop
		}
	}
EOT

# shellcheck disable=SC2154 # set by setup_ns
IMPL=$IMPL traffic "$client" "$server" <<-'EOT'
	import itertools
	import sys
	import threading
	from waiting import *

	RUST = os.environ["IMPL"] == "rust"
	# What keeps a CPU busy while another one goes offline
	LOAD = 2000 if os.path.exists("/sys/kernel/debug/kmemleak") else 20000
	w = World(*sys.argv[1:])
	w.port.knob("queue", 1)

	def online(value):
	    with open("/sys/devices/system/cpu/cpu1/online", "w") as file:
	        file.write(value)

	def passed():
	    with netns(w.server):
	        return counters()["passed"]

	# A packet that is alone goes another way than one of several.
	for version, count in itertools.product((4, 6), (10, 1)):
	    sent, seen = range(1, count + 1), (1 << count) - 1

	    x = w.state(version=version)
	    figures = f"{count} packets {x.size(count)} bytes @{count:x}:{seen:08x} 0/0/0"
	    waits(w, f"IPv{version}: nothing happens", x, count, got=sent, figures=figures)

	    x = w.state(version=version)
	    waits(w, f"IPv{version}: the CPU goes offline", x, count, lambda: online("0"), got=sent,
	          figures=figures)
	    more = count + 1, count + 2
	    w.case(f"IPv{version}: ... more arrive while it is", x.good(*more), got=more)
	    online("1")
	    more = count + 3, count + 4
	    w.case(f"IPv{version}: ... and when it is back", x.good(*more), got=more)

	    x = w.state(version=version)
	    waits(w, f"IPv{version}: the state is deleted", x, count, x.delete,
	          got=() if RUST else sent, figures="no state",
	          mib_moved={"XfrmInStateInvalid": count} if RUST else None)

	# While many arrive, again and again: each is delivered, or counted as what it was dropped for.
	for version in 4, 6:
	    x = w.state(version=version, window=0)
	    w.port.frame(w.wire.frame(x.packet(1, x.udp(1, port=7001))))
	    w.port.knob("inject_queues", 2)
	    before, errors, sent = passed(), mib(w.server), 0
	    for _ in range(5):
	        thread = threading.Thread(target=w.port.knob, args=("inject", LOAD))
	        thread.start()
	        time.sleep(0.05)
	        online("0")
	        thread.join()
	        online("1")
	        sent += LOAD
	    # What waits for the second CPU
	    end = time.monotonic() + 5
	    while passed() - before < sent and time.monotonic() < end:
	        time.sleep(0.1)
	    print(f"{passed() - before} {moved(errors, mib(w.server))}|{sent} {{}}|"
	          f"IPv{version}: the CPU goes offline five times under load")

	# That the cases above were what they say
	print(f"{w.port.counter('stalled')}|12|the queue had to wait each time")
EOT
results
in_charge
finish
