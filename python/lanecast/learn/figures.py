# SPDX-License-Identifier: Apache-2.0
"""What PCCL's figures show, out of a database of times: scaling, gains over flat algorithms, recursive beside ring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lanecast.learn.cases import Case
from lanecast.learn.contenders import VENDORS_RING
from lanecast.learn.judging import Chooser

FLAT = ("ring", "double_tree")  # in rank order, through one NIC of each node; of an all-reduce the better one counts
VENDOR = (VENDORS_RING, "double_tree")  # what NCCL and RCCL do across nodes
_ROUNDED = 0.01
_RING, _RECURSIVE = "hierarchical(ring,", "hierarchical(recursive_doubling,"


@dataclass(frozen=True)
class Cell:
    """One configuration of a heatmap: times as fast, and the class that is."""

    collective: str
    ranks: int
    bytes: int
    faster: float
    name: str


def scaling(cases: Sequence[Case], size: int) -> dict[str, list[tuple[int, float]]]:
    """Of each class, (ranks, seconds) at one size of the full buffer; flat is ideal (PCCL, figures 1, 8, 10)."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for case in cases:
        if _nominal(case) == size:
            for name, seconds in (case.seconds | case.beside).items():
                lines.setdefault(name, []).append((case.ranks, seconds))
    return lines


def choices(cases: Sequence[Case], size: int, choose: Chooser) -> list[tuple[int, float]]:
    """(ranks, seconds) of what is chosen at one size, to be drawn over scaling()."""
    return [(case.ranks, case.seconds[choose(case)]) for case in cases if _nominal(case) == size]


def over_flat(collective: str, cases: Sequence[Case], choose: Chooser) -> Iterator[Cell]:
    """The selector's choice over the flat algorithm, as Cray-MPICH has it (PCCL, figures 9 and 11)."""
    return _over(FLAT, collective, cases, choose)


def over_vendor(collective: str, cases: Sequence[Case], choose: Chooser) -> Iterator[Cell]:
    """The same over what NCCL and RCCL do, on all NICs, where that was simulated."""
    return _over(VENDOR, collective, [case for case in cases if VENDORS_RING in case.beside], choose)


def _over(others: Sequence[str], collective: str, cases: Sequence[Case], choose: Chooser) -> Iterator[Cell]:
    for case in cases:
        found = [seconds for name, seconds in (case.seconds | case.beside).items() if name in others]
        if found:
            name = choose(case)
            yield Cell(collective, case.ranks, _nominal(case), min(found) / case.seconds[name], name)


def recursive_over_ring(collective: str, cases: Sequence[Case], choose: Chooser) -> Iterator[Cell]:
    """Recursive doubling or halving between nodes over a ring between them, and what is chosen (PCCL, figure 6)."""
    for case in cases:
        ring = _seconds(case, _RING)
        recursive = _seconds(case, _RECURSIVE)
        if ring is not None and recursive is not None:
            yield Cell(collective, case.ranks, _nominal(case), ring / recursive, choose(case))


def _seconds(case: Case, prefix: str) -> float | None:
    return next((seconds for name, seconds in case.seconds.items() if name.startswith(prefix)), None)


def _nominal(case: Case) -> int:
    """The size that was asked for, in doublings or steps of half a one: simulated ones are rounded up to whole elements
    for each rank.
    """
    power = 1 << math.floor(math.log2(case.bytes * (1 + _ROUNDED)))
    near = [size for size in (power, power * 3 // 2) if abs(case.bytes / size - 1) < _ROUNDED]
    return near[0] if near else case.bytes
