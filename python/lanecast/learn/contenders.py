# SPDX-License-Identifier: Apache-2.0
"""The algorithms among which a choice is learned: few enough for each to win somewhere."""

from __future__ import annotations

from lanecast import _core

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")  # by default
MPI = "mpi"
VENDORS_RING = "ring-per-nic"  # NCCL's and RCCL's, as `lanecast scale` has it
BESIDE = (VENDORS_RING, "composed", "ompi", "mvapich2", "impi")  # simulated as well, and no call of ours can take them
_INSIDE = ("direct", "pairwise")  # of a node, where every rank reaches every other
_RECURSIVE, _BRUCK = "recursive_doubling", "bruck"


def contenders(collective: str, topology: _core.Topology, mpi: bool) -> list[str]:
    """Flat algorithms, and hierarchies that go directly inside the nodes; mpi: has MPI one of its own?

    Bruck's algorithm stands aside where recursive doubling takes the ranks, whose bytes and rounds are the same.
    """
    known = _core.algorithms_for(collective, topology)
    found = [name for name in known if _is_meant(name, mpi)]
    return [name for name in found if name.replace(_BRUCK, _RECURSIVE) == name or family(name) not in found]


def family(algorithm: str) -> str:
    """The name under which a class is learned for all numbers of ranks; `ask` in src/select/learned.cpp goes back."""
    return algorithm.replace(_BRUCK, _RECURSIVE)


def class_of(collective: str, algorithm: str) -> str:
    """The algorithm's class: its family, where the collective knows recursive doubling."""
    knows = _RECURSIVE in _core.algorithms_for(collective, _core.Topology(2))
    return family(algorithm) if knows else algorithm


def _is_meant(name: str, mpi: bool) -> bool:
    if name == MPI:
        return mpi
    if "(" not in name:
        return not _core.has_library(name)
    _, *inside = name[name.index("(") + 1 : -1].split(",")
    return not _core.has_library(name) and len(set(inside)) == 1 and inside[0] in _INSIDE
