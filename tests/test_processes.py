# SPDX-License-Identifier: Apache-2.0
"""Collectives among real processes: under two MPIs, over every transport and mix of them, and without any MPI."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collective_cases import Case, run_cases
from lanecast import Communicator, traces
from launch import MPICH, OPENMPI, mpich, openmpi
from pipe_jobs import PipeJob

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


def settings(ranks: int, cases: str) -> list[str]:
    return [cases, *(word for pair in JOBS[ranks] for word in pair)]


@pytest.mark.parametrize(
    ("ranks", "cases"),
    [
        *((ranks, "all") for ranks in (1, 2, 3)),
        *((ranks, "some") for ranks in (4, 7)),
        *(pytest.param(ranks, "all", marks=pytest.mark.slow) for ranks in (4, 7)),
    ],
)
def test_mpich(ranks: int, cases: str) -> None:
    judge(mpich(ranks, [sys.executable, PROGRAM, *settings(ranks, cases)]), ranks)


# What goes over shared memory alone is ours, whichever MPI starts the ranks; seven show of MPI what three do.
@pytest.mark.parametrize(
    ("ranks", "cases"),
    [
        *((ranks, "all") for ranks in (1, 2, 3)),
        (4, "some"),
        pytest.param(4, "all", marks=pytest.mark.slow),
        pytest.param(7, "all", marks=pytest.mark.long),
    ],
)
def test_open_mpi(ranks: int, cases: str) -> None:
    jobs = [cases]
    jobs += [word for topology, transports in JOBS[ranks] if transports != "shm" for word in (topology, transports)]
    judge(openmpi(ranks, [str(OPENMPI / "python"), PROGRAM, *jobs]), ranks)


@pytest.mark.parametrize("cases", ["some", pytest.param("all", marks=pytest.mark.slow)])
def test_mpi_5s_own_abi(cases: str) -> None:
    """Which MPICH brings in a library beside its own."""
    library = str(MPICH.parent.parent / "lib" / "libmpi_abi.so.1")
    judge(mpich(3, [sys.executable, PROGRAM, *settings(3, cases)], LANECAST_MPI_LIBRARY=library), 3)
    code = "from lanecast.startup import mpi; print(mpi().abi)"
    assert mpich(1, [sys.executable, "-c", code], LANECAST_MPI_LIBRARY=library) == "MPI-5 standard\n"


def over_pipes(comm: Communicator, _: Callable[[Any], None]) -> list[str]:
    assert comm.transports == "shm"
    cases = [
        Case(kind, (3001,) if kind == "all_reduce" else (1000, 0, 2001), algorithm, chunks=chunks, async_op=chunks > 1)
        for kind in ("all_reduce", "all_gather", "reduce_scatter")
        for algorithm in ("", "ring", "bruck", "direct")
        for chunks in (1, 4)
    ]
    wrong = run_cases(comm, cases)
    child = comm.split(0, key=-comm.rank)
    assert child is not None
    return wrong + run_cases(child, cases)


def test_without_mpi_over_shared_memory() -> None:
    job = PipeJob(3, over_pipes, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(3)]
    assert [(outcome.value, outcome.text) for outcome in outcomes] == [([], "")] * 3
    assert job.end() == [0] * 3


SHORT, LONG = 1000, (1 << 20) + 3  # elements of 4 bytes; the share of LONG is copied first and sent from the output


def of_long_shares(comm: Communicator, _: Callable[[Any], None]) -> list[str]:
    return run_cases(
        comm,
        [
            Case("all_gather", counts, algorithm, "int32", chunks=chunks, in_place=in_place, async_op=async_op)
            for counts in ((LONG, LONG, LONG), (LONG, SHORT, 2 * LONG))
            for algorithm in ("ring", "direct")
            for chunks in (1, 2)
            for in_place in (False, True)
            for async_op in (False, True)
        ],
    )


def gathers_twice(comm: Communicator, tell: Callable[[Any], None], folder: str) -> None:
    whole = np.zeros(2 * LONG, np.int32)
    for count in (SHORT, LONG):
        comm.all_gather_into_tensor(whole[: 2 * count], np.full(count, comm.rank + 1, np.int32))
    comm.write_trace(folder)


def test_long_shares_over_shared_memory() -> None:
    job = PipeJob(3, of_long_shares, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(3)]
    assert [(outcome.value, outcome.text) for outcome in outcomes] == [([], "")] * 3
    assert job.end() == [0] * 3


def test_one_receiver_gets_a_long_share_from_the_output(tmp_path: Path) -> None:
    job = PipeJob(2, partial(gathers_twice, folder=str(tmp_path)), timeout_s=60.0, trace_steps=True)
    assert [job.outcome(rank).text for rank in range(2)] == [""] * 2
    assert job.end() == [0] * 2
    (job_trace,) = traces.read(tmp_path)
    for trace in job_trace.ranks.values():
        for number, copies_first in ((1, False), (2, True)):
            begins = {
                step["step"]: step["begin_ns"]
                for step in (*trace.messages, *reversed(trace.works))
                if step["sequence"] == number
            }
            assert (begins["copy"] < begins["send"]) == copies_first


def with_much(comm: Communicator, _: Callable[[Any], None]) -> None:
    """More than 2 GiB in a buffer, in a message, and in elements."""
    share = (1 << 31) + 4099
    gathered = np.zeros(2 * share, np.uint8)
    mine = gathered[comm.rank * share : (comm.rank + 1) * share]
    mine[::4097] = comm.rank + 1
    mine[-1] = 77
    comm.all_gather_into_tensor(gathered, mine)
    for other in range(comm.size):
        part = gathered[other * share : (other + 1) * share]
        assert (part[: share - 1 : 4097] == other + 1).all()
        assert part[-1] == 77
    comm.all_reduce(gathered, "max", algorithm="ring")
    assert gathered[share - 1] == 77
    assert int(gathered[share]) == 2


@pytest.mark.long
def test_more_than_two_gib_over_shared_memory() -> None:
    job = PipeJob(2, with_much, timeout_s=120.0)
    assert [job.outcome(rank, 600).text for rank in range(2)] == [""] * 2
    assert job.end() == [0] * 2


@pytest.mark.long
@pytest.mark.parametrize("launch", [mpich, openmpi])
def test_more_than_two_gib_over_mpi(launch: Callable[..., str]) -> None:
    python = sys.executable if launch is mpich else str(OPENMPI / "python")
    output = launch(2, [python, str(HERE / "much_rank.py")], timeout_s=600)
    assert sorted(output.split()) == ["0", "1"]
