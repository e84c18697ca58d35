# SPDX-License-Identifier: Apache-2.0
"""One lane per rank, time from left to right: who sends what to whom in which round."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from lanecast._core import Topology
from lanecast.plans.flow import Flow, GroupCall, Transfer
from lanecast.plans.labels import PieceLabels
from lanecast.plans.style import INK, borders, draw_rows, drawing_order, level_colours, name_bands

MOST_LABELS = 200
COLUMNS_PER_LETTER = 0.3


@dataclass(frozen=True)
class Mark:
    """A message or group call, which covers lanes from top to bottom at one place of a round."""

    top: int
    bottom: int
    what: Transfer | GroupCall
    label: str


@dataclass
class Column:
    """Marks above each other, no two of which touch the same lane."""

    marks: list[Mark]
    start: float = 0.0

    @property
    def width(self) -> float:
        return max(1.0, 0.5 + COLUMNS_PER_LETTER * max(len(mark.label) for mark in self.marks))

    def has_room_for(self, mark: Mark) -> bool:
        return all(mark.bottom < other.top or other.bottom < mark.top for other in self.marks)


def side_by_side(marks: Iterable[Mark]) -> list[Column]:
    """Few columns: long marks come first, so that short ones fill the gaps."""
    columns: list[Column] = []
    for mark in sorted(marks, key=lambda m: (m.top - m.bottom, m.top)):
        column = next((c for c in columns if c.has_room_for(mark)), None)
        if column is None:
            columns.append(Column([mark]))
        else:
            column.marks.append(mark)
    return columns


class LaneDiagram:
    """Lays the rounds out first, so that the figure can be made as wide as they need."""

    def __init__(self, flow: Flow, topology: Topology) -> None:
        self._flow, self._topology = flow, topology
        self._order = drawing_order(topology)
        self._lane = {rank: k for k, rank in enumerate(self._order)}
        self._labels = PieceLabels(flow)
        texts = [self._labels.of(t.pieces) for t in flow.transfers if not t.group]
        self._labelled = len(texts) <= MOST_LABELS and len(set(texts)) > 1
        self._rounds = [side_by_side(self._marks(number)) for number in range(1, flow.rounds + 1)]
        self._starts = [1.0 if any(step.round == 0 for step in flow.local) else 0.0]
        for columns in self._rounds:
            start = self._starts[-1]
            for column in columns:
                column.start = start
                start += column.width
            self._starts.append(start + 1)

    @property
    def columns(self) -> float:
        """Width of the diagram, in columns without labels."""
        return self._starts[-1]

    @property
    def title(self) -> str:
        return "Who sends what to whom" + (f"; numbers: {self._labels.meaning}" if self._labelled else "")

    def _marks(self, number: int) -> list[Mark]:
        marks = []
        for t in self._flow.transfers:
            if t.round == number and not t.group:
                top, bottom = sorted((self._lane[t.sender], self._lane[t.receiver]))
                marks.append(Mark(top, bottom, t, self._labels.short(t.pieces) if self._labelled else ""))
        for call in self._flow.calls:
            if call.round == number:
                lanes = [self._lane[rank] for rank in call.ranks]
                marks.append(Mark(min(lanes), max(lanes), call, call.initials))
        return marks

    def draw(self, axes: Axes) -> None:
        self._draw_lanes(axes)
        for columns in self._rounds:
            for column in columns:
                x = column.start + column.width / 2
                for mark in column.marks:
                    self._draw_mark(axes, x, mark)
        places = sorted((self._starts[step.round] - 0.5, self._lane[step.rank]) for step in self._flow.local)
        for x, lane in places:
            axes.plot(x, lane, marker="s", markersize=4.5, color=INK, markerfacecolor="white", zorder=4)

    def _draw_lanes(self, axes: Axes) -> None:
        meaning = " (length of the longest chain of messages up to here)" if self._flow.unit == "round" else ""
        names = [f"rank {rank}" for rank in self._order]
        draw_rows(axes, names, borders(self._topology, self._order), self._starts, self._flow.unit + meaning)
        name_bands(axes, self._starts, 1)

    def _draw_mark(self, axes: Axes, x: float, mark: Mark) -> None:
        colour = level_colours(self._topology, self._flow.transports)[mark.what.level]
        if isinstance(mark.what, Transfer):
            self._draw_arrow(axes, x, mark.what, colour)
        else:
            self._draw_call(axes, x, [self._lane[rank] for rank in mark.what.ranks], colour)
        if mark.label:
            box = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
            style: dict[str, Any] = {"fontsize": 6, "color": INK, "ha": "center", "va": "center", "zorder": 5}
            axes.text(x, (mark.top + mark.bottom) / 2, mark.label, bbox=box, **style)

    def _draw_arrow(self, axes: Axes, x: float, t: Transfer, colour: str) -> None:
        start, end = self._lane[t.sender], self._lane[t.receiver]
        axes.plot([x, x], [start, end], color=colour, linewidth=1.2, zorder=2)
        axes.plot(x, start, marker="o", markersize=2.6, color=colour, zorder=3)
        head = "P" if t.adds else "v" if end > start else "^"
        style: dict[str, Any] = {"markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.5}
        axes.plot(x, end, marker=head, color=colour, zorder=3, **style)

    def _draw_call(self, axes: Axes, x: float, lanes: Sequence[int], colour: str) -> None:
        style: dict[str, Any] = {"linewidth": 5, "alpha": 0.35, "solid_capstyle": "round"}
        axes.plot([x, x], [min(lanes), max(lanes)], color=colour, zorder=2, **style)
        axes.plot([x] * len(lanes), lanes, marker="D", markersize=4, color=colour, linestyle="none", zorder=3)
