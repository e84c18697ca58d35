# SPDX-License-Identifier: Apache-2.0
"""Long messages over UCX, most of which threads beside the caller's move. test_faults.py ends ranks there, too."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lanecast
from collective_cases import Case, run_cases
from lanecast import Communicator
from pipe_jobs import PipeJob

Tell = Callable[[Any], None]
WHOLE = (64 << 10) - 1  # bytes of the longest message that is not cut
FEW = (1 << 20) - 1  # of the longest that only one lane for each NIC carries
HEADS = f"{WHOLE + 1}|{WHOLE + 1 + 4096}"  # bytes that go ahead of a cut one


def collectives(comm: Communicator, _: Tell) -> list[str]:
    sizes = (WHOLE, WHOLE + 1, WHOLE + 2, 2 * WHOLE, FEW, FEW + 1, 2_000_003)
    cases = [
        Case(kind, (size,) if kind == "all_reduce" else (size, 0, size + 1)[: comm.size], algorithm, "uint8",
             chunks=chunks, async_op=chunks > 1)
        for size in sizes
        for kind, algorithm in (("all_reduce", "ring"), ("all_gather", "direct"), ("reduce_scatter", "bruck"))
        for chunks in (1, 3)
    ]  # fmt: skip
    child = comm.split(0, key=-comm.rank)
    assert child is not None
    return [*run_cases(comm, cases), *run_cases(child, cases)]


@pytest.mark.parametrize(("hosts", "lanes"), [("ab", "1"), ("abc", "2"), ("ab", "5")])
def test_collectives(hosts: str, lanes: str) -> None:
    job = PipeJob(len(hosts), collectives, hosts=hosts, environment={"LANECAST_UCX_LANES": lanes}, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(len(hosts))]
    assert [outcome.text for outcome in outcomes] == [""] * len(hosts)
    assert [outcome.value for outcome in outcomes] == [[]] * len(hosts)
    assert job.end() == [0] * len(hosts)


def messages(comm: Communicator, _: Tell) -> list[str]:
    """Many at a time between two ranks, both ways, short and long ones of equal tags."""
    wrong = []
    works, expected = [], []
    for k in range(12):
        count = (1, 70_000, 500_000, 3 << 20)[k % 4] + k
        own = np.arange(count, dtype=np.uint32) * 2 + comm.rank + k
        other = np.zeros(count, np.uint32)
        works += [comm.isend(own, 1 - comm.rank, k % 3), comm.irecv(other, 1 - comm.rank, k % 3)]
        expected.append((own, other, np.arange(count, dtype=np.uint32) * 2 + 1 - comm.rank + k))
    for work in works:
        work.wait()
    wrong += [f"message {k}" for k, (_, got, right) in enumerate(expected) if not np.array_equal(got, right)]
    return wrong


def test_messages() -> None:
    job = PipeJob(2, messages, hosts="ab", environment={"LANECAST_UCX_LANES": "2"}, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [(outcome.text, outcome.value) for outcome in outcomes] == [("", [])] * 2
    assert job.end() == [0, 0]


LENGTHS = [(WHOLE, WHOLE + 1), (WHOLE + 1, WHOLE), (WHOLE + 1, 2_000_000), (2_000_000, WHOLE + 1),
           (2_000_000, 1_999_999), (2_000_000, 2_000_001), (3, 2_000_000), (2_000_000, 3), (0, 2_000_000),
           (2_000_000, 0), (FEW, FEW + 1), (FEW + 1, FEW), (FEW, 2_000_000), (2_000_000, 2 * WHOLE)]  # fmt: skip


def unequal(comm: Communicator, _: Tell) -> list[str]:
    """What the receiver says of each."""
    said = []
    for sent, expected in LENGTHS:
        pair = comm.split(0)
        assert pair is not None
        try:
            if comm.rank == 0:
                pair.isend(np.ones(sent, np.uint8), 1).wait()
                pair.recv(np.ones(1), 1)
            else:
                pair.recv(np.ones(expected, np.uint8), 0)
            said.append("")
        except lanecast.Error as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


@pytest.mark.parametrize("lanes", ["0", "1", "2"])
def test_lengths_that_differ_are_told(lanes: str) -> None:
    job = PipeJob(2, unequal, hosts="ab", environment={"LANECAST_UCX_LANES": lanes}, timeout_s=60.0)
    said = [job.outcome(rank) for rank in range(2)]
    assert [outcome.text for outcome in said] == ["", ""]
    for (sent, expected), text in zip(LENGTHS, said[1].value, strict=True):
        told = {"0": "", "1": f"{WHOLE + 1} or more|", "2": f"fewer or more|({HEADS}) or more|"}[lanes]
        amount = f"({told}{sent}{'|more' if sent > expected else ''})"
        words = rf"TransportError: rank 0 sends {amount} bytes under tag 0, rank 1 expects {expected}: "
        assert re.search(words, text), (sent, expected, text)
    job.end()


def sends_until_it_fails(comm: Communicator, tell: Tell) -> None:
    tell("ready")
    tensor = np.ones(32 << 20, np.uint8)
    while True:
        works = [comm.isend(tensor, 1, k) if comm.rank == 0 else comm.irecv(tensor, 0, k) for k in range(3)]
        for work in works:
            work.wait()


@pytest.mark.parametrize("lanes", ["0", "2"])
@pytest.mark.parametrize("killed", [0, 1], ids=["sender", "receiver"])
def test_killed_rank_of_long_messages_is_named(killed: int, lanes: str) -> None:
    job = PipeJob(2, sends_until_it_fails, hosts="ab", environment={"LANECAST_UCX_LANES": lanes}, timeout_s=60.0)
    assert [job.told(rank) for rank in range(2)] == ["ready"] * 2
    time.sleep(0.4)
    os.kill(job.processes[killed].pid or 0, signal.SIGKILL)
    outcome = job.outcome(1 - killed)
    job.end()
    if killed == 1 and "Assertion `(memh == NULL)" in outcome.text and "ucp_proto_request_bcopy_abort" in outcome.text:
        pytest.skip("this UCX was built with its assertions, one of which ends a rank whose peer dies amid a message")
    assert (outcome.error, f"lost rank {killed} (" in outcome.text) == ("TransportError", True), outcome


@pytest.mark.parametrize("lanes", ["0", "2"])
@pytest.mark.parametrize(("sent", "deadline_s"), [(signal.SIGSTOP, 10.0), (signal.SIGKILL, 60.0)], ids=["stop", "kill"])
def test_rest_of_a_message_is_not_waited_for(sent: signal.Signals, deadline_s: float, lanes: str) -> None:
    """UCX keeps a receive whose message has begun to arrive in pieces until the last has come, which never does."""
    environment = {"LANECAST_UCX_LANES": lanes, "UCX_RNDV_THRESH": "inf"}  # all messages go in pieces
    job = PipeJob(2, sends_until_it_fails, hosts="ab", environment=environment, timeout_s=deadline_s)
    assert [job.told(rank) for rank in range(2)] == ["ready"] * 2
    time.sleep(0.4)
    os.kill(job.processes[0].pid or 0, sent)
    outcome = job.outcome(1)  # which would never come, if it were waited for
    job.processes[0].kill()
    job.end()
    at_deadline = set() if sent == signal.SIGKILL else {"TimeoutError"}
    assert outcome.error in {"TransportError", *at_deadline}, outcome
