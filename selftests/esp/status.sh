#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the device says of a packet: each status word, no state, and a secpath with nothing in it.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 45
setup_espdev 4

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	from esp import *

	w = World(*sys.argv[1:])
	names = {2: "generic error", 4: "AH authentication failed, transport",
	         8: "ESP authentication failed, transport", 16: "AH authentication failed, tunnel",
	         32: "ESP authentication failed, tunnel", 64: "invalid syntax", 128: "invalid protocol",
	         0: "no status at all", 136: "authentication failed and invalid protocol"}
	for version in 4, 6:
	    x = w.state(version=version)
	    w.case(f"IPv{version}: success", x.good(1, 2, 3), got=(1, 2, 3), state=x,
	           figures=f"3 packets {x.size(3)} bytes @3:00000007 0/0/0")
	    for status, name in names.items():
	        x = w.state(version=version)
	        failed = status & 0x3C != 0
	        bad = failed or status & 128
	        w.port.knob("status", status)
	        w.port.knob("status_every", 1)
	        w.case(f"IPv{version}: {name}", x.good(1),
	               mib_moved={"XfrmInStateProtoError" if bad else "XfrmInBufferError": 1}, state=x,
	               figures=f"0 packets 0 bytes @0:00000000 0/0/{int(failed)}")
	        w.port.knob("status_every", 0)
	    # The bit of success wins.
	    x = w.state(version=version)
	    w.port.knob("status", 1 | 8)
	    w.port.knob("status_every", 1)
	    w.case(f"IPv{version}: success beside a failure", x.good(1), got=(1,), state=x,
	           figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")
	    w.port.knob("status_every", 0)

	    # Software takes over; without a cipher it can.
	    x = w.state(version=version, algorithm=NULL)
	    w.port.knob("miss_every", 2)
	    w.case(f"IPv{version}: the device misses every other packet", x.good(1, 2, 3, 4),
	           got=(1, 2, 3, 4), state=x, ordered=False,
	           figures=f"4 packets {x.size(4)} bytes @4:0000000f 0/0/0")
	    w.port.knob("miss_every", 0)
	    x = w.state(version=version, algorithm=NULL)
	    w.port.knob("nosp_every", 2)
	    w.case(f"IPv{version}: a secpath without a state", x.good(1, 2, 3, 4), got=(1, 2, 3, 4),
	           state=x, ordered=False,
	           figures=f"4 packets {x.size(4)} bytes @4:0000000f 0/0/0")
	    w.port.knob("nosp_every", 0)

	    # What is no ciphertext does not pass as it.
	    x = w.state(version=version)
	    w.port.knob("miss_every", 1)
	    w.case(f"IPv{version}: missed, and software cannot decrypt it", x.good(1),
	           mib_moved={"XfrmInStateProtoError": 1}, state=x,
	           figures="0 packets 0 bytes @0:00000000 0/0/1")
	    w.port.knob("miss_every", 0)

	    for summed, name in (1, "unnecessary"), (2, "complete"):
	        x = w.state(version=version)
	        w.port.knob("ip_summed", summed)
	        w.case(f"IPv{version}: checksum {name}", x.good(1, 2), got=(1, 2), state=x,
	               figures=f"2 packets {x.size(2)} bytes @2:00000003 0/0/0")
	        w.port.knob("ip_summed", 0)
	    for knob, values in ("headlen", (14, 34, 54, 62, 70)), ("cloned", (1,)):
	        x = w.state(version=version)
	        numbers = []
	        for value in values:
	            numbers.append(len(numbers) + 1)
	            w.port.knob(knob, value)
	            w.case(f"IPv{version}: {knob} {value}", x.good(numbers[-1]), got=numbers[-1:],
	                   state=x, figures=f"{len(numbers)} packets {x.size(len(numbers))} bytes "
	                   f"@{len(numbers):x}:{(1 << len(numbers)) - 1:08x} 0/0/0")
	        w.port.knob(knob, 0)
EOT
results
in_charge
finish
