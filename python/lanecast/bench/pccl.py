# SPDX-License-Identifier: Apache-2.0
"""The protocol of PCCL's paper: independent runs of each case, their mean and standard deviation, shuffles included."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from lanecast import _core
from lanecast.bench import network, tables
from lanecast.bench.checks import takers
from lanecast.bench.measure import Bench, Row, row_of_runs
from lanecast.bench.protocol import Protocol, SideBySide, progress

_LEFT = ("backend", "algorithm")


class Pccl(Protocol):
    """Each run has buffers of its own, is checked, warms up, and runs every backend once, in turns."""

    collectives = ("all_gather", "reduce_scatter", "all_reduce")
    sizes = "16M..1G"
    warmup = 2
    round_s = 5e-3  # of calls that all end with outputs in their order

    def check(self, topology: _core.Topology) -> None:
        """Every shape will do."""

    def measure_all(self, bench: Bench, run: dict[str, Any]) -> Iterator[list[Row]]:
        settings, ranks = bench.settings, bench.ranks
        once = Bench(ranks, replace(settings, rounds=1), bench.memory)
        for collective in settings.collectives:
            backends = takers(settings, collective, ranks.comm.topology)
            if not backends:
                continue
            total = len(settings.sizes) * len(backends) * settings.rounds * (2 if settings.graph else 1)
            with ExitStack() as shown:
                found = shown.enter_context(network.bounding(ranks.control, bench.network))
                advance = shown.enter_context(progress(f"{collective} on {ranks}", total if ranks.rank == 0 else 0))
                for size in settings.sizes:
                    runs = [once.measure(collective, size, advance) for _ in range(settings.rounds)]
                    found.extend(row_of_runs(list(rows)) for rows in zip(*runs, strict=True))
            for row in found:
                row["transports"] = ranks.comm.transports
                row["run"] = run
            if ranks.rank == 0:
                tables.console().print()
                tables.console().print(_table(found))
            yield found

    def footer(self, run: dict[str, Any]) -> str:
        runs, baseline = run["rounds"], run["baseline"]
        return (
            f"time: mean and standard deviation of {runs} runs, each with buffers of its own, of the slowest rank's "
            f"call.\nGB = 1e9 bytes. x {baseline}: the mean of {baseline} over this one; above 1 is faster."
        )

    def draw(self, rows: list[Row], path: Path) -> None:
        SideBySide().draw(rows, path)


def _table(rows: list[Row]) -> Table:
    first = rows[0]
    baseline = first["run"]["baseline"]
    headings = ("size", "type", *_LEFT, "mode", "time\n(us)", "deviation\n(us)", "busbw\n(GB/s)", "#wrong",
                f"x {baseline}")  # fmt: skip
    place = "in place" if first["in_place"] else "out of place"
    table = tables.headed(", ".join([first["collective"], place, tables.placed(first)]), headings, (*_LEFT, "mode"))
    for row in rows:
        faster = tables.ratio(row, rows)
        table.add_row(
            tables.size_text(row["bytes"]), row["dtype"], row["backend"], row["algorithm"], row.get("mode", ""),
            tables.number(row["time_us"]), tables.number(statistics.stdev(row["time_us_rounds"]))
            if len(row["time_us_rounds"]) > 1 else "-",
            tables.number(row["busbw_GBps"]), str(row["wrong"]), "-" if faster is None else f"{faster:.2f}",
        )  # fmt: skip
    return table
