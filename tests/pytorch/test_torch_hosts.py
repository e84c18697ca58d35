# SPDX-License-Identifier: Apache-2.0
"""Between hosts messages go over MPI under mpiexec, whatever the order of its ranks, else over UCX or emulated NICs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from launch import mpich
from torch_jobs import free_port

SCRIPT = Path(__file__).parent / "torch_hosts.py"


def all_done(text: str) -> bool:
    return sorted(re.findall(r"rank \d done", text)) == [f"rank {rank} done" for rank in range(4)]  # lines may mix


def test_two_hosts_of_two_under_mpiexec() -> None:
    command = [sys.executable, str(SCRIPT)]
    assert all_done(mpich(4, command, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1"))


@pytest.mark.parametrize("nics", ["", "1GBps,20us,2"])
def test_two_hosts_of_two_under_torchrun(nics: str) -> None:
    emulated = {"LANECAST_GPU_NICS": nics} if nics else {}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=4", f"--master-port={free_port()}"]
    job = subprocess.run(
        [*command, str(SCRIPT)], env={**os.environ, "OMP_NUM_THREADS": "1", **emulated}, capture_output=True, text=True,
        timeout=110, check=False,
    )  # fmt: skip
    assert all_done(job.stdout), job.stdout + job.stderr[-5000:]


SPAWNS = """
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing

def main(rank, port):
    dist.init_process_group("lanecast", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    values = torch.ones(4)
    dist.all_reduce(values)
    assert values.tolist() == [2.0] * 4
    dist.destroy_process_group()
    print("done", flush=True)

if __name__ == "__main__":
    torch.multiprocessing.spawn(main, (int(sys.argv[1]),), 2)
"""


def test_ranks_that_a_launchers_rank_spawns(tmp_path: Path) -> None:
    """They have its variables, but are no ranks of an MPI."""
    program = tmp_path / "spawns.py"
    program.write_text(SPAWNS)
    output = mpich(1, [sys.executable, str(program), str(free_port())], OMP_NUM_THREADS="1")
    assert output.count("done") == 2
