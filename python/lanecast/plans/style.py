# SPDX-License-Identifier: Apache-2.0
"""What the pictures of plans share: a colour per level, and the order in which ranks are drawn."""

from collections.abc import Sequence
from typing import Any

from lanecast._core import Topology
from lanecast.plans.flow import level_names

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
