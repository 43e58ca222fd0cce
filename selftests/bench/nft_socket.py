# SPDX-License-Identifier: GPL-2.0
"""What the nft socket expression is measured with: rules, packets, and sockets they are for.

Each rule of each implementation sits in a table of its own, asleep ("dormant") except while it
is measured. Rules that exist keep the implementation they were made with, so those made before
nft_socket_rust is loaded are C's, those made afterwards Rust's, and both stay in one boot.
"""

import os
import socket
import struct
import subprocess

import net
import nfnl

# The machine under test, and the other end of its cable.
SUT, PEER = "sut", "peer"
DEV, MAC, PEER_MAC = "veth0", "02:00:00:00:00:01", "02:00:00:00:00:02"
LOCAL = {4: "192.0.2.1", 6: "2001:db8::1"}
REMOTE = {4: "192.0.2.2", 6: "2001:db8::2"}
# Nobody's: what is sent there stays unanswered, so connections made by hand stay as they are.
SILENT = {4: "192.0.2.9", 6: "2001:db8::9"}
NATTED = {4: "192.0.2.100", 6: "2001:db8::100"}

CGROUP, CGROUP_LEVEL = "nfrust-bench/level2", 2
MARK = 0x2A
PORT = 5000
KEYS = ("mark", "transparent", "wildcard", "cgroupv2")
MODULE = {"c": "nft_socket", "rust": "nft_socket_rust"}
HOOKS = {"prerouting": (0, -150), "input": (1, 0)}
DORMANT = 1


# Rules

def module_refs(name):
    """How many expressions hold the module; None when it is not loaded."""
    try:
        with open(f"/sys/module/{name}/refcnt") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def table_name(impl, key, hook):
    return f"{impl}_{key}_{hook}"


class Rules:
    def __init__(self, nft, hooks):
        self.nft, self.hooks = nft, hooks

    def _send(self, *messages):
        result = self.nft.batch(*messages)
        if result[0] != "ok":
            raise SystemExit(f"nf_tables refuses {messages[result[1]]}: {result[0]}")

    def _set_flags(self, name, flags):
        self._send((nfnl.NEWTABLE, nfnl.NLM_F_CREATE, "inet",
                    nfnl.string(1, name) + nfnl.be32(2, flags)))

    def _make(self, name, hook, *exprs):
        """A table that sleeps, whose chain has a rule of these expressions and drops all."""
        number, priority = HOOKS[hook]
        kind, flags, family, chain = nfnl.new_chain("inet", name, "c", hook=number,
                                                    priority=priority)
        head = kind, flags, family, chain + nfnl.be32(5, 0)  # policy drop
        self._set_flags(name, DORMANT)
        kind, flags, family, rule = nfnl.new_rule("inet", name, "c", *exprs)
        if not exprs:
            rule = nfnl.string(1, name) + nfnl.string(2, "c")  # an empty list is refused
        self._send(head, (kind, flags, family, rule))

    @staticmethod
    def _make_text(name, hook, rules):
        """The same, of rules as people write them."""
        _, priority = HOOKS[hook]
        net.nft("-f", "-", text=f"""
            table inet {name} {{
                flags dormant
                chain c {{
                    type filter hook {hook} priority {priority}; policy drop;
                    {rules}
                }}
            }}""")

    def make(self, impl):
        """The tables of one implementation: the expression, nothing else. 'base' has a rule
        without any expression, which is what the others are compared with; and for both there is
        a whole rule."""
        for hook in self.hooks:
            if impl == "base":
                self._make(table_name(impl, "none", hook), hook)
                self._make_text(table_name(impl, "rule", hook), hook, f"udp dport {PORT} drop")
                continue
            self._make_text(table_name(impl, "rule", hook), hook, "socket mark 1 drop")
            for key in KEYS:
                level = CGROUP_LEVEL if key == "cgroupv2" else None
                self._make(table_name(impl, key, hook), hook,
                           nfnl.socket_expr(key, 1, level))
        if impl == "base":
            return
        # And one whose rules compare and count: whether each key sees what it should.
        for hook in self.hooks:
            self._make_text(table_name(impl, "check", hook), hook, f"""
                socket mark {MARK} counter
                socket transparent 0 counter
                socket wildcard {{ 0, 1 }} counter
                socket cgroupv2 level {CGROUP_LEVEL} "{CGROUP}" counter""")

    def references(self):
        """How many expressions make() leaves behind for an implementation."""
        return (2 * len(KEYS) + 1) * len(self.hooks)

    def wake(self, name):
        self._set_flags(name, 0)

    def sleep(self, name):
        self._set_flags(name, DORMANT)

    def counted(self, name):
        """{key: packets that its rule has counted}, of a table made for checking."""
        rules = self.nft.dump_rules("inet", name, "c")
        assert len(rules) == len(KEYS)
        return {key: int.from_bytes(dict(dict(exprs)["counter"])[2], "big")
                for key, exprs in zip(KEYS, rules)}


def load_rules(rules):
    """All rules of both implementations; fails where a rule is not served by its module."""
    subprocess.run(("modprobe", "nft_socket"), check=True)
    rules.make("base")
    rules.make("c")
    if module_refs("nft_socket_rust") is not None:
        raise SystemExit("nft_socket_rust was loaded for rules that were to be C's")
    subprocess.run(("modprobe", "nft_socket_rust"), check=True)
    rules.make("rust")
    for impl, module in MODULE.items():
        if module_refs(module) != rules.references():
            raise SystemExit(f"{module} serves {module_refs(module)} expressions, "
                             f"not {rules.references()}")


# How Rust's search for a socket ends, by its counters in debugfs: one of these, or a miss. The
# latter two misses come on top of a socket found.
ENDS = ("skb_sock", "found_borrowed", "found_owned")
LATER_MISSES = ("miss_not_full", "miss_no_cgroup")


def ends():
    """{end: how often Rust's expression has come to it}"""
    with open("/sys/kernel/debug/nft_socket_rust/counters") as file:
        counters = dict(line.split() for line in file)
    return {name: int(value) for name, value in counters.items() if name in ENDS
            or name.startswith("miss_") and name not in LATER_MISSES}


# Network

# As many CPUs may inject packets at the same time, each on a device of its own.
CABLES = 8


def devices(count):
    return [DEV] + [f"more{number}" for number in range(1, count)]


def set_up(cables=1):
    """Namespaces, cables and cgroup; this process ends up in SUT, and in the cgroup. Addresses are
    on the first cable."""
    os.makedirs(f"/sys/fs/cgroup/{CGROUP}")
    net.join_cgroup(CGROUP)
    commands = [f"netns add {SUT}", f"netns add {PEER}",
                f"link add {DEV} netns {SUT} address {MAC} type veth "
                f"peer name {DEV} netns {PEER} address {PEER_MAC}"]
    for name in devices(cables)[1:]:
        commands += [f"link add {name} netns {SUT} address {MAC} type veth "
                     f"peer name {name} netns {PEER}"]
    subprocess.run(("ip", "-batch", "-"), check=True, text=True, input="\n".join(commands))
    for ns, own in ((SUT, LOCAL), (PEER, REMOTE)):
        commands = ["link set lo up", f"link set {DEV} addrgenmode none", f"link set {DEV} up"]
        for name in devices(cables)[1:]:
            commands += [f"link set {name} addrgenmode none", f"link set {name} up"]
        commands += [f"addr add {own[4]}/24 dev {DEV}", f"addr add {own[6]}/64 dev {DEV} nodad"]
        if ns == SUT:
            commands += [f"neigh add {a} lladdr {PEER_MAC} dev {DEV} nud permanent"
                         for a in SILENT.values()]
            commands += [f"addr add {NATTED[4]}/32 dev {DEV}",
                         f"addr add {NATTED[6]}/128 dev {DEV} nodad"]
        subprocess.run(("ip", "-n", ns, "-batch", "-"), check=True, text=True,
                       input="\n".join(commands))
    net.enter(SUT)


def frame(packet):
    mac, peer = (bytes.fromhex(m.replace(":", "")) for m in (MAC, PEER_MAC))
    kind = net.ETH_P[socket.AF_INET6 if packet[0] >> 4 == 6 else socket.AF_INET]
    return mac + peer + kind.to_bytes(2, "big") + packet


# Traffic. Each is made shortly before it is measured, and keeps its sockets in `keep`.

FOUND = frozenset(KEYS)
SMALL = frozenset(("transparent",))  # TIME_WAIT and NEW_SYN_RECV have that key alone
NOTHING = frozenset()


class Traffic:
    """One packet, the sockets that make it what it is, the keys that see one, and how the search
    for it is to end."""

    def __init__(self, packet, end, sees=FOUND, keep=()):
        self.frame, self.end, self.sees, self.keep = frame(packet), end, sees, keep
        self.hook, self.together = "prerouting", 64

    def close(self):
        for thing in self.keep:
            thing.close()


def udp_packet(v, dport, sport=4000, src=None, dst=None):
    # 60 bytes without Ethernet's checksum for IPv4, as pktgen counts; 20 more for IPv6.
    return net.udp_packet(src or REMOTE[v], dst or LOCAL[v], sport, dport, b"\0" * 18)


def any_address(v):
    return "0.0.0.0" if v == 4 else "::"


def udp_unconnected(v):
    s = net.udp(any_address(v), PORT, mark=MARK)
    return Traffic(udp_packet(v, PORT), "found_borrowed", keep=(s,))


def udp_bound(v):
    s = net.udp(LOCAL[v], PORT, mark=MARK)
    return Traffic(udp_packet(v, PORT), "found_borrowed", keep=(s,))


def udp_connected(v):
    s = net.udp(LOCAL[v], PORT, mark=MARK, peer=(REMOTE[v], 4000))
    return Traffic(udp_packet(v, PORT), "found_borrowed", keep=(s,))


def udp_none(v):
    return Traffic(udp_packet(v, 5999), "miss_no_socket", sees=NOTHING)


def udp_early_demux(v):
    traffic = udp_connected(v)
    traffic.hook, traffic.end = "input", "skb_sock"
    # Of a batch only the first packet gets it: the others take over the first one's route.
    traffic.together = 1
    return traffic


def tcp_listener(v):
    s = net.listener(any_address(v), 6000, mark=MARK)
    return Traffic(net.tcp_packet(REMOTE[v], LOCAL[v], 4000, 6000), "found_borrowed", keep=(s,))


def connection(v):
    """A real one, both ends: (listener, accepted, client)."""
    s = net.listener(LOCAL[v], 6000, mark=MARK)
    with net.netns(PEER):
        client = net.tcp_client(REMOTE[v], 0, (LOCAL[v], 6000))
    return s, s.accept()[0], client


def tcp_established(v):
    keep = connection(v)
    packet = net.tcp_packet(REMOTE[v], LOCAL[v], keep[2].getsockname()[1], 6000, flags=net.ACK)
    return Traffic(packet, "found_owned", keep=keep)


def by_hand(v):
    """A listener, and a client whose packets we send one by one; the wire to close."""
    s = net.listener(LOCAL[v], 6000, mark=MARK)
    wire = net.Wire(PEER, DEV, dst=bytes.fromhex(MAC.replace(":", "")))
    return s, wire, net.Peer(wire, SILENT[v], LOCAL[v], 4000, 6000)


def tcp_new_syn_recv(v):
    s, wire, peer = by_hand(v)
    peer.syn()
    wire.raw.close()
    return Traffic(peer.packet(net.ACK), "found_owned", sees=SMALL, keep=(s,))


def tcp_time_wait(v):
    s, wire, peer = by_hand(v)
    peer.establish()
    peer.time_wait(s.accept()[0])
    net.settle()
    wire.raw.close()
    return Traffic(peer.packet(net.ACK), "found_owned", sees=SMALL, keep=(s,))


def tcp_none(v):
    packet = net.tcp_packet(REMOTE[v], LOCAL[v], 4000, 6999)
    return Traffic(packet, "miss_no_socket", sees=NOTHING)


def icmp_udp(v):
    s = net.udp(any_address(v), PORT, mark=MARK)
    quote = udp_packet(v, 4000, sport=PORT, src=LOCAL[v], dst=REMOTE[v])
    return Traffic(net.icmp(REMOTE[v], LOCAL[v], quote), "found_borrowed", keep=(s,))


def icmp_tcp(v):
    keep = connection(v)
    quote = net.tcp_packet(LOCAL[v], REMOTE[v], 6000, keep[2].getsockname()[1], flags=net.ACK)
    return Traffic(net.icmp(REMOTE[v], LOCAL[v], quote), "found_owned", keep=keep)


def icmp_echo(v):
    kind = 8 if v == 4 else 128
    packet = net.icmp(REMOTE[v], LOCAL[v], b"\0" * 18, kind, 0)
    return Traffic(packet, "miss_not_an_error", sees=NOTHING)


def later_fragment(v):
    # nft_socket does not defragment, so these are seen by any chain while nothing else does.
    payload = udp_packet(v, PORT)[20 if v == 4 else 40:]
    if v == 4:
        packet = net.ip4(REMOTE[v], LOCAL[v], socket.IPPROTO_UDP, payload, fragment=1)
    else:
        header = struct.pack("!BBHI", socket.IPPROTO_UDP, 0, 8, 1)
        packet = net.ip6(REMOTE[v], LOCAL[v], socket.IPPROTO_FRAGMENT, header + payload)
    return Traffic(packet, "miss_later_fragment", sees=NOTHING)


class Conntrack:
    """Connection tracking, and source NAT for what goes to port 4444, while this exists."""

    def __init__(self):
        net.nft("-f", "-", text=f"""
            table inet nat {{
                chain postrouting {{
                    type nat hook postrouting priority srcnat;
                    meta l4proto {{ tcp, udp }} th dport 4444 snat ip to {NATTED[4]}:7000
                    meta l4proto {{ tcp, udp }} th dport 4444 snat ip6 to [{NATTED[6]}]:7000
                }}
            }}""")

    def close(self):
        net.nft("delete", "table", "inet", "nat")


def udp_reply(v):
    """The reply of a source-NATed connection: its destination is not what the socket has."""
    nat = Conntrack()
    s = net.udp(LOCAL[v], PORT, mark=MARK, peer=(REMOTE[v], 4444))
    s.send(b"x")
    net.settle()
    return Traffic(udp_packet(v, 7000, sport=4444, dst=NATTED[v]), "found_borrowed", keep=(s, nat))


def tcp_reply(v):
    nat = Conntrack()
    # What is injected again and again is behind the window soon, and would not be tracked.
    with open("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal", "w") as file:
        file.write("1")
    with net.netns(PEER):
        server = net.listener(REMOTE[v], 4444)
    s = net.tcp_client(LOCAL[v], PORT, (REMOTE[v], 4444), mark=MARK)
    accepted, peer = server.accept()
    if peer[:2] != (NATTED[v], 7000):
        raise SystemExit(f"connection was not translated: it comes from {peer}")
    packet = net.tcp_packet(REMOTE[v], NATTED[v], 4444, 7000, flags=net.ACK)
    return Traffic(packet, "found_owned", keep=(s, accepted, server, nat))


def udp_conntrack(v):
    """An ordinary packet on a machine that tracks connections: not a reply."""
    nat = Conntrack()
    s = net.udp(any_address(v), PORT, mark=MARK)
    return Traffic(udp_packet(v, PORT), "found_borrowed", keep=(s, nat))


# What is measured: name, IP version, how to make it, the most that Rust may take of what C takes,
# and whether the quick mode has it. Where there is no socket to find, or none to look for, Rust
# may take as much as C.
UDP4, OTHER, SAME = 0.65, 0.75, 1.0
TRAFFIC = (
    ("UDP, unconnected", udp_unconnected, UDP4, OTHER, True),
    ("UDP, bound to address", udp_bound, UDP4, OTHER, False),
    ("UDP, connected", udp_connected, UDP4, OTHER, True),
    ("UDP, conntrack in use", udp_conntrack, UDP4, OTHER, False),
    ("UDP, reply, source NAT", udp_reply, UDP4, OTHER, True),
    ("TCP listener (SYN)", tcp_listener, OTHER, OTHER, True),
    ("TCP established", tcp_established, OTHER, OTHER, True),
    ("TCP reply, source NAT", tcp_reply, OTHER, OTHER, False),
    ("TCP handshake", tcp_new_syn_recv, OTHER, OTHER, False),
    ("TCP TIME_WAIT", tcp_time_wait, OTHER, OTHER, False),
    ("ICMP error, quotes UDP", icmp_udp, OTHER, OTHER, True),
    ("ICMP error, quotes TCP", icmp_tcp, OTHER, OTHER, False),
    ("UDP, no socket", udp_none, SAME, SAME, True),
    ("TCP, no socket", tcp_none, SAME, SAME, False),
    ("ICMP echo", icmp_echo, SAME, SAME, False),
    ("skb->sk set (input hook)", udp_early_demux, SAME, SAME, False),
    ("Later fragment", later_fragment, SAME, SAME, False),
)
