# SPDX-License-Identifier: Apache-2.0
"""What of a communicator decides whether a profile holds for it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.tune.profile import Shape


def cpu_model() -> str:
    """The processor's name as the kernel gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model", "cpu model"))]
    return models[0] if models else platform.machine()


def level_names(topology: _core.Topology) -> list[str]:
    """Names of the levels, outermost first, and "rank" for the innermost domains."""
    return [*(name for name, _ in topology.levels), "rank"]


def shape_of(comm: Communicator) -> Shape:
    """The shape as this rank sees it."""
    return Shape(
        _core.VERSION, cpu_model(), os.cpu_count() or 1, comm._core.hosts, str(comm.topology),
        [_transport(comm, level) for level in range(len(comm.topology.levels) + 1)],
    )  # fmt: skip


def _transport(comm: Communicator, level: int) -> str:
    """What carries messages to the first peer that this rank meets at a level; "none" without one."""
    levels = comm.topology.levels
    for peer in range(comm.size):
        if peer != comm.rank:
            parted = (k for k, (_, domain) in enumerate(levels) if domain[peer] != domain[comm.rank])
            if next(parted, len(levels)) == level:
                return str(comm._core.transport_to(peer))
    return "none"
