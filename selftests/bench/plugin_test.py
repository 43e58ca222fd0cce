#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""plugin_test.py PROGRAM SHARE: does plugin/ count right? In a guest with it, on all its CPUs.

PROGRAM (plugin/writes.c) writes to memory a known number of times and says how often. Prints what
differs, and "N passed, N failed, 0 skipped" as the last line.
"""

import os
import subprocess
import sys

LINE = 64


def counted(path):
    """{address of a line in user space: counts by vCPU}. A line that is mapped twice is one; the
    plugin names it by the address that the first vCPU used."""
    physical, address = {}, {}
    with open(path) as file:
        for text in file:
            kind, *words = text.split()
            if kind != "write" or int(words[1], 16) >> 63:
                continue
            line = int(words[0], 16) // LINE
            address.setdefault(line, int(words[1], 16) // LINE * LINE)
            counts = [int(word) for word in words[3:]]
            physical[line] = [a + b for a, b in zip(physical.get(line, [0] * len(counts)), counts)]
    return {address[line]: counts for line, counts in physical.items()}


def holds(path):
    """{instructions: how often the lock was held for so many}, by all"""
    with open(path) as file:
        words = [line.split() for line in file if line.startswith("hold ")]
    return {int(length): sum(map(int, counts)) for _, length, *counts in words}


# So many holds may have an interrupt in them, and be longer.
INTERRUPTED = 5


def is_right(expected, found):
    return 0 <= expected - found <= INTERRUPTED


def main():
    program, share = sys.argv[1:]
    passed = failed = 0
    for number, threads in enumerate((1, 2, os.cpu_count())):
        said = subprocess.run((program, str(threads)), check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        lines = counted(f"{share}/window.{number}")
        held, total = holds(f"{share}/window.{number}"), 0
        for line in said.splitlines():
            name, address, *expected = line.split()
            if name == "hold":
                total += int(expected[0])
                right = is_right(int(expected[0]), held.get(int(address), 0))
                passed, failed = passed + right, failed + (not right)
                if not right:
                    print(f"FAILED  {threads} threads, held for {address}: {held}, "
                          f"expected {expected[0]}")
                continue
            expected = [int(count) for count in expected] if threads > 1 else []
            found = lines.get(int(address, 16), [])
            # vCPUs beyond the threads' have not written there.
            if found[:len(expected)] == expected and not any(found[len(expected):]):
                passed += 1
            else:
                failed += 1
                print(f"FAILED  {threads} threads, {name}: {found}, expected {expected}")
        if sum(held.values()) != total:
            failed += 1
            print(f"FAILED  {threads} threads: held {sum(held.values())} times, not {total}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


main()
