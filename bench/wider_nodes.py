# SPDX-License-Identifier: Apache-2.0
"""What another NIC or a wider node brings: Frontier's nodes with other numbers of NICs and of GPUs, simulated.

    python bench/wider_nodes.py --json wider.json --plot wider.png    # minutes; results are kept, so that it goes on

All but the two numbers is the machine's file; ranks are the same in all, so that wider nodes are fewer. Needs SimGrid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import machines
from lanecast.bench.options import distinct, parse_sizes
from lanecast.bench.plots import figure_of, footnote
from lanecast.bench.software import software
from lanecast.bench.tables import console, headed, number, size_text
from lanecast.machines import Machine
from lanecast.scale import build, contenders, platform, point
from lanecast.scale.contenders import COLLECTIVES, Case
from lanecast.scale.tables import bound_Bps, say

_USUAL_GPUS, _USUAL_NICS = 8, 4
_NICS, _GPUS = (1, 2, 4, 8), (4, 8, 16)
_LEFT = ("collective",)


def main(
    json_file: Annotated[Path, typer.Option("--json")],
    plot: Annotated[Path | None, typer.Option()] = None,
    ranks: Annotated[int, typer.Option(help="Of each run.")] = 64,
    sizes: Annotated[str, typer.Option(help="Bytes of the full buffer.")] = "16M,256M",
    backends: Annotated[str, typer.Option()] = "recursive-across,ring-across,ring-per-nic",
) -> None:
    """Simulate all-gathers and all-reduces of these sizes, print a table and draw it."""
    simulator = build.simulator(say)
    frontier = machines.load("frontier")
    # One GPU for each NIC at the most; with as many NICs, and with half as many as GPUs.
    shapes = dict.fromkeys(
        [(_USUAL_GPUS, nics) for nics in _NICS]
        + [(gpus, _USUAL_NICS) for gpus in _GPUS]
        + [(gpus, gpus // 2) for gpus in _GPUS]
    )
    run = {"simulated": True, "simgrid": simulator.simgrid, "platform": platform.figures(frontier), **software()}
    rows: list[dict[str, Any]] = []
    for gpus, nics in shapes:
        machine = _with(frontier, gpus, nics)
        for collective in (COLLECTIVES[0], COLLECTIVES[2]):
            for size in parse_sizes(sizes):
                case = Case(machine, collective, ranks, contenders.evenly(size, ranks))
                bound = bound_Bps(case)
                assert bound is not None
                for name in distinct(backends):
                    say(f"{gpus} GPUs, {nics} NICs: {collective} of {size_text(size)} by {name}")
                    met = contenders.on(name, case)
                    plan = contenders.plan(name, met)
                    taken = point.run(simulator, [*platform.words(met.machine), *plan.words(met)]).seconds
                    rows.append(
                        {"gpus": gpus, "nics": nics, "collective": collective, "ranks": ranks, "bytes": case.bytes,
                         "backend": name, "algorithm": plan.algorithm, "chunks": plan.chunks, "time_us": taken * 1e6,
                         "bound_us": case.bytes / bound * 1e6, "run": run}
                    )  # fmt: skip
                    json_file.write_text(json.dumps(rows, indent=1) + "\n")
    _show(rows)
    if plot is not None:
        _draw(rows, plot)


def _with(machine: Machine, gpus: int, nics: int) -> Machine:
    """The same with other nodes: so many packages, and NICs."""
    outer, *inner = machine.levels
    per_package = machine.ranks_per_node // outer.size
    node = replace(machine.node, gpus=gpus, nics=nics)
    return replace(machine, node=node, levels=[replace(outer, size=gpus // per_package), *inner])


def _show(rows: Sequence[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(row["backend"] for row in rows))
    table = headed("simulated, ms", ("collective", "size", "GPUs", "NICs", *names, "bound of the NICs"), _LEFT)
    for row in rows[:: len(names)]:
        mine = [one for one in rows if _case(one) == _case(row)]
        times = [number(one["time_us"] / 1e3) for one in mine]
        table.add_row(row["collective"], size_text(row["bytes"]), str(row["gpus"]), str(row["nics"]), *times,
                      number(row["bound_us"] / 1e3))  # fmt: skip
    console().print(table)


def _case(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["collective"], row["bytes"], row["gpus"], row["nics"]


def _draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """A column for each collective and size; above over the NICs of a node, below over its GPUs, half as many NICs."""
    panels = list(dict.fromkeys((row["collective"], row["bytes"]) for row in rows))
    figure, axes = figure_of(1.0 + 3.6 * len(panels), 7.0, (2, len(panels)))
    ways = [
        ("nics", f"NICs of a node of {_USUAL_GPUS} GPUs", [row for row in rows if row["gpus"] == _USUAL_GPUS]),
        ("gpus", "GPUs of a node with half as many NICs", [row for row in rows if 2 * row["nics"] == row["gpus"]]),
    ]
    for at, (of, label, those) in enumerate(ways):
        for axis, (collective, size) in zip(axes[at * len(panels) :], panels, strict=False):
            mine = [row for row in those if (row["collective"], row["bytes"]) == (collective, size)]
            for name in dict.fromkeys(row["backend"] for row in mine):
                line = sorted((row[of], row["time_us"] / 1e3) for row in mine if row["backend"] == name)
                axis.plot(*zip(*line, strict=True), "o-", label=name, markersize=4)
            bounds = sorted({(row[of], row["bound_us"] / 1e3) for row in mine})
            axis.plot(*zip(*bounds, strict=True), "k--", label="bound of the NICs")
            counts = [count for count, _ in bounds]
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(counts, [str(count) for count in counts])
            axis.set_xlabel(label)
            axis.set_title(f"{collective}, {size_text(size)}", loc="left", fontsize=10)
    axes[0].set_ylabel("ms")
    axes[len(panels)].set_ylabel("ms")
    axes[0].legend(fontsize=7, frameon=False)
    run = rows[0]["run"]
    figure.suptitle(
        f"{rows[0]['ranks']} ranks on nodes like Frontier's, simulated by SimGrid {run['simgrid']}: "
        "no figure here was measured", fontsize=10,
    )  # fmt: skip
    footnote(figure, platform.text(run["platform"]) + "; NICs and GPUs as the axes say")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    typer.run(main)
