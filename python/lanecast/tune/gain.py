# SPDX-License-Identifier: Apache-2.0
"""What a profile is worth: the choice without it, the choice by it, and the best in hindsight, timed side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lanecast import _core
from lanecast.communicator import Communicator
from lanecast.profiles.profile import Profile
from lanecast.tune.measure import Effort, Stopwatch, calls_for


@dataclass(frozen=True)
class Timed:
    """One way to make a call, and the median of its rounds."""

    algorithm: str
    chunks: int
    seconds: float


@dataclass(frozen=True)
class Gain:
    """One collective at one size of the full buffer, in bytes."""

    collective: str
    size: int
    default: Timed  # the communicator's own choice
    tuned: Timed  # the profile's
    best: Timed  # of all algorithms, each in the number of chunks that the profile finds best for it

    @property
    def faster(self) -> float:
        """Times as fast as the default."""
        return self.default.seconds / self.tuned.seconds

    @property
    def of_best(self) -> float:
        """Share of the speed of the best."""
        return self.best.seconds / self.tuned.seconds


def gains(
    comm: Communicator,
    profile: Profile,
    effort: Effort,
    collectives: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> list[Gain]:
    """Time what calls take with and without the profile beside all else they could; equal on every rank. Collective.

    comm: one without a profile. Rounds alternate between all ways of a case; where calls are slow, between as many as
    there is time for, those that are predicted to be fastest.
    """
    watch = Stopwatch(comm, effort)
    found = []
    of_collectives = watch.shares(effort.seconds, [1] * len(collectives))
    for number, (collective, seconds) in enumerate(zip(collectives, of_collectives, strict=True), 1):
        say(f"what {collective} gains ({number} of {len(collectives)})")
        for size, share in zip(effort.sizes, watch.shares(seconds, [1] * len(effort.sizes)), strict=True):
            default, tuned, *others = (
                *_ways(comm, collective, size, comm._core.models)[:1],
                *_ways(comm, collective, size, profile.models()),
            )
            ways = list(dict.fromkeys([default, tuned, *others]))
            rounds = watch.rounds(calls_for(comm, collective, size, ways), share, least=len({default, tuned}))
            timed = {way: Timed(*way, statistics.median(times)) for way, times in zip(ways, rounds, strict=False)}
            best = min(timed.values(), key=lambda way: way.seconds)
            found.append(Gain(collective, size, timed[default], timed[tuned], best))
            if best.seconds > effort.longest_call_s:
                break
    return found


def _ways(comm: Communicator, collective: str, size: int, models: _core.Models) -> list[tuple[str, int]]:
    """Algorithms with their chunks, the best first."""
    return [(c["algorithm"], c["chunks"]) for c in _core.candidates(collective, size, comm.topology, models)]
