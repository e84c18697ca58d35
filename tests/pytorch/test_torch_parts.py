# SPDX-License-Identifier: Apache-2.0
"""LANECAST_TOPOLOGY, LANECAST_TRANSPORTS and LANECAST_ALGORITHM describe the job; groups of some ranks take their
part of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lanecast import traces
from torch_jobs import Job

OF_JOB = {
    "LANECAST_TOPOLOGY": "2x2",
    "LANECAST_TRANSPORTS": "shm,shm",
    "LANECAST_ALGORITHM": "hierarchical(ring,direct)",
}


@pytest.fixture
def job_with() -> Iterator[Callable[..., Job]]:
    jobs = []

    def with_variables(size: int, apart: int = 0, **variables: str) -> Job:
        jobs.append(Job(size, variables, apart=apart))
        return jobs[-1]

    yield with_variables
    for job in jobs:
        job.end()


@pytest.mark.timeout(400)  # many groups; four ranks that import torch take a minute where the machine is busy
def test_parts_of_two_hosts_of_two(job_with: Callable[..., Job], tmp_path: Path) -> None:
    job = job_with(4, **OF_JOB, LANECAST_TRACE_DIR=str(tmp_path))
    said = job.run("torch_parts", "said_by_parts", [0, 1], [2, 3], [0, 1], [0, 2])
    job.run("torch_parts", "check_parts", [0, 1, 2], [3], [1, 3])
    job.run("torch_parts", "check_mesh", 2, 2)
    job.run("torch_parts", "check_split_and_shrunk")
    job.end()
    # By the first rank of a group, once for each kind of group.
    assert [len(lines) for lines in said] == [1, 0, 1, 0], said
    assert "LANECAST_ALGORITHM='hierarchical(ring,direct)' for groups of 2 ranks on topology 2," in said[0][0]
    found = {each.topology for each in traces.read(tmp_path)}
    assert found == {"2x2", "2", "2x1", "2+1", "1", "1+2"}, found


@pytest.mark.long
def test_parts_without_a_topology(job_with: Callable[..., Job]) -> None:
    """The levels are then those of the hosts, of which a part may lie on one, or have one rank on each."""
    job = job_with(4, apart=2, LANECAST_TRANSPORTS="ucx,shm", LANECAST_ALGORITHM="recursive_doubling")
    (said, *_) = job.run("torch_parts", "said_by_parts", [0, 1], [0, 2], [0, 1, 2], [0], [1, 2, 3])
    assert ["'recursive_doubling' for groups of 3 ranks on topology 2+1," in line for line in said] == [True], said


@pytest.mark.long
def test_options_of_a_part_alone(job_with: Callable[..., Job]) -> None:
    job_with(5, LANECAST_TOPOLOGY="3+2").run("torch_parts", "check_options_of_a_part_alone", "2x2")
