# SPDX-License-Identifier: Apache-2.0
"""Figures 5 and 8 to 11 of the paper on several processes per GPU, from docs/measurements/processes.

    python bench/processes_plots.py    # writes docs/images/processes-*.png

A figure of MPI has two panels as there: over sizes at fixed hosts, and 2^27 floats over hosts. Bars are the least and
the greatest of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import NullFormatter

import processes_data as data
from lanecast.bench.plots import figure_of, footnote
from processes_pages import said, size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IMAGES = Path(__file__).parent.parent / "docs" / "images"
BY_SIZE, BY_HOSTS, BY_BOTH = "bytes", "hosts", "processes"
CHANNELS = "mps-channels-"  # runs of so many
MOST_TIMES = 3.0  # the bound; single runs that took longer end at the edge
DASHES = ("-", "--", ":", "-.")
Line = tuple[str, list[data.Cell]]  # what it is called, and its points


def draw_line(axis: Axes, line: Line, over: str, look: dict[str, Any], *, relative: bool) -> None:
    name, cells = line
    cells = sorted(cells, key=lambda cell: int(getattr(cell, over)))
    units = [cell.bound_us if relative and cell.bound_us else 1e3 for cell in cells]
    middle, low, high = (
        [of(cell.us) / unit for cell, unit in zip(cells, units, strict=True)] for of in (median, min, max)
    )
    spread = [[at - least for at, least in zip(middle, low, strict=True)],
              [most - at for at, most in zip(middle, high, strict=True)]]  # fmt: skip
    places = [getattr(cell, over) for cell in cells]
    axis.errorbar(places, middle, spread, fmt="o", capsize=2, ms=3, lw=1.2, label=name, **look)


def looks(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """A colour for each way and a dash for each number; where one of them is alone, the other has colours, too."""
    ways = list(dict.fromkeys(cells[0].way for _, cells in lines))
    numbers = list(dict.fromkeys(cells[0].processes for _, cells in lines))
    if len(ways) == 1 or len(numbers) == 1:
        return [{"color": f"C{k}", "ls": DASHES[0]} for k in range(len(lines))]
    return [
        {"color": f"C{data.WAYS.index(cells[0].way)}", "ls": DASHES[numbers.index(cells[0].processes)]}
        for _, cells in lines
    ]


def panel(axis: Axes, title: str, lines: Sequence[Line], over: str, *, relative: bool = False) -> None:
    """relative: the NICs' bound is 1, else times in ms."""
    for line, look in zip(lines, looks(lines), strict=True):
        draw_line(axis, line, over, look, relative=relative)
    cells = [cell for _, of_line in lines for cell in of_line]
    bounds = {getattr(cell, over): cell.bound_us / 1e3 for cell in cells if cell.bound_us}
    if bounds and not relative:
        axis.plot(sorted(bounds), [bounds[at] for at in sorted(bounds)], "k:", lw=1, label="the NICs' bound")
    places = sorted({getattr(cell, over) for cell in cells})
    axis.set_yscale("linear" if relative else "log")
    if relative:
        axis.set_ylim(top=min(axis.get_ylim()[1], MOST_TIMES))
    else:
        low, high = axis.get_ylim()
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("{x:g}" if high < 12 * low else NullFormatter())
    if over != BY_HOSTS:
        axis.set_xscale("log", base=2)
    axis.set_xticks(places, [size_text(at) if over == BY_SIZE else str(at) for at in places], fontsize=8)
    axis.set_xlabel({BY_SIZE: "", BY_HOSTS: "emulated hosts", BY_BOTH: "processes per rank"}[over], fontsize=8)
    axis.set_ylabel("times the NICs' bound" if relative else "ms", fontsize=8)
    axis.tick_params(axis="y", which="both", labelsize=7)
    axis.set_title(title, loc="left", fontsize=9)
    axis.legend(fontsize=6.5, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    axis.spines[["top", "right"]].set_visible(False)


def picture(name: str, title: str, note: str, panels: Sequence[Callable[[Axes], None]]) -> None:
    figure, axes = figure_of(5.6 * len(panels), 3.6, (1, len(panels)))
    for axis, fill in zip(axes, panels, strict=True):
        fill(axis)
    figure.suptitle(title, fontsize=10)
    footnote(figure, note)
    figure.savefig(IMAGES / f"processes-{name}.png", dpi=110)
    print(f"wrote processes-{name}.png")


def numbered(run: data.Run, way: str, numbers: Sequence[int] = ()) -> list[Line]:
    """A line for each number of processes of a way."""
    found = [(f"{number} process{'es' * (number > 1)}", run.of(way, number)) for number in numbers or run.numbers]
    return [line for line in found if line[1]]


def ways_by(run: data.Run, ways: Sequence[str], numbers: Sequence[int]) -> list[Line]:
    found = [(f"{said(way)}, {number}", run.of(way, number)) for way in ways for number in numbers]
    return [line for line in found if line[1]]


def note_of(machine: data.Machine, runs: Sequence[data.Run]) -> str:
    networks = "; ".join(dict.fromkeys(run.network for run in runs if run.network))
    commits = ", ".join(dict.fromkeys(run.commit for run in runs))
    emulated = f"{networks}. " if networks else ""
    software = machine.software.replace("`", "")
    return f"{machine.machine}. {software}. {emulated}All-reduce of fp32. Lanecast at {commits}."


def of_nccl(machine: data.Machine) -> None:
    """Figure 11: NCCL on each slice, by numbers of processes; then with its channels pinned."""
    whole = [run for run in runs_named(machine, "one-host", "one-host-mps") if run.of("standard")]
    pinned = [run for run in machine.runs if run.name.startswith(CHANNELS)]

    def over_numbers(run: data.Run, axis: Axes) -> None:
        sizes = sorted({cell.bytes for cell in run.of("standard")})
        lines = [(size_text(size), [cell for cell in run.of("standard") if cell.bytes == size]) for size in sizes]
        panel(axis, run.title, lines, BY_BOTH)

    def over_channels(axis: Axes) -> None:
        lines = [(f"{run.name.removeprefix(CHANNELS)} channels each", run.of("standard")) for run in pinned]
        size = max(cell.bytes for cell in whole[-1].cells)
        lines.append(("as NCCL chooses", [cell for cell in whole[-1].of("standard") if cell.bytes == size]))
        panel(axis, f"{size_text(size)} under MPS, channels pinned", lines, BY_BOTH)

    fills: list[Callable[[Axes], None]] = [partial(over_numbers, run) for run in whole]
    if pinned:
        fills.append(over_channels)
    picture("nccl", "Figure 11: NCCL on each slice of the GPU's buffer", note_of(machine, [*whole, *pinned]), fills)


def of_engines(machine: data.Machine) -> None:
    """Figures 8 to 10 where a GPU moves the slices: all ways, by one process and by more."""
    runs = runs_named(machine, "one-host", "one-host-mps", "two-hosts")
    fills = [partial(of_ways, run) for run in runs]
    picture("on-gpus", "Figure 8 on GPUs: all ways, by 1, 2 and 4 processes per GPU", note_of(machine, runs), fills)


def of_ways(run: data.Run, axis: Axes) -> None:
    panel(axis, run.title, ways_by(run, run.ways, [1, 2, 4]), BY_SIZE)


def runs_named(machine: data.Machine, *names: str) -> list[data.Run]:
    return [run for run in map(machine.run, names) if run is not None]


def of_mpi(machine: data.Machine) -> None:
    """Figures 5 and 8 to 10, from runs on CPUs: `lanes` and `many` over sizes, `hosts` over hosts."""
    lanes, many, hosts = machine.run("lanes"), machine.run("many"), machine.run("hosts")
    if lanes is None or many is None:
        return

    def beside(name: str, title: str, by_size: data.Run, lines: Callable[[data.Run], list[Line]]) -> None:
        panels = [lambda axis: panel(axis, f"{shape(by_size)}", lines(by_size), BY_SIZE)]
        if hosts is not None:
            panels.append(lambda axis: panel(axis, "$2^{27}$ floats, 2 leaders on each host", lines(hosts), BY_HOSTS))
        picture(name, title, note_of(machine, [by_size] if hosts is None else [by_size, hosts]), panels)

    three = ("standard", "multi-lane", "multi-lane, ring", "lanecast")
    beside("lanes", "Figure 5: the MPI's all-reduce and lanes, by one process", lanes,
           lambda run: ways_by(run, ("standard", "multi-lane"), [1]))  # fmt: skip
    beside("ways", "Figure 8: all ways, by one process and by the most", lanes,
           lambda run: ways_by(run, three, [1, run.numbers[-1]]))  # fmt: skip
    beside("standard", "Figure 9: the MPI's all-reduce on each slice", many, lambda run: numbered(run, "standard"))
    beside("multi-lane", "Figure 10: lanes, by several processes", lanes, lambda run: numbered(run, "multi-lane"))
    rates = runs_named(machine, "slow-250m", "slow-1g", "lanes")
    fills = [partial(of_network, run) for run in rates]
    picture("nics", "By one process and by the most, over the rate of the NICs", note_of(machine, rates), fills)


def of_network(run: data.Run, axis: Axes) -> None:
    panel(axis, run.network, ways_by(run, ("standard", "lanecast"), [1, run.numbers[-1]]), BY_SIZE, relative=True)


def shape(run: data.Run) -> str:
    cell = run.cells[0]
    on_each = cell.leaders // cell.hosts
    return f"{cell.hosts} emulated hosts of {on_each} leader{'s' * (on_each > 1)}"


def main() -> None:
    machines = data.read()
    for machine in machines.values():
        of_mpi(machine)
    gpus = machines["h200-x2"]
    of_nccl(gpus)
    of_engines(gpus)


if __name__ == "__main__":
    main()
