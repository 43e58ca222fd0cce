#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Packets that translation makes forbidden or impossible to send: they are dropped, a local sender
# is told why, and the statistics say so. And those that a forbidding default is not about.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 57
setup_router
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$router" -batch - <<-EOF
	route add unreachable 10.0.3.0/24
	route add prohibit 10.0.4.0/24
	route add blackhole 10.0.5.0/24
	route add unreachable dead:3::/64
	route add prohibit dead:4::/64
	route add blackhole dead:5::/64
	addr add 10.0.1.50/32 dev lo
	addr add dead:1::50/128 dev lo
EOF
in_ns "$router" sysctl -qw net.core.xfrm_larval_drop=1
# Sent: 7001 is snat, 7002 dnat of the port, 7010 to 7014 dnat to where there is no way.
# What stays here: 7020 is dnat of the port, 7021 snat, 7022 dnat to the server.
for version in 4 6; do
	family=ip net=10.0. at="10.0.2.1" here="10.0.2.2"
	[ $version = 4 ] || family=ip6 net=dead: at="[dead:2::1]" here="[dead:2::2]"
	sep=.
	[ $version = 4 ] || sep=::
	cat <<-EOF
		table $family nat {
			chain output {
				type nat hook output priority -100
				udp dport 7002 dnat to $at:7102
				udp dport 7010 dnat to ${net}3${sep}1
				udp dport 7011 dnat to ${net}4${sep}1
				udp dport 7012 dnat to ${net}5${sep}1
				udp dport 7013 dnat to ${net}6${sep}1
				udp dport 7020 dnat to $here:7120
				udp dport 7022 dnat to ${net}2${sep}1
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				udp dport { 7001, 7005 } snat to ${net}2${sep}50
				tcp dport 7001 snat to ${net}2${sep}50
				udp dport 7021 snat to ${net}1${sep}50
			}
		}
	EOF
done >"$tmp/rules"
rules "$router" <"$tmp/rules"
silent_server

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *
	from xfrm import *

	client, router, server = sys.argv[1:]
	policies = Policies(router)
	wire = Wire(server)

	def statistics():
	    with netns(router), open("/proc/thread-self/net/xfrm_stat") as file:
	        return {name: int(value) for name, value in map(str.split, file)}

	for version in 4, 6:
	    there, here = addr(version, 2, 1), addr(version, 2, 2)
	    snat = addr(version, 2, 50)

	    def case(name, expected, ns, to, port, arrives=None, counter=None):
	        """Send three packets: what the sender hears, how each arrives, what is counted."""
	        before = statistics()
	        said = []
	        with netns(ns):
	            s = udp(addr(version, 1, 1) if ns == client else here, 0)
	        for _ in range(3):
	            try:
	                s.sendto(b"x", (to, port))
	                said.append("sent")
	            except OSError as exc:
	                said.append(error(exc))
	        s.close()
	        result = said[0] if len(set(said)) == 1 else ", ".join(said)
	        if arrives:
	            came = {arrival(wire, arrives, expected.split(", ")[-1]) for _ in range(3)}
	            result += ", " + " and ".join(sorted(came))
	        if counter:
	            after = statistics()
	            result += f", {counter} {after[counter] - before[counter]}"
	            expected += f", {counter} 3"
	        print(f"{result}|{expected}|IPv{version}, {name}")

	    def tcp(name, expected):
	        with netns(router):
	            s = socket.socket(family(there), socket.SOCK_STREAM)
	        s.settimeout(0.3)
	        try:
	            s.connect((there, 7001))
	            result = "connected"
	        except OSError as exc:
	            result = error(exc)
	        s.close()
	        print(f"{result}|{expected}|IPv{version}, {name}")

	    # Where the way that dnat leads to does not exist
	    wrong = {4: ("EHOSTUNREACH", "EACCES", "EINVAL", "ENETUNREACH"),
	             6: ("EHOSTUNREACH", "EACCES", "EINVAL", "ENETUNREACH")}[version]
	    case("dnat to an unreachable network", wrong[0], router, there, 7010)
	    case("dnat to a prohibited network", wrong[1], router, there, 7011)
	    case("dnat to a black hole", wrong[2], router, there, 7012)
	    case("dnat to a network without a route", wrong[3], router, there, 7013)

	    # Policies that match after translation only
	    block = selector(snat, there)
	    policies.add(block, action=BLOCK)
	    case("forwarded, blocked after snat", "sent, dropped", client, there, 7001, 7001,
	         "XfrmOutPolBlock")
	    case("sent, blocked after snat", "EPERM, dropped", router, there, 7001, 7001,
	         "XfrmOutPolBlock")
	    case("forwarded, not translated", "sent, in clear", client, there, 7003, 7003)
	    case("sent, not translated", "sent, in clear", router, there, 7003, 7003)
	    tcp("TCP, blocked after snat", "timeout")
	    policies.do(policies.FLUSH)
	    policies.add(selector(here, there, 17, dport=7102), action=BLOCK)
	    case("sent, blocked after dnat of the port", "EPERM, dropped", router, there, 7002, 7102,
	         "XfrmOutPolBlock")
	    policies.do(policies.FLUSH)
	    case("sent, dnat of the port, no policy any more", "sent, in clear", router, there, 7002,
	         7102)

	    # Policies that match after translation, and whose tunnel cannot be
	    policies.add(block, [template(here, there, 99)])
	    case("forwarded, a tunnel without a state after snat", "sent, dropped", client, there, 7001,
	         7001, "XfrmOutNoStates")
	    case("sent, a tunnel without a state after snat", "EREMOTE, dropped", router, there, 7001,
	         7001, "XfrmOutNoStates")
	    policies.do(policies.FLUSH)

	    # The default
	    policies.do(policies.default(DEFAULT_BLOCK))
	    case("default block: forwarded, snat", "sent, dropped", client, there, 7001, 7001)
	    case("default block: forwarded, not translated", "sent, dropped", client, there, 7003, 7003)
	    case("default block: sent, snat", "EPERM, dropped", router, there, 7001, 7001)
	    tcp("default block: TCP, snat", "EPERM")
	    case("default block: sent, dnat of the port", "EPERM, dropped", router, there, 7002, 7102)
	    # A policy allows what it was, but not what it becomes.
	    policies.add(selector("0.0.0.0/0" if version == 4 else "::/0", there, 17, dport=7001))
	    policies.add(selector(here, there, 17, dport=7002))
	    policies.add(selector(addr(version, 1, 1), there, 17, dport=7005))
	    policies.add(selector(here, there, 17, dport=7005))
	    case("default block, policies allow both: forwarded", "sent, in clear", client, there, 7001,
	         7001)
	    case("default block, policies allow both: sent", "sent, in clear", router, there, 7001, 7001)
	    case("default block, a policy allows what it was: forwarded", "sent, dropped", client,
	         there, 7005, 7005)
	    case("default block, a policy allows what it was: sent", "EPERM, dropped", router, there,
	         7005, 7005)
	    case("default block, a policy allows what it was: dnat of the port", "EPERM, dropped",
	         router, there, 7002, 7102)
	    policies.do(policies.FLUSH)

	    # It is not about what stays on this machine; but about what leaves it after all.
	    near = Echo(router)
	    for name, port, end in ("not translated", 7019, 7019), \
	                           ("dnat of the port", 7020, 7120), ("snat", 7021, 7021):
	        seen = exchange("udp", router, (here, 0), (here, port), near.at("udp", here, end))
	        seen = seen[0] if isinstance(seen, tuple) else seen
	        expected = addr(version, 1, 50) if port == 7021 else here
	        print(f"{seen}|{expected}|IPv{version}, default block: on this machine, {name}")
	    case("default block: from this machine to itself, dnat to another", "EPERM, dropped", router,
	         here, 7022, 7022)
	    policies.do(policies.default(DEFAULT_ACCEPT))
	    case("and without it", "sent, in clear", router, here, 7022, 7022)
EOF
results
served 4
finish
