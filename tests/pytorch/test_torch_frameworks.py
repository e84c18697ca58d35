# SPDX-License-Identifier: Apache-2.0
"""Hugging Face accelerate, Lightning and DeepSpeed, given the backend's name, train as they do on gloo."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torch_jobs import free_port

SCRIPT = Path(__file__).parent / "torch_frameworks.py"
COMM = Path(__file__).parent / "deepspeed_comm.py"


def found_by(script: Path, ranks: int, file: Path, *arguments: str) -> Any:
    """What rank 0 of the script's has written to the file."""
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}"]
    done = subprocess.run(
        [*launcher, f"--master-port={free_port()}", str(script), *arguments, str(file)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=file.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(file.read_text())


def losses(framework: str, backend: str, folder: Path) -> list[float]:
    found: list[float] = found_by(SCRIPT, 2, folder / f"{framework}-{backend}.json", framework, backend)
    return found


def checks_of_deepspeed(backend: str, ranks: int, folder: Path) -> dict[str, set[str]]:
    found: dict[str, list[str]] = found_by(COMM, ranks, folder / f"{backend}.json", backend)
    counts = ", ".join(f"{len(names)} {outcome}" for outcome, names in found.items())
    print(f"DeepSpeed's checks of a backend on {backend}, {ranks} ranks: {counts}")
    return {outcome: set(names) for outcome, names in found.items()}


@pytest.mark.long
@pytest.mark.parametrize("framework", ["accelerate", "lightning", "deepspeed-1", "deepspeed-2", "deepspeed-3"])
def test_same_losses_as_on_gloo(framework: str, tmp_path: Path) -> None:
    theirs = losses(framework, "gloo", tmp_path)
    assert theirs[-1] < theirs[0]
    for backend in ("lanecast", "hooks") if framework.startswith("deepspeed") else ("lanecast",):
        assert losses(framework, backend, tmp_path) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4])
def test_what_deepspeed_checks_of_a_backend(ranks: int, tmp_path: Path) -> None:
    ours, gloo = (checks_of_deepspeed(backend, ranks, tmp_path) for backend in ("lanecast", "gloo"))
    assert ours["failed"] == set()
    assert gloo["passed"] - ours["passed"] == set()
