# SPDX-License-Identifier: Apache-2.0
"""What a database says of one collective, as it is learned from and judged by: one case for each configuration."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lanecast import _core
from lanecast.learn.contenders import BESIDE, class_of
from lanecast.learn.database import Configuration, Timed
from lanecast.profiles.scope import Scope

EQUAL = 0.01  # share of the best's time that makes no difference


@dataclass(frozen=True)
class Case:
    """Median seconds of each class, what the cost model had predicted, the seconds of each round, and of what no call
    can take: what others do.
    """

    ranks: int
    nodes: int
    bytes: int
    seconds: dict[str, float]
    predicted_s: dict[str, float]
    rounds: dict[str, tuple[float, ...]] = field(default_factory=dict)
    beside: dict[str, float] = field(default_factory=dict)

    @property
    def features(self) -> tuple[float, ...]:
        """Those of lanecast.profiles.model.FEATURES."""
        return tuple(_core.features_of(self.bytes, self.ranks, self.nodes))

    @property
    def best(self) -> str:
        return min(self.seconds, key=self.seconds.__getitem__)

    def lost(self, name: str) -> float:
        """Share of the best's time that this class takes more."""
        return self.seconds[name] / self.seconds[self.best] - 1

    def lost_between_rounds(self, name: str) -> float:
        """The same beside what every second round names the best, by the rounds between, both ways; <0: it was better.

        The least of several noisy medians is too small, and whatever is held against it seems to lose. What half of the
        rounds name is at times not the best: so this is too little where lost() is too much.
        """
        if not self.is_repeated:
            return self.lost(name)
        halves = self.every_second_round(0), self.every_second_round(1)
        pairs = [(half.seconds, other.best) for half, other in (halves, halves[::-1])]
        return statistics.mean(half.get(name, self.seconds[name]) / half[best] - 1 for half, best in pairs)

    @property
    def is_repeated(self) -> bool:
        return max((len(each) for each in self.rounds.values()), default=0) > 1

    def every_second_round(self, first: int) -> Case:
        """The same by the rounds first, first + 2, … alone, of what was timed more than once."""
        again = {name: each for name, each in self.rounds.items() if len(each) > 1}
        return replace(self, seconds={name: statistics.median(each[first::2]) for name, each in again.items()})


def cases_of(collective: str, scope: Scope, times: dict[Configuration, list[Timed]]) -> list[Case]:
    """By ranks, then by bytes."""
    return [
        _case(configuration, scope.nodes_of(configuration.ranks), times[configuration])
        for configuration in sorted(times)
        if configuration.collective == collective
    ]


def _case(configuration: Configuration, nodes: int, timed: Sequence[Timed]) -> Case:
    beside = {each.algorithm: statistics.median(each.seconds) for each in timed if each.algorithm in BESIDE}
    timed = [each for each in timed if each.algorithm not in beside]
    names = {each.algorithm: class_of(configuration.collective, each.algorithm) for each in timed}
    return Case(
        configuration.ranks,
        nodes,
        configuration.bytes,
        {names[each.algorithm]: statistics.median(each.seconds) for each in timed},
        {names[each.algorithm]: each.predicted_s for each in timed if each.predicted_s is not None},
        {names[each.algorithm]: each.seconds for each in timed},
        beside,
    )
