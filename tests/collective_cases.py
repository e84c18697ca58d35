# SPDX-License-Identifier: Apache-2.0
"""Collective calls as data: what each rank brings, what has to come out, and one function that runs and judges them.

Every payload is unique per rank and element, memory around each buffer is watched, and nobody may write an input.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import lanecast
from lanecast import _core

Array = npt.NDArray[Any]

FLOATS: dict[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
INTEGERS = {name: np.dtype(name) for name in _core.DTYPES if name not in FLOATS}
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype({**FLOATS, **INTEGERS}[name]) for name in _core.DTYPES}
UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
GUARD = 3  # elements watched on each side of a buffer


def _limits(dtype: str) -> Any:
    return ml_dtypes.finfo(DTYPES[dtype])  # type: ignore[no-untyped-call]


def ops_of(dtype: str) -> list[str]:
    refused = {"band", "bor", "bxor"} if dtype in FLOATS else {"avg"}
    return [op for op in UFUNCS if op not in refused]


@dataclass(frozen=True)
class Case:
    """counts: elements of each rank's part; of an all-reduce, one number."""

    kind: str
    counts: tuple[int, ...]
    algorithm: str = ""
    dtype: str = "float32"
    op: str = "sum"
    in_place: bool = False
    chunks: int = 0
    async_op: bool = False
    exact: bool = True  # values whose results need no rounding; else any

    @property
    def total(self) -> int:
        return sum(self.counts)

    def part(self, rank: int) -> slice:
        """Where the rank's part lies in the full buffer."""
        if self.kind == "all_reduce":
            return slice(0, self.total)
        begin = sum(self.counts[:rank])
        return slice(begin, begin + self.counts[rank])

    def seed(self) -> int:
        plain = replace(self, in_place=False, async_op=False)
        return zlib.crc32(repr(plain).encode())


def values(case: Case, rank: int, size: int) -> Array:
    """What a rank brings to a reduction (the full buffer) or, cut to its part, to an all-gather."""
    rng = np.random.default_rng([case.seed(), rank])
    dtype = DTYPES[case.dtype]
    if case.dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, case.total, dtype, endpoint=True)
    if not case.exact:
        return rng.standard_normal(case.total).astype(dtype)
    if case.op == "prod":  # powers of two, so that only exponents add up
        return np.asarray(rng.choice([1.0, -1.0, 2.0, 0.5], case.total)).astype(dtype)
    if case.op in ("sum", "avg"):  # whole numbers whose sum the mantissa still holds
        most = 2 ** (int(_limits(case.dtype).nmant) + 1) // size
        return rng.integers(0, min(most, 2**30), case.total, endpoint=True).astype(dtype)
    return rng.integers(-100, 100, case.total).astype(dtype)


def expected(case: Case, size: int) -> tuple[Array, Array]:
    """The full result in double precision (integers: as they are), and the error that each element may have."""
    brought = np.stack([values(case, rank, size) for rank in range(size)])
    if case.kind == "all_gather":
        parts = [brought[rank, case.part(rank)] for rank in range(size)]
        gathered = np.concatenate(parts)
        return gathered, np.zeros(case.total)
    if case.dtype in INTEGERS:
        with np.errstate(over="ignore"):
            return UFUNCS[case.op].reduce(brought, axis=0, dtype=DTYPES[case.dtype]), np.zeros(case.total)
    wide = brought.astype(np.longdouble)
    result = UFUNCS[case.op].reduce(wide, axis=0)
    if case.exact and case.op != "avg":
        return result, np.zeros(case.total)
    # Each of the size − 1 operations may round to the type once and to fp32 before, an average once more.
    roundings = 2 * size if case.op in ("sum", "prod", "avg") else 0
    epsilon = float(_limits(case.dtype).eps)
    magnitude = np.abs(result) if case.op == "prod" else np.abs(wide).sum(axis=0)
    tiny = float(_limits(case.dtype).smallest_subnormal)
    tolerance = roundings * (epsilon * magnitude + tiny)
    return (result / size, tolerance / size + tiny) if case.op == "avg" else (result, tolerance)


class Guarded:
    """A buffer between elements that nobody may touch."""

    def __init__(self, content: Array) -> None:
        dtype = content.dtype
        self._memory = np.full(content.nbytes + 2 * GUARD * dtype.itemsize, 0xA5, np.uint8)
        self.view = self._memory[GUARD * dtype.itemsize : content.nbytes + GUARD * dtype.itemsize].view(dtype)
        self.view[:] = content
        self._before = self._memory.copy()

    def changed_outside(self, kept: slice) -> bool:
        """Has anything changed but what `kept` selects of the buffer?"""
        itemsize = self.view.dtype.itemsize
        begin, end, _ = kept.indices(self.view.size)
        now = self._memory.copy()
        written = slice((GUARD + begin) * itemsize, (GUARD + end) * itemsize)
        now[written] = self._before[written]
        return bool((now != self._before).any())


NOTHING = slice(0, 0)


class Call:
    """A case as one rank runs it: start(), then finish(), which tells what is wrong."""

    def __init__(self, comm: lanecast.Communicator, case: Case) -> None:
        self.comm, self.case = comm, case
        mine, full = case.part(comm.rank), slice(0, case.total)
        self._brings, self._gets = {
            "all_gather": (mine, full),
            "reduce_scatter": (full, mine),
            "all_reduce": (full, full),
        }[case.kind]
        content = values(case, comm.rank, comm.size)
        self._in = Guarded(content if case.in_place else content[self._brings])
        self._out = self._in if case.in_place else Guarded(np.ones_like(content[self._gets]))
        self._work: lanecast.Work | None = None

    def start(self) -> None:
        case, source, target = self.case, self._in.view, self._out.view
        options: dict[str, Any] = {"algorithm": case.algorithm, "chunks": case.chunks}
        if case.kind == "all_reduce":
            if not case.in_place:  # the package's all_reduce is always in place
                target[:] = source
            self._work = self.comm.all_reduce(target, case.op, case.async_op, **options)
            return
        if case.in_place:
            source, target = source[self._brings], target[self._gets]
        if len(set(case.counts)) > 1:
            options["counts"] = case.counts
        if case.kind == "all_gather":
            self._work = self.comm.all_gather_into_tensor(target, source, case.async_op, **options)
        else:
            self._work = self.comm.reduce_scatter_tensor(target, source, case.op, case.async_op, **options)

    def finish(self) -> list[str]:
        if self._work is not None:
            self._work.wait()
        case, rank = self.case, self.comm.rank
        wrong = []
        if self._in.changed_outside(self._gets if case.in_place else NOTHING):
            wrong.append(f"rank {rank}: {case}: the input has been written")
        if self._out.changed_outside(self._gets if case.in_place else slice(None)):
            wrong.append(f"rank {rank}: {case}: memory beside the output has been written")
        result, tolerance = (whole[self._gets] for whole in expected(case, self.comm.size))
        got = self._out.view[self._gets] if case.in_place else self._out.view
        error = np.abs(got.astype(result.dtype) - result) if case.dtype in FLOATS else got != result
        if (bad := np.flatnonzero(~(error <= tolerance))).size:
            at = bad[0]
            wrong.append(f"rank {rank}: {case}: {bad.size} wrong, [{at}] is {got[at]}, expected {result[at]}")
        return wrong


def run_cases(comm: lanecast.Communicator, cases: Sequence[Case]) -> list[str]:
    """Run one case after the other and tell what is wrong, so that no rank leaves the others waiting."""
    wrong = []
    for case in cases:
        call = Call(comm, case)
        call.start()
        wrong += call.finish()
    return wrong


def among_threads(size: int, cases: Sequence[Case], **options: Any) -> list[str]:
    """The same on every rank of a new communicator; what is wrong on any of them."""
    results = lanecast.run_threads(size, lambda comm: run_cases(comm, cases), **{"timeout_s": 60, **options})
    return [line for wrong in results for line in wrong]
