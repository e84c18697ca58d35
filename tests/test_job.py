# SPDX-License-Identifier: Apache-2.0
"""Which launcher has started a process, told by environments as real ones leave them, and by two real launchers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lanecast import UsageError, job, startup
from launch import mpich, openmpi

ROOT = Path(__file__).parent.parent
SRUN = {
    "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1", "SLURM_NNODES": "2", "SLURM_STEP_NUM_NODES": "2",
}  # fmt: skip
TASKS = {"SLURM_TASKS_PER_NODE": "5,3", "SLURM_NODEID": "1"}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "n1", "MASTER_PORT": "29500",
}  # fmt: skip
HYDRA = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2", "PMI_FD": "9"}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "6", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "PMIX_RANK": "6",
}  # fmt: skip
FLUX = {"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "8", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_NNODES": "2"}


@pytest.mark.parametrize(
    ("environment", "launcher", "numbers", "starts_mpi"),
    [
        (HYDRA, "Hydra", (2, 4, 0, 2, None), True),
        (OPEN_MPI, "Open MPI", (6, 8, 2, 4, None), True),
        (SRUN, "srun", (5, 8, 1, None, 2), False),
        ({**SRUN, "PMIX_RANK": "5"}, "srun", (5, 8, 1, None, 2), True),
        ({**SRUN, "PMI_RANK": "5", "PMI_SIZE": "8"}, "srun", (5, 8, 1, None, 2), True),
        ({**SRUN, **TASKS}, "srun", (5, 8, 1, 3, 2), False),
        ({**SRUN, **TASKS, "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, "srun", (5, 8, 1, 4, 2), False),
        # Of the allocation, and of no host; and what is no such list.
        ({**SRUN, **TASKS, "SLURM_TASKS_PER_NODE": "64(x2)"}, "srun", (5, 8, 1, None, 2), False),
        ({**SRUN, **TASKS, "SLURM_NODEID": "2"}, "srun", (5, 8, 1, None, 2), False),
        ({**SRUN, **TASKS, "SLURM_NODEID": ""}, "srun", (5, 8, 1, None, 2), False),
        ({**SRUN, **TASKS, "SLURM_TASKS_PER_NODE": "5,3(x"}, "srun", (5, 8, 1, None, 2), False),
        ({**SRUN, **TASKS, "SLURM_TASKS_PER_NODE": "1(x99999999999),8"}, "srun", (5, 8, 1, None, 2), False),
        (TORCHRUN, "torchrun", (3, 4, 1, 2, None), False),
        ({**FLUX, "PMI_FD": "12"}, "flux", (1, 8, 1, None, 2), True),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "PMI", (1, 2, None, None, None), True),
        ({"PMI_PORT": "n1:4711", "PMI_ID": "1", "MPI_LOCALRANKID": "1"}, "Hydra", (1, None, 1, None, None), True),
        ({"PMIX_RANK": "1"}, "PMIx", (1, None, None, None, None), True),
        # Those that start their ranks through srun: its variables are those of the daemon.
        ({**SRUN, **OPEN_MPI}, "Open MPI", (6, 8, 2, 4, None), True),
        ({**SRUN, **HYDRA}, "Hydra", (2, 4, 0, 2, None), True),
        ({**SRUN, **TORCHRUN}, "torchrun", (3, 4, 1, 2, None), False),
        ({**SRUN, "SLURM_PROCID": "x", "SLURM_LOCALID": ""}, "", (None, 8, None, None, 2), False),
    ],
)
def test_launchers_are_told_apart(
    environment: dict[str, str], launcher: str, numbers: tuple[int | None, ...], starts_mpi: bool
) -> None:
    found = job.detect(environment)
    assert found is not None
    assert launcher in found.launcher
    assert (found.rank, found.size, found.local_rank, found.local_size, found.hosts) == numbers
    assert found.starts_mpi == starts_mpi
    assert all(f"{name}={environment[name]}" in found.believed or "=" in name for name in environment
               if environment[name] == str(found.rank) and name.endswith("PROCID"))  # fmt: skip


@pytest.mark.parametrize("environment", [{}, {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}, {"RANK": "3"}])
def test_no_launcher(environment: dict[str, str]) -> None:
    """An allocation alone has started nobody: a batch script is one process."""
    assert job.detect(environment) is None


@pytest.mark.parametrize(
    ("environment", "advice"),
    [(SRUN, "srun --mpi=pmix"), (TORCHRUN, r"init_process_group.*from_all_gather"), (FLUX, "pmi=simple")],
)
def test_launchers_without_mpi_get_advice(
    environment: dict[str, str], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = job.detect()
    assert found is not None
    with pytest.raises(UsageError, match=advice) as refused:
        startup.init()
    assert f"rank {found.rank} of {found.size}" in str(refused.value)


def test_one_task_needs_no_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}.items():
        monkeypatch.setenv(name, value)
    assert startup.init().size == 1


def test_info_says_whom_it_believed() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "lanecast", "info"],
        env={**os.environ, **SRUN}, capture_output=True, text=True, timeout=240, check=True,
    ).stdout  # fmt: skip
    assert "srun: rank 5 of 8, 1 of ? on its host, 2 hosts" in shown
    assert "SLURM_PROCID=5" in shown
    assert "srun --mpi=list" in shown


def test_info_of_a_host_is_shown_once() -> None:
    shown = mpich(2, [sys.executable, "-m", "lanecast", "info"])
    assert shown.count("CPU kernels") == 1
    assert [shown.count(f"rank {r} of 2, {r} of 2 on its host") for r in range(2)] == [1, 1]
    assert max(len(line) - len(line.rstrip()) for line in shown.splitlines()) == 0, "padded lines wrap on a terminal"


PROGRAM = """
import sys
from lanecast import job, startup
comm = startup.init()
sys.stdout.write(f"{comm.rank} {comm.size} {job.detect()}\\n")  # in one piece: ranks share the pipe
"""


def test_real_mpich_agrees_with_its_environment() -> None:
    lines = sorted(mpich(2, [sys.executable, "-c", PROGRAM]).splitlines())
    assert lines == [f"{r} 2 mpiexec of MPICH (Hydra): rank {r} of 2, {r} of 2 on its host" for r in range(2)]


def test_real_mpich_whose_ranks_find_each_other_by_a_port() -> None:
    lines = sorted(mpich(2, [sys.executable, "-c", PROGRAM], options=["-pmi-port"]).splitlines())
    assert lines == [f"{r} 2 mpiexec of MPICH (Hydra): rank {r} of ?, {r} of 2 on its host" for r in range(2)]


def test_real_open_mpi_agrees_with_its_environment() -> None:
    python = str(ROOT / ".venv-openmpi" / "bin" / "python")
    lines = sorted(openmpi(2, [python, "-c", PROGRAM]).splitlines())
    assert lines == [f"{r} 2 mpirun of Open MPI: rank {r} of 2, {r} of 2 on its host" for r in range(2)]
