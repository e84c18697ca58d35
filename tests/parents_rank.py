# SPDX-License-Identifier: Apache-2.0
"""A rank of mpi4py that gives from_mpi() the communicators of its argument: those of a job that grows ("spawns"), of a
session ("session"), or of processes in an order of their own ("ordered")."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpi4py
import numpy as np

import lanecast

mpi4py.rc.initialize = sys.argv[1] != "session"
from mpi4py import MPI  # noqa: E402  it starts MPI


def refusal(make: Callable[[], Any]) -> str:
    try:
        return f"made {make()}"
    except lanecast.UsageError as error:
        return str(error)


def usable(parent: MPI.Intracomm) -> None:
    comm = lanecast.from_mpi(parent, timeout_s=60.0)
    assert (comm.rank, comm.size) == (parent.rank, parent.size)
    total = np.full(1000, comm.rank + 1.0)
    comm.all_reduce(total)
    assert (total == comm.size * (comm.size + 1) / 2).all()


def spawns() -> None:
    parent = MPI.Comm.Get_parent()
    is_spawned = parent != MPI.COMM_NULL
    between = parent if is_spawned else MPI.COMM_WORLD.Spawn(sys.executable, sys.argv, maxprocs=1)
    refused = refusal(lambda: lanecast.from_mpi(between, timeout_s=5.0))
    assert "is an intercommunicator" in refused, refused
    assert "comm.Merge()" in refused
    usable(between.Merge(is_spawned))
    between.Disconnect()


def session() -> None:
    """All three ranks first, so that MPI_Init, which waits for all of them, is not called by two alone."""
    of = MPI.Session.Init()
    group = of.Create_group("mpi://WORLD")
    everyone = MPI.Intracomm.Create_from_group(group, "tests.everyone")
    if everyone.rank < 2:
        some = MPI.Intracomm.Create_from_group(group.Incl([0, 1]), "tests.some")
        refused = refusal(lambda: lanecast.from_mpi(some, timeout_s=5.0))
        assert "is of a session, with 2 of the job's 3 ranks" in refused, refused
        some.Free()
    usable(everyone)
    everyone.Free()
    of.Finalize()


def ordered() -> None:
    world = MPI.COMM_WORLD
    usable(world.Create_dist_graph_adjacent([(world.rank - 1) % world.size], [(world.rank + 1) % world.size]))
    most = world.Create_cart([world.size - 1], periods=[True], reorder=True)
    if most != MPI.COMM_NULL:
        usable(most)
        most.Free()
    refused = refusal(lambda: lanecast.from_mpi(most, topology="machine:aurora"))
    assert "is MPI_COMM_NULL: it has been freed, or was made without this process" in refused, refused
    MPI.Finalize()
    for make in (lambda: lanecast.from_mpi(world), lanecast.init):
        refused = refusal(make)
        assert "MPI has ended in this process" in refused, refused


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("as it should be", flush=True)
