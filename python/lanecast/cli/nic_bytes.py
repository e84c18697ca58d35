# SPDX-License-Identifier: Apache-2.0
"""`lanecast plan nics`: bytes through each NIC of a node, flat beside hierarchical (PCCL, figure 3)."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import _core, machines
from lanecast.bench import outputs, tables
from lanecast.bench.options import distinct, known_name, parse_size
from lanecast.bench.plots import figure_of
from lanecast.bench.software import software
from lanecast.scale import contenders, platform
from lanecast.scale.contenders import Case
from lanecast.scale.nic_bytes import nic_bytes

_COUNTED = "counted in the plans of all ranks; nothing was measured"
_DIRECTIONS = ("sent", "received")

Row = dict[str, Any]


def nics(  # noqa: PLR0913, PLR0917  one per option
    machine: Annotated[str, typer.Option(help="A described machine, or a .toml file.")] = "frontier",
    ranks: Annotated[str, typer.Option(help="Of whole nodes.")] = "32",
    size: Annotated[str, typer.Option(help="Bytes of the full buffer.")] = "256M",
    collectives: Annotated[str, typer.Option(help=f"Of {', '.join(contenders.COLLECTIVES)}.")] = ",".join(
        contenders.COLLECTIVES
    ),
    algorithms: Annotated[
        str, typer.Option(help="As in `lanecast scale --backends`: flat, ring-across, lanecast:ALGORITHM and so on.")
    ] = "lanecast:ring,ring-across,recursive-across",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the bytes of every NIC here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw them (PNG, PDF, SVG).")] = None,
) -> None:
    """Count what each NIC of a node sends and receives in one call, by the plans of all ranks."""
    outputs.check(json_file)
    outputs.check_picture(plot)
    described = machines.load(machine)
    (count, *more) = platform.rank_counts(described, ranks)
    if more:
        raise _core.UsageError(f"ranks {ranks!r}: expected one number")
    rows = []
    for name in distinct(collectives):
        known_name("collective", name, contenders.COLLECTIVES)
        case = Case(described, name, count, contenders.evenly(parse_size(size), count))
        for backend in distinct(algorithms):
            plan = contenders.plan(contenders.check(backend), case)
            if plan.algorithm == "mpi":
                raise _core.UsageError(f"algorithms: {backend} is an MPI's, whose plans are not here")
            through = [asdict(each) for each in nic_bytes(case, plan.algorithm)]
            rows.append({"collective": name, "ranks": count, "bytes": case.bytes, "algorithm": plan.algorithm,
                         "nics": through})  # fmt: skip
    run = {"counted": _COUNTED, "machine": described.name, "nic_map": described.node.nic_map, **software()}
    _show(run, rows)
    if json_file is not None:
        json_file.write_text(json.dumps([{**row, "run": run} for row in rows], indent=1) + "\n")
    if plot is not None:
        _draw(run, rows, plot)
        print(f"wrote {plot}", file=sys.stderr)


def per_nic(row: Row, direction: str) -> list[float]:
    """The mean over the nodes, in bytes."""
    numbers = sorted({each["nic"] for each in row["nics"]})
    return [statistics.mean(each[f"{direction}_bytes"] for each in row["nics"] if each["nic"] == k) for k in numbers]


def _show(run: dict[str, Any], rows: Sequence[Row]) -> None:
    out = tables.console()
    out.print(f"{run['machine']}, GPUs on NICs {run['nic_map']}: {run['counted']}", soft_wrap=True)
    headings = ("collective", "ranks", "size", "algorithm", "sent by each NIC\n(MB, mean of nodes)", "received")
    table = tables.headed("", headings, ("collective", "algorithm"))
    for row in rows:
        moved = [" ".join(tables.number(each / 1e6) for each in per_nic(row, direction)) for direction in _DIRECTIONS]
        size = tables.size_text(row["bytes"])
        table.add_row(row["collective"], str(row["ranks"]), size, row["algorithm"], *moved)
    out.print(table)


def _draw(run: dict[str, Any], rows: Sequence[Row], path: Path) -> None:
    """A column for each collective; sent above, received below; NICs side by side, a colour for each algorithm."""
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    figure, axes = figure_of(1.2 + 3.9 * len(collectives), 6.2, (2, len(collectives)))
    panels = [(direction, name) for direction in _DIRECTIONS for name in collectives]
    for axis, (direction, name) in zip(axes, panels, strict=True):
        mine = [row for row in rows if row["collective"] == name]
        width = 0.8 / len(mine)
        for k, row in enumerate(mine):
            heights = [each / 1e6 for each in per_nic(row, direction)]
            places = [nic + (k - (len(mine) - 1) / 2) * width for nic in range(len(heights))]
            axis.bar(places, heights, width * 0.92, label=row["algorithm"], color=f"C{k}")
        axis.set_title(f"{name}: {direction}", loc="left", fontsize=10)
        axis.set_xticks(range(len(heights)), [f"NIC {nic}" for nic in range(len(heights))], fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:: len(collectives)]:
        axis.set_ylabel("MB for each node")
    axes[0].legend(frameon=False, fontsize=7)
    first = rows[0]
    figure.suptitle(f"{run['machine']}, {first['ranks']} ranks, {tables.size_text(first['bytes'])}: {run['counted']}",
                    fontsize=10)  # fmt: skip
    figure.savefig(path, dpi=110)
