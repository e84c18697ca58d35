# SPDX-License-Identifier: Apache-2.0
"""What tells how a group and its calls are doing, on 1, 2 and 3 ranks."""

from collections.abc import Callable

import pytest

import torch_shrinking
import torch_watching
import torch_works_watched
from torch_jobs import Job

CASES = [
    (module.__name__, name)
    for module in (torch_shrinking, torch_watching, torch_works_watched)
    for name in vars(module)
    if name.startswith("check_")
]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("module", "case"), CASES)
def test_watching(job: Callable[[int], Job], size: int, module: str, case: str) -> None:
    job(size).run(module, case)
