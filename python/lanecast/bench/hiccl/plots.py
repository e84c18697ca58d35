# SPDX-License-Identifier: Apache-2.0
"""Pictures as HiCCL's figures 8 and 9: bars of each optimisation, and curves over the depth or the size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lanecast.bench.hiccl.tables import peak, series
from lanecast.bench.measure import Row
from lanecast.bench.plots import figure_of, machine_text
from lanecast.bench.tables import size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "direct": "#c0392b", "hierarchical": "#e67e22", "+ stripe": "#27ae60", "+ pipeline": "#f1c40f",
    "mpi": "#7fb3d5", "lanecast": "#1f4e79",
}  # fmt: skip
_PANELS_IN_A_LINE = 4


def draw(rows: Sequence[Row], path: Path) -> None:
    """One panel per collective, with the bounds as lines."""
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    across = min(len(collectives), _PANELS_IN_A_LINE)
    down = -(-len(collectives) // across)
    figure, axes = figure_of(max(4.6 * across, 7), 4.0 * down, (down, across))
    panel = {"bars": _bars, "ring": _over_sizes, "depth": _over_depths}[rows[0]["sweep"]]
    for axis, collective in zip(axes, collectives, strict=False):
        mine = [row for row in rows if row["collective"] == collective]
        panel(axis, mine)
        _bounds(axis, mine[-1])
        axis.set_title(collective, loc="left", fontsize=11)
        axis.set_ylim(bottom=0)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(collectives) :]:
        axis.set_visible(False)
    axes[0].set_ylabel("p·d / t (GB/s)")
    first = rows[0]
    figure.suptitle(f"{first['topology']} ranks, {first['transports']}: {machine_text(first['run'])}", fontsize=10)
    figure.savefig(path, dpi=110)


def _bounds(axis: Axes, row: Row) -> None:
    top = axis.get_ylim()[1]
    for name, bound, style in (("NICs", row["between_GBps"], "-"), ("node", row["within_GBps"], ":")):
        if bound and bound < 3 * top:
            axis.axhline(bound, color="black", linewidth=0.9, linestyle=style)
            axis.annotate(name, (1, bound), xycoords=("axes fraction", "data"), fontsize=7, ha="right", va="bottom")


def _bars(axis: Axes, rows: Sequence[Row]) -> None:
    """Peaks over the sizes."""
    tops = {name: peak(mine) for name, mine in series(rows).items()}
    colours = [_COLOURS.get(row["bar"] or name, "0.5") for name, row in tops.items()]
    drawn = axis.bar(range(len(tops)), [row["algbw_GBps"] for row in tops.values()], 0.85, color=colours)
    axis.bar_label(drawn, fmt="%.3g", fontsize=7, padding=1)
    axis.set_xticks(range(len(tops)), list(tops), rotation=40, ha="right", fontsize=8)


def _over_depths(axis: Axes, rows: Sequence[Row]) -> None:
    """A curve per size; what has no depth is a level line beside the largest."""
    sizes = sorted({row["bytes"] for row in rows})
    for size in sizes:
        mine = [row for row in rows if row["bytes"] == size and row["depth"]]
        colour = f"C{size.bit_length() // 2 % 10}"  # one size looks the same in all panels
        depths, rates = [row["depth"] for row in mine], [row["algbw_GBps"] for row in mine]
        axis.plot(depths, rates, "o-", color=colour, label=size_text(size))
    for row in rows:
        if row["bytes"] == sizes[-1] and not row["depth"]:
            colour = _COLOURS.get(row["backend"], "0.5")
            axis.axhline(row["algbw_GBps"], color=colour, linestyle="--", label=row["backend"])
    axis.set_xscale("log", base=2)
    axis.set_xlabel("pipeline depth m")
    axis.legend(fontsize=7, frameon=False)


def _over_sizes(axis: Axes, rows: Sequence[Row]) -> None:
    for name, mine in series(rows).items():
        axis.plot([row["bytes"] for row in mine], [row["algbw_GBps"] for row in mine], "o-", label=name)
    axis.set_xscale("log", base=2)
    sizes = sorted({row["bytes"] for row in rows})
    axis.set_xticks(sizes, [size_text(size) for size in sizes], fontsize=7)
    axis.legend(fontsize=7, frameon=False)
