# SPDX-License-Identifier: Apache-2.0
"""Several builds of liblanecast.so and the MPI's own collectives on the same buffers, in one process and in turns.

    mpiexec -n 4 python bench/builds.py cells.jsonl before=/old/liblanecast.so now=build/dev/liblanecast.so \
        --collectives all_gather,broadcast --sizes 64K,1M,16M

Which of two commits is faster, two runs on a machine that others use do not tell. LANECAST_MPI_LIBRARY names the MPI.
fp32, sum, root 0, out of place; where there are enough cores, each rank has one of its own. The file gets a line of
JSON for each cell as soon as it is measured.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from lanecast.bench.cases import REDUCING, WHOLE
from lanecast.bench.options import parse_sizes
from lanecast.bench.tables import size_text

C = ctypes
ROOTED = ("broadcast", "reduce", "gather", "scatter")
OF_MPI = {
    "all_gather": "Allgather", "reduce_scatter": "Reduce_scatter_block", "all_reduce": "Allreduce",
    "broadcast": "Bcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter", "all_to_all": "Alltoall",
}  # fmt: skip
OF_LANECAST = {
    "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "all_reduce": "AllReduce",
    "broadcast": "Broadcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter",
    "all_to_all": "AllToAll",
}  # fmt: skip
ROUND_US = 4000.0
Once = Callable[[], None]
Array = np.ndarray[Any, np.dtype[np.float32]]


class Mpi:
    """The MPI of the job, by the values that its mpi.h gives handles."""

    def __init__(self) -> None:
        self.library = C.CDLL(os.environ["LANECAST_MPI_LIBRARY"], mode=C.RTLD_GLOBAL)
        handles = ("comm_world", "float", "double", "op_sum", "op_max")
        if hasattr(self.library, "ompi_mpi_comm_world"):
            found: list[Any] = [
                C.c_void_p(C.addressof(C.c_char.in_dll(self.library, f"ompi_mpi_{name}"))) for name in handles
            ]
        else:  # MPICH and what shares its ABI
            found = [C.c_int(value) for value in (0x44000000, 0x4C00040A, 0x4C00080B, 0x58000003, 0x58000001)]
        self.world, self.float32, self.float64, self.sum, self.max = found
        multiple = 3
        assert self.library.MPI_Init_thread(None, None, multiple, C.byref(C.c_int())) == 0
        numbers = C.c_int(), C.c_int()
        self.library.MPI_Comm_rank(self.world, C.byref(numbers[0]))
        self.library.MPI_Comm_size(self.world, C.byref(numbers[1]))
        self.rank, self.size = (number.value for number in numbers)

    def latest(self, own: float) -> float:
        """The largest of all ranks' numbers; no rank leaves before all have come."""
        mine, all_ranks = np.array([own]), np.empty(1)
        self.library.MPI_Allreduce(at(mine), at(all_ranks), C.c_int(1), self.float64, self.max, self.world)
        return float(all_ranks[0])

    def call(self, cell: Cell) -> Once:
        count, send, receive = C.c_int(cell.count), at(cell.source), at(cell.target)
        data: tuple[Any, ...] = (send, receive, count, self.float32)
        if cell.kind == "broadcast":
            data = (receive, count, self.float32)
        elif cell.kind in REDUCING:
            data += (self.sum,)
        else:
            data = (send, count, self.float32, receive, count, self.float32)
        root = (C.c_int(0),) if cell.kind in ROOTED else ()
        return checked(self.library[f"MPI_{OF_MPI[cell.kind]}"], (*data, *root, self.world))


class Build:
    """One liblanecast.so, with a communicator of its own."""

    def __init__(self, path: str) -> None:
        self.library = C.CDLL(path)
        self.comm = C.c_void_p()
        assert self.library.lanecastCommInitMPI(C.byref(self.comm), None, None) == 0, f"{path} makes no communicator"

    def call(self, cell: Cell) -> Once:
        float32, add, root = C.c_int(1), C.c_int(0), C.c_int(0)
        options = (float32,) + ((add,) if cell.kind in REDUCING else ()) + ((root,) if cell.kind in ROOTED else ())
        buffers = at(cell.source), at(cell.target), C.c_size_t(cell.count)
        return checked(self.library[f"lanecast{OF_LANECAST[cell.kind]}"], (*buffers, *options, self.comm))


@dataclass
class Cell:
    """A collective of so many bytes: buffers, and what the target has to hold afterwards."""

    kind: str
    source: Array | None
    target: Array | None
    count: int
    due: Array | None  # None: nothing comes to this rank

    @classmethod
    def of(cls, kind: str, full_bytes: int, rank: int, size: int) -> Cell:
        count = full_bytes // 4 // (1 if kind in WHOLE else size)
        base = (np.arange(count) % 1021).astype(np.float32)
        at_root, parts, more = rank == 0, range(size), np.float32(3)
        shares: Array = np.concatenate([base + more * part for part in parts])
        total: Array = base * size + more * sum(parts)
        mine: Array = base + more * rank
        source: Array | None = mine
        due: Array | None = {"all_gather": shares, "all_reduce": total, "broadcast": base}.get(kind)
        if kind in {"reduce_scatter", "all_to_all"}:
            source = np.concatenate([mine + np.float32(part) for part in parts])
            due = total + np.float32(size * rank) if kind == "reduce_scatter" else shares + np.float32(rank)
        elif kind == "scatter":
            source, due = (shares if at_root else None), mine
        elif kind in {"reduce", "gather"} and at_root:
            due = total if kind == "reduce" else shares
        target = np.zeros_like(due) if due is not None else None
        if kind == "broadcast":
            source = target = base.copy() if at_root else target
            source = source if at_root else None
        return cls(kind, source, target, count, due)

    def wrong(self, call: Once, mpi: Mpi) -> int:
        """How many elements a call leaves wrong, on the rank with most."""
        if self.target is not None and self.target is not self.source:
            self.target.fill(-1)
        mpi.latest(0)
        call()
        mine = 0 if self.due is None or self.target is None else int((self.target != self.due).sum())
        return int(mpi.latest(mine))


def at(array: Any) -> C.c_void_p:
    return C.c_void_p(array.ctypes.data if array is not None else None)


def checked(function: Any, arguments: tuple[Any, ...]) -> Once:
    def once() -> None:
        if function(*arguments) != 0:
            raise RuntimeError(f"{function.__name__} has failed")

    return once


def timed(call: Once, repeats: int, mpi: Mpi) -> float:
    """Microseconds of a call on the slowest rank."""
    mpi.latest(0)
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return mpi.latest((time.perf_counter() - begin) / repeats) * 1e6


def repeats_of(call: Once, mpi: Mpi) -> int:
    """Calls of a round, found while caches and connections get warm."""
    repeats = 2
    while (needed := math.ceil(ROUND_US / timed(call, repeats, mpi))) > repeats / 0.8:
        repeats = needed
    return repeats


def measured(cell: Cell, calls: dict[str, Once], rounds: int, mpi: Mpi) -> dict[str, Any]:
    names = list(calls)
    wrong = {name: cell.wrong(calls[name], mpi) for name in names}
    repeats = {name: repeats_of(calls[name], mpi) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(timed(calls[name], repeats[name], mpi))
    for name in names:
        wrong[name] += cell.wrong(calls[name], mpi)
    return {"times_us": times, "repeats": repeats, "wrong": wrong}


def main(
    output: Path,
    builds: Annotated[list[str], typer.Argument(help="NAME=/path/of/liblanecast.so, one or more.")],
    collectives: str = ",".join(OF_MPI),
    sizes: str = "64K,1M,16M",
    rounds: int = 7,
) -> None:
    mpi = Mpi()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= mpi.size:
        os.sched_setaffinity(0, {cores[mpi.rank]})
    callers: dict[str, Any] = {name: Build(path) for name, path in (text.split("=", 1) for text in builds)}
    callers["mpi"] = mpi
    with output.open("a") if mpi.rank == 0 else Path(os.devnull).open("w") as file:
        for kind in collectives.split(","):
            for full_bytes in parse_sizes(sizes):
                cell = Cell.of(kind, full_bytes, mpi.rank, mpi.size)
                calls = {name: caller.call(cell) for name, caller in callers.items()}
                row = measured(cell, calls, rounds, mpi)
                print(
                    json.dumps({"ranks": mpi.size, "collective": kind, "bytes": full_bytes, **row}),
                    file=file,
                    flush=True,
                )
                if mpi.rank == 0:
                    medians = (f"{name} {statistics.median(us):.1f} us" for name, us in row["times_us"].items())
                    print(f"{mpi.size} ranks, {kind} of {size_text(full_bytes)}: {', '.join(medians)}", flush=True)
                assert not any(row["wrong"].values()), f"wrong elements: {row['wrong']}"
    for caller in callers.values():
        if isinstance(caller, Build):
            caller.library.lanecastCommDestroy(caller.comm)
    mpi.library.MPI_Finalize()


if __name__ == "__main__":
    typer.run(main)
