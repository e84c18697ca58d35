# SPDX-License-Identifier: Apache-2.0
"""Collective calls as data: what each rank brings, what has to come out, and one function that runs and judges them.

Every payload is unique per rank and element, memory around each buffer is watched, and nobody may write an input.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import lanecast
from lanecast import _core
from lanecast.buffers import as_buffer

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
    """counts: elements of each part; parts are those of the core: one where the vector is reduced or broadcast whole,
    one for each pair of ranks in an all-to-all, else one for each rank."""

    kind: str
    counts: tuple[int, ...]
    algorithm: str = ""
    dtype: str = "float32"
    op: str = "sum"
    in_place: bool = False
    chunks: int = 0
    async_op: bool = False
    exact: bool = True  # values whose results need no rounding; else any
    root: int = 0
    own_counts: bool = False  # each rank is told its own counts only
    end: str = ""  # of an average: values at this end of the type's range, "largest" or "smallest"

    @property
    def total(self) -> int:
        return sum(self.counts)

    def part(self, part: int) -> slice:
        """Where the part lies, were all of them side by side."""
        begin = sum(self.counts[:part])
        return slice(begin, begin + self.counts[part])

    def inputs(self, rank: int, size: int) -> list[int]:
        """The parts that a rank brings."""
        match self.kind:
            case "all_gather" | "gather":
                return [rank]
            case "broadcast" | "scatter":
                return list(range(len(self.counts))) if rank == self.root else []
            case "all_to_all":
                return [rank * size + to for to in range(size)]
        return list(range(len(self.counts)))

    def outputs(self, rank: int, size: int) -> list[int]:
        """The parts that a rank ends with."""
        match self.kind:
            case "reduce_scatter" | "scatter":
                return [rank]
            case "reduce" | "gather":
                return list(range(len(self.counts))) if rank == self.root else []
            case "all_to_all":
                return [sender * size + rank for sender in range(size)]
        return list(range(len(self.counts)))

    def origin(self, part: int, size: int) -> int | None:
        """Who brings a part; None where all do, and it is reduced."""
        match self.kind:
            case "all_gather" | "gather":
                return part
            case "broadcast" | "scatter":
                return self.root
            case "all_to_all":
                return part // size
        return None

    def seed(self) -> int:
        plain = replace(self, in_place=False, async_op=False)
        return zlib.crc32(repr(plain).encode())


@functools.lru_cache(maxsize=8)  # a rank that judges needs again what it brought; ranks as threads need the same
def values(case: Case, rank: int, size: int) -> Array:
    """What a rank brings of all parts, nobody's to write; to all but a reduction it brings some of them only."""
    drawn = _drawn(case, rank, size)
    drawn.setflags(write=False)
    return drawn


def _drawn(case: Case, rank: int, size: int) -> Array:
    rng = np.random.default_rng([case.seed(), rank])
    dtype = DTYPES[case.dtype]
    if case.dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, case.total, dtype, endpoint=True)
    if case.end:
        return _at_an_end(case, rank, size)
    if not case.exact:
        return rng.standard_normal(case.total).astype(dtype)
    if case.op == "prod":  # powers of two, so that only exponents add up
        return np.asarray(rng.choice([1.0, -1.0, 2.0, 0.5], case.total)).astype(dtype)
    if case.op in ("sum", "avg"):  # whole numbers whose sum the mantissa still holds
        most = 2 ** (int(_limits(case.dtype).nmant) + 1) // size
        return rng.integers(0, min(most, 2**30), case.total, endpoint=True).astype(dtype)
    return rng.integers(-100, 100, case.total).astype(dtype)


def _at_an_end(case: Case, rank: int, size: int) -> Array:
    """Other ones for each rank and element, as far as the type has so many."""
    limits, unique = _limits(case.dtype), np.arange(case.total) * size + rank
    if case.end == "smallest":  # subnormals of which even the sum is one
        steps = 2 ** int(limits.nmant) // size
        return np.asarray(unique % (steps + 1) * np.longdouble(limits.smallest_subnormal)).astype(DTYPES[case.dtype])
    # Below the largest number, and mostly positive, so that few sums of two have a number.
    below = 1 - (unique % 61) / np.longdouble(128)
    return (np.where(unique % 11 == 0, -below, below) * np.longdouble(limits.max)).astype(DTYPES[case.dtype])


def even(kind: str, count: int, size: int) -> tuple[int, ...]:
    """Counts of a case in which all parts are equally large."""
    parts = {"all_reduce": 1, "broadcast": 1, "reduce": 1, "all_to_all": size * size}.get(kind, size)
    return (count,) * parts


def expected(case: Case, size: int, parts: Sequence[int]) -> tuple[Array, Array]:
    """The result in double precision (integers: as they are), and the error that each element may have."""
    if case.origin(0, size) is not None or not parts:
        found = [values(case, case.origin(part, size) or 0, size)[case.part(part)] for part in parts]
        moved = np.concatenate([np.empty(0, DTYPES[case.dtype]), *found])
        return moved, np.zeros(moved.size)
    brought = [values(case, rank, size) for rank in range(size)]
    stack = np.stack([np.concatenate([whole[:0], *(whole[case.part(part)] for part in parts)]) for whole in brought])
    if case.dtype in INTEGERS:
        with np.errstate(over="ignore"):
            return UFUNCS[case.op].reduce(stack, axis=0, dtype=DTYPES[case.dtype]), np.zeros(stack.shape[1])
    wide = stack.astype(np.longdouble)
    result = UFUNCS[case.op].reduce(wide, axis=0)
    if case.exact and case.op != "avg":
        return result, np.zeros(stack.shape[1])
    if case.end == "smallest":  # the division rounds, and nothing else
        return result / size, np.full(stack.shape[1], np.longdouble(_limits(case.dtype).smallest_subnormal) / 2)
    # Each of the size − 1 operations may round to the type once and to fp32 before, an average once more.
    roundings = 2 * size if case.op in ("sum", "prod", "avg") else 0
    epsilon = np.longdouble(_limits(case.dtype).eps)
    magnitude = np.abs(result) if case.op == "prod" else np.abs(wide).sum(axis=0)
    tiny = float(_limits(case.dtype).smallest_subnormal)
    tolerance = roundings * (epsilon * magnitude + tiny)
    return (result / size, tolerance / size + tiny) if case.op == "avg" else (result, tolerance)


class Guarded:
    """A buffer between elements that nobody may touch."""

    def __init__(self, content: Array, inside: dict[int, Array] | None = None) -> None:
        """inside: what else the content has from some place on."""
        dtype = content.dtype
        self._memory = np.full(content.nbytes + 2 * GUARD * dtype.itemsize, 0xA5, np.uint8)
        self.view = self._memory[GUARD * dtype.itemsize : content.nbytes + GUARD * dtype.itemsize].view(dtype)
        self.view[:] = content
        for begin, more in (inside or {}).items():
            self.view[begin : begin + more.size] = more
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
        self._ins, self._outs = case.inputs(comm.rank, comm.size), case.outputs(comm.rank, comm.size)
        brought = values(case, comm.rank, comm.size)
        content = np.concatenate([brought[:0], *(brought[case.part(part)] for part in self._ins)])
        elements = sum(case.counts[part] for part in self._outs)
        self._in = Guarded(content)
        self._out = Guarded(np.ones(elements, brought.dtype))
        self._source, self._target = self._in.view, self._out.view
        self._gets = NOTHING  # of the input, where that is in the same memory
        if case.in_place and self._ins and self._outs:
            self._share_memory(content, elements)
        self._work: lanecast.Work | _core.Work | None = None

    def _share_memory(self, content: Array, elements: int) -> None:
        """The smaller of the two buffers becomes a slice of the larger one."""
        case, smaller = self.case, min(self._ins, self._outs, key=len)
        larger = max(self._ins, self._outs, key=len)
        begin = sum(case.counts[part] for part in larger[: larger.index(smaller[0])])
        inside = slice(begin, begin + sum(case.counts[part] for part in smaller))
        if larger is self._outs and len(self._outs) > len(self._ins):
            self._out = Guarded(np.ones(elements, content.dtype), {inside.start: content})
            self._in, self._gets = self._out, slice(None)
            self._source, self._target = self._out.view[inside], self._out.view
        else:
            self._out, self._gets = self._in, inside
            self._target = self._in.view[inside]

    def start(self) -> None:
        case, comm, source, target = self.case, self.comm, self._source, self._target
        options: dict[str, Any] = {"async_op": case.async_op, "algorithm": case.algorithm, "chunks": case.chunks}
        if len(set(case.counts)) > 1:
            options["counts"] = case.counts
        at_root = comm.rank == case.root
        match case.kind:
            case "all_reduce":
                if not case.in_place:  # the package's all_reduce is always in place
                    target[:] = source
                self._work = comm.all_reduce(target, case.op, **options)
            case "broadcast" | "reduce" if case.in_place:
                tensor = target if at_root or case.kind == "broadcast" else source
                self._work = (
                    comm.broadcast(tensor, case.root, **options)
                    if case.kind == "broadcast"
                    else comm.reduce(tensor, case.root, case.op, **options)
                )
            case "all_gather":
                self._work = comm.all_gather_into_tensor(target, source, **options)
            case "reduce_scatter":
                self._work = comm.reduce_scatter_tensor(target, source, case.op, **options)
            case "gather" if not case.own_counts:
                self._work = comm.gather(target if at_root else None, source, case.root, **options)
            case "scatter" if not case.own_counts:
                self._work = comm.scatter(target, source if at_root else None, case.root, **options)
            case "all_to_all":
                options.pop("counts", None)
                sizes = ([case.counts[part] for part in parts] for parts in (self._outs, self._ins))
                self._work = comm.all_to_all_single(target, source, *(sizes if case.own_counts else ()), **options)
            case _:
                self._start_in_core()

    def _start_in_core(self) -> None:
        """For what the package does not offer: two buffers of the root, and counts that only the root knows all of."""
        case, core = self.case, self.comm._core
        counts: tuple[list[int], list[int], list[int]] = ([], [], [])
        if case.own_counts:
            counts = [], [case.counts[p] for p in self._ins], [case.counts[p] for p in self._outs]
        elif len(set(case.counts)) > 1:
            counts = list(case.counts), [], []
        views = [as_buffer(array, "array", 0, written=False).view for array in (self._source, self._target)]
        arguments: tuple[Any, ...] = (
            _core.KINDS.index(case.kind), *views, _core.DTYPES.index(case.dtype), _core.OPS.index(case.op),
            case.counts[0], counts[0], case.algorithm, case.chunks, case.root, counts[1], counts[2],
        )  # fmt: skip
        if case.async_op:
            self._work = core.start(self.comm._held, *arguments)
        else:
            self._in_core(*arguments)

    def _in_core(self, *arguments: Any) -> None:
        self.comm._core.run(*arguments)

    def finish(self) -> list[str]:
        if self._work is not None:
            self._work.wait()
        case, rank = self.case, self.comm.rank
        wrong = []
        if self._in.changed_outside(self._gets):
            wrong.append(f"rank {rank}: {case}: the input has been written")
        if self._out is not self._in and self._out.changed_outside(slice(None)):
            wrong.append(f"rank {rank}: {case}: memory beside the output has been written")
        result, tolerance = expected(case, self.comm.size, self._outs)
        got = self._target
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
