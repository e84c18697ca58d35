# SPDX-License-Identifier: Apache-2.0
"""Times backends on GPUs side by side, by the device's clock: every round runs each once, in an order that rotates."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from lanecast import _core
from lanecast.bench import network
from lanecast.bench.gpu.backends import bind
from lanecast.bench.gpu.device import Call
from lanecast.bench.gpu.memory import Arenas
from lanecast.bench.gpu.payload import TorchLibrary
from lanecast.bench.gpu.ranks import Ranks
from lanecast.bench.measure import Row, case_for, row_of
from lanecast.bench.payload import WHOLE, Case, Payload
from lanecast.bench.settings import COMPOSED, HOST, Backend, Settings

EAGER, GRAPH = "eager", "graph"
_MOST_CALLS = 200  # of a round: where the device's queue is full, the host waits, and its time says nothing
_MOST_IN_GRAPH = 50
_GRAPH_S = 2e-3  # of calls in a graph, so that the replay itself does not count


@dataclass
class Contender:
    """A backend bound to the buffers of one case, called one way."""

    backend: Backend
    payload: Payload
    result: Any  # where a call leaves it
    call: Call  # once
    batch: Call  # what is timed
    mode: str = EAGER
    calls: int = 1  # of a batch
    batches: int = 1  # of a round
    wrong: int = 0
    device_us: list[float] = field(default_factory=list)  # a call, in each round
    host_us: list[float] = field(default_factory=list)
    meter: network.Meter | None = None  # of the timed rounds, between hosts


class DeviceBench:
    """Measures on the GPUs of some ranks; every method is collective."""

    def __init__(self, ranks: Ranks, arenas: Arenas, settings: Settings) -> None:
        self.ranks, self.arenas, self.settings = ranks, arenas, settings
        self.network = network.find(ranks.control)

    def measure(self, collective: str, size: int, advance: Callable[[str], None]) -> list[Row]:
        """Rows of all backends that take this collective; `advance` is told before each round of each."""
        case = case_for(self.settings, collective, size, self.ranks)
        eager = [contender for contender in self.contenders(case) if self._runs(contender)]
        if not eager:
            return []
        self._compete(eager, advance)
        rows = [self._row(contender) for contender in eager]
        if self.settings.graph:
            graphs = [self._captured(contender) for contender in eager if contender.backend.can_be_captured]
            self._compete(graphs, advance)
            rows += [self._row(contender) for contender in graphs]
        return rows

    def contenders(self, case: Case) -> list[Contender]:
        """All backends that take the case, each bound to buffers of it in the memory that it wants."""
        case = replace(case, in_place=case.in_place or case.collective in WHOLE)  # as in torch.distributed
        payloads: dict[str, Payload] = {}
        found = []
        for backend in takers(self.settings, case.collective):
            if backend.memory not in payloads:
                payloads[backend.memory] = Payload(case, TorchLibrary(self.arenas.of(backend.memory)))
            payload = payloads[backend.memory]
            call, result = bind(backend, self.ranks, payload)
            found.append(Contender(backend, payload, result, call, call))
        return found

    def timed(self, contender: Contender, batches: int) -> tuple[float, float]:
        """Microseconds of a call on the slowest rank, by the device's clock and the host's; ranks begin together."""
        device = self.ranks.device
        device.synchronize()
        self.ranks.latest(0)
        contender.batch()  # on the device it ends when all ranks have come
        first = device.mark()
        start = time.perf_counter()
        for _ in range(batches):
            contender.batch()
        host_s = time.perf_counter() - start
        last = device.mark()
        device.synchronize()
        calls = batches * contender.calls
        device_us = self.ranks.latest(device.elapsed_us(first, last) / calls)
        return device_us, self.ranks.latest(host_s * 1e6 / calls)

    def _runs(self, contender: Contender) -> bool:
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
        device = self.ranks.device
        calls = _between(1, _GRAPH_S * 1e6 / statistics.median(contender.device_us), _MOST_IN_GRAPH)
        once, batch = device.captured(contender.call, 1), device.captured(contender.call, calls)
        return replace(
            contender, call=once, batch=batch, calls=calls, mode=GRAPH, wrong=0, device_us=[], host_us=[]
        )  # fmt: skip

    def _compete(self, contenders: list[Contender], advance: Callable[[str], None]) -> None:
        for contender in contenders:
            self._check(contender)
            self._warm_up(contender)
            contender.meter = network.Meter(self.network) if self.network else None
        for turn in range(self.settings.rounds):
            first = turn % len(contenders)
            for contender in contenders[first:] + contenders[:first]:
                advance(f"{contender.backend.name} {contender.mode}")
                with contender.meter or nullcontext():
                    device_us, host_us = self.timed(contender, contender.batches)
                contender.device_us.append(device_us)
                contender.host_us.append(host_us)
        for contender in contenders:
            self._check(contender)

    def _check(self, contender: Contender) -> None:
        contender.payload.reset(contender.result)
        self.ranks.device.synchronize()
        self.ranks.latest(0)  # nobody writes into a buffer that its rank still fills
        contender.call()
        self.ranks.device.synchronize()
        if contender.backend.library in {"lanecast", COMPOSED}:
            self.ranks.comm.synchronize()
        wrong = contender.payload.wrong(contender.result)
        contender.wrong = max(contender.wrong, self.ranks.total(wrong))

    def _warm_up(self, contender: Contender) -> None:
        """Find how many batches make a round; all ranks find the same."""
        device_us, _ = self.timed(contender, max(1, self.settings.warmup))
        round_us = self.settings.round_s * 1e6
        contender.batches = _between(1, round_us / (device_us * contender.calls), _MOST_CALLS // contender.calls)

    def _row(self, contender: Contender) -> Row:
        case, backend = contender.payload.case, contender.backend
        algorithm = backend.algorithm or {"lanecast": "auto", HOST: "auto"}.get(backend.library, backend.library)
        row = row_of(case, backend.name, algorithm, contender.device_us)
        meter, rounds = contender.meter, len(contender.device_us)
        metered = rounds * contender.calls * (contender.batches + 1)  # with the batch before each round's first mark
        return row | {
            "mode": contender.mode,
            "device_us": row["time_us"],
            "host_us": statistics.median(contender.host_us),
            "host_us_rounds": contender.host_us,
            "calls": contender.calls * contender.batches,
            "topology": str(self.ranks.comm.topology),
            "nic_bytes": meter.per_call(self.ranks.control, metered) if meter else None,
            "memory": backend.memory,
            "wrong": contender.wrong,
        }


def takers(settings: Settings, collective: str) -> list[Backend]:
    """The backends that run this collective with these numbers."""
    backends = [backend for backend in settings.backends if isinstance(backend, Backend)]
    return [backend for backend in backends if backend.takes(collective, settings.dtype, settings.op)]


def _between(least: int, wanted: float, most: int) -> int:
    return max(least, min(math.ceil(wanted), most))
