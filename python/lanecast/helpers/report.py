# SPDX-License-Identifier: Apache-2.0
"""What `lanecast info` says of the processes of a rank: how many, on which cores and NUMA nodes."""

from __future__ import annotations

import os
from pathlib import Path

from lanecast.helpers import placing
from lanecast.job import Job
from lanecast.wording import counted

VARIABLE = "LANECAST_PROCESSES_PER_GPU"


def numa_node_of(core: int, folder: Path = Path("/sys/devices/system/node")) -> int | None:
    """None where the system does not say."""
    for node in sorted(folder.glob("node[0-9]*")):
        if core in _numbers((node / "cpulist").read_text()):
            return int(node.name.removeprefix("node"))
    return None


def _numbers(text: str) -> set[int]:
    """0, 1, 2, 8 of "0-2,8"."""
    found: set[int] = set()
    for item in text.strip().split(","):
        first, dash, last = item.partition("-")
        if first.isdecimal():
            found |= set(range(int(first), int(last if dash else first) + 1))
    return found


def _placed(cores: list[int]) -> str:
    nodes = sorted({node for node in map(numa_node_of, cores) if node is not None})
    where = f", NUMA node {', '.join(map(str, nodes))}" if nodes else ""
    return f"core {', '.join(map(str, cores))}{where}"


def lines(found: Job | None) -> list[str]:
    """Of this process, as its launcher has placed it."""
    cores, text = placing.cores_here(), os.environ.get(VARIABLE, "")
    if not text.isdecimal() or int(text) < 2:
        return [f"1; this one may run on {_placed(cores)}", f"{VARIABLE}=4, or processes_per_gpu=4 of init(), adds 3"]
    processes = int(text)
    local_rank, local_size = (found.local_rank, found.local_size) if found is not None else (0, 1)
    if local_rank is None or local_size is None:
        return [f"{processes}; the launcher does not say how many ranks share this host"]
    if found is not None and found.starts_mpi:  # helpers are ranks
        leader, place = local_rank - local_rank % processes, local_rank % processes
        role = f"leads {counted(processes - 1, 'helper')}" if place == 0 else f"helper {place} of rank {leader} here"
        own = placing.cores_of(cores, 1, local_size)[0][local_rank] if place else cores
        crowd = placing.crowding(local_rank, len(cores), local_size, allowed=False)
        return [f"{processes}; this rank {role}, on {_placed(own)}", *filter(None, [crowd])]
    mine = placing.cores_of(cores, local_size, processes)[local_rank]
    crowd = placing.crowding(local_rank, len(cores), local_size * processes, allowed=False)
    helpers = [f"helper {place}: {_placed(mine[place])}" for place in range(1, processes)]
    return [f"{processes}; this one may run on {_placed(cores)}", *helpers, *filter(None, [crowd])]
