# SPDX-License-Identifier: Apache-2.0
"""The rows of nic_bound.py as tables and as a picture; several runs of one rate put together:

python bench/nic_bound_report.py all_gather.json all_reduce.json --plot nic_bound.png
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lanecast.bench.measure import Row
from lanecast.bench.tables import console, number, shares, size_text

_BEST = "fastest of MPI"


@dataclass(frozen=True)
class Outcome:
    """One way to run one case, over all its launches."""

    name: str  # "Lanecast over MPICH/UCX", "MPICH/OFI, pinned"; on GPUs "Lanecast", "NCCL"
    backend: str
    time_us: float
    rows: list[Row]

    @property
    def is_baseline(self) -> bool:
        return self.backend in {"mpi", "nccl"}


def cases(rows: Sequence[Row]) -> Iterator[tuple[Row, float, list[Outcome]]]:
    """For each topology, collective and size: one of its rows, its bound in microseconds, and the ways to run it."""
    keys = dict.fromkeys((row["topology"], row["collective"], row["bytes"]) for row in rows)
    for key in keys:
        here = [row for row in rows if (row["topology"], row["collective"], row["bytes"]) == key]
        # The most that any launch has measured: a busy machine lowers goodput and never raises it.
        bound_us = min(row["bound_us"] for row in here if row["bound_us"])
        outcomes = []
        for name in dict.fromkeys(_name(row) for row in here):
            mine = [row for row in here if _name(row) == name]
            times = [time for row in mine for time in row["time_us_rounds"]]
            outcomes.append(Outcome(name, mine[0]["backend"], statistics.median(times), mine))
        yield here[0], bound_us, outcomes


def _name(row: Row) -> str:
    if row["backend"] == "mpi":
        return f"{row['peer']}, {'pinned' if row['pinned'] else 'all NICs'}"
    name: str = row["backend"].replace("lanecast", "Lanecast").replace("nccl", "NCCL")
    return f"{name} over {row['peer']}" if "peer" in row else name


def report(rows: Sequence[Row]) -> Iterator[Table]:
    """A table of each topology and collective."""
    tables: dict[tuple[str, str], Table] = {}
    for first, bound_us, outcomes in cases(rows):
        key = (first["collective"], first["topology"])
        if key not in tables:
            tables[key] = _table(f"{key[0]} on {key[1]}")
        baselines = [outcome.time_us for outcome in outcomes if outcome.is_baseline]
        for outcome in sorted(outcomes, key=lambda outcome: outcome.time_us):
            sample = outcome.rows[0]
            through = sample["nic_bytes"].values() if sample["nic_bytes"] else []
            chunks = f" /{sample['chunks']}" if (sample["chunks"] or 1) > 1 else ""
            tables[key].add_row(
                size_text(first["bytes"]), outcome.name, sample["algorithm"] + chunks, number(outcome.time_us / 1e3),
                number(bound_us / 1e3), f"{bound_us / outcome.time_us:.2f}", f"{min(baselines) / outcome.time_us:.2f}",
                *(shares([nic[way] for nic in through]) or "-" for way in ("received", "sent")),
                *(f"{100 * sample['cores'][what]:.0f}" for what in ("busy", "softirq", "rank_waiting")),
                str(max(row["wrong"] for row in outcome.rows)),
            )  # fmt: skip
    return iter(tables.values())


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    left = ("who", "algorithm")
    headings = (
        "size",
        *left,
        "time\n(ms)",
        "bound\n(ms)",
        "of\nbound",
        f"x {_BEST}",
        "in/NIC\n(%)",
        "out/NIC\n(%)",
        "cores\nbusy (%)",
        "in soft-\nirqs (%)",
        "ranks queue\nfor one (%)",
        "#wrong",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return table


def plot(rows: Sequence[Row], path: Path) -> None:
    """Share of the bound over the cases: the best Lanecast beside each MPI's best."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = list(cases(rows))
    topologies = list(dict.fromkeys(first["topology"] for first, _, _ in found))
    figure = Figure(figsize=(11, 3.2 * len(topologies)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(topologies), 1, squeeze=False)[:, 0]
    for axis, topology in zip(axes, topologies, strict=True):
        here = [case for case in found if case[0]["topology"] == topology]
        series: dict[str, list[float]] = {}
        for _, bound_us, outcomes in here:
            best: dict[str, float] = {}
            for outcome in outcomes:
                name = outcome.name.partition(",")[0] if outcome.is_baseline else "Lanecast"
                best[name] = max(best.get(name, 0), bound_us / outcome.time_us)
            for name, share in best.items():
                series.setdefault(name, []).append(share)
        width = 0.8 / len(series)
        for place, (name, values) in enumerate(sorted(series.items(), key=lambda entry: entry[0] != "Lanecast")):
            axis.bar([k + place * width for k in range(len(values))], values, width, label=name)
        ticks = [f"{first['collective']}\n{size_text(first['bytes'])}" for first, _, _ in here]
        axis.set_xticks([k + 0.4 - width / 2 for k in range(len(ticks))], ticks, fontsize=8)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_ylim(0, 1.1)
        axis.set_ylabel("of the measured bound")
        axis.set_title(f"{topology}: hosts x ranks", loc="left", fontsize=10)
        axis.legend(fontsize=8, ncols=len(series), frameon=False)
    figure.savefig(path, dpi=120)


def main(
    files: list[Path],
    picture: Annotated[Path | None, typer.Option("--plot", help="Draw the shares of the bound.")] = None,
) -> None:
    """Show what runs have written by --json."""
    rows = [row for file in files for row in json.loads(file.read_text())]
    for table in report(rows):
        console().print()
        console().print(table)
    if picture is not None:
        plot(rows, picture)


if __name__ == "__main__":
    typer.run(main)
