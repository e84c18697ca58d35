# SPDX-License-Identifier: Apache-2.0
"""The machine, the software and the settings that a figure was measured with."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lanecast
from lanecast import _core, nics
from lanecast.bench import network
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.ranks import Ranks
from lanecast.communicator import Communicator
from lanecast.wording import counted

_COPY_BYTES = 64 << 20  # of each rank; beyond the caches
_COPIES = 5
_MOST_CORES = 1024
_SETTINGS = ("LANECAST_", "MPIR_CVAR_", "MPICH_", "OMPI_MCA_", "OMPI_ALLOW_", "PRTE_MCA_", "UCX_", "FI_", "I_MPI_")

_GPU_SETTINGS = ("LANECAST_", "NCCL_", "CUDA_", "TORCH_", "NVSHMEM_", "PYTORCH_")
_SET_BY_LAUNCHERS = {"OMPI_MCA_PREFIXES", "OMPI_MCA_cpu_type", "OMPI_MCA_initial_wdir", "OMPI_MCA_num_procs"}


def git_commit() -> str | None:
    """Commit of the checkout that this package is used from; None for an installed copy."""
    package = Path(lanecast.__file__).parent
    try:
        root = _git(package, "rev-parse", "--show-toplevel")
        if Path(root) != package.parent.parent:
            return None  # somebody's checkout that holds the environment we are installed in
        changed = _git(package, "status", "--porcelain", "--untracked-files=no")
        return _git(package, "rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


def command_line() -> str:
    """What was typed to start this program, without folders."""
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    return shlex.join([name, *sys.argv[1:]])


def set_variables() -> dict[str, str]:
    """Environment variables that change how Lanecast or an MPI works."""
    names = sorted(name for name in os.environ if name.startswith(_SETTINGS) and name not in _SET_BY_LAUNCHERS)
    return {name: os.environ[name] for name in names}


def copy_gbps(ranks: Ranks) -> float:
    """Rate of numpy copies by all ranks at once, in bytes copied per second of all of them; collective."""
    source = np.ones(_COPY_BYTES // 8 // max(1, ranks.size // 8))
    target = np.zeros_like(source)
    best_us = min(ranks.timed(partial(np.copyto, target, source), 1).device_us for _ in range(_COPIES))
    return ranks.size * source.nbytes / best_us / 1e3


def placement(comm: Communicator) -> dict[str, int]:
    """How many hosts there are, and how many ranks and cores on the one of rank 0; collective."""
    mine = np.zeros(8 + _MOST_CORES, np.uint8)
    mine[:8] = np.frombuffer(hashlib.sha256(_core.host_identity().encode()).digest()[:8], np.uint8)
    mine[[8 + core for core in os.sched_getaffinity(0) if core < _MOST_CORES]] = 1
    everyone = np.zeros((comm.size, mine.size), np.uint8)
    comm.all_gather_into_tensor(everyone, mine)
    hosts = {row[:8].tobytes() for row in everyone}
    first = everyone[[row[:8].tobytes() == everyone[0, :8].tobytes() for row in everyone]]
    # A launcher may have bound each rank to cores of its own.
    return {"hosts": len(hosts), "ranks_per_host": len(first), "cores": int(first[:, 8:].any(axis=0).sum())}


def described(comm: Communicator) -> dict[str, Any]:
    """What the rows of any run share; collective."""
    return {
        "cpu": _core.cpu_model(),
        **placement(comm),
        "kernel": platform.release(),
        **_network(comm),
        "load": round(os.getloadavg()[0], 1),  # of the last minute, so before this run
        "lanecast": lanecast.__version__,
        "commit": git_commit() if comm.rank == 0 else None,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "command": command_line(),
        "environment": set_variables(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _network(comm: Communicator) -> dict[str, Any]:
    between = network.find(comm)
    return {
        "nics": list(between.nics) if between else [],
        "pinned": between is not None and between.pinned,
        "rank0_nic": str(nics.pin()),
    }


def describe(ranks: Ranks, mpi: _core.Mpi | None = None) -> dict[str, Any]:
    """What the rows of one run share; collective."""
    shared = described(ranks.control)
    if isinstance(ranks, GpuRanks):
        return shared | _gpu_facts(ranks)
    return shared | {
        "oversubscribed": shared["ranks_per_host"] > shared["cores"],
        "mpi": None if mpi is None else {"version": mpi.version, "abi": mpi.abi, "path": mpi.path},
        "copy_GBps": copy_gbps(ranks),
    }


def _gpu_facts(ranks: GpuRanks) -> dict[str, Any]:
    import torch

    names = Counter(torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count()))
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() else ()
    return {
        "gpus": ", ".join(f"{count} x {name}" for name, count in names.items()) or "no GPU",
        "shared_gpus": ranks.shared_gpus,
        "driver": _driver(),
        "mps": mps_runs(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(str(part) for part in nccl) or "none",
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_GPU_SETTINGS)},
        "mpi": None,
    }


def mps_runs(processes: Path = Path("/proc")) -> bool:
    """Does NVIDIA's Multi-Process Service run here? With it kernels of several processes share a GPU at a time."""
    for name in processes.glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):  # it has ended
            if name.read_text().startswith("nvidia-cuda-mps"):
                return True
    return False


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.partition("\n")[0].strip()


def _nic_line(run: dict[str, Any]) -> str:
    if run["pinned"]:
        return f"nics      {', '.join(run['nics'])} of each host; each rank pinned to one, rank 0 to {run['rank0_nic']}"
    return f"nics      {', '.join(run['nics'])} of each host; rank 0 {run['rank0_nic']}"


def _common_lines(run: dict[str, Any]) -> list[str]:
    """The lines about what any run has."""
    commit = f" ({run['commit']})" if run["commit"] else ""
    environment = " ".join(f"{name}={value}" for name, value in run["environment"].items())
    return [
        *([_nic_line(run)] if run["nics"] else []),
        f"lanecast  {run['lanecast']}{commit}, Python {run['python']}, numpy {run['numpy']}",
        f"command   {run['command']}",
        *([f"set       {environment}"] if environment else []),
    ]


def lines(run: dict[str, Any]) -> list[str]:
    """The same as text."""
    hosts = f"{run['hosts']} hosts of " if run["hosts"] > 1 else ""
    if "gpus" in run:
        return [
            f"machine   {hosts}{run['gpus']}, driver {run['driver']}; {run['cpu']}, {run['cores']} cores, Linux "
            f"{run['kernel']}, load {run['load']}",
            f"ranks     {run['ranks_per_host']}, {'which share GPUs' if run['shared_gpus'] else 'one per GPU'}",
            f"software  torch {run['torch']}, CUDA {run['cuda']}, NCCL {run['nccl']}, "
            f"MPS {'on' if run.get('mps') else 'off'}",  # files of older runs do not say
            *_common_lines(run),
        ]
    mpi = run["mpi"]
    crowd = ", oversubscribed" if run["oversubscribed"] else ""
    return [
        f"machine   {hosts}{run['cpu']}, {counted(run['cores'], 'core')}, Linux {run['kernel']}, load {run['load']}",
        f"ranks     {run['ranks_per_host']} on {counted(run['cores'], 'core')}{crowd}",
        f"mpi       {mpi['version']} ({mpi['abi']} ABI)" if mpi else "mpi       none: ranks are threads of one process",
        *_common_lines(run),
        f"memory    all ranks at once copy {run['copy_GBps']:.1f} GB/s (numpy)",
    ]
