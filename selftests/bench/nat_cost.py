# SPDX-License-Identifier: GPL-2.0
"""What NAT costs: packets of 1,400 bytes that are forwarded from a veth to a dummy device.

The base is the same traffic with connection tracking alone. A family has room for one
implementation of chains of type nat, so they take turns: in each round base, C and Rust, each with
all its rows, and their modules are loaded and unloaded.
"""

import os
import socket
import subprocess
import time

import cost
import inject
import net
from workers import Workers

PATH = "nat"
NS, OUT = "router", "out0"
CABLES = 8
SIZE = 1400
MODULE = {"c": "nft_chain_nat", "rust": "nft_chain_nat_rust"}
COUNTERS = "/sys/kernel/debug/nft_chain_nat_rust/counters"
TARGET = {4: "10.8.0.2", 6: "fd08::2"}
OURS = {4: "10.8.0.1", 6: "fd08::1"}
PUBLIC = {4: "10.7.0.2", 6: "fd07::2"}  # what is destined to there goes to TARGET
GATEWAY = {4: "10.8.0.3", 6: "fd08::3"}
TCP, UDP = "TCP", "UDP"
SPORT, DPORT = 4000, 5000

# What a rule of each kind is, its chain's hook and priority, and what a packet is like afterwards.
FAMILY = {4: "ip", 6: "ip6"}
KINDS = {
    "masquerade": ("postrouting", 100, "oifname {out} masquerade", "saddr {ours}"),
    "SNAT": ("postrouting", 100, "oifname {out} snat {ip} to {ours}", "saddr {ours}"),
    "DNAT": ("prerouting", -100, "{ip} daddr {public} dnat {ip} to {target}", "daddr {target}"),
}
# Policies: how they get there, and the counter of ours that has to move for a translated source.
NONE, UNRELATED, MATCHING = "no policy", "unrelated policy", "matching policy"
POLICIES = {NONE: "lookup_skipped", UNRELATED: "lookup_policies", MATCHING: "lookup_bundle"}
# Where the lookup is skipped, Rust is to save what the published patch for C saves, or nearly so;
# elsewhere it is to cost no more than C. ESP, where it is used, varies by more than they differ.
SAVES = 515
LIMIT = {NONE: 1.0, UNRELATED: 1.0, MATCHING: 1.02}
# Kind, protocol, IP version, policy, and whether the quick mode has it.
ROWS = tuple((kind, proto, ip, policy,
              policy == NONE and (kind == "masquerade" or (kind, proto, ip) == ("DNAT", UDP, 4))
              or (kind, proto, ip, policy) == ("masquerade", UDP, 4, UNRELATED))
             for policy in POLICIES for kind in KINDS for proto in (UDP, TCP) for ip in (4, 6))
# Where contended writes are counted: the same.
SHARED = (("masquerade", UDP, 4, True), ("masquerade", UDP, 6, True),
          ("masquerade", TCP, 4, False), ("SNAT", UDP, 4, False), ("DNAT", UDP, 4, False))


def run(*command, text=None):
    return subprocess.run(command, check=True, text=True, input=text, stdout=subprocess.PIPE).stdout


def device(number):
    return f"in{number}"


def source(ip, number):
    return f"10.9.{number}.2" if ip == 4 else f"fd09:{number}::2"


def mac(number):
    return f"02:00:00:00:01:{number:02x}"


def set_up():
    """A router with cables to many senders, and a device that swallows what it forwards."""
    run("ip", "netns", "add", NS)
    commands = [f"link add {OUT} type dummy", f"link set {OUT} up",
                f"addr add {OURS[4]}/24 dev {OUT}", f"addr add {OURS[6]}/64 dev {OUT} nodad"]
    commands += [f"neigh add {addresses[ip]} lladdr 02:00:00:00:02:00 dev {OUT} nud permanent"
                 for addresses in (TARGET, GATEWAY) for ip in (4, 6)]
    for number in range(CABLES):
        dev = device(number)
        commands += [f"link add {dev} address {mac(number)} type veth peer name peer{number}",
                     f"link set {dev} addrgenmode none", f"link set peer{number} addrgenmode none",
                     f"link set {dev} up", f"link set peer{number} up",
                     f"addr add 10.9.{number}.1/24 dev {dev}",
                     f"addr add fd09:{number}::1/64 dev {dev} nodad"]
    run("ip", "-n", NS, "-batch", "-", text="\n".join(commands))
    net.enter(NS)
    settings = {"ipv4/ip_forward": 1, "ipv6/conf/all/forwarding": 1, "ipv4/conf/all/rp_filter": 0}
    settings.update((f"ipv4/conf/{device(number)}/rp_filter", 0) for number in range(CABLES))
    # As a device does that has checked them: nothing is added up here.
    settings["netfilter/nf_conntrack_checksum"] = 0
    # The same segment again and again is behind the window soon.
    settings["netfilter/nf_conntrack_tcp_be_liberal"] = 1
    run("modprobe", "nf_conntrack")
    run("nft", "-f", "-", text="""
        table inet track {
            chain c { type filter hook forward priority 0; ct state invalid drop; }
        }""")
    for name, value in settings.items():
        with open(f"/proc/sys/net/{name}", "w") as file:
            file.write(f"{value}\n")


def frame(proto, ip, destination, number=0):
    src, dst, sport = source(ip, number), destination[ip], SPORT + number
    room = SIZE - 14 - (20 if ip == 4 else 40)
    if proto == UDP:
        packet = net.udp_packet(src, dst, sport, DPORT, b"\0" * (room - 8))
    else:
        packet = net.tcp_packet(src, dst, sport, DPORT, flags=net.ACK, payload=b"\0" * (room - 20))
    kind = net.ETH_P[socket.AF_INET if ip == 4 else socket.AF_INET6]
    return (bytes.fromhex(mac(number).replace(":", "")) + net.CLIENT_MAC
            + kind.to_bytes(2, "big") + packet)


def translate(kind, ip):
    hook, priority, rule, _ = KINDS[kind]
    rule = rule.format(out=OUT, ip=FAMILY[ip], ours=OURS[ip], public=PUBLIC[ip], target=TARGET[ip])
    run("nft", "-f", "-", text=f"""
        table {FAMILY[ip]} nat {{
            chain c {{ type nat hook {hook} priority {priority}; {rule}; }}
        }}""")


def forget(ip):
    """Rules and connections."""
    run("nft", "delete", "table", FAMILY[ip], "nat")
    flush()


def flush():
    subprocess.run(("conntrack", "-F"), check=True, stderr=subprocess.DEVNULL)


def set_policy(policy):
    run("ip", "xfrm", "policy", "flush")
    run("ip", "xfrm", "state", "flush")
    commands = []
    for ip in (4, 6):
        src, dst, template = OURS[ip], GATEWAY[ip], "proto esp mode tunnel"
        wide = "0.0.0.0/0" if ip == 4 else "::/0"
        if policy == UNRELATED:
            commands.append(f"xfrm policy add src {PUBLIC[ip]} dst {GATEWAY[ip]} dir out "
                            f"tmpl src {src} dst {dst} {template}")
        elif policy == MATCHING:
            commands += [f"xfrm policy add src {wide} dst {TARGET[ip]} dir out "
                         f"tmpl src {src} dst {dst} {template}",
                         f"xfrm state add src {src} dst {dst} proto esp spi {256 + ip} mode tunnel "
                         f"enc cipher_null ''"]
    for command in commands:
        run("ip", *(word if word != "''" else "" for word in command.split()))


def use(impl):
    """Have chains of type nat served by one implementation."""
    for name in MODULE.values():
        for _ in range(20):
            if not os.path.exists(f"/sys/module/{name}"):
                break
            # What served the chains is let go of a little after they are removed.
            if subprocess.run(("rmmod", name), stderr=subprocess.DEVNULL).returncode:
                time.sleep(0.25)
        else:
            raise SystemExit(f"{name} cannot be unloaded")
    if impl in MODULE:
        run("modprobe", MODULE[impl])


def counters():
    if not os.path.exists(COUNTERS):
        return {}
    with open(COUNTERS) as file:
        return {name: int(value) for name, value in (line.split() for line in file)}


class Bench:
    def __init__(self, mode, say):
        self.mode, self.say = mode, say
        set_up()
        self.ifindex = socket.if_nametoindex(device(0))
        self.frames = inject.LiveFrames(restore=True)

    def check(self, kind, proto, ip, policy, impl, packet):
        """Whether packets leave as they should, and by whom that is done. Rust's counters tell
        which way each packet went."""
        what = f"{kind}, {proto}, IPv{ip}, {policy}"
        after = KINDS[kind][3].format(ours=OURS[ip], target=TARGET[ip])
        esp = f"{FAMILY[ip]} saddr {OURS[ip]} meta l4proto esp"
        run("nft", "-f", "-", text=f"""
            table {FAMILY[ip]} check {{
                counter translated {{ }}
                counter encrypted {{ }}
                chain c {{
                    type filter hook postrouting priority 200;
                    {FAMILY[ip]} {after} {proto.lower()} dport {DPORT} counter name translated
                    {esp} counter name encrypted
                }}
            }}""")
        before = counters()
        self.frames.run(packet, self.ifindex, 1, 1)
        moved = {name: count - before.get(name, 0) for name, count in counters().items()}
        seen = net.counters()
        run("nft", "delete", "table", FAMILY[ip], "check")
        packets = self.frames.BATCH
        expected = {"translated": packets, "encrypted": packets if policy == MATCHING else 0}
        if seen != expected:
            raise SystemExit(f"{what}: {impl} has {seen}, expected {expected}")
        lookups = {name: moved.get(name, 0) for name in POLICIES.values()}
        right = dict.fromkeys(POLICIES.values(), 0)
        if impl == "rust" and kind != "DNAT":
            right[POLICIES[policy]] = packets
        if (impl == "rust") != bool(moved.get("hook_postrouting")) or (
                policy != MATCHING and lookups != right):
            raise SystemExit(f"{what}: {impl} was to serve, Rust's counters rose by {moved}")

    def measure(self, packet):
        return self.frames.cost(packet, self.ifindex, self.mode.batches, together=1)

    def instructions(self):
        rows = [one[:4] for one in ROWS if not self.mode.quick or one[4]]
        figures = {one: {"base": [], **{impl: [] for impl in cost.IMPLS}} for one in rows}
        for number in range(self.mode.rounds):
            for impl in ("base", *cost.IMPLS):
                use(impl)
                for policy in POLICIES:
                    self.turn(impl, policy, [one for one in rows if one[3] == policy], figures,
                              number == 0)
            self.say(f"NAT, round {number + 1} of {self.mode.rounds}")
        use(None)
        return [self.row(one, figures[one]) for one in rows]

    def turn(self, impl, policy, rows, figures, check):
        if not rows:
            return
        set_policy(policy)
        known = {}
        for one in rows:
            kind, proto, ip, _ = one
            if impl == "base":
                # The same for all kinds, which is as if there was none.
                if (proto, ip) not in known:
                    known[proto, ip] = self.measure(frame(proto, ip, TARGET))
                    flush()
                figures[one][impl].append(known[proto, ip])
                continue
            packet = frame(proto, ip, PUBLIC if kind == "DNAT" else TARGET)
            translate(kind, ip)
            if check:
                self.check(kind, proto, ip, policy, impl, packet)
            figures[one][impl].append(self.measure(packet))
            forget(ip)
        set_policy(NONE)

    def row(self, one, figures):
        kind, proto, ip, policy = one
        added = {impl: [value - base for value, base in zip(figures[impl], figures["base"])]
                 for impl in cost.IMPLS}
        skipped = policy == NONE and kind != "DNAT"
        row = cost.row(PATH, f"{kind}, {proto}", ip, policy, "live frames", figures["base"], added,
                       ratio=None if skipped else LIMIT[policy], saves=SAVES if skipped else None)
        cost.tell(self.say, [row])
        return row

    def contention(self, windows):
        rows = [one[:3] for one in SHARED if not self.mode.quick or one[3]]
        for impl in ("base", *cost.IMPLS):
            use(impl)
            for kind, proto, ip in rows:
                destination = PUBLIC if kind == "DNAT" and impl != "base" else TARGET
                if impl != "base":
                    translate(kind, ip)
                    self.check(kind, proto, ip, NONE, impl, frame(proto, ip, destination))
                for cpus in self.mode.cpus:
                    workers = Workers([(frame(proto, ip, destination, number),
                                        socket.if_nametoindex(device(number)))
                                       for number in range(cpus)], restore=True)
                    windows.take(workers, PATH, f"{kind}, {proto}", ip, NONE, impl)
                    workers.close()
                if impl == "base":
                    flush()
                else:
                    forget(ip)
            windows.symbols()
        use(None)


def instructions(mode, say):
    if mode.demo:
        return []
    return Bench(mode, say).instructions()


def contention(mode, say, windows):
    Bench(mode, say).contention(windows)
