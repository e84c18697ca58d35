# SPDX-License-Identifier: Apache-2.0
"""Pipelines, tensor and sequence parallel, ring attention and experts on 4 ranks: as over gloo, bit by bit."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import torch_parallel
from torch_jobs import Job

sys.path.append(str(Path(__file__).parent.parent.parent / "bench"))

import torch_pipelines

CASES = [name for name in vars(torch_parallel) if name.startswith("check_")]


@pytest.fixture(scope="module", params=["", "50GBps,12us,2"], ids=["one-host", "emulated-hosts"])
def four(request: pytest.FixtureRequest) -> Iterator[Job]:
    nics = {"LANECAST_GPU_NICS": request.param, "LOCAL_WORLD_SIZE": "4"} if request.param else {}
    job = Job(4, nics)
    yield job
    job.end()


@pytest.mark.timeout(300)  # the first one makes the adapter
@pytest.mark.parametrize("case", CASES)
def test_as_over_gloo(four: Job, case: str) -> None:
    four.run("torch_parallel", case)


@pytest.mark.parametrize("name", torch_pipelines.SCHEDULES)
def test_bound_of_a_pipeline(name: str) -> None:
    """Of equal stages it is the known one; messages of 1F1B on two ranks are waited for once a microbatch."""
    ranks, parts = 3, torch_pipelines.PARTS
    times = {(kind, rank): {"F": 1.0, "B": 2.0}[kind] for kind in "FB" for rank in range(ranks)}
    order = torch_pipelines.order_of(name, ranks)
    assert all(len(set(mine)) == len(mine) == 2 * parts for mine in order)
    assert torch_pipelines.step_s(order, times, 0.0) == 3.0 * (parts + ranks - 1)
    on_two = torch_pipelines.step_s(torch_pipelines.order_of(name, 2), times, 0.5)
    assert on_two == 3.0 * (parts + 1) + 0.5 * (parts if name == "1F1B" else 2)
