# SPDX-License-Identifier: Apache-2.0
"""`lanecast learn figures`: the figures of PCCL out of a database of times, each with its origin in the title."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanecast import _core
from lanecast.bench.options import parse_sizes
from lanecast.bench.plots import figure_of, footnote
from lanecast.bench.tables import size_text
from lanecast.learn import figures as data
from lanecast.learn.cases import cases_of
from lanecast.learn.database import Database
from lanecast.learn.figures import Cell
from lanecast.learn.judging import Chooser, by_cost_model, by_model
from lanecast.learn.scopes import one_of
from lanecast.learn.tables import label
from lanecast.profiles.model import load
from lanecast.profiles.scope import Scope
from lanecast.scale import platform

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_SPAN = 2.0  # the colours reach at least from half to twice as fast
_MAPS = {
    "over_vendor": (
        data.over_vendor,
        "the choice: times as fast as the vendors' ring on every NIC (or trees), and by what",
    ),
    "over_flat": (data.over_flat, "the choice: times as fast as the better flat algorithm, and by what"),
    "recursive_over_ring": (
        data.recursive_over_ring,
        "recursive between nodes: times as fast as a ring between them; below, what is chosen",
    ),
}
_SHORT = {"hierarchical(": "h(", "recursive_doubling": "rec", "double_tree": "tree", "direct": "d", "mpi": "MPI"}


def figures(  # noqa: PLR0913, PLR0917  one per option
    database: Annotated[Path, typer.Argument(help="SQLite file of `lanecast learn measure` or `simulate`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pictures and figures.json.")],
    machine: Annotated[str, typer.Option(help="Of which times, where the file has those of several.")] = "",
    origin: Annotated[str, typer.Option(help="measured, simulated or modelled, where the file has several.")] = "",
    model: Annotated[Path | None, typer.Option(help="Whose choices to show; else the cost model's.")] = None,
    sizes: Annotated[str, typer.Option(help="Of the strong scaling: bytes of the full buffer.")] = "64M,256M",
) -> None:
    """Draw PCCL's figures: strong scaling (1, 8, 10), the choice over what others do (9, 11), recursive over ring (6).

    A simulation says what wires and memory give, not what vendors' libraries lose:
    docs/measurements/history/scaling.md.
    """
    with Database(database) as opened:
        scope = one_of(opened.scopes(), machine, origin, database)
        times = opened.read(scope)
        platforms = [run["platform"] for run in opened.software(scope) if "platform" in run]
    cases = {kind: found for kind in _core.KINDS if (found := cases_of(kind, scope, times))}
    choosers = _choosers(scope, model)
    output.mkdir(parents=True, exist_ok=True)
    lines = {size: {kind: data.scaling(some, size) for kind, some in cases.items()} for size in parse_sizes(sizes)}
    chosen = {
        size: {kind: data.choices(some, size, choosers.get(kind, by_cost_model)) for kind, some in cases.items()}
        for size in lines
    }
    maps = {
        name: [cell for kind, some in cases.items() for cell in of(kind, some, choosers.get(kind, by_cost_model))]
        for name, (of, _) in _MAPS.items()
    }
    rests_on = platform.text(platforms[-1]) if platforms else ""
    _scaling((label(scope), rests_on), lines, chosen, output / "scaling.png")
    for name, cells in maps.items():
        if cells:
            _heatmaps((f"{_MAPS[name][1]}\n{label(scope)}", rests_on), cells, output / f"{name}.png")
    written = {
        "scope": asdict(scope),
        "platform": platforms[-1] if platforms else {},
        "scaling": lines,
        "chosen": chosen,
        **{name: [asdict(c) for c in maps[name]] for name in maps},
    }
    (output / "figures.json").write_text(json.dumps(written, indent=1) + "\n")
    print(f"wrote {output}: {label(scope)}", file=sys.stderr)


def _choosers(scope: Scope, path: Path | None) -> dict[str, Chooser]:
    if path is None:
        return {}
    model = load(path)
    if replace(model.scope, digest="") != replace(scope, digest=""):  # learned before, it chooses nevertheless
        raise _core.UsageError(f"model {path}: scope: learned for {model.scope}, not for {scope}")
    return {trained.collective: by_model(trained) for trained in model.collectives}


def _scaling(
    texts: tuple[str, str],
    lines: dict[int, dict[str, Any]],
    chosen: dict[int, dict[str, list[tuple[int, float]]]],
    path: Path,
) -> None:
    """A line for each algorithm; circles are what is chosen. texts: title and footnote."""
    collectives = list(next(iter(lines.values())))
    figure, axes = figure_of(1.5 + 4.2 * len(collectives), 0.8 + 3.4 * len(lines), (len(lines), len(collectives)))
    panels = [(size, kind) for size in lines for kind in collectives]
    colours: dict[str, str] = {}
    for axis, (size, kind) in zip(axes, panels, strict=True):
        curves = {name: points for name, points in lines[size][kind].items() if len(points) > 1}
        counts = sorted({ranks for points in curves.values() for ranks, _ in points})
        for name, points in curves.items():
            colour = colours.setdefault(name, f"C{len(colours) % 10}")
            ranks, seconds = zip(*points, strict=True)
            axis.plot(ranks, [1e3 * each for each in seconds], "o-", color=colour, label=_short(name), markersize=4)
        if curves:
            ranks, seconds = zip(*chosen[size][kind], strict=True)
            axis.plot(ranks, [1e3 * each for each in seconds], "o", markerfacecolor="none", color="black",
                      markersize=9, label="chosen")  # fmt: skip
        axis.set_title(f"{kind}, {size_text(size)}", loc="left", fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.set_xlabel("ranks")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(frameon=False, fontsize=7)
    axes[0].set_ylabel("ms, flat is ideal")
    _finish(figure, texts, path)


def _heatmaps(texts: tuple[str, str], cells: Sequence[Cell], path: Path) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    collectives = list(dict.fromkeys(cell.collective for cell in cells))
    span = max([_LEAST_SPAN, *(max(cell.faster, 1 / cell.faster) for cell in cells)])
    shades = LogNorm(1 / span, span)
    sizes = {cell.bytes for cell in cells}
    figure, axes = figure_of(1.5 + 5 * len(collectives), 1.6 + 0.42 * len(sizes), (1, len(collectives)))
    for axis, kind in zip(axes, collectives, strict=True):
        _heatmap(axis, kind, [cell for cell in cells if cell.collective == kind], shades)
    figure.colorbar(ScalarMappable(shades, "RdBu"), ax=axes).set_label("times as fast")
    _finish(figure, texts, path)


def _finish(figure: Any, texts: tuple[str, str], path: Path) -> None:
    figure.suptitle(texts[0], fontsize=10)
    footnote(figure, texts[1])
    figure.savefig(path, dpi=130)


def _heatmap(axis: Axes, title: str, cells: Sequence[Cell], shades: Any) -> None:
    counts, sizes = sorted({cell.ranks for cell in cells}), sorted({cell.bytes for cell in cells}, reverse=True)
    known = {(cell.bytes, cell.ranks): cell for cell in cells}
    values = [[known[s, r].faster if (s, r) in known else float("nan") for r in counts] for s in sizes]
    axis.imshow(values, cmap="RdBu", norm=shades, aspect="auto")
    for (size, count), cell in known.items():
        is_pale = 0.2 < shades(cell.faster) < 0.8
        axis.text(counts.index(count), sizes.index(size), f"{cell.faster:.2f}\n{_short(cell.name)}", ha="center",
                  va="center", fontsize=6, color="black" if is_pale else "white")  # fmt: skip
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xticks(range(len(counts)), [str(count) for count in counts], fontsize=8)
    axis.set_yticks(range(len(sizes)), [size_text(size) for size in sizes], fontsize=8)
    axis.set_xlabel("ranks")


def _short(name: str) -> str:
    for long, short in _SHORT.items():
        name = name.replace(long, short)
    return name
