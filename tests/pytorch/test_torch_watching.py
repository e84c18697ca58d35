# SPDX-License-Identifier: Apache-2.0
"""What tells how a group and its calls are doing, on 1, 2 and 3 ranks."""

from collections.abc import Callable

import pytest

import torch_watching
from torch_jobs import Job

CASES = [name for name in vars(torch_watching) if name.startswith("check_")]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_watching(job: Callable[[int], Job], size: int, case: str) -> None:
    job(size).run("torch_watching", case)
