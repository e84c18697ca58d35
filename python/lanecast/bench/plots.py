# SPDX-License-Identifier: Apache-2.0
"""Pictures of measurements: a map of speed relative to a baseline, and bars with their spread."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanecast.bench.figures import quartiles
from lanecast.bench.measure import Row
from lanecast.bench.tables import mpi_name, ratio, size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CHARACTERS_PER_INCH = 20  # of a footnote's
_LEAST_SPAN = 2.0  # the colours reach at least from half to twice the baseline's speed, so that noise looks pale


def machine_text(run: dict[str, Any]) -> str:
    if "gpus" in run:
        return f"{run['gpus']}, torch {run['torch']}, NCCL {run['nccl']}"
    crowd = ", oversubscribed" if run["oversubscribed"] else ""
    mpi = f", {mpi_name(run)}" if run["mpi"] else ""
    hosts = f"{run['hosts']} hosts, " if run["hosts"] > 1 else ""
    return f"{hosts}{run['ranks_per_host']} ranks on {run['cores']} cores ({run['cpu']}){crowd}{mpi}"


def figure_of(width: float, height: float, panels: tuple[int, int]) -> tuple[Any, list[Axes]]:
    """A figure of so many inches and its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Without pyplot: nothing global, and no display is looked for.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(*panels, squeeze=False)
    return figure, [axis for line in axes for axis in line]


def footnote(figure: Any, text: str) -> None:
    """What a figure rests on, small, below it."""
    characters = int(figure.get_figwidth() * _CHARACTERS_PER_INCH)
    figure.supxlabel("\n".join(textwrap.wrap(text, characters)), fontsize=6, x=0.01, ha="left")


def heatmap(rows: Sequence[Row], path: Path) -> None:
    """Each cell: the baseline's median time over a backend's. One panel per backend; rows collective x topology."""
    from matplotlib.colors import LogNorm

    baseline = rows[0]["run"]["baseline"]
    backends = [name for name in dict.fromkeys(row["backend"] for row in rows) if name != baseline]
    one_type = len({row["dtype"] for row in rows}) == 1
    lines = list(dict.fromkeys(_line(row, one_type) for row in rows))
    sizes = sorted({row["bytes"] for row in rows})
    ratios = {
        (row["backend"], *_line(row, one_type), row["bytes"]): faster
        for row in rows
        if (faster := ratio(row, rows)) is not None
    }
    span = max([_LEAST_SPAN, *(max(faster, 1 / faster) for faster in ratios.values())])
    width, height = 3.2 + 0.85 * len(sizes), 1.6 + len(backends) * (0.9 + 0.42 * len(lines))
    figure, axes = figure_of(max(width, 7), height, (len(backends), 1))
    for axis, backend in zip(axes, backends, strict=True):
        cells = [[ratios.get((backend, *line, size), math.nan) for size in sizes] for line in lines]
        image = axis.imshow(cells, cmap="RdBu", norm=LogNorm(1 / span, span), aspect="auto")
        axis.set_title(backend, loc="left", fontsize=10)
        axis.set_xticks(range(len(sizes)), [size_text(size) for size in sizes], fontsize=9)
        axis.set_yticks(range(len(lines)), ["  ".join(line) for line in lines], fontsize=9)
        for y, line in enumerate(cells):
            for x, faster in enumerate(line):
                strong = not math.isnan(faster) and abs(math.log(faster)) > 0.6 * math.log(span)
                text = "" if math.isnan(faster) else f"{faster:.2f}"
                axis.text(x, y, text, ha="center", va="center", fontsize=9, color="white" if strong else "black")
        ticks = [1 / span, 1, span]
        figure.colorbar(image, ax=axis, ticks=ticks, format=lambda value, _: f"{value:.2g}x", pad=0.02).minorticks_off()
    figure.suptitle(
        f"Speed relative to {baseline} (median over median; blue is faster)\n{machine_text(rows[0]['run'])}",
        fontsize=10,
    )
    figure.savefig(path, dpi=150)


def _line(row: Row, one_type: bool) -> tuple[str, ...]:
    """The collective, and what else a line of a heatmap is of."""
    what = row["mode"] if "mode" in row else row["topology"]
    return (row["collective"], what) if one_type else (row["collective"], what, row["dtype"])


def bars(rows: Sequence[Row], path: Path) -> None:
    """Bus bandwidth by size and backend, one panel per collective, with the quartiles of the rounds as whiskers."""
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    sizes = sorted({row["bytes"] for row in rows})
    figure, axes = figure_of(4.2 * len(collectives), 4.2, (1, len(collectives)))
    width = 0.8 / len(backends)
    for axis, collective in zip(axes, collectives, strict=True):
        for k, backend in enumerate(backends):
            mine = [row for row in rows if row["collective"] == collective and row["backend"] == backend]
            places = [sizes.index(row["bytes"]) + (k - (len(backends) - 1) / 2) * width for row in mine]
            heights = [row["busbw_GBps"] for row in mine]
            # Time and bandwidth are inverse: the slower quartile is the lower whisker.
            slow, fast = zip(*((row["time_us"] / q[1], row["time_us"] / q[0]) for row in mine
                               if (q := quartiles(row["time_us_rounds"]))), strict=True)  # fmt: skip
            whiskers = [[h * (1 - s) for h, s in zip(heights, slow, strict=True)],
                        [h * (f - 1) for h, f in zip(heights, fast, strict=True)]]  # fmt: skip
            drawn = axis.bar(places, heights, width * 0.92, yerr=whiskers, label=backend, capsize=3, ecolor="0.35")
            axis.bar_label(drawn, fmt="%.3g", fontsize=8, padding=2)
        axis.set_title(collective, loc="left", fontsize=11)
        axis.set_xticks(range(len(sizes)), [size_text(size) for size in sizes])
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.12)
    axes[0].set_ylabel("bus bandwidth (GB/s), higher is better")
    axes[0].legend(frameon=False, loc="upper left")
    first = rows[0]
    figure.suptitle(f"{first['topology']} ranks, {first['transports']}: {machine_text(first['run'])}", fontsize=10)
    figure.savefig(path, dpi=150)
