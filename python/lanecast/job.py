# SPDX-License-Identifier: Apache-2.0
"""The job that this process is a rank of, as the environment of its launcher tells it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from lanecast.wording import counted

_Names = tuple[str, ...]  # the first that is set counts

_RUN = re.compile(r"([1-9]\d{0,8})(?:\(x([1-9]\d{0,8})\))?", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)  # no launcher starts more, and int() refuses thousands of digits
_TASKS = re.compile(rf"{_RUN.pattern}(?:,{_RUN.pattern})*", re.ASCII)


@dataclass(frozen=True)
class _Launcher:
    name: str
    marks: _Names  # all are set in its ranks and nowhere else
    rank: _Names
    size: _Names
    local_rank: _Names
    local_size: _Names = ()
    tasks: _Names = ()  # tasks of each host, in Slurm's notation, for those that tell no local size
    host: _Names = ()  # the number of this host among them
    hosts: _Names = ()
    services: _Names | None = None  # with any of these set an MPI finds the other ranks; None: it always does


_PMI = ("PMI_RANK", "PMI_FD", "PMI_CONTROL_PORT", "PMIX_RANK", "PMIX_NAMESPACE", "PALS_APINFO")

# The innermost launcher counts, and those that like to run inside others come first: mpirun and torchrun start their
# ranks through srun, whose variables the ranks then see as well.
_LAUNCHERS = (
    _Launcher("torchrun", ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"), ("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",),
              ("LOCAL_WORLD_SIZE",), services=()),
    _Launcher("mpirun of Open MPI", ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_SIZE",),
              ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_LOCAL_SIZE",)),
    _Launcher("mpiexec of MPICH (Hydra)", ("MPI_LOCALRANKID", "PMI_SIZE"), ("PMI_RANK",), ("PMI_SIZE",),
              ("MPI_LOCALRANKID",), ("MPI_LOCALNRANKS",)),
    # With -pmi-port, where the process manager itself tells the size.
    _Launcher("mpiexec of MPICH (Hydra)", ("PMI_PORT", "PMI_ID"), ("PMI_ID",), (), ("MPI_LOCALRANKID",),
              ("MPI_LOCALNRANKS",)),
    _Launcher("mpirun of MVAPICH", ("MV2_COMM_WORLD_SIZE",), ("MV2_COMM_WORLD_RANK",), ("MV2_COMM_WORLD_SIZE",),
              ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_LOCAL_SIZE",)),
    _Launcher("flux run", ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"), ("FLUX_TASK_RANK",), ("FLUX_JOB_SIZE",),
              ("FLUX_TASK_LOCAL_ID",), hosts=("FLUX_JOB_NNODES",), services=_PMI),
    _Launcher("srun", ("SLURM_STEP_ID", "SLURM_PROCID"), ("SLURM_PROCID",), ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
              ("SLURM_LOCALID",), tasks=("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), host=("SLURM_NODEID",),
              hosts=("SLURM_STEP_NUM_NODES", "SLURM_NNODES"), services=_PMI),
    _Launcher("a launcher with PMI", ("PMI_SIZE",), ("PMI_RANK",), ("PMI_SIZE",), ("PMI_LOCAL_RANK",),
              ("PMI_LOCAL_SIZE",)),
    _Launcher("a launcher with PMI", ("PMI_RANK",), ("PMI_RANK",), (), ("PMI_LOCAL_RANK",)),
    _Launcher("a launcher with PMIx", ("PMIX_RANK",), ("PMIX_RANK",), (), ("PMIX_LOCAL_RANK",)),
    _Launcher("a launcher for PyTorch", ("RANK", "WORLD_SIZE", "MASTER_ADDR"), ("RANK",), ("WORLD_SIZE",),
              ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE",), services=()),
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What a launcher says of this process; None: it does not say."""

    launcher: str
    rank: int | None
    size: int | None
    local_rank: int | None  # among the ranks of this host
    local_size: int | None
    hosts: int | None
    believed: tuple[str, ...]  # the variables that said so
    starts_mpi: bool  # can an MPI library find the other ranks?

    def __str__(self) -> str:
        text = f"{self.launcher}: rank {_of(self.rank, self.size)}"
        if self.local_rank is not None:
            text += f", {_of(self.local_rank, self.local_size)} on its host"
        return text + (f", {counted(self.hosts, 'host')}" if self.hosts is not None else "")

    def obstacle(self) -> str:
        """Why no communicator of all ranks can be made, and what to do; empty where one can."""
        if self.starts_mpi or self.size == 1:
            return ""
        started = f"{self.launcher} has started this process as rank {self.rank} of {self.size}"
        if self.launcher == "srun":
            return (
                f"{started} without a service by which an MPI finds the others: use srun --mpi=pmix or --mpi=pmi2, as "
                "your MPI wants it (srun --mpi=list shows what there is)"
            )
        if self.launcher == "flux run":
            return f"{started} without PMI: use flux run -o pmi=simple"
        return (
            f"{started}, which starts no MPI: start with mpirun, mpiexec or srun, use "
            "torch.distributed.init_process_group('lanecast'), or make the communicator by "
            "lanecast.from_all_gather(rank, size, lanecast.rendezvous.over_store(store, rank, size)) over torch's store"
        )


def _of(one: int | None, count: int | None) -> str:
    return f"{'?' if one is None else one} of {'?' if count is None else count}"


def detect(environment: Mapping[str, str] = os.environ) -> Job | None:
    """The launcher that has started this process; None without one. Numbers that are none count as not said."""
    for launcher in _LAUNCHERS:
        if not all(environment.get(mark) for mark in launcher.marks):
            continue
        believed: list[str] = []

        def number(names: _Names, believed: list[str] = believed) -> int | None:
            for name in names:
                if _NUMBER.fullmatch(environment.get(name, "")):
                    believed.append(f"{name}={environment[name]}")
                    return int(environment[name])
            return None

        services = launcher.services
        rank, size, local_rank = number(launcher.rank), number(launcher.size), number(launcher.local_rank)
        local_size = number(launcher.local_size)
        for name in launcher.tasks:
            tasks = _tasks_of_hosts(environment.get(name, ""), size or 0)
            host = number(launcher.host) if tasks else None
            if host is not None and host < len(tasks):
                local_size = tasks[host]
                believed.append(f"{name}={environment[name]}")
                break
        return Job(
            launcher.name, rank, size, local_rank, local_size, number(launcher.hosts), tuple(believed),
            services is None or any(environment.get(name) for name in services),
        )  # fmt: skip
    return None


def _tasks_of_hosts(text: str, size: int) -> list[int]:
    """[4, 4, 3] of "4(x2),3"; empty for what is no such list, or not one of so many tasks, as that of an allocation."""
    if not _TASKS.fullmatch(text):
        return []
    runs = [(int(count), int(times or 1)) for count, times in _RUN.findall(text)]
    if sum(count * times for count, times in runs) != size:
        return []
    return [count for count, times in runs for _ in range(times)]


def under_launcher() -> bool:
    """Was this process started by mpirun, mpiexec, srun and the like, or has it MPI running already?"""
    return detect() is not None or "mpi4py.MPI" in sys.modules
