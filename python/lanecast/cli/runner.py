# SPDX-License-Identifier: Apache-2.0
"""From settings to rows: ranks come together and measure case by case, and rank 0 shows it as it happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lanecast import _core, startup
from lanecast.cli import launch, machine, network, tables
from lanecast.cli.checks import check, takers, without_mpi
from lanecast.cli.measure import Bench, Row
from lanecast.cli.options import Settings, ranks_of
from lanecast.communicator import Communicator

T = TypeVar("T")
Advance = Callable[[str], None]
Together = Callable[..., Any]  # (body, **options of init): runs body(comm) on every rank, gives back the lowest rank's

_DEFAULT_RANKS = 4


def run(settings: Settings, ranks: int = 0) -> list[Row] | None:
    """The rows on rank 0, None on others. Starts ranks where no launcher has: processes, or threads without an MPI.

    ranks: how many to start; default: what the topology describes, else 4. Rank 0 prints machine, progress and tables.
    """
    if startup.under_launcher():
        return _compare(settings, _as_process, startup.mpi())
    if not ranks:
        ranks = ranks_of(settings.topologies[0]) if settings.topologies[0] else _DEFAULT_RANKS
    check(settings, ranks)  # once here, rather than on every rank
    launcher = launch.find_launcher()
    if launcher is not None:
        launch.start_ranks(launcher, ranks)
    print("no mpiexec found: ranks are threads, and what needs MPI is left out", file=sys.stderr)
    return _compare(without_mpi(settings), partial(_as_threads, ranks), None)


def _as_process(body: Callable[[Communicator], T], **options: Any) -> T:
    return body(startup.init(**options))


def _as_threads(ranks: int, body: Callable[[Communicator], T], **options: Any) -> T:
    def guarded(comm: Communicator) -> T:
        try:
            return body(comm)
        except BaseException as error:
            launch.fail(error)

    return startup.run_threads(ranks, guarded, **options)[0]


def _compare(settings: Settings, together: Together, mpi: _core.Mpi | None) -> list[Row] | None:
    # A named profile is that of the topology that is measured, not of this one.
    rank, found, run = together(lambda comm: (comm.rank, comm.topology, machine.describe(comm, mpi)), profile="none")
    size = found.size
    check(settings, size, found)
    run |= {"rounds": settings.rounds, "warmup": settings.warmup, "baseline": settings.baseline}
    baseline = _core.MpiBaseline(mpi) if mpi is not None else None
    if rank == 0:
        print(tables.banner(run), flush=True)
    rows: list[Row] = []
    for text in settings.topologies:
        options = {"topology": text, "transports": settings.transports or _transports(text, size, run)}

        def body(comm: Communicator) -> list[Row]:
            return _measure_all(Bench(comm, baseline, settings), run)

        rows += together(body, **options)
    if rank != 0:
        return None
    tables.console().print(tables.footer(run))
    return rows


def _transports(topology: str, size: int, run: dict[str, Any]) -> str:
    """Nodes that one host only plays: messages across go through MPI, as between hosts, and those within do not."""
    if not topology or run["mpi"] is None or run["hosts"] > 1 or "LANECAST_TRANSPORTS" in os.environ:
        return ""
    levels = len(_core.Topology.parse(topology, size).levels)
    return ",".join(["mpi"] + ["shm"] * levels) if levels else ""


def _measure_all(bench: Bench, run: dict[str, Any]) -> list[Row]:
    settings, comm = bench.settings, bench.comm
    out = tables.console()
    rows: list[Row] = []
    for collective in settings.collectives:
        backends = takers(settings, collective, comm.topology)
        if not backends:
            continue
        found: list[Row] = []
        rates = [network.goodput(comm, bench.network)] if bench.network else []
        total = len(settings.sizes) * len(backends) * settings.rounds
        with _progress(f"{collective} on {comm.topology}", total if comm.rank == 0 else 0) as advance:
            for size in settings.sizes:
                found += bench.measure(collective, size, advance)
        if bench.network:
            rates.append(network.goodput(comm, bench.network))
            goodput = max(rates)  # neighbours on the machine may have slowed one of them down
            for row in found:
                row["goodput_GBps"] = goodput / 1e9
                entering = bench.network.bound_bytes(collective, row["bytes"])
                row["bound_us"] = None if entering is None else entering / goodput * 1e6
        for row in found:
            row["transports"] = comm.transports
            row["run"] = run
        if comm.rank == 0:
            out.print()
            out.print(tables.results(found))
        rows += found
    return rows


@contextmanager
def _progress(title: str, total: int) -> Iterator[Advance]:
    """A bar on standard error, or a line where that is no terminal; nothing without a total."""
    if not total:
        yield lambda _: None
        return
    console = tables.console("stderr")
    if not console.is_terminal:
        print(f"measuring {title} …", file=sys.stderr, flush=True)
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Drawn between rounds only: a thread that draws would take a core from the ranks that are measured.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task(title, total=total)

        def advance(what: str) -> None:
            progress.update(task, description=f"{title}: {what}", advance=1, refresh=True)

        yield advance
