#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Source and destination translation, masquerading and redirection of UDP, TCP and SCTP, of what is
# forwarded, sent from the router, and delivered to it; by tables of ip and ip6, then by one of inet.
# The answers show that the other direction is translated back.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 202
setup_router
modprobe -q sctp

# rules_for TABLE VERSION FAMILY: FAMILY is "ip " or "ip6 " where a rule has to say what it is for
rules_for()
{
	local table=$1 version=$2 only=$3 net1 net2 guard=

	if [ "$version" = 4 ]; then
		net1=10.0.1. net2=10.0.2.
	else
		net1=dead:1:: net2=dead:2::
	fi
	[ -z "$only" ] || guard="meta nfproto ipv$version "
	# with_port ADDRESS PORT
	with_port()
	{
		if [ "$version" = 4 ]; then
			echo "$1:$2"
		else
			echo "[$1]:$2"
		fi
	}
	cat <<-EOF
		table $table nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				${guard}iif eth0 meta l4proto { udp, tcp, sctp } th dport vmap {
					7010 : goto dnat$version, 7011 : goto dnat_port$version,
					7012 : goto redirect$version, 7013 : goto dnat$version }
			}
			chain output {
				type nat hook output priority -100
				${guard}meta l4proto { udp, tcp, sctp } th dport vmap {
					7020 : goto dnat$version, 7021 : goto dnat_port$version,
					7022 : goto redirect$version, 7023 : goto dnat$version }
			}
			chain input {
				type nat hook input priority 100
				${guard}meta l4proto { udp, tcp, sctp } th dport vmap {
					7030 : goto input$version, 7031 : goto input_port$version }
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				${guard}meta l4proto { udp, tcp, sctp } th dport vmap {
					7001 : goto snat$version, 7002 : goto masquerade$version,
					7003 : goto snat_port$version, 7100 : goto both$version,
					7024 : goto snat$version, 7025 : goto masquerade$version,
					7026 : goto snat_port$version }
			}
			chain dnat$version {
				meta l4proto { udp, tcp, sctp } th dport { 7013, 7023 } \\
					dnat ${only}to $(with_port "${net2}1" 7100)
				dnat ${only}to ${net2}1
			}
			chain dnat_port$version {
				meta l4proto { udp, tcp, sctp } dnat ${only}to $(with_port "${net2}1" 7101)
			}
			chain redirect$version {
				meta l4proto { udp, tcp, sctp } redirect to :7102
			}
			chain input$version {
				snat ${only}to ${net1}77
			}
			chain input_port$version {
				meta l4proto { udp, tcp, sctp } snat ${only}to $(with_port "${net1}1" 5031)
			}
			chain snat$version {
				snat ${only}to ${net2}50
			}
			chain masquerade$version {
				masquerade
			}
			chain snat_port$version {
				meta l4proto { udp, tcp, sctp } snat ${only}to $(with_port "${net2}50" 5003)
			}
			chain both$version {
				meta l4proto { udp, tcp, sctp } snat ${only}to $(with_port "${net2}51" 5004-5009)
			}
		}
	EOF
}

talk()
{
	# shellcheck disable=SC2154 # set by setup_ns
	traffic "$client" "$router" "$server" "$1" <<-'EOF'
		import sys
		from nat import *

		client, router, server, tables = sys.argv[1:]
		far, near = Echo(server), Echo(router)
		sport = 6000

		def case(name, proto, version, start, to, end, expected):
		    """From a namespace and address, to an address, ending at a socket of a namespace."""
		    global sport
		    sport += 1
		    if end:
		        seen = exchange(proto, start[0], (start[1], sport), to, end)
		    else:
		        seen = "skip"
		    address, number = expected
		    if isinstance(seen, tuple):
		        seen = seen[0], "same" if seen[1] == sport else \
		               "one of the range" if 5004 <= seen[1] <= 5009 else seen[1]
		    print(f"{seen}|{address, number}|IPv{version} by {tables}, {proto}: {name}")

		for version in 4, 6:
		    one, two = [addr(version, 1, host) for host in range(10)], \
		               [addr(version, 2, host) for host in range(10)]
		    both = addr(version, 2, 51), "one of the range"
		    # Of the server's network, but of nobody there
		    virtual, snat = addr(version, 2, 66), addr(version, 2, 50)
		    c, r = (client, one[1]), (router, two[2])
		    local = "127.0.0.1" if version == 4 else "::1"
		    for proto in "udp", "tcp", "sctp":
		        def server_at(number):
		            return far.at(proto, two[1], number)

		        def run(name, start, to, end, expected):
		            case(name, proto, version, start, to, end, expected)

		        run("forwarded, no rule", c, (two[1], 7000), server_at(7000), (one[1], "same"))
		        run("forwarded, snat", c, (two[1], 7001), server_at(7001), (snat, "same"))
		        run("forwarded, masquerade", c, (two[1], 7002), server_at(7002), (two[2], "same"))
		        run("forwarded, snat with a port", c, (two[1], 7003), server_at(7003), (snat, 5003))
		        run("forwarded, dnat", c, (virtual, 7010), server_at(7010), (one[1], "same"))
		        run("forwarded, dnat with a port", c, (virtual, 7011), server_at(7101),
		            (one[1], "same"))
		        run("forwarded, redirect", c, (virtual, 7012), near.at(proto, one[2], 7102),
		            (one[1], "same"))
		        run("forwarded, dnat and snat", c, (virtual, 7013), server_at(7100),
		            both)
		        run("sent, dnat", r, (virtual, 7020), server_at(7020), (two[2], "same"))
		        run("sent, dnat of the port alone", r, (two[1], 7021), server_at(7101),
		            (two[2], "same"))
		        if proto != "sctp": # has no paths between loopback and other addresses
		            run("sent, redirect", r, (virtual, 7022), near.at(proto, local, 7102),
		                (two[2], "same"))
		        run("sent, dnat and snat", r, (virtual, 7023), server_at(7100),
		            both)
		        run("sent, snat", r, (two[1], 7024), server_at(7024), (snat, "same"))
		        run("sent, masquerade from another address", (router, one[2]), (two[1], 7025),
		            server_at(7025), (two[2], "same"))
		        run("sent, snat with a port", r, (two[1], 7026), server_at(7026), (snat, 5003))
		        run("delivered, snat", c, (one[2], 7030), near.at(proto, one[2], 7030),
		            (addr(version, 1, 77), "same"))
		        run("delivered, snat of the port alone", c, (one[2], 7031),
		            near.at(proto, one[2], 7031), (one[1], 5031))
	EOF
	results
}

{ rules_for ip 4 ""; rules_for ip6 6 ""; } >"$tmp/rules"
# shellcheck disable=SC2154 # set by setup_ns
rules "$router" <"$tmp/rules"
talk "ip and ip6"
served 8
in_ns "$router" nft flush ruleset
{ rules_for inet 4 "ip "; rules_for inet 6 "ip6 "; } >"$tmp/rules"
rules "$router" <"$tmp/rules"
talk inet
served 4
finish
