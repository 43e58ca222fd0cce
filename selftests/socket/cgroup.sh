#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# socket cgroupv2: which cgroup a level selects, in the root cgroup namespace and below, for
# sockets whose process or cgroup has moved on.

# shellcheck source=selftests/lib.sh
source "$(dirname "$0")/../lib.sh"

plan 21
setup_pair

top=nfrust-cgroup
mkdir -p "/sys/fs/cgroup/$top/two/three" "/sys/fs/cgroup/$top/gone" "/sys/fs/cgroup/$top/late"
remove_cgroup()
{
	rmdir "/sys/fs/cgroup/$top"/{two/three,two,gone,late,} 2>/dev/null
}
cleanup_hooks+=(remove_cgroup)

# Rules that store (port, cgroup) in a set for each level; once as the root cgroup namespace
# counts levels, and once as the namespace of the first cgroup does.
observe()
{
	local level

	for level in 0 1 2 3 4; do
		cat <<-EOF
			table inet $1 {
				set level$level {
					typeof th dport . socket cgroupv2 level 1
					size 64
					flags dynamic
				}
				chain level$level {
					type filter hook input priority 0
					meta l4proto { tcp, udp } update @level$level \\
						{ th dport . socket cgroupv2 level $level counter }
				}
			}
		EOF
	done
}
observe outer >"$tmp/outer"
observe inner >"$tmp/inner"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$server" "$tmp" "$top" <<-'EOF'
	import json, os, sys
	from net import *

	client, server, tmp, top = sys.argv[1:]
	wire = Wire(client)
	mine, peer = "10.0.1.2", "10.0.1.9"
	cgroups = "", top, f"{top}/two", f"{top}/two/three", f"{top}/gone"
	names = {os.stat(f"/sys/fs/cgroup/{c}").st_ino: c or "/" for c in cgroups}

	enter(server)
	kept = []
	for i, cgroup in enumerate(cgroups):
	    join_cgroup(cgroup)
	    kept.append(udp(mine, 7000 + i))
	    kept.append(udp("dead:1::2", 8000 + i))
	# One that is made and then left alone by its process, in a cgroup that goes away.
	join_cgroup(f"{top}/two")
	os.rmdir(f"/sys/fs/cgroup/{top}/gone")
	# A connection belongs where its listener does, whoever accepts it.
	lists = listener(mine, 7010)
	join_cgroup(f"{top}/late")
	conn = Peer(wire, peer, mine, 9000, 7010)
	conn.establish()
	kept.append(lists.accept()[0])

	nft("-f", f"{tmp}/outer")
	join_cgroup(top)
	pid = os.fork()
	if not pid:
	    os.unshare(os.CLONE_NEWCGROUP)
	    os.execvp("nft", ["nft", "-f", f"{tmp}/inner"])
	assert os.waitpid(pid, 0)[1] == 0

	for i in range(len(cgroups)):
	    wire.send(udp_packet(peer, mine, 9000, 7000 + i))
	    wire.send(udp_packet("dead:1::9", "dead:1::2", 9000, 8000 + i))
	conn.send(ACK | PSH, b"x")
	settle()

	for s in json.loads(nft("-j", "list", "sets"))["nftables"]:
	    if "set" not in s:
	        continue
	    s = s["set"]
	    for element in s.get("elem", ()):
	        port, cgroup = element["elem"]["val"]["concat"]
	        # nft has a name for a cgroup if it can find it, else the number.
	        if cgroup.isdigit():
	            cgroup = names.get(int(cgroup), cgroup)
	        print(s["table"], s["name"], port, cgroup)
	join_cgroup("")
EOF
served 10

declare -A seen
while read -r table level port cgroup; do
	seen[$table $level $port]=$cgroup
done <"$tmp/traffic"

# expect TABLE PORT DESCRIPTION CGROUP...: the cgroups at levels 0 and on; then it breaks
expect()
{
	local table=$1 port=$2 description=$3 level got=
	shift 3

	for level in 0 1 2 3 4; do
		got+=" ${seen[$table level$level $port]:--}"
	done
	check "$description" [ "$got" = " $*" ]
}

while read -r protocol base; do
	expect outer $((base + 0)) "$protocol, socket of the root cgroup" / - - - -
	expect outer $((base + 1)) "$protocol, one level down" / $top - - -
	expect outer $((base + 2)) "$protocol, two levels down" / $top $top/two - -
	expect outer $((base + 3)) "$protocol, three levels down" / $top $top/two $top/two/three -
	expect outer $((base + 4)) "$protocol, cgroup removed after the socket was made" \
		/ $top $top/gone - -
	expect inner $((base + 0)) "$protocol, namespace, socket from above it" - - - - -
	expect inner $((base + 1)) "$protocol, namespace, its root" $top - - - -
	expect inner $((base + 2)) "$protocol, namespace, one level down" $top $top/two - - -
	expect inner $((base + 3)) "$protocol, namespace, two levels down" \
		$top $top/two $top/two/three - -
done <<-EOF
	IPv4 7000
	IPv6 8000
EOF
expect outer 7010 "accepted from another cgroup than the listener's" / $top $top/two - -
expect inner 7010 "the same, seen from the namespace" $top $top/two - - -
finish
