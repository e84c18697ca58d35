# SPDX-License-Identifier: Apache-2.0
"""How much goes from whom to whom: a rank × rank matrix for every stage of a collective."""

from collections import defaultdict
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from lanecast._core import Topology
from lanecast.plans.flow import Flow, Transfer, level_names
from lanecast.plans.style import INK, QUIET, border_style, borders, drawing_order, level_colours

MOST_NUMBERED_RANKS = 16


class Stage:
    """Transfers of one level in rounds one after the other, all of which add, or all of which only copy."""

    def __init__(self, transfers: list[Transfer]) -> None:
        self.transfers = transfers
        self.first, self.last = transfers[0].round, transfers[-1].round
        self.level, self.adds, self.group = transfers[0].level, transfers[0].adds, transfers[0].group

    def title(self, flow: Flow, topology: Topology) -> str:
        verb = "reduce" if self.adds else "gather"
        when = f"{flow.unit} {self.first}" + (f" to {self.last}" if self.first != self.last else "")
        name = level_names(topology, flow.transports)[self.level]
        return f"{verb} {name}\n{when}" + (", group calls" if self.group else "")


def stages(flow: Flow) -> list[Stage]:
    """In the order in which they begin."""
    alike: dict[tuple[int, bool, bool], list[list[Transfer]]] = defaultdict(list)
    for t in flow.transfers:
        runs = alike[t.level, t.adds, t.group]
        # Rounds of one kind are one picture; the stages of a composition are what it is looked at for.
        if not runs or runs[-1][-1].round < t.round - (flow.unit == "round"):
            runs.append([])
        runs[-1].append(t)
    found = [Stage(run) for runs in alike.values() for run in runs]
    return sorted(found, key=lambda stage: (stage.first, not stage.adds, -stage.level))


def draw_stage(axes: Axes, flow: Flow, stage: Stage, topology: Topology) -> None:
    order = drawing_order(topology)
    place = {rank: k for k, rank in enumerate(order)}
    amounts: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for t in stage.transfers:
        amounts[place[t.sender], place[t.receiver]] += flow.share(t.pieces)
    most, size = max(amounts.values()), len(order)
    shades = np.full((size, size), np.nan)
    for (row, column), amount in amounts.items():
        shades[row, column] = float(amount / most)

    colour = level_colours(topology, flow.transports)[stage.level]
    colours = LinearSegmentedColormap.from_list("level", ["white", colour])
    axes.imshow(shades, cmap=colours, vmin=-0.2, vmax=1.4, interpolation="nearest")  # never so dark that text is lost
    if size <= MOST_NUMBERED_RANKS:
        for (row, column), amount in amounts.items():
            axes.text(column, row, str(amount), fontsize=6, color=INK, ha="center", va="center")
    for border, level in borders(topology, order).items():
        axes.axhline(border - 0.5, **border_style(level))
        axes.axvline(border - 0.5, **border_style(level))
    _label(axes, order, topology)
    axes.set_title(stage.title(flow, topology), fontsize=8, color=INK)
    total = sum(amounts.values(), start=Fraction(0))
    axes.set_xlabel(f"to rank\n{total} S in all, at most {most} S a pair", fontsize=7)
    axes.set_ylabel("from rank", fontsize=7)


def _label(axes: Axes, order: list[int], topology: Topology) -> None:
    ticks = list(range(len(order)))
    if len(order) > MOST_NUMBERED_RANKS:
        ticks = [0, *(k for k, level in sorted(borders(topology, order).items()) if level == 0)]
        ticks = ticks[:: -(-len(ticks) // MOST_NUMBERED_RANKS)]
    axes.set_xticks(ticks, [str(order[k]) for k in ticks], fontsize=6)
    axes.set_yticks(ticks, [str(order[k]) for k in ticks], fontsize=6)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_color(QUIET)
