# SPDX-License-Identifier: Apache-2.0
"""Programs as a picture: two rows a rank, a box for each instruction in each tick, an arrow for each message."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanecast._core import Plan, Program, Topology, UsageError
from lanecast.plans.draw import LANE_INCHES, MOST_LANES, SUBTITLE, WIDEST_INCHES
from lanecast.plans.flow import level_names
from lanecast.plans.program_flow import QUEUES, Place, ProgramFlow, follow
from lanecast.plans.show import headline
from lanecast.plans.style import INK, borders, draw_rows, drawing_order, level_colours, name_bands
from lanecast.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOX_INCHES = 0.3
FACES = {"put": "#cfe3ee", "take": "#f7e3bf", "take_reduce": "#efc0b6", "copy": "white", "reduce": "#d3e2c8"}


def draw_programs(made: Sequence[tuple[Plan, Program]], topology: Topology, path: Path) -> None:
    """Writes the picture; the file's ending chooses the kind (.png, .svg, .pdf).

    made: of all ranks, in rank order, as lanecast.compose.programs() returns them; of up to 16 ranks, else UsageError.
    Of a long program the first ticks are drawn. Colours of arrows are levels of the topology.
    """
    figure(made, topology).savefig(path, dpi=120)


def figure(made: Sequence[tuple[Plan, Program]], topology: Topology) -> "Figure":
    """The picture as a matplotlib figure that belongs to no window."""
    from matplotlib.figure import Figure

    if topology.size > MOST_LANES:
        raise UsageError(
            f"programs: {topology.size} ranks, but programs of up to {MOST_LANES} are drawn; show prints them"
        )
    flow = follow([program for _, program in made])
    most = max(1, int((WIDEST_INCHES - 2) / BOX_INCHES / (flow.columns + 1)))
    ticks = min(flow.ticks, most)
    starts = [float(k * (flow.columns + 1)) for k in range(ticks + 1)]
    picture = Figure(
        figsize=(max(8.0, starts[-1] * BOX_INCHES + 2), 2 * LANE_INCHES * topology.size + 2.2), layout="constrained"
    )
    program = made[0][1]
    size = f"{counted(program.lanes, 'lane')} of {counted(program.chunks, 'chunk')}"
    title = f"{headline([plan for plan, _ in made], topology)}, as programs: {size}, {counted(flow.ticks, 'tick')}"
    picture.suptitle(title, fontsize=11, x=0.01, ha="left")
    axes = picture.add_subplot()
    boxes = "instructions" if program.chunks == 1 else "instruction:chunk"
    shown = f"; the first {counted(ticks, 'tick')}" if ticks < flow.ticks else ""
    axes.set_title(f"What each lane does; in boxes: {boxes}{shown}", loc="left", fontsize=SUBTITLE["fontsize"])
    _Diagram(flow, topology, starts).draw(axes)
    _legend(picture, flow, topology)
    return picture


class _Diagram:
    def __init__(self, flow: ProgramFlow, topology: Topology, starts: Sequence[float]) -> None:
        self._flow, self._topology, self._starts = flow, topology, starts
        self._order = drawing_order(topology)
        self._row = {(rank, queue): 2 * k + q for k, rank in enumerate(self._order) for q, queue in enumerate(QUEUES)}

    def draw(self, axes: "Axes") -> None:
        names = [f"rank {rank} {queue}" for rank, queue in self._row]
        lines = {2 * place: level for place, level in borders(self._topology, self._order).items()}
        draw_rows(axes, names, lines, self._starts, "tick (an instruction works on chunk tick - delay)")
        name_bands(axes, self._starts, 0)
        colours = level_colours(self._topology)
        for tick in range(len(self._starts) - 1):
            for place in self._flow.column:
                self._draw_box(axes, place, tick)
            for put, take in self._flow.messages:
                level = self._topology.parting_level(put.rank, take.rank)
                self._draw_arrow(axes, (put, take), tick, colours[level])

    def _at(self, place: Place, tick: int) -> tuple[float, int]:
        """The middle of its box."""
        return self._starts[tick] + self._flow.column[place] + 0.4, self._row[place.rank, place.queue]

    def _draw_box(self, axes: "Axes", place: Place, tick: int) -> None:
        from matplotlib.patches import Rectangle

        chunk = self._flow.chunk(place, tick)
        if chunk is None:
            return
        x, row = self._at(place, tick)
        face = FACES[self._flow.instruction(place)["operation"]]
        axes.add_patch(
            Rectangle((x - 0.4, row - 0.3), 0.8, 0.6, facecolor=face, edgecolor=INK, linewidth=0.5, zorder=3)
        )
        name = f"{place.queue[0]}{place.number}"
        label = name if self._flow.programs[place.rank]["chunks"] == 1 else f"{name}:{chunk}"
        axes.text(x, row, label, fontsize=5, color=INK, ha="center", va="center", zorder=4)

    def _draw_arrow(self, axes: "Axes", ends: tuple[Place, Place], tick: int, colour: str) -> None:
        if self._flow.chunk(ends[0], tick) is None:
            return
        (x, row), (to_x, to_row) = (self._at(place, tick) for place in ends)
        edge = 0.3 if to_row > row else -0.3
        style: dict[str, Any] = {"arrowstyle": "-|>", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (to_x, to_row - edge), (x, row + edge), arrowprops=style, zorder=5)


def _legend(picture: "Figure", flow: ProgramFlow, topology: Topology) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    used = {flow.instruction(place)["operation"] for place in flow.column}
    levels = {topology.parting_level(put.rank, take.rank) for put, take in flow.messages}
    colours, names = level_colours(topology), level_names(topology)
    handles: list[Any] = [
        Patch(facecolor=face, edgecolor=INK, label=name) for name, face in FACES.items() if name in used
    ]
    handles += [Line2D([], [], color=colours[level], linewidth=2, label=names[level]) for level in sorted(levels)]
    if handles:
        picture.legend(handles=handles, loc="outside lower left", ncols=len(handles), fontsize=8, frameon=False)
