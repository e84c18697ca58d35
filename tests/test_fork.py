# SPDX-License-Identifier: Apache-2.0
"""A process forked from a rank cannot use, and by its end cannot harm, what is its parent's."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fork_rank import fork_and_go_on
from launch import OPENMPI, mpich, openmpi
from pipe_jobs import PipeJob

HERE = Path(__file__).parent


def body(comm: Any, _: Callable[[Any], None]) -> str:
    return fork_and_go_on([comm], os._exit)


def test_over_shared_memory() -> None:
    job = PipeJob(2, body, timeout_s=60.0)
    assert [(each.value, each.text) for each in map(job.outcome, range(2))] == [("fine", "")] * 2
    assert job.end() == [0, 0]


@pytest.mark.parametrize("launch", [mpich, openmpi])
def test_over_mpi(launch: Callable[..., str]) -> None:
    """Whose end in a forked process would take the job with it."""
    python = sys.executable if launch is mpich else str(OPENMPI / "python")
    output = launch(2, [python, str(HERE / "fork_rank.py")])
    assert re.findall("fine", output) == ["fine", "fine"], output
