# SPDX-License-Identifier: Apache-2.0
"""`lanecast compose`: see what a composition becomes on a machine, and prove that it still means the same."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core
from lanecast.bench import outputs
from lanecast.bench.options import TOPOLOGY_HELP, ranks_of, split_list, topology_for
from lanecast.cli import programs
from lanecast.compose import Composition, Knobs, forms, lower
from lanecast.compose import programs as programs_of
from lanecast.compose import verify as verify_plans
from lanecast.wording import counted

app = typer.Typer(no_args_is_help=True, help="See compositions of multicasts, reductions and fences, and prove them.")

_FORMS = {**forms.SINGLE_STEP, **forms.MULTI_STEP}

_What = Annotated[
    str,
    typer.Argument(
        help="One of `lanecast compose forms`, or one's own: FILE.py:FUNCTION, which takes the number of ranks."
    ),
]
_Topology = Annotated[str, typer.Option(help=f"Where the ranks sit: {TOPOLOGY_HELP}")]
_Hierarchy = Annotated[
    str, typer.Option(help="Levels of the lowering: factors such as 2,2,3, or a topology; default: that above.")
]
_Stripe = Annotated[int, typer.Option(help="Ranks of a node that carry a part each of what leaves it; 0: all.")]
_Ring = Annotated[
    int, typer.Option(help="Domains that form an open chain; 1: trees only; 0: trees, or what is faster in programs.")
]
_Transports = Annotated[str, typer.Option(help="For the colours: one, or one for each level, such as mpi,shm.")]
_InPlace = Annotated[bool, typer.Option("--in-place", help="Input within the output.")]


@dataclass(frozen=True)
class _Lowered:
    composition: Composition
    plans: list[_core.Plan]
    shape: _core.Topology  # where the ranks sit
    hierarchy: _core.Topology
    transports: tuple[str, ...]

    def programs(self, bound: programs.Shape, knobs: Knobs, in_place: bool) -> programs.Made:
        """What the plans become for the GPUs of a host."""
        lanes, chunks = bound.how
        count, cut = bound.count(self.plans[0]), replace(knobs, chunks=chunks)
        return programs_of(self.composition, count, bound.type, cut, self.shape, in_place=in_place, lanes=lanes)


@app.command("forms")
def list_forms() -> None:
    """List the forms of the collectives that the library brings along."""
    for title, known in (("of one step", forms.SINGLE_STEP), ("of several", forms.MULTI_STEP)):
        print(f"{title}: {', '.join(known)}")


@app.command()
def show(  # noqa: PLR0913, PLR0917  one per option
    what: _What,
    topology: _Topology = "4",
    hierarchy: _Hierarchy = "",
    stripe: _Stripe = 0,
    ring: _Ring = 0,
    transports: _Transports = "",
    in_place: _InPlace = False,
    rank: Annotated[int | None, typer.Option(help="Only this rank's steps; default: what all ranks do.")] = None,
    as_json: programs.AsJson = False,
    program: programs.AsProgram = False,
    size: programs.Size = "",
    dtype: programs.Dtype = "",
    lanes: programs.Lanes = None,
    chunks: programs.Chunks = None,
) -> None:
    """Print what moves in each stage, or one rank's steps; --program: its GPU's instructions."""
    bound = programs.Shape(size, dtype, lanes, chunks)
    knobs = Knobs(_levels(hierarchy), stripe, ring, transports=transports)
    made = _lowered(what, topology, knobs, in_place)
    if program:
        programs.show(made.programs(bound, knobs, in_place), rank, as_json)
        return
    bound.refuse()
    if rank is not None and not 0 <= rank < len(made.plans):
        raise _core.UsageError(f"rank {rank}: there are {len(made.plans)}")
    from lanecast import plans

    if as_json:
        print(plans.to_json(made.plans if rank is None else [made.plans[rank]], made.hierarchy), end="")
        return
    if rank is not None:
        print(made.plans[rank], end="")
        return
    print(_composition(what, len(made.plans)))
    print(plans.show(made.plans, made.hierarchy, made.transports), end="")


@app.command()
def draw(  # noqa: PLR0913, PLR0917  one per option
    what: _What,
    topology: _Topology = "4",
    hierarchy: _Hierarchy = "",
    stripe: _Stripe = 0,
    ring: _Ring = 0,
    transports: _Transports = "",
    in_place: _InPlace = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, PDF or SVG.")] = Path("plan.png"),
    program: programs.AsProgram = False,
    size: programs.Size = "",
    dtype: programs.Dtype = "",
    lanes: programs.Lanes = None,
    chunks: programs.Chunks = None,
) -> None:
    """Draw who sends what to whom, and a matrix of it for each stage; --program: what the GPUs do, tick by tick."""
    outputs.check_picture(output)
    bound = programs.Shape(size, dtype, lanes, chunks)
    knobs = Knobs(_levels(hierarchy), stripe, ring, transports=transports)
    made = _lowered(what, topology, knobs, in_place)
    if program:
        programs.draw(made.programs(bound, knobs, in_place), made.hierarchy, output)
        return
    bound.refuse()
    from lanecast import plans

    plans.draw(made.plans, made.hierarchy, output, made.transports)
    print(f"wrote {output}", file=sys.stderr)


@app.command()
def verify(
    what: _What,
    topology: _Topology = "4",
    hierarchy: _Hierarchy = "",
    stripe: _Stripe = 0,
    ring: _Ring = 0,
) -> None:
    """Prove that the plans do what the composition says, without deadlock and without buffering."""
    shape, knobs = _shape(topology), Knobs(_levels(hierarchy), stripe, ring)
    composition = _composition(what, shape.size)
    proof = verify_plans(composition, knobs, shape)
    print(
        f"proven: {what} on {knobs.machine(shape)}: {counted(proof['messages'], 'message')}; "
        f"no deadlock, even unbuffered, with {proof['min_window']} or more steps open on each rank"
    )


def _shape(topology: str) -> _core.Topology:
    return topology_for(topology, ranks_of(topology))


def _levels(text: str) -> list[int] | str | None:
    if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text, re.ASCII):
        return [int(factor) for factor in text.split(",")]
    return text or None


def _lowered(what: str, topology: str, knobs: Knobs, in_place: bool) -> _Lowered:
    shape = _shape(topology)
    composition = _composition(what, shape.size)
    made = lower(composition, knobs, shape, in_place=in_place)
    transports = split_list(str(knobs.transports))
    for name in transports:
        if name not in _core.TRANSPORTS:
            raise _core.UsageError(f"transports: unknown name {name!r}; known: {' '.join(_core.TRANSPORTS)}")
    return _Lowered(composition, made, shape, knobs.machine(shape).topology, transports)


def _composition(what: str, size: int) -> Composition:
    if what in _FORMS:
        return _FORMS[what](size)
    file, colon, name = what.rpartition(":")
    if not colon:
        raise _core.UsageError(f"composition {what!r} is unknown; known: {', '.join(_FORMS)}, or FILE.py:FUNCTION")
    made = _function(Path(file), name)(size)
    if not isinstance(made, Composition):
        raise _core.UsageError(f"{what}: made {type(made).__name__}, no lanecast.compose.Composition")
    return made


def _function(file: Path, name: str) -> Callable[[int], object]:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        reason = "is no Python file" if file.exists() else "does not exist"
        raise _core.UsageError(f"{file} {reason}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise _core.UsageError(f"{file} has no function {name!r}")
    return found  # type: ignore[no-any-return]
