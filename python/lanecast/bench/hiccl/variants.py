# SPDX-License-Identifier: Apache-2.0
"""The ways to shape a composition that are compared: HiCCL's four bars, its tree, its ring, its factorings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lanecast import _core
from lanecast.bench.figures import nodes_of
from lanecast.bench.options import known_name
from lanecast.compose.factors import Factors, prime_factors

BARS = ("direct", "hierarchical", "+ stripe", "+ pipeline")  # each adds one optimisation to those before it
RINGED = ("broadcast", "reduce")  # of which the paper shows the ring, too


@dataclass(frozen=True)
class Factorings:
    """A machine's hierarchies: levels across nodes, outermost first, then those within a node."""

    tree_across: Factors
    ring_across: Factors  # one level, whose domains form the chain
    within: Factors

    @property
    def tree(self) -> Factors:
        return self.tree_across + self.within

    @property
    def ring(self) -> Factors:
        return self.ring_across + self.within

    @property
    def ranks(self) -> int:
        return math.prod(self.tree)


# HiCCL, Table V: four nodes of each machine; and its example of figures 6 and 7.
PRESETS = {
    "delta": Factorings((2, 2), (4,), (4,)),
    "perlmutter": Factorings((2, 2), (4,), (4,)),
    "frontier": Factorings((2, 2), (4,), (4, 2)),
    "aurora": Factorings((2, 2), (4,), (6, 2)),
    "figure6": Factorings((2, 2), (4,), (3,)),
}


@dataclass(frozen=True)
class Variant:
    """One shape, and its place among the bars."""

    bar: str  # of BARS
    way: str  # over the nodes: "tree", "ring"; empty for the direct one
    factors: Factors
    stripe: int = 1
    ring: int = 1
    depth: int = 1

    @property
    def name(self) -> str:
        return self.bar if not self.way else f"{self.way} {self.bar}" if self.bar.startswith("+") else self.way

    def __str__(self) -> str:
        text = "{" + ",".join(map(str, self.factors)) + "}"
        text += f" ring({self.ring})" if self.ring > 1 else ""
        text += f" stripe({self.stripe})" if self.stripe > 1 else ""
        return text + (f" m={self.depth}" if self.depth > 1 else "")

    @property
    def knobs(self) -> dict[str, Any]:
        """As Communicator.compile takes them."""
        return {"hierarchy": self.factors, "stripe": self.stripe, "ring": self.ring, "chunks": self.depth}


def factorings_for(preset: str, topology: _core.Topology) -> Factorings:
    """The preset's, else those of the topology, with the number of nodes in prime factors for the tree.

    Without a level of nodes every rank counts as a node. Raises UsageError for a preset of another number of ranks, and
    for domains of unequal size, which have neither factors nor the paper's bounds.
    """
    domains = [1]
    for _, domain in topology.levels:
        if len(set(Counter(domain).values())) > 1:
            raise _core.UsageError(f"protocol hiccl: topology {topology}: needs domains of equal size")
        domains.append(len(set(domain)))
    if preset:
        found = PRESETS[known_name("preset", preset, PRESETS)]
        if found.ranks != topology.size:
            raise _core.UsageError(f"preset {preset!r} is for {found.ranks} ranks, but there are {topology.size}")
        return found
    domains.append(topology.size)
    sizes = tuple(inner // outer for outer, inner in pairwise(domains))
    return Factorings(prime_factors(sizes[0]) or (1,), sizes[:1], sizes[1:])


def ranks_per_node(topology: _core.Topology) -> int:
    """g of the paper's formulas; without a level of nodes all ranks are on one."""
    return topology.size // nodes_of(topology)


def cumulative(factorings: Factorings, collective: str, depth: int) -> list[Variant]:
    """The bars of a collective: direct once, then the tree's three and, where the paper has it, the ring's three."""
    bars = [Variant(BARS[0], "", (factorings.ranks,))]
    for way in ("tree", "ring") if collective in RINGED else ("tree",):
        whole = complete(factorings, way, depth)
        flat = Variant(BARS[1], way, whole.factors, ring=whole.ring)
        striped = Variant(BARS[2], way, whole.factors, whole.stripe, whole.ring)
        bars += [flat, striped, whole]
    return list(dict.fromkeys(bars))


def complete(factorings: Factorings, way: str, depth: int) -> Variant:
    """With everything: striped over all ranks of a node and pipelined."""
    stripe = math.prod(factorings.within)
    if way == "tree":
        return Variant(BARS[3], way, factorings.tree, stripe, 1, depth)
    return Variant(BARS[3], way, factorings.ring, stripe, factorings.ring_across[0], depth)


def depths_of(factorings: Factorings, collective: str, depths: Sequence[int]) -> list[Variant]:
    """The points of figure 9: broadcast and reduce by ring, the others by tree."""
    way = "ring" if collective in RINGED else "tree"
    return [complete(factorings, way, depth) for depth in depths]


def ways_of(factorings: Factorings, collective: str, depth: int) -> list[Variant]:
    """Ring against tree, both with everything; one of them where the paper has one."""
    return [complete(factorings, way, depth) for way in (("tree", "ring") if collective in RINGED else ("tree",))]
