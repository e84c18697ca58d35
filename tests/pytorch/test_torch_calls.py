# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed over the backend, on 1, 2 and 3 ranks."""

from collections.abc import Callable

import pytest
import torch

import torch_calls
from torch_jobs import Job

# torch makes what a rank gathers on a GPU where it was built for some, and these ranks have none.
SHARDED = pytest.mark.skipif(torch.version.cuda is not None, reason="a torch without CUDA")
CASES = [
    pytest.param(name, marks=SHARDED if name == "check_sharded_tensors" else ())
    for name in vars(torch_calls)
    if name.startswith("check_")
]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_call(job: Callable[[int], Job], size: int, case: str) -> None:
    job(size).run("torch_calls", case)
