# SPDX-License-Identifier: Apache-2.0
"""One picture of the plans of all ranks: lanes with arrows above, a communication matrix per stage below."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanecast._core import Plan, Topology
from lanecast.plans.flow import Flow, level_names, trace
from lanecast.plans.show import headline
from lanecast.plans.style import INK, level_colours
from lanecast.wording import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LANES = 16
LANE_INCHES = 0.32
COLUMN_INCHES = 0.17
TITLES_INCHES = 0.9  # above and below a matrix; the layout does not see that a square leaves room in its cell
WIDEST_INCHES = 40.0
SUBTITLE: dict[str, Any] = {"fontsize": 9, "x": 0.01, "ha": "left", "color": INK}


def draw(plans: Sequence[Plan], topology: Topology, path: Path, transports: Sequence[str] = ()) -> None:
    """Writes the picture; the file's ending chooses the kind (.png, .svg, .pdf).

    Arrows are drawn for up to 16 ranks, the matrices for any number. Colours are levels of the topology, which has to
    be the one the plans were made for; with transports (one, or one for each level) they are transports. Raises
    UsageError where the plans are not those of all ranks, in rank order.
    """
    figure(plans, topology, transports).savefig(path, dpi=120)


def figure(plans: Sequence[Plan], topology: Topology, transports: Sequence[str] = ()) -> "Figure":
    """The picture as a matplotlib figure that belongs to no window."""
    from matplotlib.figure import Figure

    from lanecast.plans.draw_lanes import LaneDiagram
    from lanecast.plans.draw_matrices import draw_stage, stages

    flow = trace(plans, topology, transports)
    lanes = LaneDiagram(flow, topology) if topology.size <= MOST_LANES else None
    panels = stages(flow)
    panel_inches = 2.6 if topology.size <= 8 else 4.2
    lanes_inches = lanes.columns * COLUMN_INCHES + 1.0 if lanes else 0.0
    panels_a_row = max(5, int(lanes_inches / panel_inches))
    width = max(8.0, lanes_inches, panel_inches * min(len(panels), panels_a_row))
    panel_rows = -(-len(panels) // panels_a_row)
    heights = [1.1 + LANE_INCHES * topology.size] * bool(lanes) + [(panel_inches + TITLES_INCHES) * panel_rows] * bool(
        panels
    )

    picture = Figure(figsize=(min(width, WIDEST_INCHES), sum(heights) + 0.8), layout="constrained")
    picture.suptitle(_title(plans, flow, topology), fontsize=11, x=0.01, ha="left")
    grid = picture.add_gridspec(len(heights), 1, height_ratios=heights)
    rows = [picture.add_subfigure(grid[k]) for k in range(len(heights))]
    if lanes:
        rows[0].suptitle(lanes.title, **SUBTITLE)
        lanes.draw(rows[0].add_subplot())
    if panels:
        rows[-1].suptitle("How much goes from whom to whom; S is the full buffer", **SUBTITLE)
        columns = min(panels_a_row, max(len(panels), int(width / panel_inches)))
        for k, axes in enumerate(rows[-1].subplots(panel_rows, columns, squeeze=False).flat):
            if k < len(panels):
                draw_stage(axes, flow, panels[k], topology)
            else:  # a wide picture keeps its matrices on the left
                axes.set_axis_off()
    _legend(picture, flow, topology)
    return picture


def _title(plans: Sequence[Plan], flow: Flow, topology: Topology) -> str:
    messages = sum(not t.group for t in flow.transfers)
    counts = [(flow.rounds, flow.unit), (messages, "message"), (len(flow.calls), "group call")]
    said = ", ".join(counted(n, what) for n, what in counts if n)
    return headline(plans, topology) + (f": {said}" if said else "")


def _legend(picture: "Figure", flow: Flow, topology: Topology) -> None:
    from matplotlib.lines import Line2D

    used = {t.level for t in flow.transfers}
    colours, names = level_colours(topology, flow.transports), level_names(topology, flow.transports)
    handles = [Line2D([], [], color=colours[level], linewidth=2.5, label=names[level]) for level in sorted(used)]
    calls = {f"{call.initials} {call.kind}" for call in flow.calls}
    symbols = [
        ("v", INK, "received", any(not t.adds and not t.group for t in flow.transfers)),
        ("P", INK, "received and added", any(t.adds and not t.group for t in flow.transfers)),
        ("D", INK, f"group call of {', '.join(sorted(calls))}", bool(calls)),
        ("s", "white", "local copy or sum", bool(flow.local)),
    ]
    handles += [
        Line2D([], [], marker=marker, linestyle="none", markersize=5, color=INK, markerfacecolor=face, label=name)
        for marker, face, name, shown in symbols
        if shown and topology.size <= MOST_LANES
    ]
    if handles:
        picture.legend(handles=handles, loc="outside lower left", ncols=len(handles), fontsize=8, frameon=False)
