# SPDX-License-Identifier: Apache-2.0
"""Buffers of one collective with data that differ per rank and element, and the element-by-element check of its result.

All values are small integers whose reductions are exact in the dtype in any order, so that results compare equal or are
wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np

from lanecast.buffers import Array
from lanecast.dtypes import itemsize, numpy_dtype

MAIN = ("all_gather", "reduce_scatter", "all_reduce")  # measured where nobody says which
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
WHOLE = ("all_reduce", "broadcast", "reduce")  # the buffer is one part; else each rank has its share
ROOT = 0

POISON = 0xA5  # no value that a payload holds consists of such bytes
ELEMENT_STEP, _RANK_STEP = 2654435761, 40503  # odd, so each permutes the numbers below a power of two
SIGN_BIT = 1 << 16  # of a number in the sequence: set for 1, else -1, where a product is to stay exact

_MANTISSA_BITS = {"bfloat16": 7, "float8_e4m3": 3, "float8_e5m2": 2}  # of what numpy knows by ml_dtypes alone

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
        return self.full_count * itemsize(self.dtype)


def exact_limit(dtype: str) -> int:
    """Integers from 0 up to this one are exact."""
    if dtype in _MANTISSA_BITS:
        return 1 << (_MANTISSA_BITS[dtype] + 1)
    kind = np.dtype(dtype)
    return 1 << (np.finfo(kind).nmant + 1) if kind.kind == "f" else int(np.iinfo(f"i{kind.itemsize}").max)


def value_range(case: Case) -> int:
    """A power of two: values lie below it, and what the collective makes of them is exact."""
    limit = exact_limit(case.dtype)
    if case.reduces and case.op in {"sum", "avg"}:
        limit //= case.ranks if case.op == "sum" else case.ranks * case.ranks
    return max(2, min(1 << 31, 1 << (limit.bit_length() - 1)))


def drawn_from_bit(case: Case) -> int:
    """Of a number in the sequence, from where on it gives the value: the lowest few repeat in step on all ranks."""
    return 16 if value_range(case) <= 16 else 0


def is_exact(dtype: str, op: str, ranks: int) -> bool:
    """Can sums and averages of so many ranks' payloads be held exactly? No 8-bit float holds 17, so not those of 17."""
    limit = exact_limit(dtype)
    step = {"sum": 1, "avg": ranks}.get(op, 0)  # values are multiples of it
    if ranks * step <= limit or dtype.startswith(("int", "uint")):  # whole numbers wrap around everywhere alike
        return True
    # A float holds what is odd and below the limit, times any power of two.
    return all((total := share * step) // (total & -total) < limit for share in range(1, ranks + 1))


def offset(case: Case, rank: int) -> int:
    """Where in the sequence of numbers, modulo 2^32, what `rank` brings begins: another place for each rank."""
    return ((rank + 1) * _RANK_STEP if case.reduces else rank * case.brought_count * ELEMENT_STEP) % (1 << 32)


def values(case: Case, rank: int, first: int, last: int) -> Array:
    """Elements first to last of what `rank` brings."""
    dtype = numpy_dtype(case.dtype)
    index = np.arange(first, last, dtype=np.uint32)
    mixed = index * np.uint32(ELEMENT_STEP) + np.uint32(offset(case, rank))
    small = (mixed >> np.uint32(drawn_from_bit(case))) & np.uint32(value_range(case) - 1)
    if not case.reduces or case.op not in {"prod", "avg"}:
        return small.astype(dtype)
    if case.op == "avg":  # multiples of the number of ranks, so that the division leaves no rest
        return (small * np.uint32(case.ranks)).astype(dtype)
    one = np.ones((), dtype)
    return np.where(mixed & np.uint32(SIGN_BIT), one, np.negative(one))


class Library(Protocol):
    """Where the buffers of a payload lie, and what makes and compares their elements there."""

    block: int  # elements made at a time

    def buffer(self, count: int, dtype: str) -> Any:
        """Memory that the calls are made on."""

    def empty(self, count: int, dtype: str) -> Any:
        """Memory that no call sees."""

    def poison(self, target: Any) -> None:
        """Fill with what no call makes."""

    def values(self, case: Case, rank: int, first: int, last: int) -> Any:
        """Elements first to last of what `rank` brings."""

    def reduced(self, case: Case, first: int, last: int) -> Any:
        """Elements first to last of all ranks' reduction."""

    def differing(self, one: Any, other: Any) -> int:
        """Elements that are not equal."""


class _Numpy:
    """The CPU's memory."""

    block = 1 << 18  # temporaries stay in the cache

    def buffer(self, count: int, dtype: str) -> Array:
        return np.empty(count, numpy_dtype(dtype))

    empty = buffer

    def poison(self, target: Array) -> None:
        target.view(np.uint8)[:] = POISON

    def values(self, case: Case, rank: int, first: int, last: int) -> Array:
        return values(case, rank, first, last)

    def reduced(self, case: Case, first: int, last: int) -> Array:
        brought = (values(case, rank, first, last) for rank in range(case.ranks))
        result: Array = reduce(_COMBINE[case.op], brought)
        return result / case.ranks if case.op == "avg" else result

    def differing(self, one: Array, other: Array) -> int:
        return int(np.count_nonzero(one != other))


class Payload:
    """The buffers of a case on one rank, and what its result has to be; empty ones where it brings or gets nothing."""

    def __init__(self, case: Case, library: Library | None = None) -> None:
        """library: where the buffers lie; default: in the CPU's memory."""
        self.case = case
        self._library: Library = library or _Numpy()
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
        self._expected = self._library.empty(len(self.output), case.dtype)
        self._fill_expected(own.start)

    def _buffer(self, count: int) -> Any:
        return self._library.buffer(count, self.case.dtype)

    def _fill(self, target: Any, make: Callable[[int, int], Any], first: int = 0) -> None:
        for low in range(0, len(target), self._library.block):
            high = min(low + self._library.block, len(target))
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
                reduced = partial(self._library.reduced, case)
                self._fill(expected, reduced, first if case.collective == "reduce_scatter" else 0)

    def _brought(self, rank: int) -> Callable[[int, int], Any]:
        return partial(self._library.values, self.case, rank)

    def reset(self, result: Any = None) -> None:
        """Poison the output, and `result` where a call leaves it elsewhere; then bring this rank's data."""
        self._library.poison(self.output if result is None else result)
        if self.case.collective != "broadcast" or self._at_root:
            self._fill(self.input, self._brought(self.case.rank))

    def wrong(self, result: Any) -> int:
        """Elements of `result` that are not what they have to be."""
        return self._library.differing(result, self._expected)
