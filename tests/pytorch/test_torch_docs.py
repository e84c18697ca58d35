# SPDX-License-Identifier: Apache-2.0
"""The programs for torchrun in the documents run and print what they show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import TORCHRUN, Fence, fences, timeless
from torch_jobs import free_port

PROGRAMS = [fence for fence in fences("python") if TORCHRUN.search(fence.body)]


@pytest.mark.parametrize("fence", PROGRAMS, ids=lambda fence: fence.where)
def test_programs_run_and_print_what_is_shown(fence: Fence, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(fence.body)
    match = TORCHRUN.search(fence.body)
    assert match is not None
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--master-port={free_port()}"]
    done = subprocess.run(
        [*launcher, "--nproc-per-node", match[1], str(file)], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert timeless(done.stdout) == timeless(fence.shown)


def test_the_first_program_runs_under_mpirun(tmp_path: Path) -> None:
    """By the line that stands there, of MPICH's launcher."""
    (line,) = [
        fence.body
        for fence in fences("sh")
        if fence.where.startswith("docs/guide/pytorch.md") and "mpirun" in fence.body
    ]
    program = next(fence for fence in PROGRAMS if fence.body.startswith("# train.py"))
    (tmp_path / "train.py").write_text(program.body)
    path = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        line.replace("29500", str(free_port())), shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=100,
        check=False, env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == program.shown
