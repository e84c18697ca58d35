# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a call's buffers a slice of it reads and writes: the k-th of n equal cuts of every part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from lanecast.bound import KIND, Bound

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = KIND["all_reduce"], KIND["all_gather"], KIND["reduce_scatter"]
SLICED = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER)

Range = tuple[int, int]  # first element, how many


def counts_of(call: Bound, size: int) -> list[int]:
    """Elements of each part."""
    if call.kind == ALL_REDUCE:
        return [call.part_count]
    return list(call.counts) or [call.part_count] * size


def parts_read(call: Bound, rank: int, size: int) -> list[int]:
    """Elements of the parts that lie side by side in the input."""
    counts = counts_of(call, size)
    return [counts[rank]] if call.kind == ALL_GATHER else counts


def parts_written(call: Bound, rank: int, size: int) -> list[int]:
    counts = counts_of(call, size)
    return [counts[rank]] if call.kind == REDUCE_SCATTER else counts


def ranges(parts: Sequence[int], index: int, slices: int) -> list[Range]:
    """Of a slice, in a buffer of these parts; as the core cuts them, remainders included. Empty ones are left out."""
    found: list[Range] = []
    for first, count in zip(accumulate(parts, initial=0), parts, strict=False):
        low, high = index * count // slices, (index + 1) * count // slices
        if high > low:
            if found and sum(found[-1]) == first + low:
                found[-1] = (found[-1][0], found[-1][1] + high - low)
            else:
                found.append((first + low, high - low))
    return found


def leaves_some_empty(call: Bound, size: int, slices: int) -> bool:
    """Would a process of so many get no element at all?"""
    return max(counts_of(call, size), default=0) < slices
