# SPDX-License-Identifier: Apache-2.0
"""The GPUs, the software and the settings that a figure was measured with."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from typing import Any

from lanecast.bench import machine, tables
from lanecast.bench.gpu.ranks import Ranks

_SETTINGS = ("LANECAST_", "NCCL_", "CUDA_", "TORCH_", "NVSHMEM_", "PYTORCH_")


def describe(ranks: Ranks) -> dict[str, Any]:
    """What the rows of one run share; collective."""
    import torch

    names = Counter(torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count()))
    nccl = torch.cuda.nccl.version() if torch.cuda.is_available() else ()
    environment = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)}
    return machine.described(ranks.control) | {
        "gpus": ", ".join(f"{count} x {name}" for name, count in names.items()) or "no GPU",
        "shared_gpus": ranks.shared_gpus,
        "driver": _driver(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": ".".join(str(part) for part in nccl) or "none",
        "environment": environment,
        "mpi": None,
    }


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.partition("\n")[0].strip()


def lines(run: dict[str, Any]) -> list[str]:
    """The same as text."""
    hosts = f"{run['hosts']} hosts of " if run["hosts"] > 1 else ""
    return [
        f"machine   {hosts}{run['gpus']}, driver {run['driver']}; {run['cpu']}, {run['cores']} cores, Linux "
        f"{run['kernel']}, load {run['load']}",
        f"ranks     {run['ranks_per_host']}, {'which share GPUs' if run['shared_gpus'] else 'one per GPU'}",
        f"software  torch {run['torch']}, CUDA {run['cuda']}, NCCL {run['nccl']}",
        *machine.common_lines(run),
    ]


def footer(run: dict[str, Any]) -> str:
    """What the columns mean that nccl-tests does not have."""
    baseline = run["baseline"]
    note = f"{tables.BOUND_NOTE}\n" if run["nics"] else ""
    return note + (
        "time: median over the rounds, of the slowest rank's mean call by the device's clock, calls back to back. GB = "
        "1e9 bytes.\nhost: what a call costs the host, likewise; in a graph its share of the replay.\n"
        f"x {baseline}: the time of {baseline} over this one; above 1 is faster than {baseline}."
    )
