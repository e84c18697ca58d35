# SPDX-License-Identifier: Apache-2.0
"""How a benchmark is measured and shown, case by case as it happens; by default every backend beside the others."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lanecast import _core
from lanecast.bench import network, summary, tables
from lanecast.bench.cases import MAIN
from lanecast.bench.checks import takers
from lanecast.bench.measure import Bench, Row

Advance = Callable[[str], None]


class Protocol(ABC):
    """What is done with the ranks of a topology once they have come together, and what of it is not said."""

    collectives: tuple[str, ...]
    sizes: str
    warmup: int
    round_s: float  # see Settings
    processes: int = 1  # that belong to each rank, itself included
    shared_cores: bool = False  # may they share cores?

    @property
    def options(self) -> dict[str, Any]:
        """Of init(), for the ranks that are measured."""
        if self.processes == 1:
            return {}
        return {"processes_per_gpu": self.processes, "allow_shared_cores": self.shared_cores}

    @abstractmethod
    def check(self, topology: _core.Topology) -> None:
        """Raise UsageError for what cannot be measured there."""

    @abstractmethod
    def measure_all(self, bench: Bench, run: dict[str, Any]) -> Iterator[list[Row]]:
        """The rows of one collective after the other, `run` in each; collective. Rank 0 shows them as they come."""

    @abstractmethod
    def footer(self, run: dict[str, Any]) -> str:
        """What the columns mean."""

    def summary(self, rows: list[Row]) -> Iterable[str]:
        """Of all rows of a run on GPUs, in a few lines."""
        return ()

    @abstractmethod
    def draw(self, rows: list[Row], path: Path) -> None:
        """The rows as a picture, and says that it is written, or why not."""


class SideBySide(Protocol):
    """Every collective and size with every backend that takes it."""

    collectives = MAIN
    warmup = 2
    round_s = 5e-3  # so that the clock and the synchronisation before a round do not count

    def __init__(self, sizes: str = "64K,1M,16M") -> None:
        """sizes: the usual ones."""
        self.sizes = sizes

    def check(self, topology: _core.Topology) -> None:
        """Every shape will do."""

    def measure_all(self, bench: Bench, run: dict[str, Any]) -> Iterator[list[Row]]:
        settings, ranks = bench.settings, bench.ranks
        out = tables.console()
        for collective in settings.collectives:
            backends = takers(settings, collective, ranks.comm.topology)
            if not backends:
                continue
            total = len(settings.sizes) * len(backends) * settings.rounds * (2 if settings.graph else 1)
            shown = progress(f"{collective} on {ranks}", total if ranks.rank == 0 else 0)
            with network.bounding(ranks.control, bench.network) as found, shown as advance:
                for size in settings.sizes:
                    found.extend(bench.measure(collective, size, advance))
            for row in found:
                row["transports"] = ranks.comm.transports
                row["run"] = run
            for mode in dict.fromkeys(row.get("mode") for row in found) if ranks.rank == 0 else ():
                out.print()
                out.print(tables.results([row for row in found if row.get("mode") == mode]))
            yield found

    def footer(self, run: dict[str, Any]) -> str:
        return tables.footer(run)

    def summary(self, rows: list[Row]) -> Iterable[str]:
        return summary.lines(rows) if rows else ()

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
