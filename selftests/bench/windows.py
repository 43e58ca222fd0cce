# SPDX-License-Identifier: GPL-2.0
"""The guest's side of plugin/: windows in which writes are counted.

The plugin is told where a window begins and ends by two instructions that do nothing, and has
written its file (window.N in the directory that is /share here) before the second one is over.
"""

import ctypes
import json
import mmap
import os
import subprocess

import lines
from inject import LiveFrames
from memory import Slabs

OPEN, CLOSE, WATCH = 1, 2, 3


def _marks():
    """{OPEN: function, CLOSE: function}: nopl 0x5a666eNN(%rax); ret
    and WATCH, a function of an address and a buffer for it:
    sub $0x5a666e03, %rsi; mov %rdi, 0x5a666e03(%rsi); ret"""
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                     mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    for number in (OPEN, CLOSE):
        page.seek(16 * number)
        page.write(b"\x0f\x1f\x80" + bytes((number,)) + b"nfZ\xc3")
    page.seek(16 * WATCH)
    page.write(b"\x48\x81\xee\x03nfZ\x48\x89\xbe\x03nfZ\xc3")
    base = ctypes.addressof(ctypes.c_char.from_buffer(page))
    marks = {number: ctypes.CFUNCTYPE(None)(base + 16 * number) for number in (OPEN, CLOSE)}
    watch = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)(base + 16 * WATCH)
    return page, {**marks, WATCH: watch}


class Windows:
    """The plugin numbers windows from 0 in each boot; `first` is the one that comes next."""

    WARM, BATCHES = 4, 16

    def __init__(self, share, say, first):
        self.share, self.say, self.next = share, say, first
        self.list, self.locks = [], []
        self._page, self._mark = _marks()
        self._slabs = None
        # Where it goes, its own memory goes: it must not be what the CPUs share.
        os.sched_setaffinity(0, {0})

    def _find(self, address):
        if self._slabs is None:
            with open(f"{self.share}/layout.json") as file:
                layout = json.load(file)
            grep = ("grep", "-E", " (page_offset_base|vmemmap_base)$", "/proc/kallsyms")
            listed = subprocess.run(grep, check=True, stdout=subprocess.PIPE, text=True).stdout
            symbols = {line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines()}
            self._slabs = Slabs(layout, symbols)
        return self._slabs.find(address)

    def _open(self, workers, batches):
        """A window: its number, and what the plugin has found."""
        self._mark[OPEN]()
        workers.run(batches)
        self._mark[CLOSE]()
        number, self.next = self.next, self.next + 1
        return number, lines.read(f"{self.share}/window.{number}")

    def _window(self, workers, batches):
        """(its number, writes to hot lines)"""
        number, found = self._open(workers, batches)
        return number, lines.hot(found.writes, batches * LiveFrames.BATCH)

    def take(self, workers, path, traffic, ip, key, impl, batches=BATCHES):
        """All workers do the same, in a window. impl is c, rust, or base where only the path is
        missing. Of two windows the one with fewer contended writes counts: what is in one of them
        alone is not the packets'. What the memory is that they shared is found out at once, while
        it is there."""
        workers.run(self.WARM)
        number, writes = min((self._window(workers, batches) for _ in range(2)),
                             key=self._total)
        objects = {}
        for write in writes:
            slab = self._find(write.address)
            if slab:
                objects[f"{write.address:x}"] = slab
        cpus = len(workers.jobs)
        packets = cpus * batches * LiveFrames.BATCH
        self.list.append({"window": number, "path": path, "traffic": traffic, "ip": ip, "key": key,
                          "impl": impl, "cpus": cpus, "packets": packets, "objects": objects})
        self.say(f"{traffic}, IPv{ip}, {key}, {cpus} CPUs, {impl}: "
                 f"{self._total((number, writes)) / packets:.2f} contended writes a packet")

    def lock(self, address, workers, path, traffic, ip, key, impl):
        """How long the spinlock at this address is held, when one CPU does the work alone. Of two
        windows the one counts in which it is held for less: the other one has an interrupt."""
        workers.run(self.WARM)
        buffer = ctypes.create_string_buffer(8)
        self._mark[WATCH](address, ctypes.addressof(buffer))
        number, found = min((self._open(workers, self.BATCHES) for _ in range(2)),
                            key=lambda window: self._held(window[1]))
        self._mark[WATCH](0, ctypes.addressof(buffer))
        packets = self.BATCHES * LiveFrames.BATCH
        times = sum(sum(hold.counts) for hold in found.holds) / packets
        held = self._held(found) / packets
        if not times:
            raise SystemExit(f"{traffic}, {key}, {impl}: the lock was not seen to be taken")
        self.locks.append({"window": number, "path": path, "traffic": traffic, "ip": ip, "key": key,
                           "impl": impl, "packets": packets, "acquisitions": round(times, 4),
                           "instructions": round(held, 2)})
        self.say(f"{traffic}, IPv{ip}, {key}, {impl}: {times:.4f} times locked, for {held:.1f} "
                 "instructions a packet")

    @staticmethod
    def _held(found):
        return sum(hold.instructions * sum(hold.counts) for hold in found.holds)

    @staticmethod
    def _total(window):
        return sum(sum(write.counts) for write in window[1])

    def symbols(self):
        """The symbols of all windows since the last time: before a module goes away."""
        name = f"kallsyms.{self.next}"
        with open(f"{self.share}/{name}", "wb") as file:
            subprocess.run(("cat", "/proc/kallsyms"), check=True, stdout=file)
        for window in (*self.list, *self.locks):
            window.setdefault("kallsyms", name)
