# SPDX-License-Identifier: Apache-2.0
"""Memory for the plan interpreter: one rank's input, output and scratch slots, with counts bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Data = NDArray[np.int64]
PlanDict = dict[str, Any]
Block = tuple[int, int, tuple[int, int], tuple[int, int]]

IN, OUT, SCRATCH = 0, 1, 2
POISON = -(1 << 60) + 12345


class WrongPlan(AssertionError):
    """The plans hang, move different amounts on the two sides of a message, or compute something else."""


@dataclass(frozen=True)
class Schedule:
    """How to run: counts bound to the parts, slices of every part, look-ahead, and the seed of every choice."""

    counts: Sequence[int]
    chunks: int = 1
    average: bool = False
    window: int | None = None  # of the unfinished steps of a rank only the first so many may start
    seed: int = 0


WHOLE = ("all_reduce", "broadcast", "reduce")  # the vector is one part
REDUCING = ("reduce_scatter", "all_reduce", "reduce")


def _lists(plan: PlanDict, name: str) -> list[list[int]]:
    lists: list[list[int]] = plan["composition"][name]
    return lists


def parts(plan: PlanDict) -> int:
    size: int = plan["size"]
    if plan["collective"] == "composition":
        return 1 + max(
            (part for parts in (*_lists(plan, "inputs"), *_lists(plan, "outputs")) for part in parts), default=-1
        )
    return 1 if plan["collective"] in WHOLE else size * size if plan["collective"] == "all_to_all" else size


def parts_in(plan: PlanDict) -> list[int]:
    size, rank = plan["size"], plan["rank"]
    match plan["collective"]:
        case "composition":
            return _lists(plan, "inputs")[rank]
        case "all_gather" | "gather":
            return [rank]
        case "broadcast" | "scatter":
            return list(range(parts(plan))) if rank == plan["root"] else []
        case "all_to_all":
            return [rank * size + to for to in range(size)]
    return list(range(parts(plan)))


def parts_out(plan: PlanDict) -> list[int]:
    size, rank = plan["size"], plan["rank"]
    match plan["collective"]:
        case "composition":
            return _lists(plan, "outputs")[rank]
        case "reduce_scatter" | "scatter":
            return [rank]
        case "reduce" | "gather":
            return list(range(parts(plan))) if rank == plan["root"] else []
        case "all_to_all":
            return [sender * size + rank for sender in range(size)]
    return list(range(parts(plan)))


class Memory:
    """One rank's input, output and scratch slots."""

    def __init__(self, plan: PlanDict, schedule: Schedule) -> None:
        self._regions, self._schedule = plan["regions"], schedule
        # Multiples of the size, so that an average has no remainder; no two sums of a few of them are alike.
        draw = np.random.default_rng([schedule.seed, plan["rank"]]).integers
        size, counts = plan["size"], schedule.counts
        self._own: dict[tuple[int, int], Data] = {
            (IN, p): draw(1 << 40, 1 << 50, counts[p]) // size * size for p in parts_in(plan)
        }
        self.before = {part: data.copy() for (_, part), data in self._own.items()}
        for part in parts_out(plan):
            aliased = plan["in_place"] and (IN, part) in self._own
            self._own[OUT, part] = self._own[IN, part] if aliased else np.full(counts[part], POISON)
        self._slots: dict[tuple[int, int], tuple[int, Data]] = {}  # (chunk, slot) → tenant, contents

    def position(self, chunk: int, part: int, at: tuple[int, int]) -> int:
        num, den = at
        return (chunk * den + num) * self._schedule.counts[part] // (self._schedule.chunks * den)

    def elements(self, chunk: int, pieces: Sequence[Any]) -> int:
        return sum(self.position(chunk, part, hi) - self.position(chunk, part, lo) for part, lo, hi in pieces)

    def _view(self, chunk: int, block: Block, *, writes: bool) -> Data:
        space, part, lo, hi = block
        first, last = self.position(chunk, part, lo), self.position(chunk, part, hi)
        if space < SCRATCH:
            return self._own[space, part][first:last]
        region_part, region_lo, region_hi, slot = self._regions[space - SCRATCH]
        base = self.position(chunk, region_part, region_lo)
        size = self.position(chunk, region_part, region_hi) - base
        tenant, contents = self._slots.get((chunk, slot), (-1, np.empty(0, dtype=np.int64)))
        if len(contents) < size or (writes and tenant != space):
            contents = np.full(max(size, len(contents)), POISON)
        self._slots[chunk, slot] = (space if writes else tenant), contents
        return contents[first - base : last - base]

    def read(self, chunk: int, blocks: Sequence[Block]) -> Data:
        return np.concatenate([np.empty(0, np.int64), *(self._view(chunk, b, writes=False) for b in blocks)])

    def write(self, chunk: int, blocks: Sequence[Block], data: Data) -> None:
        start = 0
        for block in blocks:
            view = self._view(chunk, block, writes=True)
            if len(data) < start + len(view):
                raise WrongPlan(f"{len(data)} elements for a longer destination")
            view[:] = data[start : start + len(view)]
            start += len(view)
        if start != len(data):
            raise WrongPlan(f"{len(data)} elements for a destination of {start}")

    def output(self, part: int) -> Data:
        return self._own[OUT, part]

    def input(self, part: int) -> Data:
        return self._own[IN, part]
