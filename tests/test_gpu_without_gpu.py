# SPDX-License-Identifier: Apache-2.0
"""Collectives on a GPU's memory without a GPU: the library's own path, over a driver that runs kernels on the CPU."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Case, even, ops_of
from gpu_stand_in import KINDS, in_place_is_offered, judge, outcomes, tensor
from lanecast import Communicator, _core
from pipe_jobs import Tell

ENGINES = ("peer_kernel", "copy_engine")
NOTHING_HELD = "memory 0 opened 0 pinned 0 streams 0 events 0 modules 0 contexts 0"
ALIGNED = 16  # elements between which a buffer lies, so that it begins where 16-byte accesses may


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_kind(size: int, engine: str, kernel_cache: str) -> None:
    cases = [
        Case(kind, even(kind, count, size), engine, in_place=in_place, root=size - 1)
        for kind, count in itertools.product(KINDS, (0, 1, 5, 2003))
        for in_place in in_place_is_offered(kind)
    ]
    judge(size, cases, kernel_cache)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("guard", [3, ALIGNED])
@pytest.mark.parametrize("engine", ENGINES)
def test_each_type_and_operator(engine: str, guard: int, kernel_cache: str) -> None:
    cases = [
        Case("all_reduce", (count,), engine, dtype, op, in_place=True)
        for dtype in _core.DTYPES
        for op in ops_of(dtype)
        for count in (1, 333)
    ]
    judge(3, cases, kernel_cache, guard)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ENGINES)
def test_uneven_counts_and_calls_beside_the_callers(engine: str, kernel_cache: str) -> None:
    cases = [
        Case(kind, counts, engine, "int16", async_op=async_op)
        for kind in ("all_gather", "reduce_scatter")
        for counts in ((700, 0, 1), (1, 2, 997), (0, 0, 5))
        for async_op in (False, True)
    ]
    judge(3, cases, kernel_cache)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("engine", ENGINES)
def test_messages_of_many_pieces(engine: str, kernel_cache: str) -> None:
    count = 3 << 20 if engine == "peer_kernel" else 41 << 20  # slots are filled a second time
    cases = [Case(kind, even(kind, count, 2), engine, "uint8") for kind in ("all_reduce", "all_gather")]
    judge(2, cases, kernel_cache, ALIGNED)


def first_rank_calls_alone(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 8))  # connects
    comm.synchronize()
    if comm.rank == 0:
        comm.all_reduce(tensor(comm, 8))
        comm.synchronize()


def test_a_peer_that_does_not_call(kernel_cache: str) -> None:
    waited, stayed_away = outcomes(2, first_rank_calls_alone, kernel_cache, timeout_s=3)
    assert waited.error in ("TimeoutError", "TransportError")  # the latter where its going is noticed first
    assert "rank 1" in waited.text
    assert stayed_away.error == ""


def ranks_differ(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 8 + comm.rank))
    comm.synchronize()


def test_different_calls(kernel_cache: str) -> None:
    ended = outcomes(2, ranks_differ, kernel_cache, timeout_s=20)
    assert "the ranks have made different calls" in "".join(outcome.text for outcome in ended)
    assert "" not in [outcome.error for outcome in ended]


def make_and_drop(comm: Communicator, _: Tell) -> str:
    def gather(mine: bytes) -> bytes:
        everyone = np.empty(comm.size * len(mine), np.uint8)
        comm.all_gather_into_tensor(everyone, np.frombuffer(mine, np.uint8))
        return everyone.tobytes()

    for _again in range(2):
        own = lanecast.from_all_gather(comm.rank, comm.size, gather)
        own.all_reduce(tensor(comm, 100))
        own.synchronize()
        del own
        gc.collect()
    return gpu_host_library.held()


def test_a_communicator_that_goes_leaves_nothing(kernel_cache: str) -> None:
    assert [outcome.value or outcome.text for outcome in outcomes(2, make_and_drop, kernel_cache)] == [NOTHING_HELD] * 2


def short_of_memory(comm: Communicator, _: Tell) -> None:
    if comm.rank == 1:
        gpu_host_library.fail_next("cuMemAlloc", 2)
    comm.all_reduce(tensor(comm, 8))
    comm.synchronize()


def test_a_gpu_that_is_short_of_memory(kernel_cache: str) -> None:
    other, short = outcomes(2, short_of_memory, kernel_cache, timeout_s=20)
    assert short.error == "TransportError"
    assert "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY: out of memory" in short.text
    assert other.error


def launch_fails(comm: Communicator, _: Tell) -> None:
    gpu_host_library.fail_next("cuLaunchKernel", 2)
    comm.all_reduce(tensor(comm, 8))
    comm.synchronize()


def test_a_launch_that_fails(kernel_cache: str) -> None:
    for outcome in outcomes(2, launch_fails, kernel_cache, timeout_s=20):
        assert outcome.error == "TransportError"
        assert "cuLaunchKernel: CUDA_ERROR_OUT_OF_MEMORY" in outcome.text
