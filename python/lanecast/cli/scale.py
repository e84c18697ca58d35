# SPDX-License-Identifier: Apache-2.0
"""`lanecast scale`: the library's own code on a simulated machine, beside what others do there."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import lanecast
from lanecast import _core, machines
from lanecast.bench import machine as surroundings
from lanecast.bench import outputs
from lanecast.bench.options import distinct, known_name, parse_sizes
from lanecast.cli import published as papers
from lanecast.machines import Machine
from lanecast.scale import build, contenders, platform, point
from lanecast.scale import plots as scale_plots
from lanecast.scale import software as costs
from lanecast.scale import tables as scale_tables

_MOST_CHECKED = 128  # ranks; each holds real data
_MOST_CHUNKS = 65536  # of any call
_BACKENDS = "ring-across,recursive-across,flat,ompi,mpich"


def scale(  # noqa: PLR0913, PLR0917  one per option
    machine: Annotated[str, typer.Option(help="A described machine, or a .toml file.")] = "frontier",
    collectives: Annotated[str, typer.Option(help=f"Of {', '.join(_core.KINDS)}.")] = "all_gather",
    ranks: Annotated[str, typer.Option(help="Comma-separated; whole nodes.")] = "32,128",
    sizes: Annotated[str, typer.Option(help="Bytes of the full buffer: 16M,64M or a doubling range 16M..1G.")] = "64M",
    backends: Annotated[
        str,
        typer.Option(help=f"{', '.join([*contenders.SHORT, *contenders.SELECTIONS])}, lanecast:ALGORITHM."),
    ] = _BACKENDS,
    chunks: Annotated[
        int, typer.Option(min=0, max=_MOST_CHUNKS, help="Of Lanecast's calls; 0: as the cost model has it.")
    ] = 0,
    message_overhead_us: Annotated[
        float, typer.Option(min=0, help="Processor time that a message takes its sender, on top of its latency.")
    ] = 0,
    software: Annotated[
        bool,
        typer.Option(
            "--software", help="Add what is known of each library's software, see docs/measurements/history/scaling.md."
        ),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Real data, every element compared; small sizes.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw throughput over the number of nodes.")] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Instead: the papers' figures beside simulated ones, as Markdown.")
    ] = False,
    most_ranks: Annotated[int, typer.Option(min=2, help="With --published: of what has more, nothing.")] = 512,
) -> None:
    """Simulate collectives on many ranks: Lanecast's real plans and executor, and by SimGrid what MPIs do.

    Results are kept in the user's cache, so that a run that was stopped goes on where it was.
    docs/measurements/history/scaling.md says what a simulation cannot show.
    """
    outputs.check(json_file)
    outputs.check_picture(plot)
    if published:
        papers.published(most_ranks, json_file, software)
        return
    described = machines.load(machine)
    cases = [
        contenders.Case(described, known_name("collective", name, _core.KINDS), count, contenders.evenly(size, count))
        for name in distinct(collectives)
        for count in platform.rank_counts(described, ranks, _MOST_CHECKED if check else None)
        for size in parse_sizes(sizes)
    ]
    names = [contenders.check(name) for name in distinct(backends)]
    for option, given in (("backends", names), ("collectives", distinct(collectives))):
        if not given:
            raise _core.UsageError(f"{option}: none given")
    if not math.isfinite(message_overhead_us):
        raise _core.UsageError(f"message-overhead-us {message_overhead_us}: expected a number of microseconds")
    met = [(contenders.on(name, case), name) for case in cases for name in names]
    plans = [(case, name, contenders.plan(name, case, chunks)) for case, name in met]
    simulator = build.simulator(partial(print, file=sys.stderr, flush=True))
    checked = ["check=1"] if check else []
    run = _describe(described, simulator)
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    for done, (case, name, plan) in enumerate(plans, 1):
        what = f"{case.collective} of {case.bytes} B on {case.ranks} ranks: {name}"
        scale_tables.say(f"[{done}/{len(plans)}] {what}")
        cost = costs.cost_of(case.machine, name, plan.algorithm) if software else None
        words = [*platform.words(case.machine), *checked, *costs.words(cost, message_overhead_us), *plan.words(case)]
        try:
            outcome = point.run(simulator, words, partial(_say_within, done, len(plans)))
        except _core.InternalError as error:  # SimGrid ends within some MPIs' algorithms; the other points are right
            failed.append(f"{what}: {error}")
            scale_tables.say(f"[{done}/{len(plans)}] could not be simulated")
            continue
        known = {"message_overhead_us": message_overhead_us, "software": cost and asdict(cost)}
        rows.append({**scale_tables.row(run, case, name, plan, outcome), **known})
        if json_file is not None:
            json_file.write_text(json.dumps(rows, indent=1) + "\n")
    if rows:
        scale_tables.show(run, rows)
    if rows and plot is not None:
        scale_plots.draw(rows, plot)
        scale_tables.say(f"wrote {plot}")
    if any(row["wrong_elements"] for row in rows):
        raise _core.InternalError("wrong values: see the column #wrong")
    if failed:
        raise _core.InternalError(
            "\n".join([f"{len(failed)} of {len(plans)} points could not be simulated, and are in no row:", *failed])
        )


def _say_within(point_number: int, points: int, text: str) -> None:
    scale_tables.say(f"[{point_number}/{points}]   {text}")


def _describe(machine: Machine, simulator: build.Simulator) -> dict[str, Any]:
    """What the rows of one run share: above all that they are simulated, and with which figures."""
    return {
        "simulated": True,
        "machine": machine.name,
        "platform": platform.figures(machine),
        "simgrid": simulator.simgrid,
        "lanecast": lanecast.__version__,
        "commit": surroundings.git_commit(),
        "command": surroundings.command_line(),
    }
