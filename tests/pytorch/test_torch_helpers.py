# SPDX-License-Identifier: Apache-2.0
"""Groups whose ranks have helpers, by a variable or by options: results are the same, and nothing stays behind."""

from collections.abc import Iterator

import pytest

from torch_jobs import Job

pytestmark = pytest.mark.timeout(400)  # ranks and helpers that import torch and numpy where the machine is busy

VARIABLES = {"LANECAST_PROCESSES_PER_GPU": "3", "LANECAST_ALLOW_SHARED_CORES": "1"}


@pytest.fixture(scope="module", params=[0, 1], ids=["one host", "two hosts"])
def helped(request: pytest.FixtureRequest) -> Iterator[Job]:
    job = Job(2, VARIABLES, apart=request.param)
    yield job
    job.end()


def test_the_default_group_has_helpers(helped: Job) -> None:
    helped.run("torch_helpers", "check_default_group", 2)


def test_training_by_several_processes(helped: Job) -> None:
    helped.run("torch_helpers", "check_training")


def test_a_helper_that_is_killed_is_named(helped: Job) -> None:
    said = helped.run("torch_helpers", "fails_without_helpers")
    assert all("its helper " in text for text in said), said


def test_more_processes_than_cores_are_refused() -> None:
    job = Job(2)
    said = job.run("torch_helpers", "refused")
    job.end()
    assert all("processes_per_gpu: the leaders on this host and their helpers are 120" in text for text in said), said
