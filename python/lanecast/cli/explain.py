# SPDX-License-Identifier: Apache-2.0
"""`lanecast explain`: what a call would take on a machine, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core, machines
from lanecast.bench import tables
from lanecast.bench.options import known_name, parse_size
from lanecast.explanation import Explanation, explained
from lanecast.profiles import finding
from lanecast.profiles import model as models
from lanecast.profiles.scope import node_of
from lanecast.scale import platform

_SHOWN = 10  # candidates; hierarchies of several levels have dozens


def explain(
    collective: Annotated[str, typer.Argument(help=f"One of {', '.join(_core.KINDS)}.")],
    size: Annotated[str, typer.Option("--bytes", help="Of the full buffer: 512, 64K, 4M, 1G.")] = "64M",
    ranks: Annotated[str, typer.Option(help="How many; whole nodes.")] = "512",
    machine: Annotated[str, typer.Option(help="A described machine, or a .toml file.")] = "frontier",
    model: Annotated[
        str, typer.Option(help="Of `lanecast learn train`, or none; default: the machine's that comes with Lanecast.")
    ] = "",
) -> None:
    """Say what a call would take on a machine: all candidates with predicted times, and what decided.

    Of a communicator, comm.explain() says the same.
    """
    known_name("collective", collective, _core.KINDS)
    described = machines.load(machine)
    counts = platform.rank_counts(described, ranks)
    if len(counts) != 1:
        raise _core.UsageError(f"ranks {ranks!r}: expected one number")
    topology = _core.Topology.parse(machines.topology_in(described, counts[0]), counts[0])
    known = platform.models(described, topology)
    path = models.shipped().get(machine) if not model else None if model == finding.NONE else Path(model)
    fitting = _fitting(path, machine, str(topology)) if path is not None else None
    if fitting is not None:
        known = known.with_learned(fitting.learned())
    on = "from the machine's figures"
    explanation = explained(_core.explain(collective, parse_size(size), topology, known, by_mpi=True, links=on))
    lines = str(explanation).splitlines()
    hidden = len(lines) - 2 - _SHOWN
    out = tables.console()
    if not model and path is None:
        out.print(_without_a_model(machine), soft_wrap=True, markup=False)
    if path is not None and fitting is not None:
        out.print(
            f"model {path.name}: {fitting.scope}{_trained_on(fitting, explanation)}", soft_wrap=True, markup=False
        )
    for line in [*lines[: _SHOWN + 2], *([f"  and {hidden} more"] if hidden > 0 else [])]:
        out.print(line, soft_wrap=True, markup=False)


def _without_a_model(machine: str) -> str:
    """Lest the cost model's choice be taken for a learned one."""
    name = Path(machine).stem if machine.endswith(".toml") else machine
    return (
        f"no model of {machine} comes with Lanecast, there are those of {', '.join(models.shipped())}: the cost model "
        f"chooses. `lanecast learn simulate {name}.sqlite --machine {machine}`, then `lanecast learn train "
        f"{name}.sqlite -o {name}.json` make one for --model {name}.json"
    )


def _trained_on(model: models.Model, explained: Explanation) -> str:
    """Where it does not decide, what it knows instead: it is asked only within that."""
    if explained.decided_by == "learned":
        return ""
    for trained in model.collectives:
        if trained.collective == explained.collective:
            (least, most), (fewest, ranks) = map(tables.size_text, trained.bytes), trained.ranks
            return f"; not asked: {explained.collective} was learned on {fewest} to {ranks} ranks, {least} to {most}"
    return f"; not asked: {explained.collective} was not learned"


def _fitting(path: Path, machine: str, topology: str) -> models.Model:
    """The model, if it was learned for this machine."""
    model = models.load(path)
    scope = model.scope
    if scope.machine != machine or scope.node not in {node_of(topology), topology}:
        raise _core.UsageError(f"model {path}: scope: learned for {scope}, not for {machine}")
    return model
