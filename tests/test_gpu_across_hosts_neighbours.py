# SPDX-License-Identifier: Apache-2.0
"""Calls between hosts on GPUs that go wrong among the ranks of one host, where messages go through no network."""

from __future__ import annotations

import os
import re
import signal
from functools import partial

import numpy as np
import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import between_hosts, outcomes, tensor
from lanecast import Communicator
from pipe_jobs import PipeJob, Tell

LONGER_THAN_THE_CALL: list[object] = []  # what streams still copy when an error has been raised


def counts_differ(gives: int, takes: int, comm: Communicator, _: Tell) -> tuple[list[float], str]:
    """Rank 0 gives rank 1, of its host, so many elements, of which rank 1 takes others; the sums of later calls until
    one is refused, and why."""
    mine, other = tensor(comm, gives if comm.rank == 0 else 0), tensor(comm, takes if comm.rank == 1 else 0)
    x = tensor(comm, 1000)
    LONGER_THAN_THE_CALL.extend((mine, other, x))
    nothing = [0] * comm.size
    sends, expects = [0, mine.array.size, *nothing[2:]], [other.array.size, *nothing[1:]]
    sums: list[float] = []
    try:
        comm.all_to_all_single(other, mine, expects, sends, algorithm="pairwise")
        for _turn in range(3):
            x.array[:] = comm.rank
            comm.all_reduce(x, algorithm="ring")
            comm.synchronize()
            sums += np.unique(x.array).tolist()
    except lanecast.TransportError as error:
        return sums, str(error)
    return sums, ""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("compared", [True, False])
def test_more_elements_than_expected_spoil_no_later_call(compared: bool, kernel_cache: str) -> None:
    """The kernels notice by themselves, also where the hosts compare nothing or are late."""
    body = partial(counts_differ, 500, 300)
    ended = outcomes(4, body, kernel_cache, **between_hosts("2x2"), timeout_s=60, check_calls=compared)
    for outcome in ended:
        assert outcome.text == ""
        sums, why = outcome.value
        assert sums in ([], [6.0]), outcome
        assert "the ranks have made different calls: rank 1 has made " in why or "sends 500 elements to rank 1" in why


def test_fewer_elements_than_expected_are_named_before_the_deadline(kernel_cache: str) -> None:
    for outcome in outcomes(4, partial(counts_differ, 300, 500), kernel_cache, **between_hosts("2x2"), timeout_s=90):
        assert outcome.text == ""
        _, why = outcome.value
        assert "sends 300 elements to rank 1" in why, outcome
        assert "expects 500 elements from rank 0" in why, outcome


def stops_before_a_call_within_its_host(comm: Communicator, tell: Tell) -> str:
    """Rank 1 owes rank 0 a message, which goes through no network, and rank 0 then owes rank 2 one."""
    x, whole = tensor(comm, 8), tensor(comm, 24)
    LONGER_THAN_THE_CALL.extend((x, whole))
    comm.all_reduce(x, algorithm="ring")
    comm.synchronize()
    if comm.rank == 1:
        tell("stops")
        os.kill(os.getpid(), signal.SIGSTOP)
    comm.gather(whole if comm.rank == 0 else None, x, 0, algorithm="direct")
    comm.broadcast(x, 0, algorithm="direct")
    try:
        comm.synchronize()
    except lanecast.TimeoutError as error:
        return str(error)
    return ""


def test_whom_the_kernel_of_an_earlier_call_waits_for_is_named(kernel_cache: str) -> None:
    """And not the rank whose GPU waits, and has sent all that goes to other hosts."""
    environment, where = gpu_host_library.environment(), between_hosts("2+1")
    job = PipeJob(
        3, stops_before_a_call_within_its_host, kernel_cache=kernel_cache, environment=environment, timeout_s=8, **where
    )
    assert job.told(1) == "stops"
    ended = [job.outcome(rank) for rank in (0, 2)]
    job.processes[1].kill()
    job.end()
    for outcome in ended:  # whoever of them gives up first has the other say why
        assert re.search(r"s for rank 1 in |rank 0 waits for rank 1, which has not answered", outcome.value), outcome
