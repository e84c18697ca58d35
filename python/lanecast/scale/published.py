# SPDX-License-Identifier: Apache-2.0
"""What papers publish in numbers, and which simulated calls it is held against; the data are in published.toml."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lanecast import machines
from lanecast.fields import read_fields
from lanecast.scale.contenders import Case, evenly

BOUND = "bound"  # stands for HiCCL's Table III among the contenders
AT_LEAST, UP_TO = "at least", "up to"
_FILE = Path(__file__).with_suffix(".toml")
_UNITS = {"M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Claim:
    """One published figure: one number, or the ends of a range. Of a claim without machines nothing is simulated."""

    source: str
    says: str
    published: list[float]
    reason: str  # why the simulation says something else, or says nothing
    form: str = ""
    machines: list[str] = field(default_factory=list)
    collectives: list[str] = field(default_factory=list)
    ranks: int = 0
    nodes: int = 0  # instead of ranks, where machines differ in them
    sizes: list[str] = field(default_factory=list)
    than: list[str] = field(default_factory=list)  # contenders; the fastest counts, as it does of `ours`
    ours: list[str] = field(default_factory=list)
    chunks: int = 0  # of ours; 0: as the cost model has it

    def cases(self) -> list[Case]:
        """The calls that it speaks of."""
        found = []
        for name, collective, size in itertools.product(self.machines, self.collectives, self.sizes):
            machine = machines.load(name)
            ranks = self.ranks or self.nodes * machine.ranks_per_node
            found.append(Case(machine, collective, ranks, evenly(int(size[:-1]) * _UNITS[size[-1]], ranks)))
        return found

    def simulated(self, ratios: Sequence[float]) -> list[float]:
        """As the figure was published: the ends of a range, the extreme, or the mean of ratios."""
        if len(self.published) > 1:
            return [min(ratios), max(ratios)]
        if self.form:
            return [min(ratios) if self.form == AT_LEAST else max(ratios)]
        return [math.prod(ratios) ** (1 / len(ratios))]

    def deviation(self, simulated: Sequence[float]) -> float:
        """Share of the published figure that the simulated one is above it; of ranges what lies apart, 0 within."""
        low, high = self.published[0], self.published[-1]
        if self.form == AT_LEAST and simulated[0] >= low:
            return 0
        if simulated[-1] < low:
            return simulated[-1] / low - 1
        return simulated[0] / high - 1 if simulated[0] > high else 0


@dataclass(frozen=True)
class _Published:
    claims: list[Claim]


def load() -> list[Claim]:
    """All, in the order of the file."""
    read: _Published = read_fields(_Published, tomllib.loads(_FILE.read_text()))
    return read.claims
