#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Several chains at one hook, of different families: they are asked by priority, the first that has
# an answer gives it, and chains come and go while connections live.

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/lib.bash"

plan 37
setup_router

# chain FAMILY NAME PRIORITY HOST [PORTS]: sources become .HOST
chain()
{
	local family=$1 name=$2 priority=$3 host=$4 ports=${5:-7000-7999}

	echo "table $family $name {"
	echo "chain postrouting {"
	echo "type nat hook postrouting priority $priority"
	case $family in
	ip)	echo "udp dport $ports snat to 10.0.2.$host" ;;
	ip6)	echo "udp dport $ports snat to dead:2::$host" ;;
	inet)	echo "meta nfproto ipv4 udp dport $ports snat ip to 10.0.2.$host"
		echo "meta nfproto ipv6 udp dport $ports snat ip6 to dead:2::$host" ;;
	esac
	echo "}"
	echo "}"
}

# One process talks when it is asked to, on a port: a line with the last parts of what sources
# become, for IPv4 and IPv6.
# shellcheck disable=SC2154 # set by setup_ns
coproc talker { exec python3 -S -c "$(
	cat <<-'EOF'
		import sys
		from nat import *

		client, server = sys.argv[1:3]
		far, number = Echo(server), 6000
		for line in sys.stdin:
		    result = []
		    for version in 4, 6:
		        number, there = number + 1, addr(version, 2, 1)
		        seen = exchange("udp", client, (addr(version, 1, 1), number), (there, int(line)),
		                        far.at("udp", there, int(line)), timeout=0.5)
		        result.append(seen[0].replace("dead:2::", "10.0.2.").replace("dead:1::", "10.0.1.")
		                      if isinstance(seen, tuple) else seen)
		    print(*result, flush=True)
	EOF
)" "$client" "$server"; }

# expect IPV4 IPV6 DESCRIPTION [PORT]
expect()
{
	local got

	echo "${4:-7001}" >&"${talker[1]}"
	read -r -t 20 got <&"${talker[0]}"
	check "$3" [ "$got" = "$1 $2" ]
}

load()
{
	# shellcheck disable=SC2154 # set by setup_ns
	in_ns "$router" nft -f - || msg "cannot load"
}

none=10.0.1.1
expect $none $none "without chains"
chain ip a 100 51 | load
expect 10.0.2.51 $none "a chain of ip"
chain inet b 90 52 7002 | load
expect 10.0.2.51 $none "an inet chain before it has no answer"
expect 10.0.2.52 10.0.2.52 "and where it has one, that counts" 7002
chain ip6 c 110 53 | load
expect 10.0.2.51 10.0.2.53 "a chain of ip6 after it"
expect 10.0.2.52 10.0.2.52 "does not matter where the inet chain answers" 7002
chain inet d -20 54 7001-7003 | load
expect 10.0.2.54 10.0.2.54 "one more, which is the first"
expect 10.0.2.51 10.0.2.53 "of those that it does not answer the others do" 7004
check "every one has a reference" has_references "$module" 4
in_ns "$router" nft delete table inet d
expect 10.0.2.51 10.0.2.53 "without the first"
in_ns "$router" nft delete table ip a
expect $none 10.0.2.53 "without the one of ip"
expect 10.0.2.52 10.0.2.52 "the inet chain stays" 7002
in_ns "$router" nft delete table inet b
expect $none 10.0.2.53 "ip6 alone"
in_ns "$router" nft flush ruleset
expect $none $none "without chains again"
check "no reference is left" has_references "$module" 0

# A chain that says accept ends it, like one that translates.
{
	chain inet a 90 51
	chain inet b 100 52
} | load
in_ns "$router" nft insert rule inet a postrouting udp dport 7003 accept
expect 10.0.2.51 10.0.2.51 "the first chain translates"
expect 10.0.2.52 10.0.2.52 "what the first chain accepts is asked of the second" 7003
in_ns "$router" nft insert rule inet a postrouting udp dport 7004 drop
expect timeout timeout "what the first chain drops is dropped" 7004
in_ns "$router" nft add chain inet b postrouting '{ policy drop; }'
expect 10.0.2.51 10.0.2.51 "the policy of the second does not matter after an answer"
in_ns "$router" nft flush chain inet b postrouting
expect timeout timeout "but it does where nobody answers" 7003
in_ns "$router" nft flush ruleset

# Replaced as a whole, many times
for host in 51 52 53 54 55; do
	{
		echo "flush ruleset"
		chain ip a 100 $host
		chain ip6 a 100 $host
	} | load
	expect 10.0.2.$host 10.0.2.$host "replaced in one transaction, $host"
done
{
	echo "flush ruleset"
	chain inet a 100 57
} | load
expect 10.0.2.57 10.0.2.57 "replaced by one of inet"
{
	chain inet more 50 58
	echo "add rule inet missing c accept"
} | load 2>"$tmp/refused"
expect 10.0.2.57 10.0.2.57 "a transaction that fails changes nothing"
check "and holds nothing" has_references "$module" 1
in_ns "$router" nft flush ruleset

# Connections keep what they have been given: without chains, as long as somebody tracks them, and
# with others.
chain inet a 100 51 | load
in_ns "$router" nft -f - <<-EOF
	table inet track {
		chain prerouting {
			type filter hook prerouting priority 0
			ct state invalid drop
		}
	}
EOF
# shellcheck disable=SC2154 # set by setup_ns
traffic "$client" "$router" "$server" <<-'EOF'
	import sys
	from nat import *

	client, router, server = sys.argv[1:]
	with netns(server):
	    servers = [udp(addr(v, 2, 1), 7009) for v in (4, 6)]
	with netns(client):
	    clients = [udp(addr(v, 1, 1), 5001, peer=(addr(v, 2, 1), 7009)) for v in (4, 6)]

	def say(name, expected, answer="answered"):
	    for v, c, s in zip((4, 6), clients, servers):
	        c.settimeout(0.3)
	        s.settimeout(5)
	        c.send(b"x")
	        data, peer = s.recvfrom(9)
	        s.sendto(b"y", peer)
	        try:
	            c.recv(9)
	            result = "answered"
	        except TimeoutError:
	            result = "no answer"
	        print(f"{peer[0]}, {result}|{addr(v, *expected)}, {answer}|IPv{v}, {name}")

	def rules(text):
	    with netns(router):
	        nft("-f", "-", text=text)

	CHAIN = """table inet %s {
	    chain postrouting {
	        type nat hook postrouting priority 100
	        meta nfproto ipv4 udp dport 7009 snat ip to 10.0.2.%d
	        meta nfproto ipv6 udp dport 7009 snat ip6 to dead:2::%d
	    }
	}
	"""
	say("a connection is translated", (2, 51))
	rules("delete table inet a\n" + CHAIN % ("b", 52, 52))
	say("with another chain it stays as it was", (2, 51))
	rules("delete table inet b")
	# The answer is another connection then, and one of that name there is already.
	say("without a hook that translates it goes as it is", (1, 1), "no answer")
	rules(CHAIN % ("c", 53, 53))
	say("and with one it is translated as it was", (2, 51))
EOF
results
served 1
finish
