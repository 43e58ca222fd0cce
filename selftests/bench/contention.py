# SPDX-License-Identifier: GPL-2.0
"""What plugin/ counted, by what it is: the report's part of the windows.

Puts together what the plugin knows (addresses), what the guest knew at the time (slab objects, the
kernel's symbols) and what the kernel's BTF says (members of structures).
"""

import bisect
import re
import subprocess

import lines
from btf import Btf

# What the guest needs to know of the kernel's structures (memory.py).
LAYOUT = ("page.compound_info", "slab.slab_cache", "slab.__page_type", "kmem_cache.name",
          "kmem_cache.size")
# What slab caches hold, where the name is another.
STRUCTS = {"UDP": "udp_sock", "UDPv6": "udp6_sock", "TCP": "tcp_sock", "TCPv6": "tcp6_sock",
           "request_sock_TCP": "tcp_request_sock", "tw_sock_TCP": "tcp_timewait_sock",
           "ip_dst_cache": "rtable", "rtable": "rtable", "ip6_dst_cache": "rt6_info",
           "nf_conntrack": "nf_conn", "skbuff_head_cache": "sk_buff", "xfrm_dst": "xfrm_dst"}
# Components of a member's name that say nothing.
EMPTY = {"counter", "refs", "refcnt", "__sk_common", "sk", "inet", "dst", "rlock", "raw_lock", "val",
         "ct_general"}
# What people call it.
NAMES = {"skc_refcnt": "reference count", "__rcuref": "reference count", "use": "reference count"}
KERNEL = 1 << 63
TEXT, DATA = frozenset("tTwW"), frozenset("dDbBrRvV")
# A function's part of a packet that is worth a line, in instructions.
WORTH = 0.5


def layout(btf_path):
    with open(btf_path, "rb") as file:
        btf = Btf(file.read())
    return {name: btf.offset(*name.split(".")) for name in LAYOUT}


class Symbols:
    """/proc/kallsyms as it was in the guest."""

    def __init__(self, path):
        self.text, self.data = [], []
        with open(path) as file:
            for line in file:
                address, kind, name, *_ = line.split()
                address = int(address, 16)
                if kind in TEXT:
                    self.text.append((address, name))
                elif kind in DATA and address & KERNEL:
                    self.data.append((address, name))
        self.text.sort()
        self.data.sort()
        self._demangle()

    def _demangle(self):
        """Rust's names as people write them: crate::module::function, without types and hashes."""
        mangled = [name for _, name in self.text + self.data if name.startswith("_R")]
        plain = subprocess.run(("c++filt",), input="\n".join(mangled), check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split("\n")
        plain = dict(zip(mangled, (re.sub(r"\[[0-9a-f]+\]|::<.*", "", name) for name in plain)))
        for table in (self.text, self.data):
            table[:] = [(address, plain.get(name, name)) for address, name in table]

    @staticmethod
    def _at(table, address):
        index = bisect.bisect_right(table, (address, "\x7f")) - 1
        return table[index] if index >= 0 else None

    def function(self, pc):
        found = self._at(self.text, pc)
        return found[1] if found else hex(pc)

    def variable(self, address):
        """A static one, with the offset in it; None where there is none."""
        found = self._at(self.data, address)
        if found is None or address - found[0] > 1 << 20 or address > self.data[-1][0]:
            return None
        offset = address - found[0]
        return found[1] + (f"+{offset}" if offset else "")


class Attribution:
    def __init__(self, share):
        self.share, self.symbols = share, {}
        with open(f"{share}/vmlinux.btf", "rb") as file:
            self.btf = Btf(file.read())

    def _symbols(self, name):
        if name not in self.symbols:
            self.symbols[name] = Symbols(f"{self.share}/{name}")
        return self.symbols[name]

    def _object(self, address, slab, symbols, function):
        if slab:
            cache, begin = slab
            struct = STRUCTS.get(cache, cache)
            if struct in self.btf.structs:
                path = self.btf.member(struct, address - begin).split(".")
                parts = [part for part in path if part and part not in EMPTY]
                if path[0] == "refcnt":
                    parts = ["__rcuref"]
                # The last one alone, where that is something people know.
                name = NAMES.get(parts[-1], ".".join(parts[-2:])) if parts else "?"
                return f"{struct}: {name}"
            return f"{cache} object, by {function}"
        return symbols.variable(address) or f"memory, by {function}"

    def window(self, window):
        """(contended writes a packet, by object; instructions a packet, by function)"""
        symbols = self._symbols(window["kallsyms"])
        found = lines.read(f"{self.share}/window.{window['window']}")
        packets, cpus = window["packets"], window["cpus"]
        objects = {}
        for write in lines.hot(found.writes, packets // cpus):
            function = symbols.function(write.pc)
            name = self._object(write.address, window["objects"].get(f"{write.address:x}"), symbols,
                                function)
            one = objects.setdefault(name, {"object": name, "writes": 0, "functions": {}})
            count = sum(write.counts)
            one["writes"] += count
            one["functions"][function] = one["functions"].get(function, 0) + count
        for one in objects.values():
            one["writes"] = round(one["writes"] / packets, 3)
            one["functions"] = sorted(one["functions"], key=one["functions"].get, reverse=True)[:4]
        return (sorted(objects.values(), key=lambda one: -one["writes"]),
                self._functions(symbols, found.blocks, packets))

    @staticmethod
    def _functions(symbols, blocks, packets):
        """Instructions a packet, by function"""
        functions = {}
        for block in blocks:
            if block.pc & KERNEL:
                name = symbols.function(block.pc)
                count = sum(block.counts[lines.HARNESS + 1:])
                functions[name] = functions.get(name, 0) + block.instructions * count
        return {name: round(count / packets, 1) for name, count in functions.items()
                if count >= WORTH * packets}

    def locks(self, windows):
        """One for each path and traffic, with C and Rust"""
        rows = {}
        for window in windows:
            name = tuple(window[part] for part in ("path", "traffic", "ip", "key"))
            row = rows.setdefault(name, {
                **dict(zip(("path", "traffic", "ip", "key"), name)),
                "packets": window["packets"], "functions": {}})
            row[window["impl"]] = {part: window[part] for part in ("acquisitions", "instructions")}
            found = lines.read(f"{self.share}/window.{window['window']}")
            row["functions"][window["impl"]] = self._functions(
                self._symbols(window["kallsyms"]), found.locked, window["packets"])
        return list(rows.values())

    def rows(self, windows):
        """One for each path, traffic and number of CPUs, with base, C and Rust."""
        rows = {}
        for window in windows:
            name = tuple(window[part] for part in ("path", "traffic", "ip", "key", "cpus"))
            row = rows.setdefault(name, {
                **dict(zip(("path", "traffic", "ip", "key", "cpus"), name)),
                "packets": window["packets"], "writes": {}, "objects": {}, "functions": {}})
            impl = window["impl"]
            row["objects"][impl], functions = self.window(window)
            row["writes"][impl] = round(sum(o["writes"] for o in row["objects"][impl]), 3)
            # The instructions do not depend on the number of CPUs: once is enough.
            if window["cpus"] == min(w["cpus"] for w in windows):
                row["functions"][impl] = functions
        return list(rows.values())
