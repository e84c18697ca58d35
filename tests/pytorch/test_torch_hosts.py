# SPDX-License-Identifier: Apache-2.0
"""Between hosts messages go over MPI under mpiexec, whatever the order of its ranks, and over UCX under torchrun."""

import os
import re
import subprocess
import sys
from pathlib import Path

from launch import mpich
from torch_jobs import free_port

SCRIPT = Path(__file__).parent / "torch_hosts.py"


def all_done(text: str) -> bool:
    return sorted(re.findall(r"rank \d done", text)) == [f"rank {rank} done" for rank in range(4)]  # lines may mix


def test_two_hosts_of_two_under_mpiexec() -> None:
    command = [sys.executable, str(SCRIPT)]
    assert all_done(mpich(4, command, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1"))


def test_two_hosts_of_two_under_torchrun() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=4", f"--master-port={free_port()}"]
    job = subprocess.run(
        [*command, str(SCRIPT)], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        timeout=110, check=False,
    )  # fmt: skip
    assert all_done(job.stdout), job.stdout + job.stderr[-5000:]
