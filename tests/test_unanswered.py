# SPDX-License-Identifier: Apache-2.0
"""Ranks that wait for what their peers never give: all hear of it soon, with both calls, over every transport."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
import legal_programs
from lanecast import Communicator
from launch import OPENMPI, mpich, openmpi
from pipe_jobs import PipeJob
from unanswered_calls import UNANSWERED, UNANSWERED_NATIVE, provoke, recv, run_legal, sums

PROGRAM = str(Path(__file__).parent / "unanswered_calls.py")
# Of what has to end: a rank may wait for the thousands of messages that all others exchange first, beside other work.
LEGAL_S = 300.0


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", UNANSWERED)
def test_among_threads(name: str, size: int) -> None:
    lanecast.run_threads(size, lambda comm: provoke(comm, name), timeout_s=60.0)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_what_is_legal_is_not_refused(size: int) -> None:
    lanecast.run_threads(size, run_legal, timeout_s=LEGAL_S)


def test_random_programs_that_can_end_do() -> None:
    lanecast.run_threads(3, lambda comm: legal_programs.run_some(comm, 0, 6), timeout_s=LEGAL_S)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("transports", ["loopback", "shm", "ucx", "mpi"])
def test_many_random_programs_that_can_end_do(transports: str) -> None:
    many = 150
    if transports == "loopback":
        lanecast.run_threads(5, lambda comm: legal_programs.run_some(comm, 100, many), timeout_s=LEGAL_S)
    else:
        mpich(4, [sys.executable, legal_programs.__file__, transports, "100", str(many)], timeout_s=900.0)


def provoke_all(comm: Communicator, _: Callable[[Any], None]) -> None:
    for name in UNANSWERED:
        child = comm.split(0)
        assert child is not None
        provoke(child, name)
    run_legal(comm)


@pytest.mark.parametrize("transports", ["shm", "ucx"])
def test_among_processes(transports: str) -> None:
    job = PipeJob(3, provoke_all, hosts="aaa" if transports == "shm" else "abc", transports=transports, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(3)]
    assert [outcome.error for outcome in outcomes] == [""] * 3, outcomes
    job.end()


@pytest.mark.parametrize("launch", ["mpich", "openmpi"])
def test_over_mpi(launch: str) -> None:
    if launch == "mpich":
        output = mpich(3, [sys.executable, PROGRAM, "mpi"])
    else:
        output = openmpi(3, [str(OPENMPI / "python"), PROGRAM, "mpi"])
    told = re.findall(r"^(\w+) ended as it should$", output, re.MULTILINE)
    assert len(told) == 3 * len(UNANSWERED | UNANSWERED_NATIVE), output


def test_a_started_call_needs_its_own_group_alone_until_the_caller_goes_on() -> None:
    mpich(4, [sys.executable, str(Path(__file__).parent / "opening_rank.py")])


def between_others(comm: Communicator) -> str:
    """Ranks 0 and 2 do not agree, and the ring of the next call has no message between the two."""
    sends = [0 if (comm.rank, to) == (2, 0) else 3 for to in range(comm.size)]
    try:
        comm.all_to_all_single(np.empty(3 * comm.size), np.ones(sum(sends)), [3] * comm.size, sends)
        sums(comm)
    except lanecast.TransportError as error:
        return str(error)
    return "both calls returned"


def test_counts_of_ranks_whose_next_messages_do_not_meet() -> None:
    for text in lanecast.run_threads(7, between_others, timeout_s=60.0):
        assert re.search("rank 0 calls .* expects 3 elements from rank 2; rank 2 calls .* sends 0 elements to", text)


def started(comm: Communicator) -> str:
    """Counts are compared also where the rank could make another call; messages are not."""
    rows = [0 if (comm.rank, to) == (1, 0) else 3 for to in range(comm.size)]
    out, source = np.empty(3 * comm.size), np.ones(sum(rows))
    works = [comm.all_to_all_single(out, source, [3] * comm.size, rows, async_op=True)]
    works.append(comm.broadcast(np.ones(4), 0, async_op=True))
    try:
        for work in works:
            assert work is not None
            work.wait()
    except lanecast.TransportError as error:
        return str(error)
    return "both calls returned"


def test_counts_of_started_calls() -> None:
    assert all("sends 0 elements to rank 0" in text for text in lanecast.run_threads(2, started, timeout_s=60.0))


def alone(comm: Communicator) -> str:
    try:
        (recv if comm.rank == 0 else sums)(comm)
    except lanecast.Error as error:
        return f"{type(error).__name__}: {error}"
    return "both calls returned"


def test_can_be_switched_off() -> None:
    texts = lanecast.run_threads(2, alone, timeout_s=3.0, check_calls=False)
    assert all(text.startswith("TimeoutError") for text in texts), texts


def much(comm: Communicator) -> int:
    """More tags than a rank counts: messages go, and no difference is seen where there is none."""
    tags = 5000
    got = np.empty(1)
    for tag in range(tags):
        if comm.rank == 0:
            comm.recv(got, 1, tag=tag)
            assert got[0] == tag
        else:
            comm.send(np.array([float(tag)]), 0, tag=tag)
    sums(comm)
    return tags


def test_more_tags_than_are_counted() -> None:
    assert lanecast.run_threads(2, much, timeout_s=LEGAL_S) == [5000, 5000]
