# SPDX-License-Identifier: Apache-2.0
"""NCCL's own collectives by Lanecast's calls, without a GPU: over a library that passes for NCCL."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from functools import partial
from pathlib import Path

import pytest

import gpu_host_library
import lanecast
from collective_cases import Case, even, ops_of
from gpu_stand_in import Tensor, between_hosts, in_environment, in_place_is_offered, judge, outcomes, tensor
from lanecast import Communicator, _core
from pipe_jobs import PipeJob, Tell, stays_until

NO_SUMS = ("float8_e4m3", "float8_e5m2", "int16", "uint16")


def has(dtype: str, op: str) -> bool:
    """NCCL's min and max lose NaN, and its averages small numbers."""
    return dtype not in NO_SUMS and op in ("sum", "prod", *(("min", "max") if "int" in dtype else ()))


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(("size", "topology"), [(1, ""), (2, ""), (3, "3x1"), (4, "2x2")])
def test_each_kind(size: int, topology: str, kernel_cache: str) -> None:
    cases = [
        Case(kind, even(kind, count, size), "nccl", in_place=in_place, root=size - 1, async_op=count == 5)
        for kind, count in itertools.product(_core.KINDS, (0, 1, 5, 20_003))
        for in_place in in_place_is_offered(kind)
    ]
    judge(size, cases, kernel_cache, topology=topology)


@pytest.mark.timeout(400)
def test_each_type_and_operator(kernel_cache: str) -> None:
    sums = [
        Case("all_reduce", (33,), "nccl", dtype, op, in_place=True)
        for dtype in _core.DTYPES
        for op in ops_of(dtype)
        if has(dtype, op)
    ]
    moves = [
        Case(kind, even(kind, 7, 2), "nccl", dtype) for kind in ("all_gather", "all_to_all") for dtype in _core.DTYPES
    ]
    assert len(sums) == 32
    judge(2, sums + moves, kernel_cache)


def beside_our_own(comm: Communicator, _: Tell) -> list[float]:
    x, y = tensor(comm, 1000), tensor(comm, 7)
    for _turn in range(3):
        comm.all_reduce(x, algorithm="nccl")
        comm.all_reduce(x, algorithm="ring")
        comm.all_reduce(y, algorithm="nccl", async_op=True).synchronize()  # type: ignore[union-attr]
    comm.synchronize()
    part = comm.split(0, -comm.rank)
    assert part is not None
    part.all_reduce(y, algorithm="nccl")
    part.synchronize()
    held = gpu_host_library.nccl_held()
    del part
    gc.collect()
    return [float(x.array[0]), float(y.array[0]), held, gpu_host_library.nccl_held()]


def test_in_order_with_our_own_and_given_back(kernel_cache: str) -> None:
    for outcome in outcomes(2, beside_our_own, kernel_cache, topology="2x1"):
        assert (outcome.text, outcome.value) == ("", [64.0, 16.0, 2, 1])


def nccl_sum(comm: Communicator, x: Tensor) -> None:
    comm.all_reduce(x, algorithm="nccl")
    comm.synchronize()


def refused(comm: Communicator, _: Tell) -> None:
    x, whole, own = tensor(comm, 8), tensor(comm, 5), tensor(comm, 2 + comm.rank)
    calls = {
        "min of float32: NCCL has none, or another than Lanecast's": partial(comm.all_reduce, x, "min"),
        "avg of float32: NCCL has none, or another than Lanecast's": partial(comm.all_reduce, x, "avg"),
        "counts: NCCL's are equal on all ranks": partial(comm.all_gather_into_tensor, whole, own, counts=[2, 3]),
        "chunks=3: NCCL cuts messages by itself": partial(comm.all_reduce, x, chunks=3),
        "reproducible: NCCL adds in an order of its own": partial(comm.all_reduce, x, reproducible=True),
    }
    for words, call in calls.items():
        with pytest.raises(lanecast.UsageError, match=f"rank {comm.rank}: .*'nccl': {words}"):
            call(algorithm="nccl")
    nccl_sum(comm, x)


def test_what_it_has_not_is_refused(kernel_cache: str) -> None:
    assert [outcome.text for outcome in outcomes(2, refused, kernel_cache)] == [""] * 2


def captured_between_hosts(comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 8)
    nccl_sum(comm, x)
    gpu_host_library.capture(on=True)
    with pytest.raises(
        lanecast.UsageError, match=f"rank {comm.rank}: no CUDA graph can capture algorithm 'nccl' between"
    ):
        comm.all_reduce(x, algorithm="nccl")
    gpu_host_library.capture(on=False)
    nccl_sum(comm, x)


def test_no_graph_captures_it_between_hosts(kernel_cache: str) -> None:
    found = outcomes(2, captured_between_hosts, kernel_cache, **between_hosts("2x1"))
    assert [outcome.text for outcome in found] == [""] * 2


def one_has_none(missing: Path, comm: Communicator, _: Tell) -> float:
    if comm.rank == 1:
        os.environ["LANECAST_NCCL_LIBRARY"] = str(missing)
    x = tensor(comm, 8)
    with pytest.raises(lanecast.UsageError, match="NCCL_LIBRARY names no usable library") as caught:
        comm.all_reduce(x, algorithm="nccl")
    assert comm.rank == 1 or "rank 1 refuses" in str(caught.value)
    comm.all_reduce(x)  # others still go
    comm.synchronize()
    return float(x.array.sum())


def test_no_nccl_on_one_rank(tmp_path: Path, kernel_cache: str) -> None:
    for outcome in outcomes(2, partial(one_has_none, tmp_path / "none.so"), kernel_cache):
        assert (outcome.text, outcome.value) == ("", 16.0)


def second_rank_comes_late(ended: Path, comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 8)
    nccl_sum(comm, x)
    if comm.rank == 1:
        stays_until(ended)
    try:
        nccl_sum(comm, x)
    finally:
        ended.touch()


def test_a_peer_that_does_not_call(kernel_cache: str, tmp_path: Path) -> None:
    waited, late = outcomes(2, partial(second_rank_comes_late, tmp_path / "ended"), kernel_cache, timeout_s=10)
    assert waited.error == "TimeoutError"
    assert "rank 0 waited " in waited.text
    assert "s for rank 1 in NCCL's all_reduce on a GPU" in waited.text
    assert "rank 0" in late.text


def ranks_differ(comm: Communicator, _: Tell) -> None:
    comm.all_reduce(tensor(comm, 8), algorithm="nccl")
    if comm.rank == 0:
        comm.all_reduce(tensor(comm, 8), algorithm="nccl")
    comm.broadcast(tensor(comm, 8), 0, algorithm="nccl")
    comm.synchronize()


def test_different_calls(kernel_cache: str) -> None:
    """Found by whoever waits; as NCCL has it, calls that differ may also meet."""
    waited, _ = outcomes(2, ranks_differ, kernel_cache, timeout_s=60.0)
    assert waited.error == "TransportError"
    assert "call 2 of this communicator differs between ranks: rank 0 calls all_reduce of 8 float32" in waited.text


def nccl_fails(ended: Path, comm: Communicator, _: Tell) -> None:
    x = tensor(comm, 8)
    nccl_sum(comm, x)
    if comm.rank == 0:
        comm.all_reduce(x, algorithm="nccl")
        gpu_host_library.fail_next("ncclCommGetAsyncError", 6)
    try:
        comm.synchronize()
    finally:
        if comm.rank == 0:
            ended.touch()
    if comm.rank == 1:
        stays_until(ended)  # a call of its own would end the other's
        nccl_sum(comm, x)


def test_what_nccl_meets_is_an_error(kernel_cache: str, tmp_path: Path) -> None:
    failed, heard = outcomes(2, partial(nccl_fails, tmp_path / "ended"), kernel_cache, timeout_s=60.0)
    assert failed.error == "TransportError"
    assert "rank 0: NCCL: a collective under way: system error: as the test has asked for" in failed.text
    assert "rank 0" in heard.text


def dies(environment: dict[str, str], comm: Communicator, tell: Tell) -> None:
    def body(comm: Communicator, _: Tell) -> None:
        x = tensor(comm, 8)
        nccl_sum(comm, x)
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        nccl_sum(comm, x)

    in_environment(environment, body, comm, tell)


def test_a_killed_peer(kernel_cache: str) -> None:
    job = PipeJob(2, partial(dies, gpu_host_library.environment()), kernel_cache=kernel_cache, timeout_s=60)
    outcome = job.outcome(0, timeout_s=300)
    assert outcome.error == "TransportError"  # by the deadline it would be another
    assert "rank 0 lost rank 1" in outcome.text
    job.end()
