# SPDX-License-Identifier: Apache-2.0
"""How a benchmark is measured and shown, case by case as it happens; by default every backend beside the others."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lanecast import _core
from lanecast.bench import network, payload, tables
from lanecast.bench.checks import takers
from lanecast.bench.measure import Bench, Row

Advance = Callable[[str], None]


class Protocol(ABC):
    """What is done with the ranks of a topology once they have come together, and what of it is not said."""

    collectives: tuple[str, ...]
    sizes: str
    warmup: int
    round_s: float  # see Settings

    @abstractmethod
    def check(self, topology: _core.Topology) -> None:
        """Raise UsageError for what cannot be measured there."""

    @abstractmethod
    def measure_all(self, bench: Bench, run: dict[str, Any]) -> list[Row]:
        """All rows, `run` in each of them; collective. Rank 0 shows them as they come."""

    @abstractmethod
    def footer(self, run: dict[str, Any]) -> str:
        """What the columns mean."""

    @abstractmethod
    def draw(self, rows: list[Row], path: Path) -> None:
        """The rows as a picture, and says that it is written, or why not."""


class SideBySide(Protocol):
    """Every collective and size with every backend that takes it."""

    collectives = payload.MAIN
    sizes = "64K,1M,16M"
    warmup = 2
    round_s = 5e-3  # so that the clock and the synchronisation before a round do not count

    def check(self, topology: _core.Topology) -> None:
        """Every shape will do."""

    def measure_all(self, bench: Bench, run: dict[str, Any]) -> list[Row]:
        settings, comm = bench.settings, bench.comm
        out = tables.console()
        rows: list[Row] = []
        for collective in settings.collectives:
            backends = takers(settings, collective, comm.topology)
            if not backends:
                continue
            total = len(settings.sizes) * len(backends) * settings.rounds
            shown = progress(f"{collective} on {comm.topology}", total if comm.rank == 0 else 0)
            with network.bounding(comm, bench.network) as found, shown as advance:
                for size in settings.sizes:
                    found.extend(bench.measure(collective, size, advance))
            for row in found:
                row["transports"] = comm.transports
                row["run"] = run
            if comm.rank == 0:
                out.print()
                out.print(tables.results(found))
            rows += found
        return rows

    def footer(self, run: dict[str, Any]) -> str:
        return tables.footer(run)

    def draw(self, rows: list[Row], path: Path) -> None:
        backends = {row["backend"] for row in rows}
        if len(backends) == 1:
            print(f"{path} is not drawn: {backends.pop()} alone has nothing beside it", file=sys.stderr)
            return
        from lanecast.bench import plots

        plots.heatmap(rows, path)
        print(f"wrote {path}", file=sys.stderr)


@contextmanager
def progress(title: str, total: int) -> Iterator[Advance]:
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
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(what: str) -> None:
            bar.update(task, description=f"{title}: {what}", advance=1, refresh=True)

        yield advance
