#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# run.sh: module=nft_chain_nat timeout=600
#
# The n-th allocation that a packet needs fails, for every n: it is lost then, or arrives as it
# should, never untranslated or in clear. Packets are written to a tun device and read from another
# one, so that all of their way counts; rules ask for their sockets, too.
#
#	tun0 10.0.1.2, dead:1::2	tun1 10.0.2.2, dead:2::2

# shellcheck source=selftests/nat/lib.bash
source "$(dirname "$0")/../nat/lib.bash"
# shellcheck source=selftests/faults/lib.bash
source "$(dirname "$0")/lib.bash"

plan 89
setup_ns router || exit "$?"
modprobe -q tun
# shellcheck disable=SC2154 # set by setup_ns
in_ns "$router" sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
	net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \
	net.ipv4.conf.default.rp_filter=0
for version in 4 6; do
	only="ip " two=10.0.2. one=10.0.1. at=10.0.2.1
	[ $version = 4 ] || only="ip6 " two=dead:2:: one=dead:1:: at="[dead:2::1]"
	cat <<-EOF
		table ${only}nat {
			chain prerouting {
				type nat hook prerouting priority dstnat
				meta l4proto { tcp, udp } th dport 7012 redirect to :7102
				iifname tun0 $only daddr ${two}66 dnat to ${two}1
			}
			chain input {
				type nat hook input priority 100
				udp dport 7031 snat to ${one}77
			}
			chain output {
				type nat hook output priority -100
				udp dport 7022 dnat to $at:7122
				$only daddr ${two}66 dnat to ${two}1
			}
			chain postrouting {
				type nat hook postrouting priority srcnat
				meta l4proto { tcp, udp } th dport { 7001, 7013 } snat to ${two}50
				udp dport 7002 masquerade
				udp dport 7007 snat to ${two}57
			}
		}
	EOF
done >"$tmp/rules"
cat >>"$tmp/rules" <<-EOF
	table inet ask {
		counter found { }
		chain input {
			type filter hook input priority 0
			socket mark 7 counter name found
		}
		chain output {
			type filter hook output priority 0
			socket wildcard 0 counter
		}
		chain prerouting {
			type filter hook prerouting priority -50
			socket transparent 1 counter
		}
	}
EOF
rules "$router" <"$tmp/rules"

# shellcheck disable=SC2154 # set by setup_ns
traffic "$router" <<-'EOF'
	import fcntl, sys
	from faults import *
	from nat import *
	from xfrm import *

	router, = sys.argv[1:]
	enter(router)
	faults, policies, name_of = Faults(), Policies(router), name
	sport = 10000

	def tun(device, *addresses):
	    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
	    fcntl.ioctl(fd, 0x400454CA, struct.pack("=16sH22x", device.encode(), 0x1001))
	    for command in ["link set {} addrgenmode none up"] + [
	            "addr add %s dev {}" % address for address in addresses]:
	        subprocess.run(["ip"] + command.format(device).split(), check=True)
	    return fd

	near, far = tun("tun0", "10.0.1.2/24", "dead:1::2/64"), tun("tun1", "10.0.2.2/24", "dead:2::2/64")

	def read(fd):
	    """What came out that is not what a stack says of itself"""
	    result = []
	    try:
	        while True:
	            what = describe(os.read(fd, 65536))
	            if not what.endswith(" protocol 58"):
	                result.append(what)
	    except BlockingIOError:
	        return result

	def received(s):
	    result = []
	    try:
	        while True:
	            peer = s.recvfrom(9)[1]
	            result.append(f"{peer[0]} {peer[1]} at {s.getsockname()[1]}")
	    except BlockingIOError:
	        return result

	def case(what, prepare, expected, came=lambda: read(far), may=("ENOBUFS", "ENOMEM")):
	    """prepare(source port) gives what is to be called; expected has {} for the port."""
	    global sport
	    tally, wrong = Tally(), []
	    for n in range(1, 1000):
	        sport += 1
	        send = prepare(sport)
	        read(far), read(near)
	        result, failed = faults.nth(n, send)
	        got = came()
	        if got not in ([], [expected.format(sport)]):
	            wrong.append((n, got))
	        tally.add(name_of(result) if isinstance(result, OSError) else "came" if got else "lost")
	        if not failed:
	            break
	    print(f"{what}: {n - 1} allocations: {tally}")
	    print(f"{got}|{[expected.format(sport)]}|{what}: without a failure")
	    print(f"{n > 3}|True|{what}: there were allocations to fail")
	    print(f"{wrong, tally.others('came', 'lost', *may)}|([], [])|{what}: lost, or as it should be")

	for version in 4, 6:
	    one, here, two, there = (addr(version, *at) for at in ((1, 1), (1, 2), (2, 2), (2, 1)))
	    virtual, snat = addr(version, 2, 66), addr(version, 2, 50)

	    def write(to, port, make=udp_packet, fd=near, before=0):
	        """Packets of a connection; all but the last of them without a failure"""
	        def prepare(sport):
	            packet = make(one, to, sport, port)
	            for _ in range(before):
	                os.write(fd, packet)
	            return lambda: os.write(fd, packet)
	        return prepare

	    def local(to, port, before=0):
	        def prepare(sport):
	            s = udp(two, sport, peer=(to, port))
	            for _ in range(before):
	                s.send(b"x")
	            return lambda: s.send(b"x")
	        return prepare

	    def error(sport):
	        """About a packet that was sent before"""
	        os.write(near, udp_packet(one, virtual, sport, 7013))
	        packet = icmp(there, snat, udp_packet(snat, there, sport, 7013))
	        return lambda: os.write(far, packet)

	    text = f"IPv{version}, "
	    case(text + "forwarded, no rule", write(there, 7000), f"{one} {{}} > {there} 7000 udp")
	    case(text + "forwarded, snat", write(there, 7001), f"{snat} {{}} > {there} 7001 udp")
	    case(text + "forwarded, snat, TCP", write(there, 7001, tcp_packet),
	         f"{snat} {{}} > {there} 7001 tcp")
	    case(text + "forwarded, masquerade", write(there, 7002), f"{two} {{}} > {there} 7002 udp")
	    case(text + "forwarded, dnat", write(virtual, 7010), f"{one} {{}} > {there} 7010 udp")
	    case(text + "forwarded, dnat and snat", write(virtual, 7013),
	         f"{snat} {{}} > {there} 7013 udp")
	    sent = "ENOBUFS", "ENOMEM", "EPERM"
	    case(text + "sent, snat", local(there, 7001), f"{snat} {{}} > {there} 7001 udp", may=sent)
	    case(text + "sent, dnat", local(virtual, 7020), f"{two} {{}} > {there} 7020 udp", may=sent)
	    case(text + "sent, dnat of the port", local(there, 7022), f"{two} {{}} > {there} 7122 udp",
	         may=sent)
	    case(text + "an error about dnat and snat", error,
	         f"{virtual} > {one} error {'3/3' if version == 4 else '1/4'} about "
	         f"{one} {{}} > {virtual} 7013 udp", lambda: read(near))
	    # What is for this host; rules find the socket.
	    for what, port, end, source in ("redirect", 7012, 7102, one), \
	                                   ("delivered, snat", 7031, 7031, addr(version, 1, 77)):
	        s = sock(socket.SOCK_DGRAM, here, end, mark=7)
	        s.setblocking(False)
	        case(text + what, write(here, port), f"{source} {{}} at {end}", lambda: received(s))
	        s.close()
	    # Policies that match what it becomes, and so need a bundle; and one that blocks.
	    policies.do(policies.FLUSH)
	    new = addr(version, 2, 57)
	    subprocess.run(["ip", "xfrm", "state", "add", "src", two, "dst", there, "proto", "esp", "spi",
	                    "7", "reqid", "1", "mode", "tunnel", "enc", "ecb(cipher_null)", "", "auth",
	                    "digest_null", ""], check=True)
	    policies.add(selector(new, there, 17, dport=7007), [template(two, there)])
	    esp = f"{two} > {there} protocol 50"
	    case(text + "forwarded, a tunnel after snat", write(there, 7007), esp)
	    case(text + "sent, a tunnel after snat", local(there, 7007), esp, may=sent)
	    policies.do(policies.FLUSH)
	    policies.add(selector(new, there, 17, dport=7007), action=BLOCK)
	    wrong = []
	    for send in write(there, 7007), local(there, 7007):
	        failed, n = True, 0
	        while failed:
	            sport, n = sport + 1, n + 1
	            result, failed = faults.nth(n, send(sport))
	            if got := read(far):
	                wrong.append((n, got))
	        print(f"{text}a policy that blocks after snat: {n - 1} allocations")
	    print(f"{wrong}|[]|{text}a policy that blocks after snat: nothing leaves")
	    policies.do(policies.FLUSH)
	print(f"{counters()['found'] > 10}|True|rules found sockets")
EOF
results
served 8
in_ns "$router" nft flush ruleset
check "nothing holds the module" has_references "$module" 0
finish
