# SPDX-License-Identifier: Apache-2.0
"""What trains on gloo trains on Lanecast, with the same losses."""

from collections.abc import Callable

import pytest

import torch_training
from torch_jobs import Job

CASES = [name for name in vars(torch_training) if name.startswith("check_")]


@pytest.mark.parametrize("case", CASES)
def test_training(job: Callable[[int], Job], case: str) -> None:
    job(2).run("torch_training", case)


@pytest.mark.parametrize("case", ["check_ddp", "check_fsdp2", "check_dtensor"])
def test_training_on_three(job: Callable[[int], Job], case: str) -> None:
    job(3).run("torch_training", case)
