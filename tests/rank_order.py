# SPDX-License-Identifier: Apache-2.0
"""Reproducible sums, judged bit by bit against numpy adding in rank order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from collective_cases import DTYPES, FLOATS, UFUNCS, Array
from lanecast import Communicator

OPS = ("sum", "avg", "prod", "min", "max")


@dataclass(frozen=True)
class Sum:
    """A reduction of random floats. counts: elements of each rank's part, of an all-reduce all of them."""

    kind: str
    counts: tuple[int, ...]
    dtype: str = "float32"
    op: str = "sum"
    algorithm: str = ""
    chunks: int = 0
    in_place: bool = True


def brought(case: Sum, rank: int) -> Array:
    """What a rank brings: the same for every way of running the case. Zeros of both signs, and sums that round."""
    rng = np.random.default_rng([rank, FLOATS_IN_ORDER.index(case.dtype)])
    values = rng.standard_normal(sum(case.counts)) * rng.choice([0.0, 1e-2, 1.0, 1.5], sum(case.counts))
    return np.asarray(values.astype(DTYPES[case.dtype]))


FLOATS_IN_ORDER = tuple(FLOATS)


def in_rank_order(case: Sum, size: int) -> Array:
    """From left to right by rank, 16- and 8-bit floats in fp32, rounded once."""
    dtype = DTYPES[case.dtype]
    wide = dtype if dtype.itemsize > 2 else np.dtype(np.float32)
    with np.errstate(all="ignore"):
        total = brought(case, 0).astype(wide)
        for rank in range(1, size):
            more = brought(case, rank).astype(wide)
            if case.op in ("min", "max"):  # of equal zeros the later one
                first = total < more if case.op == "min" else total > more
                total = np.where(first, total, more)
            else:
                total = UFUNCS[case.op](total, more)
        if case.op == "avg":
            total = total / wide.type(size)
        return np.asarray(total.astype(dtype))


def outcome(comm: Communicator, case: Sum, **options: Any) -> Array:
    """What this rank ends with."""
    content = brought(case, comm.rank)
    options = {"algorithm": case.algorithm, "chunks": case.chunks, **options}
    if case.kind == "all_reduce":
        comm.all_reduce(content, case.op, **options)
        return content
    begin = sum(case.counts[: comm.rank])
    share = content[begin : begin + case.counts[comm.rank]]
    target = share if case.in_place else np.empty_like(share)
    comm.reduce_scatter_tensor(target, content, case.op, counts=case.counts, **options)
    return target


def expected(comm: Communicator, case: Sum) -> Array:
    whole = in_rank_order(case, comm.size)
    if case.kind == "all_reduce":
        return whole
    begin = sum(case.counts[: comm.rank])
    return whole[begin : begin + case.counts[comm.rank]]


def differing(comm: Communicator, cases: Sequence[Sum], **options: Any) -> list[str]:
    """The cases whose bits are not those of the reference; collective."""
    wrong = []
    for case in cases:
        got, wanted = outcome(comm, case, **options), expected(comm, case)
        if (bad := int((got.view(np.uint8) != wanted.view(np.uint8)).sum())) > 0:
            wrong.append(f"rank {comm.rank}: {case} on {comm.topology}: {bad} bytes differ")
    return wrong


def every_type(kind: str, counts: tuple[int, ...], **options: Any) -> list[Sum]:
    plain = replace(Sum(kind, counts), **options)
    return [replace(plain, dtype=dtype, op=op) for dtype in FLOATS for op in OPS]
