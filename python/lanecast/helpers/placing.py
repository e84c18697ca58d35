# SPDX-License-Identifier: Apache-2.0
"""Which core each process of a leader runs on, and which NIC it sends through."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress


def cores_here() -> list[int]:
    """Cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def cores_of(cores: list[int], leaders: int, processes: int) -> list[list[list[int]]]:
    """Of each leader of a host, the cores of each of its processes: one each where there are enough, else all of them.

    Neighbouring cores go to one leader, since they share caches and a socket.
    """
    wanted = leaders * processes
    if wanted > len(cores):
        return [[list(cores)] * processes for _ in range(leaders)]
    return [[[cores[leader * processes + k]] for k in range(processes)] for leader in range(leaders)]


def crowding(rank: int, cores: int, processes: int, *, allowed: bool) -> str:
    """Why processes would share cores, which makes every one of them slower; empty where they do not, or may."""
    if processes <= cores or allowed:
        return ""
    return (
        f"rank {rank}: processes_per_gpu: the leaders on this host and their helpers are {processes} processes, and "
        f"they may run on {cores} cores; take fewer, let the launcher bind each rank to more cores, or give "
        "allow_shared_cores=True to try things out"
    )


def take_cores(cores: Iterable[int]) -> None:
    """Binds this process to them; leaves it as it is where the system refuses, since nothing depends on it."""
    with suppress(OSError):
        os.sched_setaffinity(0, cores)
