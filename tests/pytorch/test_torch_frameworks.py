# SPDX-License-Identifier: Apache-2.0
"""Hugging Face accelerate, Lightning and DeepSpeed, given the backend's name, train as they do on gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_jobs import free_port

SCRIPT = Path(__file__).parent / "torch_frameworks.py"


def losses(framework: str, backend: str, folder: Path) -> list[float]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    file = folder / f"{framework}-{backend}.json"
    done = subprocess.run(
        [*launcher, str(SCRIPT), framework, backend, str(file)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    found: list[float] = json.loads(file.read_text())
    return found


@pytest.mark.long
@pytest.mark.parametrize("framework", ["accelerate", "lightning", "deepspeed-1", "deepspeed-2", "deepspeed-3"])
def test_same_losses_as_on_gloo(framework: str, tmp_path: Path) -> None:
    theirs = losses(framework, "gloo", tmp_path)
    assert theirs[-1] < theirs[0]
    for backend in ("lanecast", "hooks") if framework.startswith("deepspeed") else ("lanecast",):
        assert losses(framework, backend, tmp_path) == pytest.approx(theirs, rel=1e-4)
