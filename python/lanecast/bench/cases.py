# SPDX-License-Identifier: Apache-2.0
"""One collective at one size, and the numbers that each rank brings to it.

All values are small integers whose reductions are exact in the dtype in any order, so that results compare equal or are
wrong. They differ by rank and by element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lanecast.dtypes import itemsize

MAIN = ("all_gather", "reduce_scatter", "all_reduce")  # measured where nobody says which
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
WHOLE = ("all_reduce", "broadcast", "reduce")  # the buffer is one part; else each rank has its share
ROOT = 0

POISON = 0xA5  # no value that a payload holds consists of such bytes
ELEMENT_STEP, _RANK_STEP = 2654435761, 40503  # odd, so each permutes the numbers below a power of two
SIGN_BIT = 1 << 16  # of a number in the sequence: set for 1, else -1, where a product is to stay exact

_MANTISSA_BITS = {"bfloat16": 7, "float8_e4m3": 3, "float8_e5m2": 2}  # of what numpy knows by ml_dtypes alone


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
