# SPDX-License-Identifier: Apache-2.0
"""Buffers of one collective with data that differ per rank and element, and the element-by-element check of its result.

All values are small integers whose reductions are exact in the dtype in any order, so that results compare equal or are
wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from lanecast.buffers import Array

MAIN = ("all_gather", "reduce_scatter", "all_reduce")  # measured where nobody says which
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
WHOLE = ("all_reduce", "broadcast", "reduce")  # the buffer is one part; else each rank has its share
ROOT = 0

_BLOCK = 1 << 18  # elements made at a time, so that temporaries stay in the cache
_POISON = 0xA5  # no value that fill() makes consists of such bytes
_ELEMENT_STEP, _RANK_STEP = 2654435761, 40503  # odd, so each permutes the numbers below a power of two

_COMBINE = {
    "sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One collective at one size, as one rank sees it; count as in the call, elements per part."""

    collective: str
    count: int
    dtype: str
    op: str
    in_place: bool
    rank: int
    ranks: int

    @property
    def parts(self) -> int:
        return 1 if self.collective in WHOLE else self.ranks

    @property
    def reduces(self) -> bool:
        return self.collective in REDUCING

    @property
    def brought_count(self) -> int:
        """Elements that a rank brings, where it brings any."""
        return self.count if self.collective in {"all_gather", "gather"} else self.full_count

    @property
    def full_count(self) -> int:
        return self.count * self.parts

    @property
    def full_bytes(self) -> int:
        return self.full_count * np.dtype(self.dtype).itemsize


def exact_limit(dtype: str) -> int:
    """Integers from 0 up to this one are exact."""
    kind = np.dtype(dtype)
    return 1 << (np.finfo(kind).nmant + 1) if kind.kind == "f" else int(np.iinfo(f"i{kind.itemsize}").max)


def value_range(case: Case) -> int:
    """A power of two: values lie below it, and what the collective makes of them is exact."""
    limit = exact_limit(case.dtype)
    if case.reduces and case.op in {"sum", "avg"}:
        limit //= case.ranks if case.op == "sum" else case.ranks * case.ranks
    return max(2, min(1 << 31, 1 << (limit.bit_length() - 1)))


def values(case: Case, rank: int, first: int, last: int) -> Array:
    """Elements first to last of what `rank` brings."""
    index = np.arange(first, last, dtype=np.uint32)
    offset = (rank + 1) * _RANK_STEP if case.reduces else rank * case.brought_count * _ELEMENT_STEP
    mixed = index * np.uint32(_ELEMENT_STEP) + np.uint32(offset % (1 << 32))
    small = mixed & np.uint32(value_range(case) - 1)
    if not case.reduces or case.op not in {"prod", "avg"}:
        return small.astype(case.dtype)
    if case.op == "avg":  # multiples of the number of ranks, so that the division leaves no rest
        return (small * np.uint32(case.ranks)).astype(case.dtype)
    one = np.ones((), case.dtype)
    return np.where(mixed & np.uint32(1 << 16), one, np.negative(one))


def _fill(target: Array, case: Case, rank: int, first: int) -> None:
    for low in range(0, target.size, _BLOCK):
        high = min(low + _BLOCK, target.size)
        target[low:high] = values(case, rank, first + low, first + high)


def _fill_reduced(target: Array, case: Case, first: int) -> None:
    combine = _COMBINE[case.op]
    for low in range(0, target.size, _BLOCK):
        high = min(low + _BLOCK, target.size)
        brought = (values(case, rank, first + low, first + high) for rank in range(case.ranks))
        target[low:high] = reduce(combine, brought)
    if case.op == "avg":
        target /= case.ranks


class Payload:
    """The buffers of a case on one rank, and what its result has to be; empty ones where it brings or gets nothing."""

    def __init__(self, case: Case) -> None:
        self.case = case
        own = slice(case.rank * case.count, (case.rank + 1) * case.count)
        self._at_root = case.rank == ROOT
        self.whole: Array = np.empty(case.full_count, case.dtype)
        nothing, share = self.whole[:0], np.empty(case.count, case.dtype)
        match case.collective:
            case "all_gather" | "gather":
                gets = case.collective == "all_gather" or self._at_root
                self.output = self.whole if gets else nothing
                self.input = self.whole[own] if case.in_place and gets else share
            case "broadcast":
                self.input = self.output = self.whole
            case "scatter":
                self.input = self.whole if self._at_root else nothing
                self.output = self.whole[own] if case.in_place and self._at_root else share
            case "all_to_all":
                self.input, self.output = self.whole, np.empty_like(self.whole)
            case "reduce_scatter":
                self.input = self.whole
                self.output = self.whole[own] if case.in_place else share
            case _:
                self.input = self.whole
                gets = case.collective == "all_reduce" or self._at_root
                self.output = nothing if not gets else self.whole if case.in_place else np.empty_like(self.whole)
        self._expected: Array = np.empty(self.output.size, case.dtype)
        self._fill_expected(own.start)

    def _fill_expected(self, first: int) -> None:
        case, expected = self.case, self._expected
        if expected.size == 0:
            return
        match case.collective:
            case "all_gather" | "gather":
                for rank in range(case.ranks):
                    _fill(expected[rank * case.count : (rank + 1) * case.count], case, rank, 0)
            case "all_to_all":
                for rank in range(case.ranks):
                    _fill(expected[rank * case.count : (rank + 1) * case.count], case, rank, first)
            case "broadcast" | "scatter":
                _fill(expected, case, ROOT, first if case.collective == "scatter" else 0)
            case _:
                _fill_reduced(expected, case, first if case.collective == "reduce_scatter" else 0)

    def reset(self) -> None:
        """Poison the output, then bring this rank's data."""
        self.output.view(np.uint8)[:] = _POISON
        if self.case.collective != "broadcast" or self._at_root:
            _fill(self.input, self.case, self.case.rank, 0)

    def wrong(self, result: Array) -> int:
        """Elements of `result` that are not what they have to be."""
        return int(np.count_nonzero(result != self._expected))
