# SPDX-License-Identifier: GPL-2.0
"""A wire whose other end is this process: a TAP device.

Each frame is received by the kernel before the write returns. With NAPI_FRAGS the pieces that it
is written in become the linear part and the page fragments of the packet, whatever its size.
"""

import fcntl
import os
import select
import struct
import time

from net import netns

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NAPI, IFF_NAPI_FRAGS, IFF_NO_PI = 0x0002, 0x0010, 0x0020, 0x1000
PAGE_SIZE = 4096
SMALL_PIECES = 11   # leaves seven of MAX_SKB_FRAGS, with a page each
ETHER_HEADER = 14


class Tap:
    """A TAP device, made in the namespace ns."""

    def __init__(self, ns, name, mac, fragments=True):
        self.name, self.mac = name, bytes.fromhex(mac.replace(":", ""))
        flags = IFF_TAP | IFF_NO_PI | (IFF_NAPI | IFF_NAPI_FRAGS if fragments else 0)
        with netns(ns):
            self.fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self.fd, TUNSETIFF, struct.pack("=16sH22x", name.encode(), flags))

    def frame(self, packet, number=0, version=None):
        """The number travels as the sender's address."""
        proto = 0x86DD if (version or packet[0] >> 4) == 6 else 0x0800
        return self.mac + struct.pack("!HIH", 0x0200, number, proto) + packet

    def send(self, packet, number=0, linear=None, piece=None, version=None):
        """Send the packet. linear: that many of its bytes (the Ethernet header not counted) are
        in the linear part, the rest in one fragment, or in as many as there may be of that size
        and one for what is left. A fragment has a page at most."""
        frame = self.frame(packet, number, version)
        pieces, cut = [frame], len(frame)
        if linear is not None and ETHER_HEADER + linear < len(frame):
            cut = ETHER_HEADER + linear
            pieces = [frame[:cut]]
        while cut < len(frame):
            size = piece if piece and len(pieces) < SMALL_PIECES else PAGE_SIZE
            pieces.append(frame[cut:cut + size])
            cut += size
        os.writev(self.fd, pieces)

    def receive(self, test, timeout=10):
        """The first packet that the kernel sent for which test(packet) is true, or None."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                packet = os.read(self.fd, 65536)[ETHER_HEADER:]
                if test(packet):
                    return packet
        return None

    def drain(self):
        """Throw away what the kernel has sent."""
        try:
            while True:
                os.read(self.fd, 65536)
        except BlockingIOError:
            pass
