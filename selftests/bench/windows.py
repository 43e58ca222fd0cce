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

OPEN, CLOSE = 1, 2


def _marks():
    """{OPEN: function, CLOSE: function}: nopl 0x5a666eNN(%rax); ret"""
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                     mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    for number in (OPEN, CLOSE):
        page.seek(16 * number)
        page.write(b"\x0f\x1f\x80" + bytes((number,)) + b"nfZ\xc3")
    base = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return page, {number: ctypes.CFUNCTYPE(None)(base + 16 * number)
                  for number in (OPEN, CLOSE)}


class Windows:
    """The plugin numbers windows from 0 in each boot; `first` is the one that comes next."""

    WARM, BATCHES = 4, 16

    def __init__(self, share, say, first):
        self.share, self.say, self.next, self.list, self.named = share, say, first, [], 0
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

    def _window(self, workers):
        """(its number, writes to hot lines)"""
        self._mark[OPEN]()
        workers.run(self.BATCHES)
        self._mark[CLOSE]()
        number, self.next = self.next, self.next + 1
        found = lines.read(f"{self.share}/window.{number}")
        return number, lines.hot(found.writes, self.BATCHES * LiveFrames.BATCH)

    def take(self, workers, path, traffic, ip, key, impl):
        """All workers do the same, in a window. impl is c, rust, or base where only the path is
        missing. Of two windows the one with fewer contended writes counts: what is in one of them
        alone is not the packets'. What the memory is that they shared is found out at once, while
        it is there."""
        workers.run(self.WARM)
        number, writes = min((self._window(workers) for _ in range(2)), key=self._total)
        objects = {}
        for write in writes:
            slab = self._find(write.address)
            if slab:
                objects[f"{write.address:x}"] = slab
        cpus = len(workers.jobs)
        packets = cpus * self.BATCHES * LiveFrames.BATCH
        self.list.append({"window": number, "path": path, "traffic": traffic, "ip": ip, "key": key,
                          "impl": impl, "cpus": cpus, "packets": packets, "objects": objects})
        self.say(f"{traffic}, IPv{ip}, {key}, {cpus} CPUs, {impl}: "
                 f"{self._total((number, writes)) / packets:.2f} contended writes a packet")

    @staticmethod
    def _total(window):
        return sum(sum(write.counts) for write in window[1])

    def symbols(self):
        """The symbols of all windows since the last time: before a module goes away."""
        name = f"kallsyms.{self.next}"
        with open(f"{self.share}/{name}", "wb") as file:
            subprocess.run(("cat", "/proc/kallsyms"), check=True, stdout=file)
        for window in self.list[self.named:]:
            window["kallsyms"] = name
        self.named = len(self.list)
