# SPDX-License-Identifier: Apache-2.0
"""Collectives among real processes: under two MPIs, over every transport and mix of them, and without any MPI."""

from __future__ import annotations

import multiprocessing
import re
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import lanecast
from collective_cases import Case, run_cases
from launch import OPENMPI, mpich, openmpi

HERE = Path(__file__).parent
PROGRAM = str(HERE / "process_rank.py")
# Ranks → topology and transports of each communicator.
JOBS = {
    1: [("-", "-"), ("-", "shm"), ("-", "mpi")],
    2: [("-", "shm"), ("-", "mpi"), ("2x1", "mpi,shm")],
    3: [("-", "-"), ("2+1", "mpi,shm")],
    4: [("2x2", "shm"), ("2x2", "mpi"), ("2x2:cyclic", "mpi,shm")],
    7: [("3+2+2", "shm"), ("3+2+2", "mpi,shm")],
}


def judge(output: str, ranks: int) -> None:
    """Each rank says how much it has tried, and nothing else. Launchers glue the lines of ranks together."""
    closing = r"rank (\d+) of \d+: \d+ calls"
    assert sorted(int(rank) for rank in re.findall(closing, output)) == list(range(ranks)), output
    assert not re.sub(closing, "", output).strip()


def settings(ranks: int) -> list[str]:
    return [word for pair in JOBS[ranks] for word in pair]


@pytest.mark.parametrize("ranks", JOBS)
def test_mpich(ranks: int) -> None:
    judge(mpich(ranks, [sys.executable, PROGRAM, *settings(ranks)]), ranks)


@pytest.mark.parametrize("ranks", JOBS)
def test_open_mpi(ranks: int) -> None:
    judge(openmpi(ranks, [str(OPENMPI / "python"), PROGRAM, *settings(ranks)]), ranks)


class PipeGather:
    """An all-gather over pipes through a process that is no rank: what a launcher's store would offer."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def __call__(self, mine: bytes) -> bytes:
        self._pipe.send_bytes(mine)
        return self._pipe.recv_bytes()


def serve(pipes: list[Connection]) -> None:
    """Until the ranks close their ends."""
    while True:
        try:
            everyone = b"".join([pipe.recv_bytes() for pipe in pipes])
            for pipe in pipes:
                pipe.send_bytes(everyone)
        except (EOFError, OSError):
            return


def rank_over_pipes(rank: int, size: int, pipe: Connection) -> None:
    comm = lanecast.from_all_gather(rank, size, PipeGather(pipe), timeout_s=60.0)
    assert comm.transports == "shm"
    pipe.close()  # nothing but making a communicator needs it
    cases = [
        Case(kind, (3001,) if kind == "all_reduce" else (1000, 0, 2001), algorithm, chunks=chunks, async_op=chunks > 1)
        for kind in ("all_reduce", "all_gather", "reduce_scatter")
        for algorithm in ("", "ring", "bruck", "direct")
        for chunks in (1, 4)
    ]
    wrong = run_cases(comm, cases)
    child = comm.split(0, key=-rank)
    assert child is not None
    wrong += run_cases(child, cases)
    assert not wrong, wrong[:3]


def run_over_pipes(size: int, target: Callable[[int, int, Connection], None]) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = zip(*(context.Pipe() for _ in range(size)), strict=True)
    ranks = [context.Process(target=target, args=(rank, size, there[rank])) for rank in range(size)]
    for process in ranks:
        process.start()
    for pipe in there:
        pipe.close()
    serve(list(here))
    for process in ranks:
        process.join(60)
    assert [process.exitcode for process in ranks] == [0] * size


def test_without_mpi_over_shared_memory() -> None:
    run_over_pipes(3, rank_over_pipes)


def rank_with_much(rank: int, size: int, pipe: Connection) -> None:
    """More than 2 GiB in a buffer, in a message, and in elements."""
    comm = lanecast.from_all_gather(rank, size, PipeGather(pipe), timeout_s=120.0)
    share = (1 << 31) + 4099
    gathered = np.zeros(2 * share, np.uint8)
    mine = gathered[rank * share : (rank + 1) * share]
    mine[::4097] = rank + 1
    mine[-1] = 77
    comm.all_gather_into_tensor(gathered, mine)
    for other in range(size):
        part = gathered[other * share : (other + 1) * share]
        assert (part[: share - 1 : 4097] == other + 1).all()
        assert part[-1] == 77
    del part, mine
    comm.all_reduce(gathered, "max", algorithm="ring")
    assert gathered[share - 1] == 77
    assert int(gathered[share]) == 2


@pytest.mark.long
def test_more_than_two_gib_over_shared_memory() -> None:
    run_over_pipes(2, rank_with_much)


@pytest.mark.long
@pytest.mark.parametrize("launch", [mpich, openmpi])
def test_more_than_two_gib_over_mpi(launch: Callable[..., str]) -> None:
    python = sys.executable if launch is mpich else str(OPENMPI / "python")
    output = launch(2, [python, str(HERE / "much_rank.py")], timeout_s=600)
    assert sorted(output.split()) == ["0", "1"]
