# SPDX-License-Identifier: GPL-2.0
"""What kernel memory is: the slab cache that an address belongs to, and where in the object.

Reads the kernel's own structures by /proc/kcore. `layout` has the offsets of the members that are
used (from BTF: see btf.py), and names are those of the caches.
"""

import struct


class Kcore:
    def __init__(self):
        self.file = open("/proc/kcore", "rb")
        head = self.file.read(64)
        at, = struct.unpack_from("=Q", head, 32)
        size, count = struct.unpack_from("=HH", head, 54)
        self.segments = []
        for number in range(count):
            self.file.seek(at + number * size)
            kind, _, offset, address, _, length, _, _ = struct.unpack("=IIQQQQQQ",
                                                                      self.file.read(56))
            if kind == 1:
                self.segments.append((address, length, offset))

    def read(self, address, size):
        for start, length, offset in self.segments:
            if start <= address and address + size <= start + length:
                self.file.seek(offset + address - start)
                return self.file.read(size)
        raise LookupError(hex(address))

    def number(self, address, size=8):
        return int.from_bytes(self.read(address, size), "little")

    def text(self, address):
        return self.read(address, 64).split(b"\0")[0].decode()


class Slabs:
    PAGE, STRUCT_PAGE, SLAB = 4096, 64, 0xF5

    def __init__(self, layout, symbols):
        """symbols: the addresses of page_offset_base and vmemmap_base"""
        self.layout, self.kcore, self.caches = layout, Kcore(), {}
        self.direct = self.kcore.number(symbols["page_offset_base"])
        self.vmemmap = self.kcore.number(symbols["vmemmap_base"])

    def _head(self, page):
        info = self.kcore.number(page + self.layout["page.compound_info"])
        if not info & 1:
            return page
        # A mask for the address where struct page has a size for that, else the head's address.
        return page & info if info >> 32 == 0xFFFFFFFF else info - 1

    def _cache(self, address):
        if address not in self.caches:
            name = self.kcore.number(address + self.layout["kmem_cache.name"])
            size = self.kcore.number(address + self.layout["kmem_cache.size"], 4)
            self.caches[address] = self.kcore.text(name), size
        return self.caches[address]

    def find(self, address):
        """(cache's name, address of the object), or None where no slab is."""
        try:
            page = self._head(self.vmemmap
                              + (address - self.direct) // self.PAGE * self.STRUCT_PAGE)
            if self.kcore.number(page + self.layout["slab.__page_type"], 4) >> 24 != self.SLAB:
                return None
            cache = self.kcore.number(page + self.layout["slab.slab_cache"])
            name, size = self._cache(cache)
        except LookupError:
            return None
        begin = self.direct + (page - self.vmemmap) // self.STRUCT_PAGE * self.PAGE
        return name, begin + (address - begin) // size * size
