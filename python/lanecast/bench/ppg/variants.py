# SPDX-License-Identifier: Apache-2.0
"""What the paper compares: three all-reduces, each by several numbers of processes for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from lanecast import _core

STANDARD, MULTI_LANE, WITH_RING, OURS = "standard", "multi-lane", "multi-lane, ring", "lanecast"
RING = "ring"
# By library: its own collective; Algorithm 2, lanes with what is fastest within hosts; Algorithm 1 along the lanes.
_ALGORITHMS = {
    "mpi": {STANDARD: "mpi", MULTI_LANE: "hierarchical(mpi,mpi)", WITH_RING: "hierarchical(ring,mpi)", OURS: ""},
    "nccl": {
        STANDARD: "nccl", MULTI_LANE: "hierarchical(direct,peers)", WITH_RING: "hierarchical(ring,peers)", OURS: "",
    },
}  # fmt: skip
_SLICED_BY_NCCL = "all_reduce"  # which alone has slices that lie together


@dataclass(frozen=True)
class Variant:
    """One way, by so many processes."""

    way: str
    algorithm: str  # empty: chosen
    processes: int  # 0: as many as were found to be fastest

    def __str__(self) -> str:
        return f"{self.way}, {self.processes or 'chosen'}"


def variants_of(collective: str, topology: _core.Topology, numbers: tuple[int, ...], library: str) -> list[Variant]:
    """Those that this collective has on this topology, beside "mpi" on CPUs or "nccl" on GPUs; empty: there is none.

    Lanes need hosts with several GPUs.
    """
    known = ["", *_core.algorithms_for(collective, topology)]
    if collective != _SLICED_BY_NCCL:
        known = [name for name in known if name != "nccl"]
    nodes = topology.partition(list(range(topology.size)), 0) if topology.levels else []
    ways = _ALGORITHMS.get(library, {OURS: ""})
    if library and not any(len(node) > 1 for node in nodes):
        ways = {STANDARD: library, RING: RING, OURS: ""}
    found = [Variant(way, name, number) for way, name in ways.items() if name in known for number in numbers]
    return [*found, Variant(OURS, "", 0)]
