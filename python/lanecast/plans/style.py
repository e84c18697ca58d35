# SPDX-License-Identifier: Apache-2.0
"""What the pictures of plans share: a colour per level, and the order in which ranks are drawn."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lanecast._core import Topology
from lanecast.plans.flow import level_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INNERMOST = "#1f77a4"
OUTWARDS = ("#c8452f", "#d9921e", "#5b8c3e", "#7b5ea7")  # outermost first
INK = "#30343b"
QUIET = "#9aa1ab"
BAND = "#f1f3f6"


def level_colours(topology: Topology, transports: Sequence[str] = ()) -> list[str]:
    """By the numbers that Transfer.level uses; the innermost level keeps its colour whatever lies around it.

    Levels of the same transport look alike.
    """
    levels = len(level_names(topology)) - 1
    colours = [OUTWARDS[k % len(OUTWARDS)] for k in range(levels)] + [INNERMOST]
    by_transport = dict(zip(transports, colours, strict=False))
    return [by_transport[transport] for transport in transports] or colours


def drawing_order(topology: Topology) -> list[int]:
    """Ranks with those of a node side by side."""
    return sorted(range(topology.size), key=lambda rank: ([domain[rank] for _, domain in topology.levels], rank))


def borders(topology: Topology, order: list[int]) -> dict[int, int]:
    """Place in the drawing order at which another domain begins → the outermost level that changes there."""
    found: dict[int, int] = {}
    for level, (_, domain) in reversed(list(enumerate(topology.levels))):
        found.update({k: level for k in range(1, len(order)) if domain[order[k]] != domain[order[k - 1]]})
    return found


def border_style(level: int) -> dict[str, Any]:
    """Nodes are set apart by a line, what lies within them by a fainter one."""
    return {"color": INK, "linewidth": 1.0} if level == 0 else {"color": QUIET, "linewidth": 0.8, "linestyle": "--"}


def draw_rows(axes: "Axes", names: Sequence[str], lines: dict[int, int], starts: Sequence[float], when: str) -> None:
    """Rows with time from left to right, and bands behind them.

    lines: row above which a border lies → its level; starts: where each band begins, and the last one ends, with room
    of 1 between two; when: what bands are.
    """
    width = max(1.0, starts[-1])
    for start, end in list(pairwise(starts))[::2]:
        axes.axvspan(start - 0.25, end - 0.25, color=BAND, zorder=0, linewidth=0)
    axes.hlines(range(len(names)), -0.2, width, color=QUIET, linewidth=0.6, zorder=1)
    for border, level in lines.items():
        axes.axhline(border - 0.5, zorder=1, **border_style(level))
    axes.set_xlim(-0.25, width)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_xlabel(when, fontsize=8)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def name_bands(axes: "Axes", starts: Sequence[float], first: int) -> None:
    """Number the bands from `first` on."""
    middles = [(a + b) / 2 - 0.25 for a, b in pairwise(starts)]
    axes.set_xticks(middles, [str(first + k) for k in range(len(middles))], fontsize=7)
