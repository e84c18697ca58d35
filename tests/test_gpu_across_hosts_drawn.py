# SPDX-License-Identifier: Apache-2.0
"""Random calls between hosts on GPUs: all collectives, compositions, uneven hosts, three levels, late ranks."""

from __future__ import annotations

import random
import time
from functools import partial

import numpy as np
import pytest

from collective_cases import Case, even
from composed_cases import FORMS, Memory, form, wrong_in
from emulated_gpu import STAND_IN
from emulated_network import network
from gpu_fault_rank import draw_case
from gpu_stand_in import KINDS, DeviceCall, Tensor, in_place_is_offered, judge, outcomes
from lanecast import Communicator
from lanecast.compose import Knobs
from pipe_jobs import Tell

LATE_S = 0.05
CALLS = 12


def drawn_calls(seed: int, comm: Communicator, _: Tell) -> list[str]:
    """Each rank is late now and then, by itself; results are compared when some calls have been enqueued."""
    draw, own = random.Random(seed), random.Random(f"{seed} {comm.rank}")
    memory = Memory(lambda array: Tensor(array, "int64", comm.rank), comm.synchronize)
    calls: list[DeviceCall] = []
    wrong: list[str] = []
    for _call in range(CALLS):
        if own.random() < 0.3:
            time.sleep(own.uniform(0, LATE_S))
        if draw.random() < 0.2:
            composition = form(draw.choice(sorted(FORMS)), comm.size, draw.randrange(comm.size))
            counts = [draw.choice([0, 1, 7, 333]) for _ in range(composition.parts)]
            wrong.append(wrong_in(comm, composition, counts, Knobs(chunks=draw.choice([0, 1, 5])), memory=memory))
            continue
        calls.append(DeviceCall(comm, draw_case(draw, comm.size, len(comm.topology.levels))))
        calls[-1].start()
        if draw.random() < 0.3:
            wrong += [line for call in calls for line in call.finish()]
            calls.clear()
    wrong += [line for call in calls for line in call.finish()]
    return [line for line in wrong if line]


PLACES = [("1+2", "abb"), ("3+1", "aaab"), ("2x2x1", "aabb")]
MANY = [("2x2x2", "aaaabbbb"), ("1+2+3", "abbccc"), ("7x1", "abcdefg")]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("topology", "hosts"), PLACES)
def test_drawn_calls(topology: str, hosts: str, kernel_cache: str) -> None:
    for outcome in outcomes(len(hosts), partial(drawn_calls, 3), kernel_cache, topology=topology, hosts=hosts):
        assert (outcome.text, outcome.value) == ("", [])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("where", ["", "staged", "direct"])
@pytest.mark.parametrize(("topology", "hosts"), [*PLACES, *MANY])
def test_many_drawn_calls(topology: str, hosts: str, where: str, kernel_cache: str) -> None:
    names = sorted(set(hosts))
    variables = {}
    if where:
        nics = network("2GBps,20us", len(names), max(map(hosts.count, names)), STAND_IN)
        variables = {"LANECAST_GPU_MESSAGES": where, **nics.environment()}
    for seed in range(4):
        for outcome in outcomes(
            len(hosts), partial(drawn_calls, seed), kernel_cache, topology=topology,
            hosts=[f"node{names.index(host)}" for host in hosts], variables=variables,
        ):  # fmt: skip
            assert (outcome.text, outcome.value) == ("", [])


@pytest.mark.timeout(400)
def test_none_and_one_of_each_in_place_and_not(kernel_cache: str) -> None:
    cases = [
        Case(kind, even(kind, count, 3), in_place=in_place, root=2)
        for kind in KINDS
        for count in (0, 1)
        for in_place in in_place_is_offered(kind)
    ]
    judge(3, cases, kernel_cache, topology="1+2", hosts="abb")


BEYOND = (1 << 31) + 4096 + 5  # bytes


def more_than_two_gib(comm: Communicator, _: Tell) -> list[str]:
    """One vector, which rank 0 brings."""
    x = Tensor(np.zeros(BEYOND, np.uint8), "uint8", comm.rank)
    step = 1 << 24
    pattern = (np.arange(step + 251) % 251).astype(np.uint8)
    if comm.rank == 0:
        for first in range(0, BEYOND, step):
            part = x.array[first : first + step]
            part[:] = pattern[first % 251 : first % 251 + part.size]
    comm.broadcast(x, 0)
    comm.synchronize()
    comm.barrier()  # within its host the stand-in is still at work for much longer than a peer's going is waited for
    return [
        f"rank {comm.rank}: from byte {first} on"
        for first in range(0, BEYOND, step)
        if not np.array_equal(part := x.array[first : first + step], pattern[first % 251 : first % 251 + part.size])
    ]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_one_call_of_more_than_two_gib(kernel_cache: str) -> None:
    for outcome in outcomes(3, more_than_two_gib, kernel_cache, topology="1+2", hosts="abb", timeout_s=600):
        assert (outcome.text, outcome.value) == ("", [])
