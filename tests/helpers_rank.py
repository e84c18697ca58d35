# SPDX-License-Identifier: Apache-2.0
"""One rank of a job in which leaders have helpers. Arguments: processes for each leader, topology of the leaders ("-":
none), transports. Leaders print what is wrong, then how much they have tried; helpers never come back from init().
"""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lanecast
from collective_cases import Case, run_cases
from lanecast import _core
from lanecast.helpers.leading import Leader

KINDS = ("all_reduce", "all_gather", "reduce_scatter")
# The paper's three, and what else is to give the same.
ALGORITHMS = ("", "mpi", "ring", "direct", "hierarchical(mpi,mpi)", "hierarchical(ring,mpi)")


def cases(comm: Leader, processes: int) -> Iterator[Case]:
    """Of each collective and algorithm that there is; counts of which no number of processes is a divisor."""
    for kind in KINDS:
        known = ["", *_core.algorithms_for(kind, comm.topology)]
        by_mpi = "mpi" in comm.transports
        for algorithm in ALGORITHMS:
            if algorithm not in known or ("mpi" in algorithm and not by_mpi):
                continue
            parts = 1 if kind == "all_reduce" else comm.size
            # A reduce-scatter in place leaves MPI's own elsewhere, which is tested where one process calls it.
            for counts, in_place in (((processes,) * parts, False), ((10_007,) * parts, True)):
                yield Case(kind, counts, algorithm, in_place=in_place)
            yield Case(kind, (4099,) * parts, algorithm, chunks=3, dtype="int64")
        if kind != "all_reduce":
            yield Case(kind, tuple(997 * (rank % 3) + processes for rank in range(comm.size)))
            yield Case(kind, (0,) * (comm.size - 1) + (4001,))


def in_shared_memory(comm: Leader, processes: int) -> list[str]:
    """Without a copy, in place and apart; several arrays, of which some have gone."""
    wrong = []
    for count in (processes, 10_007, 1 << 18):
        vector = comm.shared_empty(count, "int64")
        vector[:] = np.arange(count) + comm.rank
        comm.all_reduce(vector)
        expected = np.arange(count) * comm.size + comm.size * (comm.size - 1) // 2
        share, whole = comm.shared_empty(count, "int64"), comm.shared_empty(count * comm.size, "int64")
        share[:] = np.arange(count) * (comm.rank + 1)
        comm.all_gather_into_tensor(whole, share)
        gathered = np.concatenate([np.arange(count) * (rank + 1) for rank in range(comm.size)])
        back = np.zeros(count, "int64")  # of this process alone
        comm.reduce_scatter_tensor(back, whole)
        if not (vector == expected).all() or not (whole == gathered).all() or not (back == share * comm.size).all():
            wrong.append(f"rank {comm.rank}: {count} elements in shared memory, by {processes} processes")
    return wrong


def same_bits(comm: Leader, numbers: list[int]) -> list[str]:
    """Of sums that would differ in another order, and of averages."""
    found = set()
    for number in numbers:
        comm.use_processes(number)
        bits = b""
        for op in ("sum", "avg"):
            vector = np.random.default_rng(comm.rank).standard_normal(9_973).astype(np.float32)
            comm.all_reduce(vector, op, reproducible=True)
            share = np.empty(9_973, np.float32)
            comm.reduce_scatter_tensor(share, np.tile(vector, comm.size) * (comm.rank + 1), op, reproducible=True)
            bits += vector.tobytes() + share.tobytes()
        found.add(bits)
    return [] if len(found) == 1 else [f"rank {comm.rank}: {len(found)} results of reproducible sums"]


def held_by(pid: int) -> tuple[int, int]:
    """Files and threads of a helper."""
    folder = Path(f"/proc/{pid}")
    return len(list((folder / "fd").iterdir())), len(list((folder / "task").iterdir()))


def come_and_go(options: dict[str, Any]) -> list[str]:
    """What helpers hold does not grow with communicators that go; how soon they let go is theirs to say."""
    held: dict[int, list[tuple[int, int]]] = {}
    for turn in range(4):
        comm = lanecast.init(**options)
        assert isinstance(comm, Leader), "a helper has come back"
        comm.use_processes(comm.processes_per_gpu)
        comm.all_reduce(np.ones(1000))
        pids = [helper.pid for helper in comm.helpers]
        del comm
        gc.collect()
        until = time.monotonic() + 200
        for pid in pids:
            before = held.setdefault(pid, [])
            while turn > 1 and held_by(pid) > before[1] and time.monotonic() < until:
                time.sleep(0.02)
            before.append(held_by(pid))
    return [f"helper {pid}: {found}" for pid, found in held.items() if found[-1] > found[1]]


def main() -> None:
    processes, topology, transports = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    options: dict[str, Any] = {"processes_per_gpu": processes, "allow_shared_cores": True, "timeout_s": 60}
    if topology != "-":
        options["topology"] = topology
    if transports != "-":
        options["transports"] = transports
    left = come_and_go(options)
    comm = lanecast.init(**options)
    with contextlib.suppress(lanecast.UsageError):  # of which helpers think nothing
        lanecast.init(**{**options, "transports": "none"})
    other = lanecast.init(**options)  # several communicators, whose helpers are the same processes
    assert isinstance(comm, Leader)
    assert isinstance(other, Leader)
    wrong, tried = left, 0
    numbers = sorted({1, min(2, processes), processes})
    for number in numbers:
        for each in (comm, other):
            each.use_processes(number)
            every = list(cases(each, processes)) if each is comm else [replace(Case("all_reduce", (5000,)))]
            wrong += run_cases(each, every) + in_shared_memory(each, processes)
            tried += len(every)
    del other
    wrong += same_bits(comm, numbers)
    comm.use_processes(None)
    for _ in range(20):  # all numbers are tried in turn, and one is chosen
        vector = np.full(1 << 19, 1.0, np.float32)
        comm.all_reduce(vector)
        if not (vector == comm.size).all():
            wrong.append(f"rank {comm.rank}: while numbers of processes are tried")
    print("\n".join([*wrong, f"rank {comm.rank} of {comm.size}: {tried} cases"]), flush=True)


main()
