#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets as they should and as they should not be: modes, encapsulation in UDP, padding, lengths,
# options and extension headers, VLAN tags, dummies, marks. GRO on and off.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 103
setup_espdev 4
ip -n "$server" link add link eth0 name eth0.5 type vlan id 5
ip -n "$server" link set eth0.5 addrgenmode none up
ip -n "$server" addr add 10.0.5.2/24 dev eth0.5
in_ns "$server" sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth0/5.rp_filter=0
rules "$server" <<-EOT
	table inet observe {
		counter marked { }
		chain input {
			type filter hook input priority 0
			meta mark 7 counter name marked
		}
	}
EOT

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	from esp import *

	w = World(*sys.argv[1:])
	natt = {}
	with netns(w.server):
	    for version in 4, 6:
	        natt[version] = w.add_socket(addr(version, 2), NATT)
	        natt[version].setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
	        natt[version].setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, ESPINUDP)

	def policies(version, inner, mode):
	    """The only policy: what comes out of this mode must have come out of it."""
	    w.netlink.do(w.netlink.FLUSH)
	    if mode != "transport":
	        w.netlink.add(selector(addr(inner, 9), addr(inner, 2)), direction=IN, templates=[
	            template(addr(version, 9), addr(version, 2), mode=MODES[mode])])

	def good(name, x, count=3):
	    numbers = range(1, count + 1)
	    w.case(name, x.good(*numbers), got=numbers, state=x,
	           figures=f"{count} packets {x.size(count)} bytes "
	           f"@{count:x}:{(1 << count) - 1:08x} 0/0/0")

	for gro in 1, 0:
	    with netns(w.server):
	        subprocess.run(("ethtool", "-K", "eth0", "gro", "on" if gro else "off"), check=True)
	    off = "" if gro else ", GRO off"
	    for version in 4, 6:
	        for encap in (None, 4500):
	            policies(version, version, "transport")
	            kind = f"IPv{version}{' in UDP' if encap else ''}{off}"
	            good(f"{kind}: transport", w.state(version=version, encap=encap))
	            for inner in 4, 6:
	                for mode in "tunnel", "beet":
	                    policies(version, inner, mode)
	                    name = f"{kind}: {mode}, IPv{inner} inside"
	                    x = w.state(version=version, inner=inner, mode=mode, encap=encap)
	                    if gro or not encap or mode == "tunnel" or version == inner:
	                        good(name, x)
	                        continue
	                    # The UDP socket's check of what is around it comes first, against the
	                    # selector for what is inside.
	                    w.case(name, x.good(1), mib_moved={"XfrmInStateMismatch": 1}, state=x,
	                           figures="0 packets 0 bytes @0:00000000 0/0/0")

	# xfrm interfaces handle ESP of all states as soon as their module is there, and they check the
	# policy first, as the UDP socket does. GRO is before them.
	loaded = subprocess.run(("modprobe", "-q", "xfrm_interface")).returncode == 0
	for gro in 1, 0:
	    with netns(w.server):
	        subprocess.run(("ethtool", "-K", "eth0", "gro", "on" if gro else "off"), check=True)
	    for version, inner in (4, 6), (6, 4):
	        policies(version, inner, "beet")
	        name = f"IPv{version}{'' if gro else ', GRO off'}: beet, IPv{inner} inside, " \
	               "xfrm interfaces loaded"
	        x = w.state(version=version, inner=inner, mode="beet")
	        if not loaded:
	            print("skip", "no xfrm_interface", name, sep="|")
	        elif gro:
	            good(name, x)
	        else:
	            w.case(name, x.good(1), mib_moved={"XfrmInStateMismatch": 1}, state=x,
	                   figures="0 packets 0 bytes @0:00000000 0/0/0")
	policies(4, 4, "transport")
	if loaded:
	    subprocess.run(("modprobe", "-r", "xfrm_interface"), check=True)

	with netns(w.server):
	    subprocess.run(("ethtool", "-K", "eth0", "gro", "on"), check=True)
	PROTO = {"XfrmInStateProtoError": 1}
	for version in 4, 6:
	    empty = "0 packets 0 bytes @0:00000000 0/0/0"
	    def bad(name, packets, moved, figures=empty, **options):
	        w.case(f"IPv{version}: {name}", packets, mib_moved=moved, state=x, figures=figures,
	               **options)

	    # The trailer
	    x = w.state(version=version)
	    w.case(f"IPv{version}: much padding", [x.packet(1, x.udp(1), pad=254 - 20)], got=(1,),
	           state=x, figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")
	    x = w.state(version=version)
	    bad("more padding than packet", [x.packet(1, (b"abcd\xff", 17), pad=0)[:-18] + b"\xff\x11" +
	        b"\xa5" * 16], PROTO)
	    x = w.state(version=version)
	    bad("padding as long as the packet", [x.packet(1, (b"", UDP), pad=2)], PROTO)
	    x = w.state(version=version)
	    w.case(f"IPv{version}: dummy packets (next header 59)",
	           [x.packet(n, (bytes(64), NONE)) for n in (1, 2)] + x.good(3), got=(3,),
	           mib_moved={"XfrmInStateProtoError": 2}, state=x,
	           figures=f"1 packets {x.size(1)} bytes @3:00000001 0/0/0")

	    # Cut off
	    for length in 8, 12, 16, 20, 33:
	        x = w.state(version=version)
	        data = esp(x.spi, 1, *x.udp(1))
	        # With an ICV if there is room for one
	        data = data[:length - 16] + data[-16:] if length > 32 else data[:length]
	        w.case(f"IPv{version}: cut off after {length} bytes", [ip(x.src, x.dst, ESP, data)],
	               mib_moved=PROTO, state=x, figures=empty)

	    # Modes
	    x = w.state(version=version, mode="tunnel")
	    bad("no IP in a tunnel", [x.packet(1, (x.udp(1)[0], UDP))], {"XfrmInStateModeError": 1},
	        f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")
	    x = w.state(version=version)
	    tunnelled = w.state(version=version, mode="tunnel")
	    bad("a tunnel's packet without one", [x.packet(1, tunnelled.udp(1))], {},
	        f"1 packets {tunnelled.size(1)} bytes @1:00000001 0/0/0")

	    # Another encapsulation than the state's
	    x = w.state(version=version, encap=4500)
	    plain = ip(x.src, x.dst, ESP, esp(x.spi, 1, *x.udp(1)))
	    bad("not in UDP, but should be", [plain], {"XfrmInStateMismatch": 1})
	    x = w.state(version=version)
	    x.encap = 4500
	    bad("in UDP, but should not be", x.good(1), {"XfrmInStateMismatch": 1})
	    x = w.state(version=version, encap=4500)
	    def natt_udp(payload):
	        return udp_packet(x.src, x.dst, 4500, NATT, payload)
	    w.case(f"IPv{version}: keepalive, IKE, and ESP between them",
	           [natt_udp(b"\xff"), *x.good(1), natt_udp(bytes(4) + b"IKE message"), *x.good(2)],
	           got=(1, 2, 0), ordered=False, state=x,
	           figures=f"2 packets {x.size(2)} bytes @2:00000003 0/0/0")
	    x = w.state(version=version, encap=4501)
	    w.case(f"IPv{version}: another port than before", x.good(1), got=(1,), state=x,
	           figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")

	    # Headers around it
	    x = w.state(version=version)
	    if version == 4:
	        def outer(src, dst, proto, data):
	            return ip4(src, dst, proto, data, options=b"\x01" * 7 + b"\0")
	        def fragments(packet):
	            return [ip4(x.src, x.dst, ESP, packet[20:36], ident=9, fragment=0x2000),
	                    ip4(x.src, x.dst, ESP, packet[36:], ident=9, fragment=2)]
	    else:
	        def outer(src, dst, proto, data):
	            return ip6(src, dst, 60, bytes((proto, 0, 1, 4, 0, 0, 0, 0)) + data)
	        def fragments(packet):
	            return [ip6(x.src, x.dst, 44, struct.pack("!BBHI", ESP, 0, 1, 9) + packet[40:56]),
	                    ip6(x.src, x.dst, 44, struct.pack("!BBHI", ESP, 0, 16, 9) + packet[56:])]
	    w.case(f"IPv{version}: {'options' if version == 4 else 'an extension header'}",
	           x.good(1, outer=outer), got=(1,), state=x,
	           figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")
	    x = w.state(version=version, algorithm=NULL)
	    w.case(f"IPv{version}: fragments, which the device leaves alone",
	           fragments(*x.good(1)), got=(1,), state=x,
	           figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")
	    x = w.state(version=version)
	    tagged = SERVER_MAC + CLIENT_MAC + struct.pack("!HHH", 0x8100, 5, 0x0800 if version == 4
	                                                   else 0x86DD) + x.good(1)[0]
	    # After GRO, C takes a word of IPv4's header for the ethertype behind the tag.
	    w.case(f"IPv{version}: a VLAN tag", [tagged], got=(1,) if version == 6 else (), state=x,
	           figures=f"1 packets {x.size(1)} bytes @1:00000001 0/0/0")

	    # GRO leaves the mark to software.
	    for offload, algorithm, marked in (True, GCM, 0), (False, NULL, 2):
	        x = w.state(version=version, output_mark=7, offload=offload, algorithm=algorithm)
	        with netns(w.server):
	            before = counters()["marked"]
	        kind = "offloaded" if offload else "software"
	        w.case(f"IPv{version}: output-mark, {kind}", x.good(1, 2), got=(1, 2), state=x,
	               figures=f"2 packets {x.size(2)} bytes @2:00000003 0/0/0")
	        with netns(w.server):
	            print(counters()["marked"] - before, marked,
	                  f"IPv{version}: ... packets that carry it", sep="|")

	    # ESP in ESP. In GRO there is no route yet, which the second round asks for.
	    for gro in 0, 1:
	        w.port.knob("gro", gro)
	        for offload in False, True:
	            x = w.state(version=version)
	            y = w.state(version=version, algorithm=NULL, offload=offload)
	            nested = [x.packet(n, (esp(y.spi, n, *y.udp(n), iv=0, icv=0), ESP)) for n in (1, 2)]
	            what = "both offloaded" if offload else "the inner one not offloaded"
	            if gro:
	                w.case(f"IPv{version}: ESP in ESP, {what}, GRO", nested, state=y,
	                       mib_moved={"XfrmInError": 2},
	                       figures="0 packets 0 bytes @0:00000000 0/0/0")
	            else:
	                w.case(f"IPv{version}: ESP in ESP, {what}", nested, got=(1, 2), state=y,
	                       figures=f"2 packets {y.size(2)} bytes @2:00000003 0/0/0")
	        x = w.state(version=version)
	        w.case(f"IPv{version}: ESP in ESP, of no state, GRO {gro}",
	               [x.packet(1, (esp(0xDEAD, 1, *x.udp(1)), ESP))], state=x,
	               mib_moved={"XfrmInNoStates": 1})
	    # The packets of others
	    w.case(f"IPv{version}: no state at all",
	           [ip(addr(version, 9), addr(version, 2), ESP, esp(0xBEEF, 1, *x.udp(1)))],
	           mib_moved={"XfrmInNoStates": 1})
EOT
results
in_charge
finish
