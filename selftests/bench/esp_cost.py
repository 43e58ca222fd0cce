# SPDX-License-Identifier: GPL-2.0
"""What receiving ESP costs, when a device has decrypted it.

Packets arrive at the test device (selftests/modules/espdev.h), which imitates such hardware, in
bursts of 64, all of one state. What is left of them is dropped at prerouting. The base is what
they hold, arriving at the same device by itself: so what is left is ESP's way through GRO, the
state, and through GRO again; and the device's search for the state, which is hardware's and costs
C and Rust the same.

A family has room for one implementation: they take turns, in each round.
"""

import os
import socket
import statistics
import subprocess
import time

import cost
import esp
import net

PATH = "esp"
NS, DEV, PORT = "receiver", "espdev1", "espdev1"
MODULES = {"c": ("esp4_offload", "esp6_offload"), "rust": ("esp4_offload_rust", "esp6_offload_rust")}
DEBUGFS = "/sys/kernel/debug"
# Bytes of what ESP holds: of the packet in a tunnel, or as long as that would be.
SIZE = 128
BURST, WARM = 64, 8
# Where contended writes are counted: with more, packets' memory moves between CPUs by way of the
# slab allocator, which has nothing to do with the path.
SHARED_BURST = 16
LEGACY, ESN = {"window": 32}, {"window": 64, "esn": True}
# With states that are fed by several CPUs, how far these may be apart; as wide as windows get.
WIDE = {"window": 4096, "esn": True}
NONE = {"window": 0}
BURSTS, PACKETS = "per burst", "per packet"  # how Rust receives
# Mode, window's name, window, IP version, packets in a burst, and what the quick mode has of it.
ROWS = tuple((mode, name, window, ip, BURST,
              (BURSTS, PACKETS) if (mode, name, ip) == ("tunnel", "ESN", 4) else
              (BURSTS,) if (mode, name, ip) in (("transport", "legacy", 4), ("tunnel", "ESN", 6))
              else ())
             for ip in (4, 6) for mode in ("tunnel", "transport")
             for name, window in (("legacy", LEGACY), ("ESN", ESN)))
# A packet alone in its poll: there is nothing to gain, and nothing may be lost.
ROWS += tuple(("tunnel", "ESN", ESN, ip, 1, (BURSTS,) if ip == 4 else ()) for ip in (4, 6))


def run(*command, text=None):
    return subprocess.run(command, check=True, text=True, input=text, stdout=subprocess.PIPE).stdout


def set_up(queues):
    """A namespace with the end of the cable that receives. Nobody is at the other end."""
    # Where devices are made, and where these settings are; another scenario may have left it.
    with open("/proc/1/ns/net") as first:
        os.setns(first.fileno(), os.CLONE_NEWNET)
    # All bursts in one round of softirqs: what a round costs besides is not the packets'.
    for name, value in (("netdev_budget", 1 << 30), ("netdev_budget_usecs", 10_000_000)):
        with open(f"/proc/sys/net/core/{name}", "w") as file:
            file.write(f"{value}\n")
    run("modprobe", "nfrust_espdev", f"queues={queues}")
    run("ip", "netns", "add", NS)
    run("ip", "link", "set", DEV, "netns", NS)
    run("ip", "-n", NS, "-batch", "-", text="\n".join((
        f"link set {DEV} addrgenmode none", f"link set {DEV} address {net.SERVER_MAC.hex(':')}",
        f"link set {DEV} up", f"addr add {esp.addr(4, 2)}/24 dev {DEV}",
        f"addr add {esp.addr(6, 2)}/64 dev {DEV} nodad")))
    net.enter(NS)
    run("nft", "-f", "-", text="""
        table inet swallow {
            chain c { type filter hook prerouting priority 0; policy drop; }
        }""")


def use(impl):
    """Have ESP served by one implementation. Each state holds it, and goes a little after it was
    removed."""
    run("ip", "xfrm", "state", "flush")
    for name in (name for names in MODULES.values() for name in names):
        for _ in range(40):
            if not os.path.exists(f"/sys/module/{name}"):
                break
            if subprocess.run(("rmmod", name), stderr=subprocess.DEVNULL).returncode:
                time.sleep(0.25)
        else:
            raise SystemExit(f"{name} cannot be unloaded")
    for name in MODULES.get(impl, ()):
        run("modprobe", name)


def set_per_burst(how):
    for name in MODULES["rust"]:
        with open(f"{DEBUGFS}/{name}/per_burst", "w") as file:
            file.write(f"{int(how == BURSTS)}\n")


def counters(ip):
    """Rust's, of one version; nothing where C serves."""
    path = f"{DEBUGFS}/esp{ip}_offload_rust/counters"
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return {name: int(value) for name, value in (line.split() for line in file)}


class Template:
    """What arrives: packets of a state of its own, or what they hold."""

    def __init__(self, bench, ip, mode, window, plain=False):
        self.bench, self.ip, self.plain, self.seq = bench, ip, plain, 0
        src, dst = esp.addr(ip, 9), esp.addr(ip, 2)
        room = SIZE - (20 if ip == 4 else 40) - 8
        segment = net.udp_header(src, dst, 4000, esp.PORT, bytes(room))
        inner = net.ip(src, dst, esp.UDP, segment)
        if plain:
            packet = inner
        else:
            self.state = esp.State(bench, version=ip, mode=mode, **window)
            tunnel = inner, esp.IPIP if ip == 4 else esp.IPV6
            payload = tunnel if mode == "tunnel" else (segment + bytes(SIZE - len(segment)),
                                                       esp.UDP)
            self.size = len(payload[0])
            packet = self.state.packet(1, payload)
        kind = net.ETH_P[socket.AF_INET if ip == 4 else socket.AF_INET6]
        bench.port.frame(net.SERVER_MAC + net.CLIENT_MAC + kind.to_bytes(2, "big") + packet)

    def inject(self, count, burst=BURST, queues=(0,)):
        """So many packets on each queue, numbers in turn."""
        port, step = self.bench.port, len(queues)
        for name, value in (("inject_seq", self.seq + 1), ("inject_step", step),
                            ("inject_stride", 1), ("inject_burst", burst),
                            ("inject_queues", sum(1 << queue for queue in queues)),
                            ("inject", count)):
            port.knob(name, value)
        self.seq += count * step

    def arrived(self):
        """What the state says: whether it accepted all that was injected so far, and its size."""
        if self.plain:
            return True
        return self.state.figures().startswith(f"{self.seq} packets {self.seq * self.size} bytes ")

    def settle(self):
        """All packets are through when the last burst's softirqs are."""
        for _ in range(100):
            if self.arrived():
                return
            time.sleep(0.01)
        raise SystemExit(f"{self.seq} packets were injected, the state has "
                         f"{self.state.figures()}; {esp.mib(NS)}")

    def close(self):
        if not self.plain:
            self.state.delete()


class Bench:
    def __init__(self, mode, say, queues=1):
        self.mode, self.say = mode, say
        set_up(queues)
        # What esp.State wants of its world.
        self.netlink, self.port = esp.States(NS), esp.Port(PORT)
        self.ifindex = socket.if_nametoindex(DEV)

    def check(self, what, impl, how, template, burst):
        """Whether packets take the way that the row says, and come out of it."""
        packets = 4 * BURST
        run("nft", "-f", "-", text="""
            table inet check {
                counter inner { }
                chain c {
                    type filter hook prerouting priority -100;
                    udp dport %d counter name inner
                }
            }""" % esp.PORT)
        before = counters(template.ip), self.port.counters(), esp.mib(NS)
        template.inject(packets, burst)
        template.settle()
        # State and window have them; what is left of the last ones may be on its way.
        time.sleep(0.05)
        seen = net.counters()["inner"]
        run("nft", "delete", "table", "inet", "check")
        moved = esp.moved(before[0], counters(template.ip))
        device = esp.moved(before[1], self.port.counters())
        errors = esp.moved(before[2], esp.mib(NS))
        if seen != packets or errors or device.get("rx_plain" if template.plain else "rx_done",
                                                   0) != packets:
            raise SystemExit(f"{what}: {impl} let {seen} of {packets} pass, {errors}, {device}")
        right = {}
        if impl == "rust":
            locked = packets // burst if how == BURSTS else packets
            right = {"received": packets, "locked": locked}
        ours = {name: moved.get(name, 0) for name in right}
        if ours != right or impl != "rust" and moved:
            raise SystemExit(f"{what}: {impl} was to serve, Rust's counters rose by {moved}, "
                             f"expected {right}")

    def measure(self, template, burst):
        """Instructions a packet, of the median burst."""
        bursts = WARM + self.mode.batches + 1
        template.inject(bursts * burst, burst)
        with open(f"{esp.DEBUGFS}/{PORT}/bursts") as file:
            queue, *began = map(int, file.readline().split())
        if queue != 0 or len(began) != bursts:
            raise SystemExit(f"{len(began)} bursts of {bursts} on queue {queue}")
        template.settle()
        began = began[WARM:]
        return statistics.median(b - a for a, b in zip(began, began[1:])) / burst

    def rows(self):
        """(the packets' part of a row, how Rust is to receive them)"""
        for *traffic, quick in ROWS:
            hows = quick if self.mode.quick else (BURSTS, PACKETS)
            if hows:
                yield tuple(traffic), hows

    def instructions(self):
        figures = {}
        for number in range(self.mode.rounds):
            for impl in ("base", *cost.IMPLS):
                use(impl)
                for (mode, name, window, ip, burst), hows in self.rows():
                    one = mode, name, ip, burst
                    for how in hows if impl == "rust" else (None,):
                        if how:
                            set_per_burst(how)
                        template = Template(self, ip, mode, window, impl == "base")
                        if number == 0:
                            self.check(f"{one}", impl, how, template, burst)
                        figures.setdefault((one, impl, how), []).append(
                            self.measure(template, burst))
                        template.close()
            self.say(f"ESP, round {number + 1} of {self.mode.rounds}")
        use(None)
        return [self.row(mode, name, ip, burst, how, figures)
                for (mode, name, _, ip, burst), hows in self.rows() for how in hows]

    def row(self, mode, name, ip, burst, how, figures):
        one = mode, name, ip, burst
        base = figures[one, "base", None]
        added = {"c": figures[one, "c", None], "rust": figures[one, "rust", how]}
        added = {impl: [value - none for value, none in zip(values, base)]
                 for impl, values in added.items()}
        traffic = f"{mode}, {name}" + (", alone" if burst == 1 else "")
        row = cost.row(PATH, traffic, ip, how, "test device", base, added, ratio=1.0)
        cost.tell(self.say, [row])
        return row

    def contention(self, windows):
        """CPU 0 gets none."""
        for impl in ("base", *cost.IMPLS):
            use(impl)
            for mode, name, window, ip, how, cpus in self.shared():
                template = self.template(f"{mode}, {name}", impl, how, ip, mode, window)
                # Not further apart than the window is wide, whoever comes first.
                batches = min(windows.BATCHES, WIDE["window"] // BURST // cpus)
                windows.take(Queues(template, cpus, SHARED_BURST), PATH, f"{mode}, {name}", ip, how, impl,
                             batches)
                template.close()
            for mode, name, window, ip, how in self.locked() if impl != "base" else ():
                template = self.template(f"{mode}, {name}", impl, how, ip, mode, window)
                with open(f"{esp.DEBUGFS}/{PORT}/locks") as file:
                    (_, address), = (line.split() for line in file)
                windows.lock(int(address, 16), Queues(template, 1, BURST), PATH, f"{mode}, {name}", ip,
                             how, impl)
                template.close()
            windows.symbols()
        use(None)

    def template(self, what, impl, how, ip, mode, window):
        if impl == "rust":
            set_per_burst(how)
        template = Template(self, ip, mode, window, impl == "base")
        self.check(what, impl, how, template, BURST)
        return template

    def shared(self):
        """Where contended writes are counted. What CPUs write to a window depends on how far each
        of them is, which is not the same twice: what is compared with a budget has none."""
        rows = [("no window", NONE, 4, BURSTS)]
        if not self.mode.quick:
            rows += [("ESN", WIDE, ip, how) for ip in (4, 6) for how in (BURSTS, PACKETS)]
        for row in rows:
            for cpus in self.mode.cpus:
                yield "tunnel", *row, cpus

    def locked(self):
        """Where instructions under the lock are"""
        for name, window in (("ESN", ESN),) if self.mode.quick else (("legacy", LEGACY),
                                                                     ("ESN", ESN)):
            for how in (BURSTS, PACKETS):
                yield "tunnel", name, window, 4, how


class Queues:
    """Queues 1, 2, ..., each on the CPU of its number, that deliver packets of one state."""

    def __init__(self, template, cpus, burst):
        self.template, self.jobs, self.burst = template, range(1, cpus + 1), burst

    def run(self, batches):
        self.template.inject(batches * BURST, self.burst, self.jobs)
        # What is left of the last ones is on its way.
        time.sleep(0.1)
        self.template.settle()


def instructions(mode, say):
    if mode.demo:
        return []
    return Bench(mode, say).instructions()


def contention(mode, say, windows):
    Bench(mode, say, max(mode.cpus) + 1).contention(windows)
