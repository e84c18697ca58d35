# SPDX-License-Identifier: Apache-2.0
"""Proves every plan that the registry offers, over rank counts and topologies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lanecast import _core

_ALL_ROOTS = 4  # ranks up to which every root is proven
_SAMPLE = 12  # algorithms of a topology with three levels, which has over a hundred; others for each rank count


@dataclass(frozen=True)
class Claim:
    """One thing to prove: all ranks' plans together do what the collective promises."""

    collective: str
    topology: _core.Topology
    text: str  # of the topology, as its parser takes it
    algorithm: str
    in_place: bool
    root: int

    @property
    def family(self) -> str:
        """The algorithm, or how many levels a hierarchical one has."""
        return f"hierarchical, {len(self.topology.levels) + 1} levels" if "(" in self.algorithm else self.algorithm

    def prove(self) -> int:
        """The number of messages; raises PlanError, which names rank, step and reason."""
        proof = _core.verify_all_ranks(self.collective, self.topology, self.algorithm, self.in_place, self.root)
        return int(proof["messages"])


def topologies(ranks: int) -> list[str]:
    """Flat, every grid of two levels, one with ranks dealt out, one of uneven nodes, and one of three levels."""
    grids = [(n, ranks // n) for n in range(2, ranks) if ranks % n == 0]
    texts = [f"{n}x{m}" for n, m in grids]
    if grids:
        texts.append(f"{texts[0]}:cyclic")
    if ranks >= 4:
        first, second = ranks // 2, ranks // 3
        texts.append("+".join(str(n) for n in (first, second, ranks - first - second) if n))
    cubes = [f"{n}x{k}x{m // k}" for n, m in grids for k in range(2, m) if m % k == 0]
    return ["", *texts, *cubes[:1]]


def claims(ranks: int) -> Iterator[Claim]:
    """Everything to prove for one rank count."""
    for text in topologies(ranks):
        topology = _core.Topology.parse(text, ranks) if text else _core.Topology(ranks)
        for collective in _core.KINDS:
            # What is not hierarchical looks at no level, so the flat topology has proven it.
            known = [name for name in _core.algorithms_for(collective, topology) if not text or "(" in name]
            if len(topology.levels) > 1:
                known = known[ranks % 7 :: max(1, len(known) // _SAMPLE)]
            places = (False, True) if _core.may_be_in_place(collective) else (False,)
            for algorithm in known:
                for root in roots(collective, ranks):
                    for in_place in places:
                        yield Claim(collective, topology, text or str(ranks), algorithm, in_place, root)


def roots(collective: str, ranks: int) -> list[int]:
    """Every root of few ranks; of many the first, the last and one between, which no symmetry makes alike."""
    if not _core.has_root(collective):
        return [0]
    return list(range(ranks)) if ranks <= _ALL_ROOTS else [0, ranks * 2 // 5, ranks - 1]
