# SPDX-License-Identifier: Apache-2.0
"""A model as a picture: what is chosen at which size and number of ranks, and what that loses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lanecast.bench.plots import figure_of, footnote
from lanecast.bench.tables import size_text
from lanecast.learn.cases import Case
from lanecast.learn.judging import by_model
from lanecast.learn.tables import label
from lanecast.learn.training import Fitted
from lanecast.profiles.scope import Scope

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = 150  # of the map, over sizes
_PADDING = 0.5  # of the outermost strips, in log2
_LEAST_SPAN = 0.05  # of the regret's colours


def draw(scope: Scope, learned: Sequence[tuple[list[Case], Fitted]], path: Path, rests_on: str = "") -> None:
    """A column for each collective: the map, with the fastest of each case as a dot; below, the regret of each case.

    rests_on: the simulated platform's figures.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.lines import Line2D

    names = sorted(
        {name for cases, fitted in learned for name in (*fitted.trained.algorithms, *(c.best for c in cases))}
    )
    lost = [[case.lost(by_model(fitted.trained)(case)) for case in cases] for cases, fitted in learned]
    shades = Normalize(0, max([_LEAST_SPAN, *(one for each in lost for one in each)]))
    figure, axes = figure_of(1.5 + 4.6 * len(learned), 9.2, (2, len(learned)))
    for above, below, (cases, fitted), regrets in zip(axes, axes[len(learned) :], learned, lost, strict=False):
        above.set_title(fitted.trained.collective, loc="left", fontsize=11)
        _map(above, cases, fitted, names)
        held_out = {case.features for case in fitted.held_out}
        below.scatter(*_places(cases), c=regrets, cmap="YlOrRd", norm=shades, marker="s", s=50,
                      edgecolors=["black" if case.features in held_out else "0.8" for case in cases])  # fmt: skip
        for axis in (above, below):
            _label(axis, cases)
    colours = _colours(names)
    dots = [Line2D([], [], marker="o", linestyle="", color=colours[name], label=name) for name in names]
    figure.legend(handles=dots, loc="outside lower center", ncols=2, frameon=False, fontsize=9,
                  title="area: the choice; dot: the fastest; below: time lost, black edge: held out")  # fmt: skip
    bar = figure.colorbar(ScalarMappable(shades, "YlOrRd"), ax=axes[len(learned) :], shrink=0.8)
    bar.set_label("regret: share of the best's time that the choice takes more")
    figure.suptitle(label(scope), fontsize=10)
    footnote(figure, rests_on)
    figure.savefig(path, dpi=130)


def _colours(names: Sequence[str]) -> dict[str, str]:
    return {name: f"C{k % 10}" for k, name in enumerate(names)}


def _places(cases: Sequence[Case]) -> tuple[list[float], list[float]]:
    size, ranks = zip(*(case.features[:2] for case in cases), strict=True)
    return list(ranks), list(size)


def _map(axis: Axes, cases: Sequence[Case], fitted: Fitted, names: Sequence[str]) -> None:
    """A strip for each number of ranks: what is chosen between two of them hangs on the nodes that they make."""
    from matplotlib.colors import ListedColormap

    ranks, sizes = _places(cases)
    up = np.linspace(min(sizes), max(sizes), _STEPS)
    one_of_each = {case.ranks: case for case in cases}
    strips = [[names.index(_chosen(fitted, one_of_each[count], y)) for y in up] for count in sorted(one_of_each)]
    colours = _colours(names)
    shades = ListedColormap([colours[name] for name in names])
    axis.pcolormesh(_edges(sorted(set(ranks))), _edges(up.tolist()), np.transpose(strips), cmap=shades, vmin=-0.5,
                    vmax=len(names) - 0.5, alpha=0.45, rasterized=True)  # fmt: skip
    axis.scatter(ranks, sizes, c=[colours[case.best] for case in cases], s=28, edgecolors="white", linewidths=0.6)


def _chosen(fitted: Fitted, case: Case, log_bytes: float) -> str:
    """On the case's ranks, for another size."""
    names = fitted.trained.algorithms
    svm = fitted.trained.learned().svm
    return names[svm.vote((log_bytes, *case.features[1:]), [name in case.seconds for name in names])]


def _edges(places: Sequence[float]) -> list[float]:
    """Of strips around them."""
    padded = [places[0] - _PADDING, *places, places[-1] + _PADDING]
    return [(a + b) / 2 for a, b in itertools.pairwise(padded)]


def _label(axis: Axes, cases: Sequence[Case]) -> None:
    counts, sizes = sorted({case.ranks for case in cases}), sorted({case.bytes for case in cases})
    ticks = sorted({round(np.log2(size)) for size in sizes})
    places = [float(np.log2(count)) for count in counts]
    axis.set_xticks(places, [str(count) for count in counts], fontsize=7, rotation=90)
    axis.set_yticks(ticks[::2], [size_text(1 << tick) for tick in ticks[::2]], fontsize=8)
    axis.set_xlabel("ranks")
