# SPDX-License-Identifier: Apache-2.0
"""What the paper compares: three all-reduces, each by several numbers of processes for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from lanecast import _core

STANDARD, MULTI_LANE, WITH_RING, OURS = "standard", "multi-lane", "multi-lane, ring", "lanecast"
RING = "ring"
# The MPI's own collective; Algorithm 2 with the MPI's own calls; the same with Algorithm 1 along the lanes.
_ALGORITHMS = {
    STANDARD: "mpi",
    MULTI_LANE: "hierarchical(mpi,mpi)",
    WITH_RING: "hierarchical(ring,mpi)",
    OURS: "",
}
_WITHOUT_LANES = {STANDARD: "mpi", RING: "ring", OURS: ""}


@dataclass(frozen=True)
class Variant:
    """One way, by so many processes."""

    way: str
    algorithm: str  # empty: chosen
    processes: int  # 0: as many as were found to be fastest

    def __str__(self) -> str:
        return f"{self.way}, {self.processes or 'chosen'}"


def variants_of(collective: str, topology: _core.Topology, numbers: tuple[int, ...], *, mpi: bool) -> list[Variant]:
    """Those that this collective has on this topology; lanes need hosts with several GPUs, and an MPI between them."""
    known = ["", *_core.algorithms_for(collective, topology)]
    nodes = topology.partition(list(range(topology.size)), 0) if topology.levels else []
    lanes = any(len(node) > 1 for node in nodes)
    ways = [
        (way, algorithm) for way, algorithm in (_ALGORITHMS if lanes else _WITHOUT_LANES).items() if algorithm in known
    ]
    if not mpi:
        ways = [(OURS, "")]
    found = [Variant(way, algorithm, number) for way, algorithm in ways for number in numbers]
    return [*found, Variant(OURS, "", 0)]
