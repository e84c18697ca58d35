# SPDX-License-Identifier: Apache-2.0
"""What a composition becomes on a machine: plans, programs, their proof, and who sends what to whom in which stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import index

from lanecast import _core
from lanecast.compose.compiled import Knobs
from lanecast.compose.composition import Composition


@dataclass(frozen=True, order=True)
class Edge:
    """What one rank sends another in a stage; `level` as lanecast.plans.flow numbers it, of the hierarchy."""

    sender: int
    receiver: int
    blocks: tuple[tuple[int, Fraction, Fraction], ...]
    adds: bool
    level: int


def lower(
    composition: Composition,
    knobs: Knobs | None = None,
    topology: _core.Topology | None = None,
    *,
    in_place: bool = False,
) -> list[_core.Plan]:
    """The plans of all ranks, in rank order. topology: where they sit; None: side by side."""
    return _core.lower_all(composition._core, _machine(composition, knobs, topology), in_place)


def programs(  # noqa: PLR0913  the composition, its shape, the machine and the kernel
    composition: Composition,
    counts: int | Sequence[int],
    dtype: str = "float32",
    knobs: Knobs | None = None,
    topology: _core.Topology | None = None,
    *,
    in_place: bool = False,
    lanes: int = 1,
) -> list[tuple[_core.Plan, _core.Program]]:
    """What the GPUs of a host run: of all ranks, in rank order, the plan and the program that it becomes.

    print(program.describe(plan)) shows one, program.to_dict() is plain data. counts: elements of each part, or one
    number for all. lanes: 1 to 64, and knobs.chunks of each at least; 0: as few as a call of so many lanes takes, see
    docs/explanation/programs.md. Raises UsageError (argument, reason) for what does not fit, and PlanError
    (rank, step) where a queue would not come to its end. What a program is: docs/explanation/programs.md.
    """
    try:
        each = [index(count) for count in counts] if isinstance(counts, Sequence) else [index(counts)]
        cut, each = _core.refined(composition._core, each)
        shaped = knobs or Knobs()
        if shaped.ring == 0 and shaped.hierarchy is None:
            where = topology or _core.Topology(composition.size)
            shaped = replace(shaped, ring=_core.ring_on_gpus(cut, each, dtype, where))
        plans = _core.lower_all(cut, _machine(composition, shaped, topology), in_place)
        return list(zip(plans, _core.programs_of(plans, each, dtype, "sum", lanes, shaped.chunks), strict=True))
    except TypeError:
        raise _core.UsageError(
            f"programs: counts={counts!r}, lanes={lanes!r}: expected whole numbers that fit memory"
        ) from None


def verify(
    composition: Composition,
    knobs: Knobs | None = None,
    topology: _core.Topology | None = None,
    *,
    in_place: bool = False,
) -> dict[str, int]:
    """Prove that the plans of all ranks do what the composition says, primitive by primitive, and what verify() proves.

    Raises PlanError (rank, step, reason) where they do not.
    """
    return _core.verify_composition(composition._core, _machine(composition, knobs, topology), in_place)


def stages(plans: Sequence[_core.Plan], hierarchy: _core.Topology) -> list[list[Edge]]:
    """The edges of each stage, in the order of stages; those in which nothing moves are left out.

    plans: of all ranks, from lower(); hierarchy: Knobs.machine(…).topology.
    """
    found: dict[int, list[Edge]] = defaultdict(list)
    for plan in plans:
        for step in plan.to_dict()["steps"]:
            if step["kind"] not in ("recv", "recv_reduce"):
                continue
            blocks = tuple((part, Fraction(*lo), Fraction(*hi)) for _, part, lo, hi in step["dst"])
            ranks = step["peer"], plan.rank
            level = hierarchy.parting_level(*ranks)
            found[step["stage"]].append(Edge(*ranks, blocks, step["kind"] == "recv_reduce", level))
    return [sorted(found[stage]) for stage in sorted(found)]


def _machine(composition: Composition, knobs: Knobs | None, topology: _core.Topology | None) -> _core.Machine:
    return (knobs or Knobs()).machine(topology or _core.Topology(composition.size))
