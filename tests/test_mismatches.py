# SPDX-License-Identifier: Apache-2.0
"""Ranks that make different calls: every rank says so before its deadline, with both calls, over every transport."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator
from launch import OPENMPI, mpich, openmpi
from mismatched_calls import (
    APART,
    ODD_CALLS,
    ODD_NATIVE_CALLS,
    OTHER_LENGTH,
    OTHER_LENGTHS,
    provoke,
    provoke_apart,
    send_another_length,
    sums,
)
from pipe_jobs import PipeJob

PROGRAM = str(Path(__file__).parent / "mismatched_calls.py")


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", ODD_CALLS)
def test_among_threads(name: str, size: int) -> None:
    lanecast.run_threads(size, lambda comm: provoke(comm, name), timeout_s=60.0)


def provoke_all(comm: Communicator, _: Callable[[Any], None]) -> None:
    for name in ODD_CALLS:
        child = comm.split(0)
        assert child is not None
        provoke(child, name)
        sums(comm)


@pytest.mark.parametrize("hosts", ["", "abc"], ids=["shm", "ucx"])
def test_among_processes(hosts: str) -> None:
    job = PipeJob(3, provoke_all, hosts=hosts, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(3)]
    assert [outcome.error for outcome in outcomes] == [""] * 3, outcomes
    job.end()


def provoke_all_apart(comm: Communicator, _: Callable[[Any], None]) -> None:
    for name in APART:
        provoke_apart(comm, name)


def test_many_calls_apart_over_ucx() -> None:
    job = PipeJob(3, provoke_all_apart, hosts="abc", timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(3)]
    assert [outcome.error for outcome in outcomes] == [""] * 3, outcomes
    job.end()


# Thousands of calls, each of which may wait for others' time slices: of 12 s alone it made 270 among 25 processes.
@pytest.mark.timeout(650)
@pytest.mark.parametrize("transports", ["mpi", "shm"])
@pytest.mark.parametrize("launch", ["mpich", "openmpi"])
def test_under_mpiexec(launch: str, transports: str) -> None:
    if launch == "mpich":
        output = mpich(3, [sys.executable, PROGRAM, transports], timeout_s=600)
    else:
        output = openmpi(3, [str(OPENMPI / "python"), PROGRAM, transports], timeout_s=600)
    # UCX warns of the messages that nobody has received, at the end.
    told = re.findall(r"^\w+ is told$", output, re.MULTILINE)
    apart = len(APART) if transports == "mpi" else 0
    assert len(told) == 3 * (len(ODD_CALLS | ODD_NATIVE_CALLS) + apart), output


def forget_a_part(comm: Communicator, _: Callable[[Any], None] | None = None) -> str:
    """Of counts that a rank knows only for itself: rank 1 has nothing for rank 0, which expects three elements."""
    for forgets in (True, False):
        rows = [0 if forgets and (comm.rank, to) == (1, 0) else 3 for to in range(comm.size)]
        try:
            comm.all_to_all_single(np.empty(3 * comm.size), np.ones(sum(rows)), [3] * comm.size, rows)
        except lanecast.TransportError as error:
            return str(error)
    return "both calls returned"


def test_own_counts_that_do_not_agree() -> None:
    """There is no message of no elements, so the next call's comes in its place; it is as long as the one expected."""
    job = PipeJob(3, forget_a_part, timeout_s=60.0)
    for texts in lanecast.run_threads(3, forget_a_part, timeout_s=60.0), [job.outcome(rank).value for rank in range(3)]:
        assert re.search(r"rank 1 sends 24 bytes .* expects 24 in another call: .* own counts in one before", texts[0])
        assert all("own counts in one before" in text for text in texts), texts
    job.end()


def in_process(comm: Communicator, _: Callable[[Any], None], count: int) -> str:
    return send_another_length(comm, count)


@pytest.mark.parametrize("hosts", ["", "abc"], ids=["shm", "ucx"])
@pytest.mark.parametrize("count", OTHER_LENGTHS)
def test_own_counts_of_other_lengths(count: int, hosts: str) -> None:
    """The message that comes is too short or too long, which the transport sees: the call is named with it."""
    body = functools.partial(send_another_length, count=count)
    job = PipeJob(3, functools.partial(in_process, count=count), hosts=hosts, timeout_s=60.0)
    processes = [job.outcome(rank).value for rank in range(3)]
    for texts in lanecast.run_threads(3, body, timeout_s=60.0), processes:
        assert all(re.search(OTHER_LENGTH, text) for text in texts), texts
    job.end()


def switched_off(comm: Communicator) -> Any:
    """Calls whose messages are equally long: without the comparison nobody notices."""
    tensor = np.full(8, comm.rank + 1.0)
    comm.all_reduce(tensor, "max" if comm.rank == 1 else "sum", algorithm="one_shot", chunks=1)
    return tensor[0]


def test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lanecast.run_threads(2, switched_off, check_calls=False) == [3.0, 2.0]
    with pytest.raises(lanecast.TransportError, match="call 1 of this communicator differs"):
        lanecast.run_threads(2, switched_off)
    monkeypatch.setenv("LANECAST_CHECK_CALLS", "0")
    assert lanecast.run_threads(2, switched_off) == [3.0, 2.0]


def test_what_is_legal_is_not_refused() -> None:
    """In-place here and not there, ranks far behind, messages between two ranks in between."""

    def body(comm: Communicator) -> bool:
        for turn in range(200):
            whole = np.zeros(3 * comm.size)
            own = whole[3 * comm.rank :][:3] if comm.rank % 2 else np.empty(3)
            own[:] = comm.rank + turn
            comm.all_gather_into_tensor(whole, own, algorithm="ring", chunks=1 + turn % 2)
            assert (whole.reshape(-1, 3)[:, 0] == np.arange(comm.size) + turn).all()
        return True

    assert all(lanecast.run_threads(3, body))
