# SPDX-License-Identifier: GPL-2.0
"""Conversations through states between both ends of a pair of test devices."""

import errno
import hashlib
import threading

from esp import *

# What the devices do, by the name of what is special, and the sender's features that are off
DEVICES = {
    "the device cuts": (),
    "GSO cuts": ("tx-esp-segmentation",),
    "GSO cuts, checksums by software": ("tx-esp-segmentation", "esp-tx-csum-hw-offload"),
    "no scatter-gather": ("tx-scatter-gather",),
}


def set_features(ns, off, on=()):
    """Turn features of eth0 off, and all others of DEVICES on."""
    every = {f for features in DEVICES.values() for f in features} | {"esp-hw-offload"}
    words = []
    for feature in sorted(every):
        words += [feature, "off" if feature in off else "on"]
    with netns(ns):
        subprocess.run(["ethtool", "-K", "eth0", *words], check=True, stdout=subprocess.DEVNULL)


class Pair:
    """Both namespaces, and what is between them"""

    def __init__(self, client, server):
        self.ends = {1: client, 2: server}
        self.netlink = {host: States(ns) for host, ns in self.ends.items()}
        self.ports = {1: Port("espdev0"), 2: Port("espdev1")}
        self.ifindex, self.natt, self.number = {}, [], 0
        for host, ns in self.ends.items():
            with netns(ns):
                self.ifindex[host] = socket.if_nametoindex("eth0")
                for version in 4, 6:
                    s = udp(addr(version, host), NATT)
                    s.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
                    s.setsockopt(socket.IPPROTO_UDP, UDP_ENCAP, ESPINUDP)
                    self.natt.append(s)

    def protect(self, version=4, inner=None, mode="transport", algorithm=GCM, in_udp=False,
                offload=(1, 2), window=32, **options):
        """Replace all states and policies: between both hosts everything goes that way, but for
        what carries it in UDP."""
        inner = inner or version
        self.number += 2
        for host in 1, 2:
            netlink = self.netlink[host]
            netlink.do(netlink.FLUSH)
            netlink.do(netlink.FLUSH_STATES)
            for src, dst in (1, 2), (2, 1):
                inbound = dst == host
                sel = selector(addr(inner, src), addr(inner, dst))
                netlink.do(netlink.make(
                    addr(version, src), addr(version, dst), 0x100 * dst + self.number, mode,
                    algorithm, sel=sel if mode == "beet" else None,
                    window=window if inbound else 0, encap=(NATT, NATT) if in_udp else None,
                    dev=self.ifindex[host] if host in offload else None, inbound=inbound,
                    unspec=inner != version and mode == "tunnel", **options))
                direction = IN if inbound else OUT
                netlink.add(sel, direction=direction, priority=2, templates=[
                    template(addr(version, src), addr(version, dst), mode=MODES[mode])])
                if in_udp:
                    netlink.add(selector(addr(version, src), addr(version, dst), UDP, NATT, NATT),
                                direction=direction, priority=1)

    def states(self, version, host):
        """The figures of the state to that host, there"""
        return self.netlink[host].figures(addr(version, host), 0x100 * host + self.number)

    def errors(self):
        """All counters of IPsec of both ends, by name"""
        total = {}
        for ns in self.ends.values():
            for name, value in mib(ns).items():
                total[name] = total.get(name, 0) + value
        return total

    def tcp(self, version, size=120000, timeout=3):
        """Send so many bytes and check what arrives: "ok", or what went wrong"""
        data = bytes(range(256)) * (size // 256)
        digest, got = hashlib.sha1(data).digest(), []
        with netns(self.ends[2]):
            listening = listener(addr(version, 2), 5001)
        with netns(self.ends[1]):
            c = socket.socket(family(addr(version, 1)), socket.SOCK_STREAM)
            c.bind((addr(version, 1), 0))

        def receive():
            try:
                s, _ = listening.accept()
                s.settimeout(timeout)
                checked, count = hashlib.sha1(), 0
                while count < len(data):
                    part = s.recv(1 << 20)
                    if not part:
                        break
                    checked.update(part)
                    count += len(part)
                got.append("ok" if checked.digest() == digest else f"{count} bytes")
                s.send(b"done")
                s.close()
            except OSError as exc:
                got.append(errno.errorcode.get(exc.errno, "timeout"))

        listening.settimeout(timeout)
        c.settimeout(timeout)
        linger(c, 1)
        thread = threading.Thread(target=receive)
        thread.start()
        try:
            c.connect((addr(version, 2), 5001))
            c.sendall(data)
            c.recv(4)
        except OSError as exc:
            got.append(errno.errorcode.get(exc.errno, "timeout"))
        thread.join()
        c.close()
        listening.close()
        return got[0]

    def udp(self, version, sizes=(1, 64, 1200, 4000), timeout=1):
        """Datagrams there and back: "ok", or what went wrong"""
        ends = {}
        for host in 1, 2:
            with netns(self.ends[host]):
                ends[host] = udp(addr(version, host), 5002)
                ends[host].settimeout(timeout)
        result = "ok"
        try:
            for size in sizes:
                data = bytes(i % 251 for i in range(size))
                for src, dst in (1, 2), (2, 1):
                    ends[src].sendto(data, (addr(version, dst), 5002))
                    if ends[dst].recv(65536) != data:
                        result = f"damaged at {size}"
        except OSError as exc:
            result = f"{errno.errorcode.get(exc.errno, 'timeout')} at {size}"
        for s in ends.values():
            s.close()
        return result
