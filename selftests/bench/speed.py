# SPDX-License-Identifier: GPL-2.0
"""Packets a second, for CPUs that are real: the same work as in windows.py, by the clock."""

import statistics
import time

from inject import LiveFrames


class Speed:
    WARM, BATCHES, ROUNDS = 100, 2000, 5

    def __init__(self, say):
        self.say, self.list, self.locks = say, [], []

    def take(self, workers, path, traffic, ip, key, impl, batches=None):
        workers.run(self.WARM)
        rates, cpus = [], len(workers.jobs)
        for _ in range(self.ROUNDS):
            begin = time.monotonic()
            workers.run(self.BATCHES)
            took = time.monotonic() - begin
            rates.append(round(cpus * self.BATCHES * LiveFrames.BATCH / took))
        self.list.append({"path": path, "traffic": traffic, "ip": ip, "key": key, "impl": impl,
                          "cpus": cpus, "rate": statistics.median(rates), "rounds": rates})
        self.say(f"{traffic}, IPv{ip}, {key}, {cpus} CPUs, {impl}: {self.list[-1]['rate']:,.0f} "
                 "packets a second")

    def lock(self, *what):
        """Not measured here."""

    def symbols(self):
        """Not needed here."""
