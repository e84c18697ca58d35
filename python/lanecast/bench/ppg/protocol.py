# SPDX-License-Identifier: Apache-2.0
"""The protocol: ten runs of each way by each number of processes, in turns; one of them is the MPI's own call."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lanecast import _core
from lanecast.bench import network, tables
from lanecast.bench.backends import lanecast_call
from lanecast.bench.measure import Bench, Contender, Row, case_for
from lanecast.bench.memory import HostMemory
from lanecast.bench.options import parse_processes
from lanecast.bench.payload import Payload
from lanecast.bench.ppg.variants import Variant, variants_of
from lanecast.bench.protocol import Protocol, progress
from lanecast.bench.settings import CPU, LANECAST, NCCL, PLAIN, Backend
from lanecast.buffers import Array
from lanecast.helpers.choosing import calls_until_found
from lanecast.helpers.leading import Leader

USUAL = "1,2,4"
_TAKEN = ("all_reduce", "all_gather", "reduce_scatter")


class SharedMemory(HostMemory):
    """The CPU's, which helpers map."""

    def __init__(self, comm: Leader) -> None:
        self._comm = comm

    def buffer(self, count: int, dtype: str) -> Array:
        return self._comm.shared_empty(count, dtype)


@dataclass(frozen=True)
class Ppg(Protocol):
    """Every number of processes works on the same buffers, of the same leaders, in the same run."""

    numbers: tuple[int, ...]
    processes: int
    shared_cores: bool
    collectives: tuple[str, ...] = ("all_reduce",)
    sizes: str = "1M,8M,64M"
    warmup: int = 1
    round_s: float = 0.0

    @classmethod
    def parse(cls, processes: str, *, shared_cores: bool) -> Ppg:
        """As on the command line. Raises UsageError for what are no numbers from 1 to 64."""
        numbers = parse_processes(processes or USUAL)
        return cls(numbers, max(numbers), shared_cores)

    def check(self, topology: _core.Topology) -> None:
        """Every shape will do."""

    def measure_all(self, bench: Bench, run: dict[str, Any]) -> Iterator[list[Row]]:
        settings, comm = bench.settings, bench.ranks.comm
        if not isinstance(comm, Leader):
            raise _core.UsageError("processes-per-gpu: 1 alone leaves nothing to compare; give 1,2,4, say")
        out = tables.console()
        for collective in settings.collectives:
            if collective not in _TAKEN:
                raise _core.UsageError(f"protocol ppg: {collective} is never moved by several processes")
            on_gpus = bench.ranks.device.queues
            library = NCCL if on_gpus else "mpi" if run.get("mpi") else ""
            variants = variants_of(collective, comm.topology, self.numbers, library)
            if on_gpus and NCCL not in {backend.library for backend in settings.backends}:
                variants = [each for each in variants if each.algorithm != NCCL]
            beside = len(settings.backends) if on_gpus else 0  # NCCL
            total = len(settings.sizes) * (len(variants) + beside) * settings.rounds
            shown = progress(f"{collective} on {bench.ranks}", total if comm.rank == 0 else 0)
            with network.bounding(bench.ranks.control, bench.network) as found, shown as advance:
                for size in settings.sizes:
                    found.extend(bench.rows(self._contenders(bench, collective, size, variants), advance))
                comm.use_processes(None)
            for row in found:
                row |= {"transports": comm.transports, "run": run}
            if comm.rank == 0:
                out.print()
                out.print(tables.results(found))
            yield found

    def _contenders(self, bench: Bench, collective: str, size: int, variants: list[Variant]) -> list[Contender]:
        """All ways on the same buffers; on GPUs NCCL beside them."""
        comm = bench.ranks.comm
        assert isinstance(comm, Leader)
        case = case_for(bench.settings, collective, size, bench.ranks)
        case = replace(case, in_place=case.in_place or collective == "all_reduce")  # as its call is
        if not bench.ranks.device.queues:
            payload = Payload(case, SharedMemory(comm))
            return [self._contender(bench, each, payload) for each in variants]
        others = [each for each in bench.running(case) if each.backend.library != LANECAST]
        for each in others:
            each.columns = {"way": each.backend.name, "processes": 1}
        payload = others[0].payload if others else bench.payload(case, PLAIN)
        ours = [self._contender(bench, each, payload) for each in variants]
        return [each for each in ours if bench.runs(each)] + others

    @staticmethod
    def _contender(bench: Bench, variant: Variant, payload: Payload) -> Contender:
        comm = bench.ranks.comm
        assert isinstance(comm, Leader)
        memory = PLAIN if bench.ranks.device.queues else CPU
        ours = lanecast_call(comm, payload, variant.algorithm)
        use = partial(comm.use_processes, variant.processes or None)

        def call() -> None:
            use()
            ours()
            comm.use_processes(1)  # of the benchmark's own calls

        if not variant.processes and memory == CPU:
            for _ in range(calls_until_found(comm.processes_per_gpu)):
                call()
        backend = Backend(str(variant), variant.algorithm, memory=memory)
        columns = {"way": variant.way, "processes": variant.processes}
        return Contender(
            backend, payload, call, payload.output, variant.algorithm or "auto", mode=bench.mode, columns=columns
        )

    def footer(self, run: dict[str, Any]) -> str:
        return (
            "backend: the way, and how many processes each leader has at work; standard, 1 is the MPI's own call.\n"
            + tables.footer(run)
        )

    def draw(self, rows: list[Row], path: Path) -> None:
        from lanecast.bench.ppg import plots

        plots.draw(rows, path)
        print(f"wrote {path}", file=sys.stderr)
