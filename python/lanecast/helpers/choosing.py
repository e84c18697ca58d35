# SPDX-License-Identifier: Apache-2.0
"""How many processes move a call: as the user says, else as many as were fastest in the first calls of its size."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from lanecast import _core
from lanecast.bound import Bound
from lanecast.helpers.agreeing import gather
from lanecast.helpers.crew import Crew
from lanecast.helpers.slices import counts_of, leaves_some_empty


def calls_until_found(processes: int) -> int:
    """Of one collective and about one size, until the number of processes stays; the last one has all ranks agree."""
    return _core.ProcessTrials(processes).calls_until_due + 1


class Trials:
    """Of one communicator; alike on all ranks, whose calls are alike."""

    def __init__(self, core: Any, processes: int) -> None:
        self._core, self._processes = core, processes
        self._trials = _core.ProcessTrials(processes)
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
        return self._trials.found(call.kind, self._bytes(call)) or 1 if self._is_tried(call, crew) else 1

    def run(self, call: Bound, crew: Crew) -> None:
        """Make the call."""
        if self._pinned is not None:
            return self._by(self._pinned, call, crew)
        if not self._is_tried(call, crew):
            return self._by(1, call, crew)
        which = (call.kind, self._bytes(call))
        if self._trials.is_due(*which):
            times = gather(self._core, self._trials.best(*which))
            self._trials.settle(*which, np.array(times).max(axis=0).tolist())
        number, is_timed = self._trials.next(*which)
        begin = time.perf_counter()
        self._by(number, call, crew)
        if is_timed:
            self._trials.note(*which, number, time.perf_counter() - begin)
        return None

    def _is_tried(self, call: Bound, crew: Crew) -> bool:
        """Else it goes by one process, whatever was found."""
        long = self._bytes(call) >= _core.LEAST_HELPED_BYTES
        return crew.copies and long and not leaves_some_empty(call, self._core.size, self._processes)

    def _bytes(self, call: Bound) -> int:
        return sum(counts_of(call, self._core.size)) * int(call.source.itemsize)

    def _by(self, number: int, call: Bound, crew: Crew) -> None:
        if number > 1:
            crew.run(call, number)
        else:
            self._core.run(*call)
