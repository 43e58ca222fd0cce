#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# States that end: by packets and by bytes, announced and for good; deleted and flushed, under
# traffic too. And those who listen: a key manager hears of sequence numbers and of lifetimes.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 30
setup_espdev 2

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	import threading
	from esp import *

	GROUP_EXPIRE, GROUP_AEVENTS, GROUP_MAPPING = 2, 5, 8
	MSG_EXPIRE, MSG_NEWAE, MSG_MAPPING = 0x18, 0x1E, 0x26

	w = World(*sys.argv[1:])
	expired = {"XfrmInStateExpired": 1}

	def listener_of(*groups):
	    with netns(w.server):
	        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6)
	        s.bind((0, sum(1 << (group - 1) for group in groups)))
	    s.settimeout(0.3)
	    return s

	def heard(s, spi):
	    """What was said about a state: message types, and whether an expiry is the hard one"""
	    events = []
	    try:
	        while True:
	            data = s.recv(65536)
	            kind = struct.unpack("=H", data[4:6])[0]
	            if struct.pack("!I", spi) not in data:
	                continue
	            if kind == MSG_EXPIRE:
	                events.append("hard" if data[16 + 224] else "soft")
	            elif kind == MSG_NEWAE:
	                events.append("numbers")
	            elif kind == MSG_MAPPING:
	                events.append("mapping")
	    except TimeoutError:
	        return " ".join(events) or "nothing"

	def hears(s, x, expected, name):
	    print(heard(s, x.spi), expected, name, sep="|")

	for version in 4, 6:
	    def limits(soft_bytes=INFINITE, hard_bytes=INFINITE, soft=INFINITE, hard=INFINITE):
	        return soft_bytes, hard_bytes, soft, hard

	    s = listener_of(GROUP_EXPIRE)
	    x = w.state(version=version, limits=limits(soft=3))
	    w.case(f"IPv{version}: after 3 packets a warning, all pass", x.good(*range(1, 8)),
	           got=range(1, 8), state=x,
	           figures=f"7 packets {x.size(7)} bytes @7:0000007f 0/0/0")
	    hears(s, x, "soft", f"IPv{version}: ... one warning")
	    x = w.state(version=version, limits=limits(hard=3))
	    w.case(f"IPv{version}: after 3 packets the end", x.good(*range(1, 5)), got=(1, 2, 3),
	           mib_moved=expired, state=x, figures="no state")
	    hears(s, x, "hard", f"IPv{version}: ... and its announcement")
	    size = x.size(1)
	    x = w.state(version=version, limits=limits(soft_bytes=2 * size, hard_bytes=4 * size))
	    w.case(f"IPv{version}: by bytes, a warning and the end", x.good(*range(1, 6)),
	           got=(1, 2, 3, 4), mib_moved=expired, state=x, figures="no state")
	    hears(s, x, "soft hard", f"IPv{version}: ... both announced")
	    # In the middle of what arrives together
	    w.port.knob("hold", 20)
	    x = w.state(version=version, limits=limits(hard=10))
	    w.case(f"IPv{version}: the end in the middle of a burst", x.good(*range(1, 21)),
	           got=range(1, 11), state=x, figures="no state",
	           mib_moved={"XfrmInStateExpired": 1, "XfrmInStateInvalid": 9})
	    w.port.knob("hold", 0)
	    s.close()

	    # Deleted: what is on its way finds none any more.
	    x = w.state(version=version)
	    w.case(f"IPv{version}: deleted", [*x.good(1, 2), lambda: time.sleep(0.1), x.delete,
	           *x.good(3)], got=(1, 2), mib_moved={"XfrmInNoStates": 1}, state=x,
	           figures="no state")

	    # Somebody listens to the numbers: to every third one, and not to the time between.
	    thirds = (attribute(REPLAY_THRESH, struct.pack("=I", 3)) +
	              attribute(ETIMER_THRESH, struct.pack("=I", 0)))
	    s = listener_of(GROUP_AEVENTS)
	    x = w.state(version=version, extra=thirds)
	    w.case(f"IPv{version}: every third number is announced", x.good(*range(1, 8)),
	           got=range(1, 8), state=x,
	           figures=f"7 packets {x.size(7)} bytes @7:0000007f 0/0/0")
	    hears(s, x, "numbers numbers", f"IPv{version}: ... twice")
	    x = w.state(version=version, window=64, esn=True, extra=thirds)
	    w.case(f"IPv{version}: the same with extended numbers", x.good(*range(1, 8)),
	           got=range(1, 8))
	    hears(s, x, "numbers numbers", f"IPv{version}: ... twice as well")
	    s.close()

	# The peer's port behind NAT has changed.
	s = listener_of(GROUP_MAPPING)
	with netns(w.server):
	    natt = w.add_socket(addr(4, 2), NATT)
	    natt.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
	    natt.setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, ESPINUDP)
	x = w.state(encap=4500)
	w.case("in UDP, from the port that is known", x.good(1), got=(1,))
	hears(s, x, "nothing", "... nothing to say")
	x.encap = 4501
	w.case("in UDP, from another port", x.good(2, 2), got=(2,),
	       mib_moved={"XfrmInStateSeqError": 1})
	hears(s, x, "mapping mapping", "... which is announced, before the number is looked at")

	# Deleted again and again while packets come
	stop = threading.Event()
	def spray():
	    while not stop.is_set():
	        w.send(packets)
	x = w.state()
	packets = x.good(*range(1, 33))
	thread = threading.Thread(target=spray)
	before = mib(w.server)
	thread.start()
	for _ in range(100):
	    x.delete()
	    State.number -= 1
	    x = w.state()
	stop.set()
	thread.join()
	time.sleep(0.1)
	got = len(w.received())
	errors = set(moved(before, mib(w.server)))
	# A packet that the device has found no state for may find the next one in the stack, and is not
	# encrypted.
	fine = errors <= {"XfrmInNoStates", "XfrmInStateSeqError", "XfrmInStateInvalid",
	                  "XfrmInStateProtoError"}
	print(f"{got > 0} {fine or errors}|True True|deleted and made 100 times under traffic")
EOT
results
in_charge
finish
