# SPDX-License-Identifier: Apache-2.0
"""What the tests of the torch.distributed backend share."""

from collections.abc import Callable, Iterator

import pytest

from torch_jobs import NO_GPU, Job


@pytest.fixture(scope="session")
def job() -> Iterator[Callable[[int], Job]]:
    """job(n): n ranks in one group, kept for the tests that follow: importing torch takes seconds."""
    jobs: dict[int, Job] = {}

    def with_ranks(size: int) -> Job:
        if size not in jobs or jobs[size].broken:
            jobs[size] = Job(size, NO_GPU)
        return jobs[size]

    yield with_ranks
    for running in jobs.values():
        running.end()
