# SPDX-License-Identifier: Apache-2.0
"""One rank's long life: calls of all kinds over several communicators that come and go, and what they leave behind."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lanecast import Communicator, P2POp, PersistentCall, Work, _core

DTYPES = ("float64", "float32", "int32", "int64", "uint16", "float16")
KINDS = (
    *("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "broadcast", "reduce", "gather", "scatter"),
    *("all_to_all_single", "messages", "barrier"),
)
CORE_NAMES = {
    **{"all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter"},
    **{"all_to_all_single": "all_to_all"},
}
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
        kind = KINDS[random.integers(len(KINDS))]
        count = int(2 ** random.uniform(0, 18 if call % LARGE_EVERY == 0 else 11))
        dtype = DTYPES[random.integers(len(DTYPES))]
        root = int(random.integers(comm.size))
        name = ALGORITHMS[random.integers(len(ALGORITHMS))]
        chunks = int(random.integers(4))
        async_op = bool(random.random() < 0.3)
        bound = random.random() < 0.05
        self.works: list[Work | PersistentCall] = []
        if kind == "barrier":
            self.result, self.due = np.zeros(0), 0
            self._keep(comm.barrier(async_op))
        elif kind == "messages":
            self.result, self.due = np.zeros(count, dtype), (comm.rank - 1) % comm.size
            mine = np.full(count, comm.rank, dtype)
            if comm.size > 1:
                ring = [P2POp("isend", mine, (comm.rank + 1) % comm.size), P2POp("irecv", self.result, self.due)]
                self.works = list(comm.batch_isend_irecv(ring)) if async_op else []
                if not async_op:
                    comm.batch_send_recv(ring)
        else:
            arguments = self._arguments(kind, comm, (count, dtype, root, call % 100))
            takes = _core.algorithms_for(CORE_NAMES.get(kind, kind), comm.topology)
            options: dict[str, Any] = {"algorithm": name if name in takes else "", "chunks": chunks}
            if bound:
                persistent = comm.persistent(kind, *arguments, **options)
                persistent.start()
                self.works.append(persistent)
            else:
                self._keep(getattr(comm, kind)(*arguments, async_op=async_op, **options))

    def _arguments(self, kind: str, comm: Communicator, call: tuple[int, str, int, int]) -> tuple[Any, ...]:
        """What the method takes; result and due are set."""
        count, dtype, root, value = call
        size, rank = comm.size, comm.rank
        whole, share = np.zeros(count * size, dtype), np.zeros(count, dtype)
        at_root = rank == root
        if kind == "all_reduce" or kind == "reduce":
            share += rank + 1
            self.result, self.due = share, rank + 1 if kind == "reduce" and not at_root else size
            return (share, "max") if kind == "all_reduce" else (share, root, "max")
        if kind == "broadcast":
            share += value if at_root else 0
            self.result, self.due = share, value
            return share, root
        if kind == "reduce_scatter_tensor":
            whole += rank + 1
            self.result, self.due = share, size * (size + 1) // 2
            return share, whole, "sum"
        if kind == "scatter":
            whole += value
            self.result, self.due = share, value
            return share, whole if at_root else None, root
        if kind == "gather":
            share += value
            self.result, self.due = whole, value if at_root else 0
            return whole if at_root else None, share, root
        self.result, self.due = whole, value
        if kind == "all_to_all_single":
            return whole, np.full(count * size, value, dtype)
        return whole, share + np.array(value, dtype)

    def _keep(self, work: Work | None) -> None:
        if work is not None:
            self.works.append(work)

    def finish(self) -> None:
        for work in self.works:
            work.wait()
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
        if started.works:
            under_way.append(started)
        else:
            started.finish()
        if len(under_way) > MOST_STARTED:
            under_way.pop(call * 7 % len(under_way)).finish()
        if (call + 1) % (calls // READINGS) == 0:
            tell(reading(call + 1, begin_s))
    while under_way:
        under_way.pop().finish()
