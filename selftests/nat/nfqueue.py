# SPDX-License-Identifier: GPL-2.0
"""Packets that a rule has queued: held until a test lets them go on."""

import socket
import struct

from net import netns

NETLINK_NETFILTER = 12
PACKET, VERDICT, CONFIG = 0x300, 0x301, 0x302
CFG_CMD, CFG_PARAMS, PACKET_HDR, VERDICT_HDR = 1, 2, 1, 2
NF_DROP, NF_ACCEPT = 0, 1


def _attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


class Queue:
    """Queue number of a namespace."""

    def __init__(self, ns, number):
        self.number = number
        with netns(ns):
            self.nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
            self.nl.bind((0, 0))
        self.nl.settimeout(5)
        self._send(CONFIG, _attribute(CFG_CMD, struct.pack("!BBH", 1, 0, 0)))
        self._send(CONFIG, _attribute(CFG_PARAMS, struct.pack("!IB", 0, 1)))

    def _send(self, kind, attributes):
        payload = struct.pack("!BBH", 0, 0, self.number) + attributes
        self.nl.send(struct.pack("=IHHII", 16 + len(payload), kind, 1, 0, 0) + payload)

    def take(self):
        """Wait for a packet; what accept() wants."""
        while True:
            message = self.nl.recv(65536)
            kind, = struct.unpack("=H", message[4:6])
            at = 20
            while kind == PACKET and at < len(message):
                length, attribute = struct.unpack("=HH", message[at:at + 4])
                if attribute & 0x3FFF == PACKET_HDR:
                    return struct.unpack("!I", message[at + 4:at + 8])[0]
                at += (length + 3) & ~3

    def accept(self, packet):
        """Let it go on. It has been through the other hooks when this returns."""
        self._send(VERDICT, _attribute(VERDICT_HDR, struct.pack("!II", NF_ACCEPT, packet)))
