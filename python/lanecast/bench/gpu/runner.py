# SPDX-License-Identifier: Apache-2.0
"""From settings to rows on GPUs: the ranks come together and measure, and rank 0 says on what machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lanecast import job
from lanecast.bench import network, tables
from lanecast.bench.checks import check_elements, check_exact, check_in_place, check_reduction
from lanecast.bench.gpu import launch, machine, summary
from lanecast.bench.gpu.measure import DeviceBench, takers
from lanecast.bench.gpu.memory import Arenas
from lanecast.bench.gpu.ranks import Ranks
from lanecast.bench.measure import Row
from lanecast.bench.protocol import progress
from lanecast.bench.settings import Settings

_SLACK_BYTES = 4096  # of the alignment of buffers in an arena


def run(settings: Settings, ranks: int) -> Iterator[list[Row]]:
    """The rows, collective by collective, on every rank; rank 0 shows them as they come.

    Starts processes where no launcher has, and does not return then; ranks: how many, default: one per GPU.
    """
    check_in_place(settings)
    check_reduction(settings)
    if job.detect() is None:
        launch.start_ranks(ranks, shared_gpus=settings.shared_gpus)
    return compare(settings, Ranks(shared_gpus=settings.shared_gpus))


def compare(settings: Settings, ranks: Ranks) -> Iterator[list[Row]]:
    """The same among ranks that have come together; in the end they part."""
    check_elements(settings, ranks.size)
    check_exact(settings, ranks.size)
    run = machine.describe(ranks)
    run |= {"rounds": settings.rounds, "warmup": settings.warmup, "baseline": settings.baseline}
    out = tables.console()
    if ranks.rank == 0:
        print("\n".join(machine.lines(run)), flush=True)
    arenas = Arenas(ranks, 2 * max(settings.sizes) + _SLACK_BYTES)
    bench = DeviceBench(ranks, arenas, settings)
    rows: list[Row] = []
    for collective in settings.collectives:
        found = _measure(bench, collective, run)
        rows += found
        if ranks.rank == 0:
            for mode in dict.fromkeys(row["mode"] for row in found):
                out.print()
                out.print(tables.results([row for row in found if row["mode"] == mode]))
        yield found
    if ranks.rank == 0:
        out.print(machine.footer(run))
        for line in summary.lines(rows) if rows else ():
            out.print(line)
    arenas.close()
    ranks.close()


def _measure(bench: DeviceBench, collective: str, run: dict[str, Any]) -> list[Row]:
    settings, ranks = bench.settings, bench.ranks
    backends = takers(settings, collective)
    total = len(settings.sizes) * len(backends) * settings.rounds * (2 if settings.graph else 1)
    shown = progress(f"{collective} on {ranks.size} GPUs", total if ranks.rank == 0 else 0)
    with network.bounding(ranks.control, bench.network) as rows, shown as advance:
        for size in settings.sizes if backends else ():
            rows.extend(bench.measure(collective, size, advance))
    for row in rows:
        row["transports"] = ranks.comm.transports
        row["run"] = run
    return rows
