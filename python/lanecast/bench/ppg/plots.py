# SPDX-License-Identifier: Apache-2.0
"""Pictures as the paper's figures 5 and 8 to 11: times over sizes or hosts, with the spread of the runs as bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lanecast.bench.measure import Row
from lanecast.bench.plots import figure_of, machine_text
from lanecast.bench.tables import size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(rows: Sequence[Row], path: Path) -> None:
    """A panel for each way, a line for each number of processes; last, all ways by the fewest and by the most."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    numbers = sorted({row["processes"] for row in rows if row["processes"]})
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    figure, axes = figure_of(4.6 * (len(ways) + 1), 3.8 * len(collectives), (len(collectives), len(ways) + 1))
    panels = iter(axes)
    for collective in collectives:
        mine = [row for row in rows if row["collective"] == collective and row["processes"]]
        for way in ways:
            of_way = [row for row in mine if row["way"] == way]
            _panel(next(panels), of_way, f"{collective}: {way}", lambda row: f"{row['processes']} per GPU")
        ends = [row for row in mine if row["processes"] in (numbers[0], numbers[-1])]
        _panel(next(panels), ends, f"{collective}: all ways", lambda row: f"{row['way']}, {row['processes']}")
    first, leaders = rows[0], ", ".join(dict.fromkeys(row["topology"] for row in rows))
    figure.suptitle(f"{leaders} leaders, {first['transports']}: {machine_text(first['run'])}", fontsize=10)
    figure.savefig(path, dpi=110)


def _panel(axis: Axes, rows: Sequence[Row], title: str, label: Callable[[Row], str]) -> None:
    over = "ranks" if len({row["ranks"] for row in rows}) > 1 else "bytes"
    for name in dict.fromkeys(label(row) for row in rows):
        mine = sorted((row for row in rows if label(row) == name), key=lambda row: int(row[over]))
        middle = [row["time_us"] / 1e3 for row in mine]
        spread = [
            [row["time_us"] / 1e3 - min(row["time_us_rounds"]) / 1e3 for row in mine],
            [max(row["time_us_rounds"]) / 1e3 - row["time_us"] / 1e3 for row in mine],
        ]
        axis.errorbar([row[over] for row in mine], middle, spread, fmt="o-", capsize=2, markersize=3, label=name)
    bounds = {row[over]: row["bound_us"] / 1e3 for row in rows if row["bound_us"]}
    if bounds:
        axis.plot(list(bounds), list(bounds.values()), "k:", label="NICs' bound")
    axis.set_yscale("log")
    places = sorted({row[over] for row in rows})
    if over == "bytes":
        axis.set_xscale("log", base=2)
        axis.set_xticks(places, [size_text(size) for size in places], fontsize=7)
    else:
        axis.set_xticks(places, [str(ranks) for ranks in places], fontsize=7)
        axis.set_xlabel("leaders", fontsize=7)
    axis.set_ylabel("ms")
    axis.set_title(title, loc="left", fontsize=10)
    axis.legend(fontsize=7, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
