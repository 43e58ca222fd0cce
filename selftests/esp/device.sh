#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The test device itself: its queues and what its knobs do to traffic, seen by its own counters.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 15
setup_espdev 4

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	from stream import *

	pair = Pair(*sys.argv[1:])
	w = World(*sys.argv[1:])
	port = w.port

	def counted(name, expected, work):
	    """What the port counts of ESP while work is done. (What else there is may be IPv6's.)"""
	    before = port.counters()
	    work()
	    end = time.monotonic() + 2
	    while True:
	        time.sleep(0.1)
	        change = moved(before, port.counters())
	        for other in "polls", "states", "tx_plain", "rx_plain":
	            change.pop(other, None)
	        if change == expected or time.monotonic() > end:
	            break
	    print(f"{change}|{expected}|{name}")

	def sends(x, *numbers):
	    return lambda: w.send(x.good(*numbers))

	x = w.state()
	counted("frames of a state", {"rx_esp": 10, "rx_done": 10}, sends(x, *range(1, 11)))
	counted("frames of none", {"rx_esp": 1, "rx_miss": 1},
	        lambda: w.send([ip(x.src, x.dst, ESP, esp(0x77, 1, *x.udp(1)))]))
	counted("frames without ESP", {},
	        lambda: w.send([udp_packet(x.src, x.dst, 1, 2), ip(x.src, x.dst, 99, b"abcd")]))
	for knob, k, expected in (("drop_every", 3, {"rx_esp": 6, "rx_done": 6, "dropped": 3}),
	                          ("dup_every", 3, {"rx_esp": 12, "rx_done": 12, "duplicated": 3}),
	                          ("reorder_every", 3, {"rx_esp": 9, "rx_done": 9, "reordered": 3}),
	                          ("miss_every", 3, {"rx_esp": 9, "rx_done": 6, "rx_miss": 3}),
	                          ("nosp_every", 3, {"rx_esp": 9, "rx_done": 6, "rx_nosp": 3})):
	    x = w.state()
	    port.knob(knob, k)
	    # Nine in a row have three that are divisible by three, wherever counting began, and one
	    # more brings out what is held back.
	    def nine():
	        w.send(x.good(*range(1, 10)))
	        time.sleep(0.05)
	        port.knob("flush", 1)
	    counted(f"{knob} of {k}", expected, nine)
	    port.knob(knob, 0)
	port.knob("hold", 5)
	x = w.state()
	counted("held back until there are five", {}, sends(x, 1, 2, 3, 4))
	counted("... and then five", {"rx_esp": 5, "rx_done": 5}, sends(x, 5))
	port.knob("hold", 0)
	port.knob("capture", 1)
	w.send(x.good(6))
	end = time.monotonic() + 2
	while not open(f"{port.dir}/frame", "rb").read() and time.monotonic() < end:
	    time.sleep(0.05)
	port.knob("inject_seq", 100)
	counted("injected", {"rx_esp": 50, "rx_done": 50, "injected": 50},
	        lambda: port.knob("inject", 50))
	port.knob("inject_sink", 1)
	counted("injected and dropped at once", {"injected": 50}, lambda: port.knob("inject", 50))
	port.knob("inject_sink", 0)
	w.received()

	# Conversations over several queues
	for spread, name in (0, "one queue"), (1, "by what is inside"), (2, "round robin"):
	    for end in pair.ports.values():
	        end.knob("spread", spread)
	    pair.protect(window=4096)
	    before = pair.errors()
	    result = f"{pair.tcp(4)} {pair.udp(4)} {moved(before, pair.errors())}"
	    print(f"{result}|ok ok {{}}|TCP and UDP, {name}")
EOT
results
finish
