# SPDX-License-Identifier: Apache-2.0
"""Times backends side by side: every round runs each of them once, in an order that rotates from round to round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from lanecast import _core
from lanecast.bench import cores, network
from lanecast.bench.checks import takers
from lanecast.bench.figures import busbw_factor, least_traffic_bytes, nodes_of
from lanecast.bench.payload import WHOLE, Case, Payload
from lanecast.bench.settings import MPI, Backend, Settings
from lanecast.buffers import Array, view_for_core
from lanecast.communicator import Communicator
from lanecast.dtypes import DTYPE_CODES, OP_CODES, itemsize

Row = dict[str, Any]

_MOST_REPEATS = 10_000


@dataclass
class Contender:
    """A backend bound to the buffers of one case."""

    backend: Backend
    algorithm: str
    chunks: int | None  # known where the choice is automatic
    call: Callable[[], object]
    result: Array  # where the call leaves it
    repeats: int = 1
    wrong: int = 0

    meter: network.Meter | None = None  # of the timed rounds, between hosts, as the next
    cores: cores.Meter | None = None

    def __post_init__(self) -> None:
        self.times_s: list[float] = []


class Member(Protocol):
    """One of several ranks."""

    rank: int
    size: int


def case_for(settings: Settings, collective: str, size: int, comm: Member) -> Case:
    """The case of at most `size` bytes, rounded down to whole elements of every rank."""
    parts = 1 if collective in WHOLE else comm.size
    count = size // (itemsize(settings.dtype) * parts)
    return Case(collective, count, settings.dtype, settings.op, settings.in_place, comm.rank, comm.size)


def row_of(case: Case, backend: str, algorithm: str, times_us: list[float]) -> Row:
    """What is said of any measurement; the time is that of the slowest rank's mean call in each round."""
    time_us = statistics.median(times_us)
    algbw_gbps = case.full_bytes / time_us / 1e3
    return {
        "collective": case.collective,
        "backend": backend,
        "algorithm": algorithm,
        "chunks": None,
        "ranks": case.ranks,
        "bytes": case.full_bytes,
        "count": case.count,
        "dtype": case.dtype,
        "op": case.op if case.reduces else None,
        "in_place": case.in_place,
        "time_us": time_us,
        "time_us_rounds": times_us,
        "algbw_GBps": algbw_gbps,
        "busbw_GBps": algbw_gbps * busbw_factor(case.collective, case.ranks),
        "least_traffic_bytes": least_traffic_bytes(case),
        "bound_us": None,
    }


class Bench:
    """Measures on one communicator; every method is collective."""

    def __init__(self, comm: Communicator, mpi: _core.MpiBaseline | None, settings: Settings) -> None:
        self.comm = comm
        self.mpi = mpi
        self.settings = settings
        self.network = network.find(comm)

    def latest(self, own: float) -> float:
        """The largest of all ranks' numbers."""
        number = np.array([own])
        self.comm.all_reduce(number, "max")
        return float(number[0])

    def timed(self, call: Callable[[], object], repeats: int) -> float:
        """Mean seconds of `repeats` calls one after the other, on the slowest rank, begun together."""
        self.latest(0)  # no rank leaves an all-reduce before all have come
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        return self.latest((time.perf_counter() - start) / repeats)

    def measure(self, collective: str, size: int, advance: Callable[[str], None]) -> list[Row]:
        """Rows of all backends that take this collective; `advance` is told before each round of each."""
        case = case_for(self.settings, collective, size, self.comm)
        payload = Payload(case)
        backends = takers(self.settings, collective, self.comm.topology)
        contenders = [self.contender(backend, payload) for backend in backends]
        self.compete(contenders, payload, advance)
        return [self.row(case, contender) for contender in contenders]

    def compete(
        self, contenders: list[Contender], payload: Payload, advance: Callable[[str], None] = lambda _: None
    ) -> None:
        """Check every contender's result, time all of them in rounds, and check again."""
        for contender in contenders:
            self._check(contender, payload)
            self._warm_up(contender)
            contender.meter = network.Meter(self.network) if self.network else None
            contender.cores = cores.Meter() if self.comm._core.hosts > 1 else None
        for turn in range(self.settings.rounds):
            first = turn % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                advance(contender.backend.name)
                with contender.meter or nullcontext(), contender.cores or nullcontext():
                    contender.times_s.append(self.timed(contender.call, contender.repeats))
        for contender in contenders:
            self._check(contender, payload)

    def contender(self, backend: Backend, payload: Payload) -> Contender:
        case = payload.case
        kind, dtype, op = _core.KINDS.index(case.collective), DTYPE_CODES[case.dtype], OP_CODES[case.op]
        source = view_for_core(payload.input)
        if backend.library == MPI:
            assert self.mpi is not None, "checked before any rank was started"
            # MPI's in-place reduce-scatter leaves its result at the front of the input.
            front = case.in_place and case.collective == "reduce_scatter"
            result = payload.whole[: payload.output.size] if front else payload.output
            output = payload.whole if front else payload.output
            run = partial(self.mpi.run, kind, source, view_for_core(output), dtype, op, case.count, case.in_place)
            return Contender(backend, "MPI's own", None, run, result)
        algorithm, chunks = backend.algorithm, None
        if not algorithm:
            algorithm, chunks, _ = self.comm._core.chosen(kind, case.count, dtype, backend.reproducible)
        # All by position, as the package calls it: a partial with keywords takes 0.3 us more, and MPI's has none.
        run = partial(
            self.comm._core.run, kind, source, view_for_core(payload.output), dtype, op, case.count, (),
            backend.algorithm, 0, 0, (), (), backend.reproducible,
        )  # fmt: skip
        return Contender(backend, algorithm, chunks, run, payload.output)

    def _check(self, contender: Contender, payload: Payload) -> None:
        payload.reset()
        contender.call()
        wrong = np.array([payload.wrong(contender.result)])
        self.comm.all_reduce(wrong)
        contender.wrong = max(contender.wrong, int(wrong[0]))

    def _warm_up(self, contender: Contender) -> None:
        """Run until caches and connections are warm, and find how many calls make a round."""
        if self.settings.warmup:
            self.timed(contender.call, self.settings.warmup)
        while self.settings.round_s and contender.repeats < _MOST_REPEATS:
            needed = math.ceil(self.settings.round_s / self.timed(contender.call, contender.repeats))
            if needed <= contender.repeats:
                return
            contender.repeats = min(_MOST_REPEATS, max(needed, 2 * contender.repeats))

    def row(self, case: Case, contender: Contender) -> Row:
        times_us = [seconds * 1e6 for seconds in contender.times_s]
        meter, calls = contender.meter, contender.repeats * len(times_us)
        return row_of(case, contender.backend.name, contender.algorithm, times_us) | {
            "chunks": contender.chunks,
            "topology": str(self.comm.topology),
            "nodes": nodes_of(self.comm.topology),
            "repeats": contender.repeats,
            "nic_bytes": meter.per_call(self.comm, calls) if meter else None,
            "cores": contender.cores.shares(self.comm) if contender.cores else None,
            "wrong": contender.wrong,
        }
