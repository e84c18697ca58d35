# SPDX-License-Identifier: Apache-2.0
"""One rank of a job under mpiexec: averages at the ends of the range, MPI's own collectives among them."""

from __future__ import annotations

import itertools

import lanecast
from collective_cases import Case, even, run_cases
from lanecast import Topology, _core

KINDS = ("all_reduce", "reduce_scatter", "reduce")
ENDS = ("largest", "smallest")
HIERARCHIES = (
    "hierarchical(ring,direct)", "hierarchical(direct,bruck)", "hierarchical(direct,binomial)",
    "hierarchical(mpi,direct)", "hierarchical(ring,mpi)", "hierarchical(mpi,mpi)",
)  # fmt: skip


def at_both_ends(size: int, topology: str, dtype: str, by_library: bool = False) -> list[Case]:
    """Every algorithm of every kind; the same count, in place or not, in one chunk or several."""
    described = Topology.parse(topology, size) if topology else Topology(size)
    turns = itertools.cycle(itertools.product((False, True), (1, 3)))
    return [
        Case(kind, even(kind, 61, size), algorithm, dtype, "avg", *next(turns), root=size - 1, end=end)
        for kind in KINDS
        for algorithm in ("", *_core.algorithms_for(kind, described))
        if ("mpi" in algorithm if by_library else not _core.has_library(algorithm))
        and ("hierarchical" not in algorithm or algorithm in HIERARCHIES)
        for end in ENDS
    ]


def main() -> None:
    comm = lanecast.init(topology="2+1", transports="mpi", timeout_s=60.0)
    cases = [case for dtype in ("float64", "float32") for case in at_both_ends(3, "2+1", dtype, by_library=True)]
    for line in run_cases(comm, cases):
        print(line, flush=True)
    print(f"rank {comm.rank}: {len(cases)} calls", flush=True)


if __name__ == "__main__":
    main()
