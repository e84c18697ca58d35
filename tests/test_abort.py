# SPDX-License-Identifier: Apache-2.0
"""An abort on one rank ends the calls of the others, with its reason, soon, and harms no other communicator."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import abort_rank
import lanecast
from abort_rank import DEADLINE_S, SOON_S
from lanecast import Communicator
from launch import mpich
from pipe_jobs import PipeJob, Tell

LONG = pytest.mark.long


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads(size: int) -> None:
    assert lanecast.run_threads(size, abort_rank.run, timeout_s=DEADLINE_S) == [None] * size


def run(comm: Communicator, _: Tell) -> None:
    abort_rank.run(comm)


# Over shared memory, over UCX, and over both: hosts of their own. Three ranks have all that two have: some 6 s each.
@pytest.mark.parametrize(
    ("size", "hosts"),
    [
        pytest.param(2, "", marks=LONG),
        (3, ""),
        pytest.param(2, "ab", marks=LONG),
        (3, "aab"),
        pytest.param(3, "abb", marks=LONG),
    ],
)
def test_processes(size: int, hosts: str) -> None:
    before = set(Path("/dev/shm").iterdir())
    job = PipeJob(size, run, hosts=hosts, timeout_s=DEADLINE_S)
    outcomes = [job.outcome(rank) for rank in range(size)]
    assert [(outcome.text, outcome.value) for outcome in outcomes] == [("", None)] * size
    assert job.end() == [0] * size
    assert [path for path in set(Path("/dev/shm").iterdir()) - before if "lanecast" in path.name] == []


@pytest.mark.parametrize(
    ("size", "transports"),
    [(3, "mpi"), *(pytest.param(*row, marks=LONG) for row in ((2, "mpi"), (2, "shm"), (3, "shm")))],
)
def test_mpich(size: int, transports: str) -> None:
    script = str(Path(__file__).parent / "abort_rank.py")
    output = mpich(size, [sys.executable, script, transports])
    assert output.count("as it should be") == size


def outlives_the_others(comm: Communicator, tell: Tell) -> float:
    child = comm.split(0)
    assert child is not None
    child.all_reduce(np.ones(3))
    tell("ready")
    if comm.rank > 0:
        time.sleep(DEADLINE_S)
    time.sleep(0.5)  # until they are dead
    begin_s = time.monotonic()
    for dead in (comm, child):
        dead.abort("nobody is left")
        with pytest.raises(lanecast.TransportError, match="nobody is left"):
            dead.barrier()
    del child
    return time.monotonic() - begin_s


@pytest.mark.parametrize("hosts", ["", "abc"])
def test_abort_does_not_wait_for_dead_peers(hosts: str) -> None:
    job = PipeJob(3, outlives_the_others, hosts=hosts, timeout_s=DEADLINE_S)
    assert [job.told(rank) for rank in range(3)] == ["ready"] * 3
    for process in job.processes[1:]:
        os.kill(process.pid or 0, signal.SIGKILL)
    outcome = job.outcome(0)
    assert outcome.text == ""
    assert outcome.value < SOON_S
    assert job.end() == [0, -signal.SIGKILL, -signal.SIGKILL]
