# SPDX-License-Identifier: Apache-2.0
"""The groups in which a hierarchical algorithm meets at each level, as communicators of their own."""

from __future__ import annotations

from dataclasses import dataclass

from lanecast import _core
from lanecast.communicator import Communicator

ALL_RANKS = -1


@dataclass(frozen=True)
class Group:
    """One rank's group at a level; comm is None where this rank takes no part."""

    level: int  # as in Fit: ALL_RANKS, or a level of the topology, the innermost last
    sizes: frozenset[int]  # of all such groups, which nodes of different size make different
    comm: Communicator | None

    @property
    def size(self) -> int:
        """Ranks of the largest."""
        return max(self.sizes)


def colors(topology: _core.Topology, level: int) -> list[int]:
    """For each rank its group at a level, -1 for those that no lane has a place for.

    Across a level the ranks with the same place in their domains meet, one of each domain: the lanes. At the innermost
    level everyone of a domain meets.
    """
    around = [0] * topology.size if level == 0 else list(topology.levels[level - 1][1])
    if level == len(topology.levels):
        return around
    domain = topology.levels[level][1]
    members: dict[int, list[int]] = {}
    for rank in range(topology.size):
        members.setdefault(domain[rank], []).append(rank)
    lanes: dict[int, int] = {}  # around → as many as the smallest of its domains has ranks
    for ranks in members.values():
        where = around[ranks[0]]
        lanes[where] = min(lanes.get(where, topology.size), len(ranks))
    places = [members[domain[rank]].index(rank) for rank in range(topology.size)]
    return [
        around[rank] * topology.size + place if place < lanes[around[rank]] else -1 for rank, place in enumerate(places)
    ]


def groups(comm: Communicator) -> list[Group]:
    """All ranks, then each level that has groups of several; collective."""
    found = [Group(ALL_RANKS, frozenset([comm.size]), comm)]
    levels = len(comm.topology.levels)
    for level in range(levels + 1 if levels else 0):
        of = colors(comm.topology, level)
        sizes = frozenset(of.count(color) for color in set(of) if color >= 0)
        if max(sizes) > 1:
            found.append(Group(level, sizes, comm.split(of[comm.rank], comm.rank)))
    return found


def pairs(comm: Communicator, level: int) -> Communicator | None:
    """Two ranks of each group of a level, as many pairs at once as there are; None for who is left over. Collective."""
    of = colors(comm.topology, level)
    place = of[: comm.rank].count(of[comm.rank])
    size = of.count(of[comm.rank])
    alone = of[comm.rank] < 0 or place == size - size % 2
    return comm.split(-1 if alone else of[comm.rank] * comm.size + place // 2, comm.rank)
