# SPDX-License-Identifier: Apache-2.0
"""One rank's long life: calls of all kinds over several communicators that come and go, and what they leave behind."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lanecast import Communicator, _core

DTYPES = ("float64", "float32", "int32", "int64", "uint16", "float16")
ALGORITHMS = ("", "", "ring", "bruck", "direct", "one_shot", "hierarchical(ring,direct)")
READINGS = 20
CALLS_PER_SPLIT = 1000
MOST_STARTED = 16
LARGE_EVERY = 400  # calls; the others take microseconds


def reading(calls: int, begin_s: float) -> dict[str, float]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "calls": calls,
        "seconds": round(time.monotonic() - begin_s, 1),
        "rss_mib": pages * resource.getpagesize() / 2**20,
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


class Started:
    """A call with what it should leave in its buffer: everywhere the same value."""

    def __init__(self, comm: Communicator, random: np.random.Generator, call: int) -> None:
        kind = int(random.integers(3))
        count = int(2 ** random.uniform(0, 18 if call % LARGE_EVERY == 0 else 11))
        dtype = DTYPES[random.integers(len(DTYPES))]
        name = ALGORITHMS[random.integers(len(ALGORITHMS))]
        takes = _core.algorithms_for(_core.KINDS[kind], comm.topology)
        options: dict[str, Any] = {
            "algorithm": name if name in takes else "",
            "chunks": int(random.integers(4)),
            "async_op": bool(random.random() < 0.3),
        }
        size = comm.size
        if kind == 0:
            self.due = call % 100
            self.result = np.zeros(count * size, dtype)
            self.work = comm.all_gather_into_tensor(self.result, np.full(count, self.due, dtype), **options)
        elif kind == 1:
            self.due = sum(range(1, size + 1))
            self.result = np.zeros(count, dtype)
            self.work = comm.reduce_scatter_tensor(
                self.result, np.full(count * size, comm.rank + 1, dtype), "sum", **options
            )
        else:
            self.due = size
            self.result = np.full(count, comm.rank + 1, dtype)
            self.work = comm.all_reduce(self.result, "max", **options)

    def finish(self) -> None:
        if self.work is not None:
            self.work.wait()
        assert (self.result == self.due).all(), f"{self.result[:4]} … instead of {self.due}"


def soak(comm: Communicator, calls: int, tell: Callable[[dict[str, float]], None]) -> None:
    """Make `calls` calls, the same on every rank; tell what memory and files the process has, READINGS times."""
    random = np.random.default_rng(7)
    begin_s = time.monotonic()
    communicators: list[Communicator] = []
    under_way: list[Started] = []
    for call in range(calls):
        if call % CALLS_PER_SPLIT == 0:
            while under_way:
                under_way.pop().finish()
            reverse, half = comm.split(0, -comm.rank), comm.split(comm.rank % 2)
            assert reverse is not None
            assert half is not None
            communicators = [comm, reverse, half]
        started = Started(communicators[random.integers(3)], random, call)
        if started.work is None:
            started.finish()
        else:
            under_way.append(started)
        if len(under_way) > MOST_STARTED:
            under_way.pop(call * 7 % len(under_way)).finish()
        if (call + 1) % (calls // READINGS) == 0:
            tell(reading(call + 1, begin_s))
    while under_way:
        under_way.pop().finish()
