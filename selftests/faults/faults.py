# SPDX-License-Identifier: GPL-2.0
"""The n-th allocation of a system call fails, for every n until there is none left to fail.

It is this thread's allocations that count, those of interrupts do not: what sends a packet to
itself is in softirq, but a packet that is written to a tun device is received by the writer.
"""

import contextlib
import errno
import gc
import itertools
import os
import struct
import time

from nfnl import NLMSG_ERROR, Nft

FAILSLAB, FAIL_PAGE_ALLOC = "/sys/kernel/debug/failslab", "/sys/kernel/debug/fail_page_alloc"


class Faults:
    """What makes allocations of this thread fail."""

    def __init__(self):
        self.file = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
        # Those that may sleep as well; and not a word about each of them.
        for name, value in ("ignore-gfp-wait", "N"), ("cache-filter", "N"), ("verbose", "0"):
            with open(f"{FAILSLAB}/{name}", "w") as file:
                file.write(value)
        with open(f"{FAIL_PAGE_ALLOC}/verbose", "w") as file:
            file.write("0")
        gc.disable()

    @contextlib.contextmanager
    def only(self, function, depth):
        """Only allocations count within that this function of the kernel's makes itself: it must
        be among so many that are on the stack."""
        self.filter("require", *addresses(function), depth)
        try:
            yield
        finally:
            self.filter("require", 0, 2 ** 64 - 1)

    def reject(self, function):
        """From now on no allocations count that this function of the kernel's needs."""
        self.filter("reject", *addresses(function))

    def filter(self, what, start, end, depth=32):
        for path in FAILSLAB, FAIL_PAGE_ALLOC:
            for name, value in ((f"{what}-start", hex(start)), (f"{what}-end", hex(end)),
                                ("stacktrace-depth", str(depth))):
                with open(f"{path}/{name}", "w") as file:
                    file.write(value)

    def nth(self, n, function, *args):
        """Call with the n-th allocation failing. Its result, or the OSError that it raised; and
        whether there was an n-th one."""
        os.pwrite(self.file, b"%d" % n, 0)
        try:
            result = function(*args)
        except OSError as exc:
            result = exc
        left = int(os.pread(self.file, 32, 0))
        os.pwrite(self.file, b"0", 0)
        return result, not left

    def each(self, function, *args):
        """(n, result) for each n, until none is left."""
        for n in itertools.count(1):
            result, failed = self.nth(n, function, *args)
            if not failed:
                return
            yield n, result

    def count(self, function, *args):
        """How many allocations it makes when none fails."""
        os.pwrite(self.file, b"1000000", 0)
        function(*args)
        left = int(os.pread(self.file, 32, 0))
        os.pwrite(self.file, b"0", 0)
        return 1000000 - left


def addresses(function):
    """Where this function of the kernel's begins, and where the next one does."""
    with open("/proc/kallsyms") as file:
        symbols = [line.split() for line in file]
    start = next(int(at, 16) for at, _, name, *rest in symbols if name == function and not rest)
    return start, min(int(at, 16) for at, *_ in symbols if int(at, 16) > start)


def name(result):
    """The name of an error that a call returned or raised; "ok" for none."""
    if isinstance(result, OSError):
        result = result.errno
    return errno.errorcode.get(result, str(result)) if result else "ok"


class Tally:
    """How often what came out."""

    def __init__(self):
        self.number = {}

    def add(self, what):
        self.number[what] = self.number.get(what, 0) + 1

    def __str__(self):
        return ", ".join(f"{what} {number}" for what, number in sorted(self.number.items())) or "none"

    def others(self, *allowed):
        """What is not among those that may come out."""
        return sorted(set(self.number) - set(allowed))


def transaction(faults, n, messages):
    """Send these to nf_tables with the n-th allocation failing; the first error that came of it or
    "ok", and whether there was an n-th one."""
    nft = Nft()
    data, index = nft.encode(messages)
    result, failed = faults.nth(n, nft.sock.send, data)
    codes = [result] if isinstance(result, OSError) else []
    # The answers are there when the call returns, but after an error not to each message.
    nft.sock.settimeout(0.1)
    answers = 0
    try:
        while answers < len(index) and not any(codes):
            for kind, _, payload in nft.receive():
                if kind == NLMSG_ERROR:
                    codes.append(-struct.unpack_from("=i", payload)[0])
                    answers += 1
    except OSError as exc:
        codes.append(exc)
    nft.sock.close()
    return next((name(code) for code in codes if code), "ok"), failed


class Module:
    """A module that is loaded, by name."""

    def __init__(self, module):
        self.module = module

    def references(self):
        with open(f"/sys/module/{self.module}/refcnt") as file:
            return int(file.read())

    def settles(self, number):
        """Whether it has that many references; what a transaction held is given back a little
        later."""
        end = time.monotonic() + 10
        while self.references() != number:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True


def transactions(faults, what, module, adds, removes, probe, held, quiet=lambda: True):
    """The cases of a transaction: the messages adds and removes; probe is a message that is
    accepted where it went through, and held how many references it takes. What quiet() says must
    be true where it did not."""
    tally, wrong, before = Tally(), [], module.references()
    for n in range(1, 10000):
        result, failed = transaction(faults, n, adds)
        # Where the answer could not be allocated it may be either.
        there = Nft().batch(probe)[0] == "ok"
        if there != (result == "ok") and result != "ENOBUFS":
            wrong.append((n, result, there))
        if there:
            if not module.settles(before + held):
                wrong.append((n, result, "holds", module.references()))
            Nft().batch(*removes)
        if not module.settles(before):
            wrong.append((n, result, "left", module.references()))
        if not there and not quiet():
            wrong.append((n, result, "hooks"))
        if not failed:
            break
        tally.add(result)
    print(f"{what}: {n - 1} allocations: {tally}")
    print(f"{n > 10}|True|{what}: there were allocations to fail")
    print(f"{result}|ok|{what}: without a failure")
    print(f"{tally.others('ENOMEM', 'ENOBUFS', 'ok')}|[]|"
          f"{what}: the error is that there is no memory")
    print(f"{wrong}|[]|{what}: all or nothing")
