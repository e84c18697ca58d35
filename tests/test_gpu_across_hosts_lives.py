# SPDX-License-Identifier: Apache-2.0
"""Communicators between hosts on GPUs that come and go: each gives back what its process took for it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from emulated_gpu import STAND_IN
from emulated_network import network
from gpu_fault_rank import in_process, more_than, used
from gpu_stand_in import between_hosts, outcomes
from lanecast import Communicator
from pipe_jobs import Tell

FIRST = 3  # after which a process has what it keeps
GROWTH_MIB = 8  # from a third of the lives to the last one: less than 0.1 a life
KINDS = 7  # of calls, which take turns and more or less memory


def resident_mib() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


def lives(count: int, comm: Communicator, tell: Tell) -> tuple[list[str], str, list[int]]:
    """What was wrong with their calls, what is kept of them, and MiB on the way."""
    wrong: list[str] = []
    mib: list[int] = []
    before = in_process()
    for number in range(FIRST + count):
        if number == FIRST:
            before = in_process()
        child = comm.split(0)
        assert child is not None
        wrong += used(child, number % KINDS, comm.rank)
        del child
        mib.append(resident_mib())
        tell(number)  # that it goes on
    return wrong, more_than(before), mib


def options(way: str) -> dict[str, Any]:
    if way == "ucx":
        return {**between_hosts("1+2"), "variables": {"UCX_TLS": "tcp,self"}}
    variables = {"LANECAST_GPU_MESSAGES": way, **network("2GBps,20us", 2, 2, STAND_IN).environment()}
    return {"topology": "1+2", "hosts": ["node0", "node1", "node1"], "variables": variables}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("way", ["ucx", "direct"])
def test_some_lives(way: str, kernel_cache: str) -> None:
    for outcome in outcomes(3, partial(lives, 3), kernel_cache, **options(way)):
        assert outcome.text == ""
        assert outcome.value[:2] == ([], "")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", ["ucx", "staged", "direct"])
def test_300_lives(way: str, kernel_cache: str) -> None:
    for outcome in outcomes(3, partial(lives, 300), kernel_cache, timeout_s=200, **options(way)):
        assert outcome.text == ""
        wrong, kept, mib = outcome.value
        assert (wrong, kept) == ([], "")
        third = len(mib) // 3
        assert max(mib[-KINDS:]) - max(mib[third:][:KINDS]) < GROWTH_MIB, mib
