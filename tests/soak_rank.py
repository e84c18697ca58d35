# SPDX-License-Identifier: Apache-2.0
"""One rank's long life: calls of all kinds over several communicators that come and go, and what they leave behind.

As a program under mpiexec: one rank, which leaves its readings in a file. Arguments: calls, a folder, transports.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lanecast
from lanecast import Communicator, P2POp, PersistentCall, Work, _core
from open_files import open_files
from soak_calls import CALLS, CORE_NAMES, Place

DTYPES = ("float64", "float32", "int32", "int64", "uint16", "float16")
KINDS = (*CALLS, "messages", "barrier")
ALGORITHMS = ("", "", "ring", "bruck", "direct", "one_shot", "hierarchical(ring,direct)")
READINGS = 20
CALLS_PER_SPLIT = 1000
MOST_STARTED = 16
LARGE_EVERY = 400  # calls; the others take microseconds
LARGEST = 2**18  # elements of a part
MALLOPT = {-1: 1 << 20, -3: 1 << 20}  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, in bytes


def reading(calls: int, begin_s: float) -> dict[str, float]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "calls": calls,
        "seconds": round(time.monotonic() - begin_s, 1),
        "rss_mib": pages * resource.getpagesize() / 2**20,
        "files": open_files(),
    }


def takes(comm: Communicator, kind: str) -> list[str]:
    """In the same order on every rank, as no set of texts is."""
    return sorted({"", *_core.algorithms_for(CORE_NAMES.get(kind, kind), comm.topology)} & set(ALGORITHMS))


class Started:
    """A call, and what it should leave in its buffer."""

    def __init__(self, comm: Communicator, random: np.random.Generator, call: int) -> None:
        kind = KINDS[random.integers(len(KINDS))]
        count = int(2 ** random.uniform(0, np.log2(LARGEST) if call % LARGE_EVERY == 0 else 11))
        dtype, root = DTYPES[random.integers(len(DTYPES))], int(random.integers(comm.size))
        name, chunks = ALGORITHMS[random.integers(len(ALGORITHMS))], int(random.integers(4))
        async_op, bound = bool(random.random() < 0.3), bool(random.random() < 0.05)
        place = Place(comm, count, dtype, root, call % 100)
        self.works: list[Work | PersistentCall] = []
        self.result, self.due = np.zeros(0), 0
        if kind == "barrier":
            self._keep(comm.barrier(async_op))
        elif kind == "messages":
            self._send_round(place, async_op)
        else:
            arguments, self.result, self.due = CALLS[kind](place)
            options: dict[str, Any] = {"algorithm": name if name in takes(comm, kind) else "", "chunks": chunks}
            if bound:
                persistent = comm.persistent(kind, *arguments, **options)
                persistent.start()
                self.works.append(persistent)
            else:
                self._keep(getattr(comm, kind)(*arguments, async_op=async_op, **options))

    def _send_round(self, place: Place, async_op: bool) -> None:
        """To the next rank, and from the one before."""
        comm = place.comm
        self.result, self.due = place.share(), (comm.rank - 1) % comm.size
        messages = [
            P2POp("isend", place.share(comm.rank), (comm.rank + 1) % comm.size),
            P2POp("irecv", self.result, self.due),
        ]
        if async_op:
            self.works.extend(comm.batch_isend_irecv(messages))
        else:
            comm.batch_send_recv(messages)

    def _keep(self, work: Work | None) -> None:
        if work is not None:
            self.works.append(work)

    def finish(self) -> None:
        for work in self.works:
            work.wait()
        assert (self.result == self.due).all(), f"{self.result[:4]} … instead of {self.due}"


def make_largest_calls(comm: Communicator) -> None:
    """A communicator keeps the scratch memory of its largest call: with all of them made, later ones take no more."""
    for kind, root, chunks in itertools.product(CALLS, range(comm.size), range(4)):
        place = Place(comm, LARGEST, "float64", root, 1)
        for name in takes(comm, kind):
            arguments, *_ = CALLS[kind](place)
            getattr(comm, kind)(*arguments, algorithm=name, chunks=chunks)


def split(comm: Communicator) -> list[Communicator]:
    reverse, half = comm.split(0, -comm.rank), comm.split(comm.rank % 2)
    assert reverse is not None
    assert half is not None
    return [comm, reverse, half]


def finish(under_way: list[Started]) -> None:
    while under_way:
        under_way.pop().finish()


def soak(comm: Communicator, calls: int, tell: Callable[[dict[str, float]], None]) -> None:
    """Make `calls` calls, the same on every rank; tell what memory and files the process has, READINGS times."""
    # glibc raises these with what is freed, and then the heap's gaps decide what stays: megabytes, at random.
    for option, value in MALLOPT.items():
        ctypes.CDLL(None).mallopt(option, value)
    make_largest_calls(comm)
    random = np.random.default_rng(7)
    begin_s = time.monotonic()
    communicators = split(comm)
    under_way: list[Started] = []
    for call in range(calls):
        started = Started(communicators[random.integers(3)], random, call)
        if started.works:
            under_way.append(started)
        else:
            started.finish()
        if len(under_way) > MOST_STARTED:
            under_way.pop(call * 7 % len(under_way)).finish()
        is_due = (call + 1) % (calls // READINGS) == 0
        if is_due or (call + 1) % CALLS_PER_SPLIT == 0:
            finish(under_way)
            communicators = split(comm)
        if is_due:  # where nothing is under way, and new communicators have no scratch yet
            tell(reading(call + 1, begin_s))
            comm.barrier()
    finish(under_way)


def main() -> None:
    comm = lanecast.init(topology="2x2", transports=sys.argv[3], timeout_s=120.0)
    readings: list[dict[str, float]] = []
    soak(comm, int(sys.argv[1]), readings.append)
    (Path(sys.argv[2]) / f"{comm.rank}.json").write_text(json.dumps(readings))


if __name__ == "__main__":
    main()
