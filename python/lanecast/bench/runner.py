# SPDX-License-Identifier: Apache-2.0
"""From settings to rows: ranks come together and measure by a protocol, and rank 0 says on what machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from lanecast import _core, job, launch, startup
from lanecast.bench import gpu_processes, machine, tables
from lanecast.bench.arenas import Arenas
from lanecast.bench.checks import (
    check,
    check_elements,
    check_exact,
    check_in_place,
    check_reduction,
    left_out,
    topologies,
    without_mpi,
)
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.measure import Bench, Row
from lanecast.bench.options import ranks_of, topology_for
from lanecast.bench.protocol import Protocol, SideBySide
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import Settings
from lanecast.communicator import Communicator
from lanecast.helpers import report

T = TypeVar("T")
Together = Callable[..., Any]  # (body, **options of init): runs body(comm) on every rank, gives back the lowest rank's

_DEFAULT_RANKS = 4


def run(settings: Settings, ranks: int = 0, protocol: Protocol | None = None) -> list[Row] | None:
    """The rows on rank 0, None on others. Starts ranks where no launcher has: processes, or threads without an MPI.

    ranks: how many to start; default: what the topology describes, else 4. protocol: how to measure; default: every
    backend beside the others. Rank 0 prints machine, progress and tables.
    """
    protocol = protocol or SideBySide()
    if protocol.processes == 1 and os.environ.get(report.VARIABLE, "1") != "1":
        raise _core.UsageError(f"{report.VARIABLE}: helpers are measured by --protocol ppg; unset it here")
    if job.under_launcher():
        return _compare(settings, protocol, _as_process, startup.mpi())
    if not ranks:
        ranks = ranks_of(settings.topologies[0]) if settings.topologies[0] else _DEFAULT_RANKS
    _check(settings, protocol, ranks)  # once here, rather than on every rank
    launcher = launch.find_launcher()
    if launcher is not None:
        launch.start_ranks(launcher, ranks * protocol.processes)
    if protocol.processes > 1:
        raise _core.TransportError("no mpiexec found, which starts a leader's other processes: pip install mpich")
    print("no mpiexec found: ranks are threads, and what needs MPI is left out", file=sys.stderr)
    return _compare(without_mpi(settings), protocol, partial(_as_threads, ranks), None)


def _check(settings: Settings, protocol: Protocol, ranks: int, found: _core.Topology | None = None) -> None:
    check(settings, ranks, found)
    for topology in topologies(settings, ranks, found):
        protocol.check(topology)


def _as_process(body: Callable[[Communicator], T], **options: Any) -> T:
    return body(startup.init(**options))


def _as_threads(ranks: int, body: Callable[[Communicator], T], **options: Any) -> T:
    def guarded(comm: Communicator) -> T:
        try:
            return body(comm)
        except BaseException as error:
            launch.fail(error)

    return startup.run_threads(ranks, guarded, **options)[0]


def _compare(settings: Settings, protocol: Protocol, together: Together, mpi: _core.Mpi | None) -> list[Row] | None:
    # A named profile is that of the topology that is measured, not of this one.
    rank, found, run = together(
        lambda comm: (comm.rank, comm.topology, machine.describe(Ranks(comm), mpi)), profile="none", **protocol.options
    )
    size = found.size
    _check(settings, protocol, size, found)
    run |= {"rounds": settings.rounds, "warmup": settings.warmup, "baseline": settings.baseline}
    # Of all ranks of the job, helpers included, and those make no call of their own.
    baseline = _core.MpiBaseline(mpi) if mpi is not None and not protocol.options else None
    if rank == 0:
        print(tables.banner(run), flush=True)
        if missing := left_out(settings):
            print(missing, flush=True)
    rows: list[Row] = []
    for text in settings.topologies:
        options = {"topology": text, "transports": settings.transports or _transports(text, size, run)}

        def body(comm: Communicator) -> list[Row]:
            return list(chain.from_iterable(protocol.measure_all(Bench(Ranks(comm, baseline), settings), run)))

        rows += together(body, **options, **protocol.options)
    if rank != 0:
        return None
    tables.console().print(protocol.footer(run))
    return rows


def _transports(topology: str, size: int, run: dict[str, Any]) -> str:
    """Nodes that one host only plays: messages across go through MPI, as between hosts, and those within do not."""
    if not topology or run["mpi"] is None or run["hosts"] > 1 or "LANECAST_TRANSPORTS" in os.environ:
        return ""
    levels = len(topology_for(topology, size).levels)
    return ",".join(["mpi"] + ["shm"] * levels) if levels else ""


def run_on_gpus(settings: Settings, ranks: int, protocol: Protocol) -> Iterator[list[Row]]:
    """The rows, collective by collective, on every rank; rank 0 shows them as they come.

    Starts processes where no launcher has, and does not return then; ranks: how many, default: what the topology
    describes, else one per GPU.
    """
    check_in_place(settings)
    check_reduction(settings)
    topology = settings.topologies[0]
    if job.detect() is None:
        if topology:
            ranks = ranks or ranks_of(topology)
            protocol.check(topology_for(topology, ranks))
        gpu_processes.start_ranks(ranks, shared_gpus=settings.shared_gpus)
    ranks_here = GpuRanks(shared_gpus=settings.shared_gpus, topology=topology, **protocol.options)
    return compare_on_gpus(settings, ranks_here, protocol)


def compare_on_gpus(settings: Settings, ranks: GpuRanks, protocol: Protocol) -> Iterator[list[Row]]:
    """The same among ranks that have come together; in the end they part."""
    check_elements(settings, ranks.size)
    check_exact(settings, ranks.size)
    protocol.check(ranks.comm.topology)
    run = machine.describe(ranks)
    run |= {"rounds": settings.rounds, "warmup": settings.warmup, "baseline": settings.baseline}
    if ranks.rank == 0:
        print(tables.banner(run), flush=True)
    arenas = Arenas(ranks, max(settings.sizes))
    rows: list[Row] = []
    for found in protocol.measure_all(Bench(ranks, settings, arenas.memory), run):
        rows += found
        yield found
    if ranks.rank == 0:
        out = tables.console()
        out.print(protocol.footer(run))
        for line in protocol.summary(rows):
            out.print(line)
    arenas.close()
    ranks.close()
