# SPDX-License-Identifier: Apache-2.0
"""Simulated throughput over the number of nodes, beside the bound of the NICs (HiCCL, figure 10)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lanecast.bench.plots import figure_of, footnote
from lanecast.bench.tables import size_text
from lanecast.scale import platform


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel for each collective and size, a line for each backend."""
    panels = list(dict.fromkeys(_panel(row) for row in rows))
    figure, axes = figure_of(1.2 + 4.8 * len(panels), 4.2, (1, len(panels)))
    for axis, (collective, size) in zip(axes, panels, strict=True):
        mine = [row for row in rows if _panel(row) == (collective, size)]
        for backend in dict.fromkeys(row["backend"] for row in mine):
            line = [row for row in mine if row["backend"] == backend]
            axis.plot([row["nodes"] for row in line], [row["algbw_GBps"] for row in line], "o-", label=backend)
        bounds = {row["nodes"]: row["bound_GBps"] for row in mine if row["bound_GBps"]}
        axis.plot(list(bounds), list(bounds.values()), "k--", label="bound of the NICs")
        axis.set_xscale("log", base=2)
        counts = sorted({row["nodes"] for row in mine})
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("nodes")
        axis.set_title(f"{collective}, {size}", loc="left", fontsize=10)
    axes[0].set_ylabel("p·d / t (GB/s)")
    axes[0].legend(fontsize=8, frameon=False)
    run = rows[0]["run"]
    figure.suptitle(
        f"{run['machine']}, simulated by SimGrid {run['simgrid']}: no figure here was measured", fontsize=10
    )
    footnote(figure, platform.text(run["platform"]))
    figure.savefig(path, dpi=110)


def _panel(row: dict[str, Any]) -> tuple[str, str]:
    """By the text of the size, since sizes are rounded up to whole elements for each rank."""
    return row["collective"], size_text(row["bytes"])
