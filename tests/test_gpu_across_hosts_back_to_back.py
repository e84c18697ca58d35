# SPDX-License-Identifier: Apache-2.0
"""Many calls between hosts on GPUs, back to back: nobody waits for one before the last is enqueued."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Array
from gpu_stand_in import Tensor, between_hosts, outcomes
from lanecast import Communicator
from pipe_jobs import PipeJob, Tell

COUNTS = (0, 0, 1, 3, 5, 64, 1000, 5000, 70_000)
GROWING = (8, 200_000, 8, 400_000, 1, 0, 600_000, 64)  # memory of messages grows between calls, and serves small ones
ALGORITHMS = ("", "ring", "hierarchical(ring,peers)", "direct")


def brought(rank: int, count: int) -> Array:
    return (np.arange(count) % 97 + rank * 3).astype(np.float32)


def one_call(comm: Communicator, kind: str, count: int, algorithm: str, chunks: int) -> tuple[list[Tensor], Array]:
    """Tensors, of which the last one is the output; and what it has to hold."""

    def on_gpu(array: Array) -> Tensor:
        return Tensor(array, "float32", comm.rank)

    how: dict[str, Any] = {**({"algorithm": algorithm} if algorithm else {}), **({"chunks": chunks} if chunks else {})}
    size, rank = comm.size, comm.rank
    if kind == "all_reduce":
        x = on_gpu(brought(rank, count))
        comm.all_reduce(x, **how)
        return [x], np.sum([brought(r, count) for r in range(size)], axis=0)
    if kind == "all_gather":
        x, out = on_gpu(brought(rank, count)), on_gpu(np.zeros(count * size, np.float32))
        comm.all_gather_into_tensor(out, x, **how)
        return [x, out], np.concatenate([brought(r, count) for r in range(size)])
    x, out = on_gpu(brought(rank, count * size)), on_gpu(np.zeros(count, np.float32))
    comm.reduce_scatter_tensor(out, x, **how)
    whole = np.sum([brought(r, count * size) for r in range(size)], axis=0)
    return [x, out], whole[rank * count : (rank + 1) * count]


def back_to_back(counts: tuple[int, ...], calls: int, late_s: float, comm: Communicator, _: Tell) -> list[str]:
    """counts: in turn where there are as many as calls, else drawn. late_s: a rank is up to so late, in some calls."""
    rng, own = random.Random(5), random.Random(comm.rank)
    made = []
    for k in range(calls):
        count = counts[k] if len(counts) == calls else rng.choice(counts)
        kind = rng.choice(["all_reduce", "all_gather", "reduce_scatter"])
        algorithm, chunks = rng.choice(ALGORITHMS), rng.choice([0, 0, 1, 3])
        if late_s and own.random() < 0.2:
            time.sleep(own.uniform(0, late_s))
        call = one_call(comm, kind, count, algorithm, chunks)
        made.append((f"call {k}: {kind} of {count} by {algorithm}, chunks {chunks}", *call))
    comm.synchronize()
    return [text for text, tensors, promised in made if not np.array_equal(tensors[-1].array, promised)]


BODIES = {
    "drawn": partial(back_to_back, COUNTS, 40, 0.0),
    "late": partial(back_to_back, COUNTS, 25, 0.05),
    "growing": partial(back_to_back, GROWING, len(GROWING), 0.0),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "topology"), [(2, "2x1"), (3, "2+1"), pytest.param(4, "2x2", marks=pytest.mark.long)])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_back_to_back(
    size: int, topology: str, body: Callable[[Communicator, Tell], list[str]], kernel_cache: str
) -> None:
    for outcome in outcomes(size, body, kernel_cache, **between_hosts(topology)):
        assert (outcome.text, outcome.value) == ("", [])


def one_is_killed(after: int, comm: Communicator, _: Tell) -> str:
    """The last rank ends between two calls; what the others are told."""
    x = Tensor(np.ones(3000, np.float32), "float32", comm.rank)
    try:
        for turn in range(after + 3):
            if turn == after and comm.rank == comm.size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            comm.all_reduce(x, algorithm="ring", chunks=turn % 4)
            if turn % 3 == 0:
                comm.synchronize()
        comm.synchronize()
    except (lanecast.TransportError, lanecast.TimeoutError) as error:
        return str(error)
    return ""


@pytest.mark.timeout(700)
@pytest.mark.parametrize("after", [1, 5])
def test_a_rank_that_is_killed_is_named(after: int, kernel_cache: str) -> None:
    environment = gpu_host_library.environment()
    body = partial(one_is_killed, after)
    job = PipeJob(3, body, kernel_cache=kernel_cache, environment=environment, timeout_s=60.0, **between_hosts("2+1"))
    told = [job.outcome(rank, timeout_s=600) for rank in range(2)]
    assert job.end() == [0, 0, -signal.SIGKILL]
    for outcome in told:
        assert outcome.text == ""
        assert "rank 2" in outcome.value
