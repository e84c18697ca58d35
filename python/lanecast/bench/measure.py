# SPDX-License-Identifier: Apache-2.0
"""Times backends side by side: every round runs each of them once, in an order that rotates from round to round."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from lanecast import _core
from lanecast.bench import cores, network
from lanecast.bench.backends import bind
from lanecast.bench.cases import WHOLE, Case
from lanecast.bench.checks import takers
from lanecast.bench.device import Call
from lanecast.bench.figures import busbw_factor, least_traffic_bytes, nodes_of
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.memory import HostMemory, Memory
from lanecast.bench.payload import Payload
from lanecast.bench.ranks import Ranks, Times
from lanecast.bench.settings import COMPOSED, LANECAST, Backend, Settings
from lanecast.dtypes import itemsize

Row = dict[str, Any]

EAGER, GRAPH = "eager", "graph"
_ENOUGH = 0.8  # of the length of a round that is asked for
_MOST_IN_GRAPH = 50
_GRAPH_US = 2e3  # of calls in a graph, so that the replay itself does not count


@dataclass
class Contender:
    """A backend bound to the buffers of one case, called one way."""

    backend: Backend
    payload: Payload
    call: Call  # once
    result: Any  # where a call leaves it
    algorithm: str
    chunks: int | None = None  # known where the choice is automatic
    mode: str = ""  # on a GPU: EAGER or GRAPH
    batch: Call | None = None  # what is timed instead of the call
    calls: int = 1  # of a batch
    batches: int = 1  # of a round
    wrong: int = 0
    times: list[Times] = field(default_factory=list)  # of a call, in each round
    meter: network.Meter | None = None  # of the timed rounds, between hosts, as the next
    cores: cores.Meter | None = None
    columns: Row = field(default_factory=dict)  # what its rows say besides


def case_for(settings: Settings, collective: str, size: int, ranks: Ranks) -> Case:
    """The case of at most `size` bytes, rounded down to whole elements of every rank."""
    parts = 1 if collective in WHOLE else ranks.size
    count = size // (itemsize(settings.dtype) * parts)
    in_place = settings.in_place or collective in ranks.one_tensor
    return Case(collective, count, settings.dtype, settings.op, in_place, ranks.rank, ranks.size)


def _speed(collective: str, ranks: int, full_bytes: int, time_us: float) -> Row:
    """A time, and the bandwidths that follow."""
    algbw_gbps = full_bytes / time_us / 1e3
    busbw_gbps = algbw_gbps * busbw_factor(collective, ranks)
    return {"time_us": time_us, "algbw_GBps": algbw_gbps, "busbw_GBps": busbw_gbps}


def row_of(case: Case, backend: str, algorithm: str, times_us: list[float]) -> Row:
    """What is said of any measurement; the time is that of the slowest rank's mean call in each round."""
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
        **_speed(case.collective, case.ranks, case.full_bytes, statistics.median(times_us)),
        "time_us_rounds": times_us,
        "least_traffic_bytes": least_traffic_bytes(case),
        "bound_us": None,
    }


def row_of_runs(rows: list[Row]) -> Row:
    """One for several independent runs of a case: the mean, and what each took."""
    first = rows[0]
    times_us = [row["time_us"] for row in rows]
    time_us = statistics.fmean(times_us)
    found = first | _speed(first["collective"], first["ranks"], first["bytes"], time_us)
    found |= {"time_us_rounds": times_us, "wrong": max(row["wrong"] for row in rows)}
    if "mode" not in first:
        return found
    host_us = [row["host_us"] for row in rows]
    return found | {"device_us": time_us, "host_us": statistics.fmean(host_us), "host_us_rounds": host_us}


class Bench:
    """Measures on some ranks; every method is collective."""

    def __init__(
        self, ranks: Ranks, settings: Settings, memory: Callable[[str], Memory] = lambda kind: HostMemory()
    ) -> None:
        """memory: gives that of a kind, for one payload."""
        self.ranks, self.settings, self.memory = ranks, settings, memory
        self.network = network.find(ranks.control)

    def measure(self, collective: str, size: int, advance: Callable[[str], None]) -> list[Row]:
        """Rows of all backends that take this collective; `advance` is told before each round of each."""
        return self.rows(self.running(case_for(self.settings, collective, size, self.ranks)), advance)

    def rows(self, contenders: list[Contender], advance: Callable[[str], None]) -> list[Row]:
        """Of all of them, and where graphs are asked for, of those that can be replayed once more."""
        self.compete(contenders, advance)
        rows = [self.row(contender) for contender in contenders]
        if self.settings.graph:
            graphs = [self._captured(contender) for contender in contenders if contender.backend.can_be_captured]
            self.compete(graphs, advance)
            rows += [self.row(contender) for contender in graphs]
        return rows

    def running(self, case: Case) -> list[Contender]:
        """All backends that take the case, but for pinned algorithms whose call does not."""
        return [contender for contender in self.contenders(case) if self.runs(contender)]

    def payload(self, case: Case, kind: str) -> Payload:
        """Buffers of the case in all of the memory of a kind."""
        return Payload(case, self.memory(kind))

    def contenders(self, case: Case) -> list[Contender]:
        """All backends that take the case, each bound to buffers of it in the memory that it wants."""
        payloads: dict[str, Payload] = {}
        found = []
        for backend in takers(self.settings, case.collective, self.ranks.comm.topology):
            if backend.memory not in payloads:
                payloads[backend.memory] = self.payload(case, backend.memory)
            found.append(self.contender(backend, payloads[backend.memory]))
        return found

    def contender(self, backend: Backend, payload: Payload) -> Contender:
        return Contender(backend, payload, *bind(backend, self.ranks, payload), mode=self.mode)

    @property
    def mode(self) -> str:
        """Of calls that are made one by one."""
        return EAGER if self.ranks.device.queues else ""

    def timed(self, contender: Contender, batches: int) -> Times:
        """Microseconds of a call."""
        times = self.ranks.timed(contender.batch or contender.call, batches)
        return Times(times.device_us / contender.calls, times.host_us / contender.calls)

    def compete(self, contenders: list[Contender], advance: Callable[[str], None] = lambda _: None) -> None:
        """Check every contender's result, time all of them in rounds, and check again."""
        for contender in contenders:
            self._check(contender)
            self._warm_up(contender)
            contender.meter = network.Meter(self.network) if self.network else None
            contender.cores = cores.Meter() if self.ranks.comm._core.hosts > 1 else None
        for turn in range(self.settings.rounds if contenders else 0):
            first = turn % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                advance(f"{contender.backend.name} {contender.mode}".rstrip())
                with contender.meter or nullcontext(), contender.cores or nullcontext():
                    contender.times.append(self.timed(contender, contender.batches))
        for contender in contenders:
            self._check(contender)

    def row(self, contender: Contender) -> Row:
        case, comm, control = contender.payload.case, self.ranks.comm, self.ranks.control
        calls, rounds = contender.calls * contender.batches, len(contender.times)
        # On a device each round begins with one more batch.
        moved = rounds * (calls + (contender.calls if self.ranks.device.queues else 0))
        row = row_of(case, contender.backend.name, contender.algorithm, [each.device_us for each in contender.times])
        row |= {
            "chunks": contender.chunks,
            "topology": str(comm.topology),
            "nodes": nodes_of(comm.topology),
            "repeats": calls,
            "nic_bytes": contender.meter.per_call(control, moved) if contender.meter else None,
            "cores": contender.cores.shares(control) if contender.cores else None,
            "wrong": contender.wrong,
            **contender.columns,
        }
        if not contender.mode:
            return row
        host_us = [each.host_us for each in contender.times]
        return row | {
            "mode": contender.mode,
            "device_us": row["time_us"],
            "host_us": statistics.median(host_us),
            "host_us_rounds": host_us,
            "calls": calls,
            "memory": contender.backend.memory,
        }

    def runs(self, contender: Contender) -> bool:
        """Make the first call; a pinned algorithm may not take the case, as all ranks find alike."""
        try:
            contender.call()
        except _core.UsageError as error:
            if not contender.backend.algorithm:
                raise
            if self.ranks.rank == 0:
                print(f"left out: {contender.backend.name}: {error}", file=sys.stderr, flush=True)
            return False
        return True

    def _captured(self, contender: Contender) -> Contender:
        """The same from CUDA graphs: of one call to be checked, of several to be timed."""
        assert isinstance(self.ranks, GpuRanks), "graphs are refused elsewhere"
        capture = self.ranks.device.captured
        median_us = statistics.median(each.device_us for each in contender.times)
        calls = max(1, min(math.ceil(_GRAPH_US / median_us), _MOST_IN_GRAPH))
        once, batch = capture(contender.call, 1), capture(contender.call, calls)
        return replace(contender, call=once, batch=batch, calls=calls, batches=1, mode=GRAPH, wrong=0, times=[])

    def _check(self, contender: Contender) -> None:
        device, payload = self.ranks.device, contender.payload
        payload.reset(contender.result)
        if device.queues:
            device.synchronize()
            self.ranks.latest(0)  # nobody writes into a buffer that its rank still fills
        contender.call()
        device.synchronize()
        if device.queues and contender.backend.library in {LANECAST, COMPOSED}:
            self.ranks.comm.synchronize()
        contender.wrong = max(contender.wrong, self.ranks.total(payload.wrong(contender.result)))

    def _warm_up(self, contender: Contender) -> None:
        """Run until caches and connections are warm, and find how many batches make a round; equal on all ranks."""
        if self.settings.warmup:
            self.timed(contender, self.settings.warmup)
        round_us = self.settings.round_s * 1e6
        most = max(1, self.ranks.device.most_calls // contender.calls)
        while round_us and contender.batches < most:
            lasts_us = self.timed(contender, contender.batches).device_us * contender.calls
            needed = math.ceil(round_us / lasts_us)
            if needed * _ENOUGH <= contender.batches:
                return
            contender.batches = min(most, max(needed, 2 * contender.batches))
