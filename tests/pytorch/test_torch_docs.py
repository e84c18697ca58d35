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
        [*launcher, "--nproc-per-node", match[1], str(file)], capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert timeless(done.stdout) == timeless(fence.shown)


PATH = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"


def lines_with(*words: str) -> list[str]:
    """The block of docs/guide/pytorch.md that has these words."""
    bodies = [fence.body for fence in fences("sh") if fence.where.startswith("docs/guide/pytorch.md")]
    return [body for body in bodies if all(word in body for word in words)]


def first_program(lines: str, folder: Path, path: str) -> None:
    program = next(fence for fence in PROGRAMS if fence.body.startswith("# train.py"))
    (folder / "train.py").write_text(program.body)
    done = subprocess.run(
        lines.replace("29500", str(free_port())), shell=True, cwd=folder, capture_output=True, text=True, timeout=240,
        check=False, env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "SLURM_JOB_NODELIST": "both"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == program.shown


def test_the_first_program_runs_under_mpirun(tmp_path: Path) -> None:
    """By the line that stands there, of MPICH's launcher."""
    (line,) = lines_with("mpirun")
    first_program(line, tmp_path, PATH)


def test_the_first_program_runs_under_srun(tmp_path: Path) -> None:
    """By the lines that stand there; two ranks of this host, told their places as srun does, stand for hosts."""
    (lines,) = lines_with("srun", "SLURM_PROCID")
    pretended = {
        "scontrol": 'test "$*" = "show hostnames both" && printf "127.0.0.1\\nnowhere\\n"',
        "srun": 'while [ "$1" != sh ]; do shift; done\n'
        'exec mpirun -n 2 sh -c \'SLURM_PROCID=$PMI_RANK SLURM_NTASKS=$PMI_SIZE SLURM_LOCALID=0 exec "$@"\' sh "$@"',
    }
    for name, body in pretended.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    first_program(lines, tmp_path, f"{tmp_path}:{PATH}")
