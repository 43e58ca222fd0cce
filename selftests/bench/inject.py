# SPDX-License-Identifier: GPL-2.0
"""Packets into the receive path, and what each of them cost.

The machine runs with -icount: its clock counts instructions, one a nanosecond. So a packet's
cost is the time it took, and what remains to be done is to inject any packet, always in the same
way, and to read the clock at the same point of that way.
"""

import ctypes
import os
import re
import statistics
import struct

MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, PROG_LOAD, PROG_TEST_RUN = 0, 1, 2, 5, 10
MAP_TYPE_ARRAY, PROG_TYPE_XDP, TEST_XDP_LIVE_FRAMES = 2, 6, 2
PSEUDO_MAP_VALUE, XDP_PASS, KTIME_GET_NS, XDP_STORE_BYTES = 2, 2, 5, 190
SYS_BPF = 321  # x86-64

_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command, attr):
    buf = ctypes.create_string_buffer(attr, len(attr))
    result = _libc.syscall(SYS_BPF, command, buf, len(attr))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"bpf command {command}: {os.strerror(code)}")
    return result


def _address(buf):
    return ctypes.addressof(buf)


def _insn(op, dst=0, src=0, off=0, imm=0):
    return struct.pack("=BBhi", op, src << 4 | dst, off, imm)


class LiveFrames:
    """Injects copies of one frame by BPF_PROG_TEST_RUN with BPF_F_TEST_XDP_LIVE_FRAMES.

    The kernel runs an XDP program for each frame of a batch, then hands the batch to
    netif_receive_skb_list(), as a driver does. The program writes down when every 64th packet
    comes. From one to the next is the time of 64 packets, without what happens before and after.
    The median of those has no timer interrupt and no other process in it.

    The kernel uses the same page again for a later packet, with what has become of the one before.
    Where packets are changed on their way, their headers have to be restored: by that program.
    """

    BATCH = 64
    MAX_BATCHES = 256
    HEADERS = 96
    AT_HEADERS = 8 + 8 * MAX_BATCHES

    def __init__(self, restore=False):
        self.restore = restore
        value = self.AT_HEADERS + self.HEADERS
        self.map = _bpf(MAP_CREATE, struct.pack("=5I", MAP_TYPE_ARRAY, 4, value, 1, 0))
        self.value = ctypes.create_string_buffer(value)
        self.prog = self._load()

    def _map_value(self, reg, at=0):
        return _insn(0x18, reg, PSEUDO_MAP_VALUE, imm=self.map) + _insn(0, imm=at)

    def _load(self):
        restore = (
            _insn(0xB7, 2),                             # from r2 = 0
            self._map_value(3, self.AT_HEADERS),
            _insn(0xB7, 4, imm=self.HEADERS),
            _insn(0x85, imm=XDP_STORE_BYTES),           # of the packet, which is r1
        ) if self.restore else ()
        code = b"".join((
            *restore,
            self._map_value(1),
            _insn(0x79, 2, 1),                          # r2 = [r1]: packets so far
            _insn(0xBF, 3, 2),
            _insn(0x07, 3, imm=1),
            _insn(0x7B, 1, 3),                          # [r1] = r2 + 1
            _insn(0xBF, 4, 2),
            _insn(0x57, 4, imm=self.BATCH - 1),
            _insn(0x55, 4, off=9),                      # not the first of a batch: pass
            _insn(0xBF, 6, 2),
            _insn(0x77, 6, imm=self.BATCH.bit_length() - 1),
            _insn(0x57, 6, imm=self.MAX_BATCHES - 1),
            _insn(0x67, 6, imm=3),
            _insn(0x85, imm=KTIME_GET_NS),
            self._map_value(1),
            _insn(0x0F, 1, 6),
            _insn(0x7B, 1, 0, 8),                       # [r1 + 8 + 8 * batch] = now
            _insn(0xB7, 0, imm=XDP_PASS),
            _insn(0x95),
        ))
        insns, license_ = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
        return _bpf(PROG_LOAD, struct.pack("=IIQQ", PROG_TYPE_XDP, len(code) // 8,
                                           _address(insns), _address(license_)))

    def _element(self, command):
        key = ctypes.create_string_buffer(4)
        _bpf(command, struct.pack("=IIQQQ", self.map, 0, _address(key), _address(self.value), 0))

    def run(self, frame, ifindex, batches, together=BATCH):
        """Receive batches of the frame on the device; nothing is measured. So many are handed
        over together; what that changes is that only the first of them is routed."""
        data = ctypes.create_string_buffer(frame, len(frame))
        context = struct.pack("=6I", 0, len(frame), 0, ifindex, 0, 0)
        ctx = ctypes.create_string_buffer(context, len(context))
        ctypes.memset(self.value, 0, len(self.value))
        self.value[self.AT_HEADERS:] = frame[:self.HEADERS].ljust(self.HEADERS, b"\0")
        self._element(MAP_UPDATE)
        _bpf(PROG_TEST_RUN, struct.pack(
            "=IIIIQQIIIIQQIII", self.prog, 0, len(frame), 0, _address(data), 0,
            batches * self.BATCH, 0, len(context), 0, _address(ctx), 0, TEST_XDP_LIVE_FRAMES, 0,
            together))

    def cost(self, frame, ifindex, batches, together=BATCH, warmup=8):
        """Instructions a packet, of the median batch."""
        assert warmup + batches < self.MAX_BATCHES
        self.run(frame, ifindex, warmup + batches + 1, together)
        self._element(MAP_LOOKUP)
        packets, *began = struct.unpack_from(f"={warmup + batches + 2}Q", self.value)
        assert packets == (warmup + batches + 1) * self.BATCH
        began = began[warmup:]
        return statistics.median(b - a for a, b in zip(began, began[1:])) / self.BATCH


class Pktgen:
    """Injects UDP packets by the kernel's pktgen with xmit_mode netif_receive.

    Its figure is the mean over all packets, timer interrupts included. Needs modprobe pktgen.
    """

    def __init__(self, dev):
        self.dev = dev
        self._write("kpktgend_0", "rem_device_all")
        self._write("kpktgend_0", f"add_device {dev}")

    @staticmethod
    def _write(name, *commands):
        for command in commands:
            with open(f"/proc/net/pktgen/{name}", "w") as file:
                file.write(command + "\n")

    def configure(self, dst_mac, src, dst, sport, dport, size=60):
        six = "6" if ":" in dst else ""
        source = (f"src6 {src}",) if six else (f"src_min {src}", f"src_max {src}")
        self._write(self.dev, "xmit_mode netif_receive", "clone_skb 0", "burst 8", "delay 0",
                    f"pkt_size {size}", f"dst_mac {dst_mac}", f"dst{six} {dst}", *source,
                    f"udp_src_min {sport}", f"udp_src_max {sport}",
                    f"udp_dst_min {dport}", f"udp_dst_max {dport}")

    def cost(self, count):
        """Instructions a packet."""
        self._write(self.dev, f"count {count}")
        self._write("pgctrl", "start")
        with open(f"/proc/net/pktgen/{self.dev}") as file:
            text = file.read()
        sent, = re.findall(r"pkts-sofar: (\d+)", text)
        took, = re.findall(r"Result: OK: (\d+)\(", text)
        assert int(sent) >= count, text
        return int(took) * 1000 / int(sent)

    def close(self):
        self._write("kpktgend_0", "rem_device_all")
