#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py instructions|contention|speed MODE DIR [PATH...]: the part of the benchmark that runs in the guest.

instructions: in a guest whose clock counts instructions, what each path costs. Writes
DIR/instructions.json, and DIR/vmlinux.btf, which says what the kernel's structures look like.

contention: in a guest with several CPUs and plugin/, what they write that others write, too.
Writes DIR/contention.json, the plugin's DIR/window.N, and DIR/kallsyms.IMPL, and needs
DIR/layout.json and DIR/writes, the program that shows first that the plugin counts right.

speed: in a guest on real CPUs, packets a second of 1, 2, 4, ... of them. Writes DIR/speed.json.

PATH: only these scenarios.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..", tests) for tests in ("socket", "nat", "esp")]
sys.dont_write_bytecode = True

import cost          # noqa: E402
import esp_cost      # noqa: E402
import nat_cost      # noqa: E402
import socket_cost   # noqa: E402
from speed import Speed      # noqa: E402
from windows import Windows  # noqa: E402

SCENARIOS = (socket_cost, nat_cost, esp_cost)
WINDOWS_OF_TEST = 3


def say(text):
    print(f"  {text}", flush=True)


def module_hashes():
    uname = os.uname()
    updates = f"/lib/modules/{uname.release}/updates"
    for name in sorted(os.listdir(updates)):
        with open(f"{updates}/{name}", "rb") as file:
            yield f"{name} {hashlib.sha256(file.read()).hexdigest()[:12]}"


def main():
    what, name, share, *only = sys.argv[1:]
    mode = cost.MODES[name]
    uname = os.uname()
    with open("/proc/cmdline") as file:
        cmdline = file.read().strip()
    found = {"mode": name, "kernel": uname.release, "kernel_version": uname.version,
             "cmdline": cmdline, "cpus": os.cpu_count(),
             "module": ", ".join(module_hashes()), "rounds": mode.rounds,
             "packets": mode.batches * 64, what: []}
    scenarios = [one for one in SCENARIOS if not only or one.PATH in only]
    if what == "instructions":
        for scenario in scenarios:
            found[what] += scenario.instructions(mode, say)
        shutil.copyfile("/sys/kernel/btf/vmlinux", f"{share}/vmlinux.btf")
    else:
        if what == "contention":
            test = f"{HERE}/plugin_test.py"
            said = subprocess.run((sys.executable, "-S", test, f"{share}/writes", share),
                                  stdout=subprocess.PIPE, text=True)
            print(said.stdout, end="", flush=True)
            said.check_returncode()
            found["plugin_test"] = int(said.stdout.splitlines()[-1].split()[0])
            taker = Windows(share, say, WINDOWS_OF_TEST)
        else:
            taker = Speed(say)
            mode.cpus = [cpus for cpus in (1, 2, 4, 8) if cpus < os.cpu_count()]
        for scenario in scenarios:
            scenario.contention(mode, say, taker)
        found[what] = taker.list
        if taker.locks:
            found["locks"] = taker.locks
    with open(f"{share}/{what}.json", "w") as file:
        json.dump(found, file)


main()
