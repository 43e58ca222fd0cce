# SPDX-License-Identifier: GPL-2.0
"""Packets that wait in a queue of their CPU, between the poll of their device and the next one."""

from esp import *

def rust(version):
    """What Rust has counted"""
    with open(f"/sys/kernel/debug/esp{version}_offload_rust/counters") as file:
        return {name: int(value) for name, value in (line.split() for line in file)}


def let_wait(w, x, count, stall):
    """So many packets of a state arrive in one poll, and then wait, so many milliseconds at most"""
    stalled = w.port.counter("stalled")
    w.port.knob("hold", 1000)
    w.port.knob("stall", stall)
    w.send(x.good(*range(1, count + 1)))
    w.port.knob("flush", 1)
    w.port.knob("hold", 0)
    end = time.monotonic() + 2
    while w.port.counter("stalled") == stalled and time.monotonic() < end:
        time.sleep(0.01)


def waits(w, description, x, count, happens=lambda: None, got=(), **expected):
    """A case of so many packets, with what happens while they wait"""
    description = f"{description}, {count} waiting"
    def wait():
        let_wait(w, x, count, stall=10000)
        early = w.received()
        happens()
        early += w.received()
        assert not early, f"{description}: {early} did not wait"
        w.port.knob("flush", 1)

    w.case(description, [wait], got=got, state=x, **expected)
