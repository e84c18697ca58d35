# SPDX-License-Identifier: Apache-2.0
"""Pipelines, tensor and sequence parallel, ring attention and experts on 4 ranks: as over gloo, bit by bit."""

from collections.abc import Iterator

import pytest

import torch_parallel
from torch_jobs import Job

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
