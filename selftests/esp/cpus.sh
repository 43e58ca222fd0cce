#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: timeout=300
#
# Two CPUs receive the same NUMBERS numbers of one state at the same time: one copy of each passes.
# And two CPUs that receive different ones: all pass.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

if [ "$(nproc)" -lt 2 ]; then
	ktap_skip_all "one CPU"
	exit "$KSFT_SKIP"
fi
: "${NUMBERS:=100000}"
plan 7
setup_espdev 2

rules "$server" <<-EOT
	table inet count {
		counter passed { }
		chain input {
			type filter hook input priority 0
			udp dport 7000 counter name passed drop
		}
	}
EOT

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" "$NUMBERS" <<-'EOT'
	import sys
	from esp import *

	NUMBERS = int(sys.argv.pop())
	w = World(*sys.argv[1:])

	def inject(x, count, first, step=1, queues=3, version=4):
	    w.port.frame(w.wire.frame(x.good(1)[0]))
	    w.port.knob("inject_seq", first)
	    w.port.knob("inject_step", step)
	    w.port.knob("inject_queues", queues)
	    with netns(w.server):
	        before = counters()["passed"]
	    errors = mib(w.server)
	    w.port.knob("inject", count)
	    sent = count * bin(queues).count("1")
	    end = time.monotonic() + 10
	    while True:
	        with netns(w.server):
	            passed = counters()["passed"] - before
	        lost = moved(errors, mib(w.server))
	        if passed + sum(lost.values()) >= sent or time.monotonic() > end:
	            return passed, lost
	        time.sleep(0.05)

	for version in 4, 6:
	    # The largest window there is; a CPU that falls back further is late, and both are equal
	    # for the count: one copy passes at most, and none is lost if no number is late.
	    x = w.state(version=version, window=4096, esn=True)
	    passed = seen = 0
	    for first in range(1, NUMBERS, 2000):
	        got, lost = inject(x, 2000, first)
	        passed += got
	        seen += lost.get("XfrmInStateSeqError", 0)
	        if set(lost) - {"XfrmInStateSeqError"}:
	            print(f"{lost}|nothing else|IPv{version}: losses")
	    print(f"{passed} passed, {seen} refused|{NUMBERS} passed, {NUMBERS} refused|"
	          f"IPv{version}: {NUMBERS} numbers on two CPUs, one copy of each")
	    figures = x.figures()
	    packets, size = figures.split()[0], figures.split()[2]
	    print(f"{packets} {size}|{NUMBERS} {x.size(NUMBERS)}|"
	          f"IPv{version}: ... and so many are accounted")
	    x = w.state(version=version, window=0)
	    passed, lost = inject(x, 20000, 1)
	    print(f"{passed} {lost}|{2 * 20000} {{}}|IPv{version}: two CPUs, no window: all pass")
EOT
results
in_charge
finish
