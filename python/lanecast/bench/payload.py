# SPDX-License-Identifier: Apache-2.0
"""The buffers of one collective, what they hold before a call, and the element-by-element check of its result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lanecast.bench.cases import ROOT, Case
from lanecast.bench.memory import HostMemory, Memory


class Payload:
    """The buffers of a case on one rank, and what its result has to be; empty ones where it brings or gets nothing."""

    def __init__(self, case: Case, memory: Memory | None = None) -> None:
        """memory: where the buffers lie; default: the CPU's."""
        self.case = case
        self._memory: Memory = memory or HostMemory()
        own = slice(case.rank * case.count, (case.rank + 1) * case.count)
        self._at_root = case.rank == ROOT
        self.whole = self._buffer(case.full_count)
        nothing = self.whole[:0]
        match case.collective:
            case "all_gather" | "gather":
                gets = case.collective == "all_gather" or self._at_root
                self.output = self.whole if gets else nothing
                self.input = self.whole[own] if case.in_place and gets else self._buffer(case.count)
            case "broadcast":
                self.input = self.output = self.whole
            case "scatter":
                self.input = self.whole if self._at_root else nothing
                self.output = self.whole[own] if case.in_place and self._at_root else self._buffer(case.count)
            case "all_to_all":
                self.input, self.output = self.whole, self._buffer(case.full_count)
            case "reduce_scatter":
                self.input = self.whole
                self.output = self.whole[own] if case.in_place else self._buffer(case.count)
            case _:
                self.input = self.whole
                gets = case.collective == "all_reduce" or self._at_root
                self.output = nothing if not gets else self.whole if case.in_place else self._buffer(case.full_count)
        self._expected = self._memory.empty(len(self.output), case.dtype)
        self._fill_expected(own.start)

    def _buffer(self, count: int) -> Any:
        return self._memory.buffer(count, self.case.dtype)

    def _fill(self, target: Any, make: Callable[[int, int], Any], first: int = 0) -> None:
        for low in range(0, len(target), self._memory.block):
            high = min(low + self._memory.block, len(target))
            target[low:high] = make(first + low, first + high)

    def _fill_expected(self, first: int) -> None:
        case, expected = self.case, self._expected
        if len(expected) == 0:
            return
        match case.collective:
            case "all_gather" | "gather" | "all_to_all":
                begin = first if case.collective == "all_to_all" else 0
                for rank in range(case.ranks):
                    self._fill(expected[rank * case.count : (rank + 1) * case.count], self._brought(rank), begin)
            case "broadcast" | "scatter":
                self._fill(expected, self._brought(ROOT), first if case.collective == "scatter" else 0)
            case _:
                reduced = partial(self._memory.reduced, case)
                self._fill(expected, reduced, first if case.collective == "reduce_scatter" else 0)

    def _brought(self, rank: int) -> Callable[[int, int], Any]:
        return partial(self._memory.values, self.case, rank)

    def reset(self, result: Any = None) -> None:
        """Poison the output, and `result` where a call leaves it elsewhere; then bring this rank's data."""
        self._memory.poison(self.output if result is None else result)
        if self.case.collective != "broadcast" or self._at_root:
            self._fill(self.input, self._brought(self.case.rank))

    def wrong(self, result: Any) -> int:
        """Elements of `result` that are not what they have to be."""
        return self._memory.differing(result, self._expected)
