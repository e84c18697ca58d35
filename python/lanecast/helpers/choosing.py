# SPDX-License-Identifier: Apache-2.0
"""How many processes move a call: as the user says, else as many as were fastest in the first calls of its size."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lanecast.bound import Bound
from lanecast.helpers.agreeing import gather
from lanecast.helpers.crew import Crew
from lanecast.helpers.slices import counts_of, leaves_some_empty

LEAST_BYTES = 1 << 20  # of a call that is tried by several: waking helpers takes 100 us
_TRIALS = 3  # of each number; the first warms up
_WORTH = 0.95  # of one process's time: what saves less is not worth the cores


def numbers_of(processes: int) -> list[int]:
    """1, 2, 4, … and all."""
    return [n for n in range(1, processes + 1) if n & (n - 1) == 0 or n == processes]


def calls_until_found(processes: int) -> int:
    """Of one collective and about one size, until the number of processes stays."""
    return _TRIALS * len(numbers_of(processes))


@dataclass
class _Class:
    """Calls of one collective and of sizes within a factor of two."""

    numbers: list[int]
    calls: int = 0
    seconds_per_byte: dict[int, float] = field(default_factory=dict)  # the best of each number
    found: int = 0

    def next(self) -> int:
        return self.found or self.numbers[self.calls // _TRIALS]

    def note(self, number: int, rate: float) -> None:
        if self.calls % _TRIALS:
            self.seconds_per_byte[number] = min(rate, self.seconds_per_byte.get(number, rate))
        self.calls += 1

    def tried(self) -> bool:
        return not self.found and self.calls == _TRIALS * len(self.numbers)


class Trials:
    """Of one communicator; alike on all ranks, whose calls are alike."""

    def __init__(self, core: Any, processes: int) -> None:
        self._core = core
        self._numbers = numbers_of(processes)
        self._classes: dict[tuple[int, int], _Class] = {}
        self._pinned: int | None = None

    def pin(self, processes: int | None) -> None:
        self._pinned = processes

    @property
    def pinned_to_several(self) -> bool:
        return self._pinned is not None and self._pinned > 1

    def known(self, call: Bound, crew: Crew) -> int:
        """How many move the call as far as that is known: a started one is no trial, since others may run beside it."""
        if self._pinned is not None:
            return self._pinned
        kind = self._class_of(call, crew)
        return kind.found if kind is not None and kind.found else 1

    def _class_of(self, call: Bound, crew: Crew) -> _Class | None:
        """None for calls that go by one process, whatever was found."""
        size = self._bytes(call)
        if not crew.copies or size < LEAST_BYTES or leaves_some_empty(call, self._core.size, self._numbers[-1]):
            return None
        return self._classes.setdefault((call.kind, size.bit_length()), _Class(self._numbers))

    def _bytes(self, call: Bound) -> int:
        return sum(counts_of(call, self._core.size)) * int(call.source.itemsize)

    def run(self, call: Bound, crew: Crew) -> None:
        """Make the call."""
        if self._pinned is not None:
            return self._by(self._pinned, call, crew)
        kind = self._class_of(call, crew)
        if kind is None:
            return self._by(1, call, crew)
        number = kind.next()
        begin = time.perf_counter()
        self._by(number, call, crew)
        if not kind.found:
            kind.note(number, (time.perf_counter() - begin) / self._bytes(call))
            if kind.tried():
                kind.found = self._fastest(kind)
        return None

    def _by(self, number: int, call: Bound, crew: Crew) -> None:
        if number > 1:
            crew.run(call, number)
        else:
            self._core.run(*call)

    def _fastest(self, kind: _Class) -> int:
        """By the slowest rank's times, so that all ranks choose alike."""
        times = gather(self._core, [kind.seconds_per_byte[n] for n in kind.numbers])
        slowest = np.array(times).max(axis=0)
        best = int(np.argmin(slowest))
        return kind.numbers[best] if slowest[best] < _WORTH * slowest[0] else 1
