# SPDX-License-Identifier: Apache-2.0
"""What the cores of a host do while something runs, and how long a rank waits for one: the kernel's own accounts."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from lanecast.buffers import Array
from lanecast.communicator import Communicator

_IDLE, _IOWAIT, _SOFTIRQ, _COUNTED = 3, 4, 6, 8  # columns of /proc/stat; what guests take is in them already


def parse_stat(text: str) -> tuple[float, float, float]:
    """Ticks of all cores in /proc/stat: busy, of these in the kernel's softirqs (which move packets), and in all."""
    ticks = [int(number) for number in text.split("\n", 1)[0].split()[1 : 1 + _COUNTED]]
    total = sum(ticks)
    return total - ticks[_IDLE] - ticks[_IOWAIT], ticks[_SOFTIRQ], total


def parse_schedstat(text: str) -> tuple[float, float]:
    """Nanoseconds in /proc/PID/schedstat: on a core, and ready but waiting for one."""
    running, waiting = text.split()[:2]
    return int(running), int(waiting)


class Meter:
    """The accounts while something runs, added up over its runs.

    Of ranks that poll, busy says little: how long they wait for a core tells whether cores are short.
    """

    def __init__(self) -> None:
        self.sums = np.zeros(6)  # busy, softirq and all ticks; this rank's running and waiting, and the time itself

    def _now(self) -> Array:
        stat = parse_stat(Path("/proc/stat").read_text())
        rank = parse_schedstat(Path("/proc/thread-self/schedstat").read_text())
        return np.array([*stat, *rank, time.perf_counter_ns()])

    def __enter__(self) -> None:
        self.sums -= self._now()

    def __exit__(self, *_: object) -> None:
        self.sums += self._now()

    def shares(self, comm: Communicator) -> dict[str, float]:
        """Shares of the time, mean over the ranks; collective."""
        busy, softirq, ticks, running, waiting, passed = self.sums.tolist()
        ticks = max(ticks, 1)  # of 10 ms
        mine = np.array([busy / ticks, softirq / ticks, running / passed, waiting / passed])
        comm.all_reduce(mine, "avg")
        return dict(zip(("busy", "softirq", "rank_running", "rank_waiting"), mine.tolist(), strict=True))
