# SPDX-License-Identifier: Apache-2.0
"""How each MPI's own launcher starts a job on the hosts of a cluster, as it would on real ones."""

from __future__ import annotations

import os

from lanecast.cluster.shape import Shape
from lanecast.launch import Launcher, cores
from lanecast.nics import VARIABLE


def command(launcher: Launcher, shape: Shape, ranks_per_host: int, program: list[str]) -> list[str]:
    """`program` on so many ranks of each host, filled host by host; the launcher reaches them by ssh."""
    hosts = ",".join(f"{name}:{ranks_per_host}" for name in shape.host_names)
    # Open MPI would bind each rank to a core, of which a host may have fewer than ranks.
    where = ["--host", hosts, "--bind-to", "none"] if launcher.is_open_mpi else ["-hosts", hosts]
    return [str(launcher.path), *where, "-n", str(shape.hosts * ranks_per_host), *program]


def environment(launcher: Launcher, shape: Shape, ranks_per_host: int) -> dict[str, str]:
    """The caller's, with what this MPI and the pinning of ranks to NICs need and the caller leaves open."""
    ranks = shape.hosts * ranks_per_host
    # Who is not root outside is root inside.
    ours = launcher.environment(ranks, as_root=True) | {VARIABLE: ",".join(shape.nic_names)}
    if launcher.is_open_mpi and ranks > cores():
        # It sees as many slots as ranks and would spin; letting others run makes its own collectives ten times as fast.
        ours["OMPI_MCA_mpi_yield_when_idle"] = "1"
    path = os.pathsep.join([str(launcher.path.parent), os.environ.get("PATH", os.defpath)])
    return {**ours, **os.environ, "PATH": path}
