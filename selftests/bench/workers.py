# SPDX-License-Identifier: GPL-2.0
"""Processes that inject packets at the same time, one a CPU, each with all that it needs for itself:
device, frame, BPF program, page pool. What they still share is the kernel's. CPU 0 is left to the
rest of the machine."""

import os
import struct
import traceback

import inject

# So many are handed over together. Where it is dozens, skbs end up on another CPU by way of the slab
# allocator; where it is fewer, the kernel's lists of them are so short that CPUs' lie in one line.
TOGETHER = 8
NUMBER = struct.Struct("=q")
DONE, FAILED = 0, 1


class Workers:
    """One for each (frame, ifindex), on CPU 1, 2, ... They do what run() says, then wait, each at a
    pipe of its own: no timer of theirs is in a window, which other CPUs would have a part in."""

    def __init__(self, jobs, restore=False):
        self.jobs, self.restore = jobs, restore
        self.workers = [self._fork(number) for number in range(len(jobs))]
        self._wait()

    def _fork(self, number):
        orders, answers = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                self._work(number, orders[0], answers[1])
                status = 0
            except BaseException:
                traceback.print_exc()
                os.write(answers[1], NUMBER.pack(FAILED))
            finally:
                os._exit(status)
        os.close(orders[0])
        os.close(answers[1])
        return pid, orders[1], answers[0]

    def _work(self, number, orders, answers):
        os.sched_setaffinity(0, {1 + number})
        frame, ifindex = self.jobs[number]
        frames = inject.LiveFrames(self.restore)
        while True:
            os.write(answers, NUMBER.pack(DONE))
            batches, = NUMBER.unpack(os.read(orders, NUMBER.size))
            if not batches:
                return
            frames.run(frame, ifindex, batches, TOGETHER)

    def _wait(self):
        """Until all are done."""
        for _, _, answers in self.workers:
            answer, = NUMBER.unpack(os.read(answers, NUMBER.size))
            if answer != DONE:
                raise SystemExit("a process that injects packets failed")

    def _order(self, batches):
        for _, orders, _ in self.workers:
            os.write(orders, NUMBER.pack(batches))

    def run(self, batches):
        """Each injects so many batches of inject.LiveFrames.BATCH packets."""
        self._order(batches)
        self._wait()

    def close(self):
        self._order(0)
        for pid, orders, answers in self.workers:
            os.waitpid(pid, 0)
            os.close(orders)
            os.close(answers)
