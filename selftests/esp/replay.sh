#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Sequence numbers: good ones, seen ones, late ones, 0, and around the wrap; with the window of 32
# bits, with bitmaps of other sizes, and with extended numbers (ESN), whose upper half is not sent.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 57
setup_espdev 4

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	from esp import *

	w = World(*sys.argv[1:])
	TOP = 0xFFFFFFFF

	def window(text, *words):
	    return f"@{text}:" + " ".join(f"{word:08x}" for word in words)

	for version in 4, 6:
	    x = w.state(version=version)
	    w.case(f"IPv{version}: in order, then all again", x.good(1, 2, 3, 1, 2, 3), got=(1, 2, 3),
	           mib_moved={"XfrmInStateSeqError": 3}, state=x,
	           figures=f"3 packets {x.size(3)} bytes @3:00000007 0/3/0")
	    x = w.state(version=version)
	    w.case(f"IPv{version}: backwards", x.good(5, 4, 3, 2, 1), got=(5, 4, 3, 2, 1), state=x,
	           figures=f"5 packets {x.size(5)} bytes @5:0000001f 0/0/0")
	    x = w.state(version=version)
	    w.case(f"IPv{version}: the window's edge, one inside and one outside", x.good(40, 9, 8),
	           got=(40, 9), mib_moved={"XfrmInStateSeqError": 1}, state=x,
	           figures=f"2 packets {x.size(2)} bytes @28:80000001 1/0/0")
	    x = w.state(version=version)
	    w.case(f"IPv{version}: a jump, and before it", x.good(1, 1000, 1, 999, 969, 968),
	           got=(1, 1000, 999, 969), mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"4 packets {x.size(4)} bytes @3e8:80000003 2/0/0")
	    x = w.state(version=version)
	    w.case(f"IPv{version}: number 0", x.good(0, 1, 0), got=(1,),
	           mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")
	    x = w.state(version=version, window=8)
	    w.case(f"IPv{version}: a window of 8", x.good(20, 13, 12, 20), got=(20, 13),
	           mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"2 packets {x.size(2)} bytes @14:00000081 1/1/0")
	    x = w.state(version=version, window=0)
	    w.case(f"IPv{version}: no window: everything, 0 too", x.good(7, 7, 1, 0), got=(7, 7, 1, 0),
	           state=x, figures=f"4 packets {x.size(4)} bytes @0:00000000 0/0/0")
	    # The last one of the legacy window; there is no wrap.
	    x = w.state(version=version, seq=TOP - 1)
	    w.case(f"IPv{version}: to the last number, and then none", x.good(TOP, 1, 2), got=(TOP,),
	           mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"1 packets {x.size(1)} bytes @{TOP:x}:00000001 2/0/0")

	    # Bitmaps: what is beyond 32 has one. Position of number n: (n - 1) % window.
	    x = w.state(version=version, window=64)
	    w.case(f"IPv{version}: bitmap of 64", x.good(1, 64, 2, 65, 1, 2, 65, 33), state=x,
	           got=(1, 64, 2, 65, 33), mib_moved={"XfrmInStateSeqError": 3},
	           figures=f"5 packets {x.size(5)} bytes "
	           f"{window('0.41', 0x00000003, 0x80000001)} 1/2/0")
	    x = w.state(version=version, window=64)
	    w.case(f"IPv{version}: bitmap of 64, number 0", x.good(0, 1, 0), got=(1,), state=x,
	           mib_moved={"XfrmInStateSeqError": 2},
	           figures=f"1 packets {x.size(1)} bytes {window('0.1', 1, 0)} 0/0/0")
	    x = w.state(version=version, window=100)
	    w.case(f"IPv{version}: bitmap of 100, jumps", x.good(1, 150, 51, 50, 51, 400, 301, 300),
	           got=(1, 150, 51, 400, 301), mib_moved={"XfrmInStateSeqError": 3}, state=x,
	           figures=f"5 packets {x.size(5)} bytes "
	           f"{window('0.190', 1, 0, 0, 8)} 2/1/0")
	    x = w.state(version=version, window=4096)
	    w.case(f"IPv{version}: the largest bitmap", x.good(5000, 905, 904, 905), got=(5000, 905),
	           mib_moved={"XfrmInStateSeqError": 2})

	    # Extended numbers: the lower half alone says whether the upper half has changed.
	    x = w.state(version=version, window=64, esn=True)
	    w.case(f"IPv{version}: extended, in order, and again", x.good(1, 2, 3, 1, 3), got=(1, 2, 3),
	           mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"3 packets {x.size(3)} bytes {window('0.3', 7, 0)} 0/2/0")
	    x = w.state(version=version, window=64, esn=True)
	    w.case(f"IPv{version}: extended, number 0 at the beginning", x.good(0, 1, 0), got=(1,),
	           mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"1 packets {x.size(1)} bytes {window('0.1', 1, 0)} 0/0/0")
	    x = w.state(version=version, window=64, esn=True, seq=TOP - 1, seq_hi=0)
	    w.case(f"IPv{version}: extended, over the wrap, 0 included", x.good(TOP, 0, 1, 2, TOP, 0),
	           got=(TOP, 0, 1, 2), mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"4 packets {x.size(4)} bytes "
	           f"{window('1.2', 0x00000003, 0xC0000000)} 0/2/0")
	    x = w.state(version=version, window=64, esn=True, seq=TOP - 1, seq_hi=5)
	    w.case(f"IPv{version}: extended, late ones from before the wrap", x.good(10, TOP, 0, TOP, 10),
	           got=(10, TOP, 0), mib_moved={"XfrmInStateSeqError": 2}, state=x,
	           figures=f"3 packets {x.size(3)} bytes "
	           f"{window('6.a', 0x00000200, 0xC0000000)} 0/2/0")
	    # Older than the window is not late: it is taken for the next round.
	    x = w.state(version=version, window=64, esn=True, seq=1000, seq_hi=0)
	    w.case(f"IPv{version}: extended, far below is the next round", x.good(1001, 900),
	           got=(1001, 900), state=x,
	           figures=f"2 packets {x.size(2)} bytes {window('1.384', 0x8, 0)} 0/0/0")
	    x = w.state(version=version, window=64, esn=True, seq=1000, seq_hi=0)
	    w.case(f"IPv{version}: extended, inside and at the edge", x.good(1001, 938, 1000, 938),
	           got=(1001, 938, 1000), mib_moved={"XfrmInStateSeqError": 1}, state=x,
	           figures=f"3 packets {x.size(3)} bytes {window('0.3e9', 0, 0x00000380)} "
	           "0/1/0")
	    x = w.state(version=version, window=32, esn=True, seq=TOP - 40, seq_hi=0xFFFFFFFF)
	    w.case(f"IPv{version}: extended, to the very last number", x.good(TOP - 1, TOP),
	           got=(TOP - 1, TOP), state=x,
	           figures=f"2 packets {x.size(2)} bytes {window('ffffffff.ffffffff', 0x60000000)} "
	           "0/0/0")
	    # 2^32 is no multiple of this: positions jump where the lower half wraps.
	    x = w.state(version=version, window=100, esn=True, seq=TOP - 1, seq_hi=0)
	    w.case(f"IPv{version}: extended, a window that does not divide 2^32",
	           x.good(TOP, 1, 3, 2, 0, 3, 2), got=(TOP, 1, 3, 2, 0),
	           mib_moved={"XfrmInStateSeqError": 2})
	    # Each packet of a state with extended numbers is told to the device.
	    before = w.port.counter("esn_advances")
	    x = w.state(version=version, window=64, esn=True)
	    w.case(f"IPv{version}: extended, several", x.good(1, 2, 3, 3), got=(1, 2, 3),
	           mib_moved={"XfrmInStateSeqError": 1})
	    print(w.port.counter("esn_advances") - before, 3,
	          f"IPv{version}: the device hears of each that was accepted", sep="|")

	    # What the device's queue does with them
	    x = w.state(version=version)
	    w.port.knob("dup_every", 2)
	    w.case(f"IPv{version}: duplicates on the wire", x.good(*range(1, 11)), got=range(1, 11),
	           mib_moved={"XfrmInStateSeqError": 5}, state=x,
	           figures=f"10 packets {x.size(10)} bytes @a:000003ff 0/5/0")
	    w.port.knob("dup_every", 0)
	    x = w.state(version=version)
	    first = w.port.counter("reordered")
	    w.port.knob("reorder_by", 40)
	    w.port.knob("reorder_every", 1)
	    w.send(x.good(1))
	    w.port.knob("reorder_every", 0)
	    w.case(f"IPv{version}: one comes 40 later", x.good(*range(2, 42)), got=range(2, 42),
	           mib_moved={"XfrmInStateSeqError": 1}, state=x,
	           figures=f"40 packets {x.size(40)} bytes @29:ffffffff 1/0/0")
	    # A burst, delivered in one poll: numbers mixed.
	    x = w.state(version=version, window=64)
	    w.port.knob("hold", 60)
	    mixed = [n for n in range(1, 31) for n in (n + 30, n)]
	    w.case(f"IPv{version}: a burst of 60, two orders interleaved", x.good(*mixed), got=mixed,
	           state=x, figures=f"60 packets {x.size(60)} bytes "
	           f"{window('0.3c', 0xFFFFFFFF, 0x0FFFFFFF)} 0/0/0")
	    x = w.state(version=version, window=64)
	    w.case(f"IPv{version}: a burst with each twice", x.good(*[n // 2 for n in range(2, 62)]),
	           got=range(1, 31), mib_moved={"XfrmInStateSeqError": 30}, state=x,
	           figures=f"30 packets {x.size(30)} bytes {window('0.1e', 0x3FFFFFFF, 0)} 0/30/0")
	    # Two states in turn, in one burst
	    x, y = (w.state(version=version) for _ in range(2))
	    pairs = [p for n in range(1, 31) for p in (*x.good(n), y.packet(n, y.udp(100 + n)))]
	    w.case(f"IPv{version}: a burst of two states in turn", pairs,
	           got=[v for n in range(1, 31) for v in (n, 100 + n)], state=x, ordered=False,
	           figures=f"30 packets {x.size(30)} bytes @1e:3fffffff 0/0/0")
	    w.port.knob("hold", 0)
	    print(y.figures(), f"30 packets {y.size(30)} bytes @1e:3fffffff 0/0/0",
	          f"IPv{version}: ... and the other state", sep="|")
EOT
results
in_charge
finish
