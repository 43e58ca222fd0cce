#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Interfaces that stand for states: VTI, and xfrm interfaces, with their counters of packets and of
# errors.

# shellcheck source=selftests/esp/lib.bash
source "$(dirname "$0")/lib.bash"

plan 26
setup_espdev 2
for module in ip_vti ip6_vti xfrm_interface; do
	modprobe $module || ktap_skip_all "no $module"
done
# shellcheck disable=SC2154 # set by setup_ns
ip -n "$server" -batch - <<-EOT
	link add vti4 type vti local 10.0.1.2 remote 10.0.1.9 key 5
	link set vti4 addrgenmode none up
	addr add 10.0.9.2/24 dev vti4
	link add vti6 type vti6 local dead:1::2 remote dead:1::9 key 5
	link set vti6 addrgenmode none up
	addr add dead:9::2/64 dev vti6 nodad
	link add xfrm7 type xfrm dev eth0 if_id 7
	link set xfrm7 addrgenmode none up
EOT
in_ns "$server" sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
	net.ipv4.conf.vti4.rp_filter=0 net.ipv4.conf.xfrm7.rp_filter=0 \
	net.ipv4.conf.vti4.disable_policy=1

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" <<-'EOT'
	import sys
	from esp import *

	w = World(*sys.argv[1:])
	def statistics(dev):
	    with netns(w.server):
	        links = json.loads(subprocess.run(("ip", "-j", "-s", "link", "show", dev), check=True,
	                                          stdout=subprocess.PIPE, text=True).stdout)
	    rx = links[0]["stats64"]["rx"]
	    return {"packets": rx["packets"], "bytes": rx["bytes"], "errors": rx["errors"],
	            "dropped": rx["dropped"]}

	def case(name, dev, packets, expected, **options):
	    before = statistics(dev)
	    w.case(name, packets, **options)
	    change = moved(before, statistics(dev))
	    print(f"{change}|{expected}|{name}: what {dev} counts")

	for version in 4, 6:
	    vti = f"vti{version}"
	    # GRO delivers past the interface; without it, that receives what has its key as the mark.
	    for gro in 1, 0:
	        w.port.knob("gro", gro)
	        kind = f"{vti}{', GRO' if gro else ''}"
	        bad = {} if gro else {"errors": 1, "dropped": 1}
	        x = w.state(version=version, mode="tunnel", mark=(5, 0xFFFFFFFF))
	        case(f"{kind}: received", vti, x.good(1, 2),
	             {} if gro else {"packets": 2, "bytes": x.size(2)}, got=(1, 2))
	        case(f"{kind}: replayed", vti, x.good(2), bad, mib_moved={"XfrmInStateSeqError": 1})
	        w.port.knob("status", 8)
	        w.port.knob("status_every", 1)
	        case(f"{kind}: not authentic", vti, x.good(3), bad,
	             mib_moved={"XfrmInStateProtoError": 1})
	        w.port.knob("status_every", 0)
	# The stack does not let a device have such a state.
	try:
	    w.state(if_id=7)
	    print("taken|refused|a state with an interface's number is not for devices")
	except OSError:
	    print("refused|refused|a state with an interface's number is not for devices")
EOT
results
in_charge
finish
