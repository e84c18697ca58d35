# SPDX-License-Identifier: Apache-2.0
"""Fills a database for a described machine: by simulation, or by the cost model's closed forms, and says which."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import lanecast
from lanecast.learn.contenders import BESIDE, MPI, VENDORS_RING, contenders
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.machines import Machine, topology_in
from lanecast.profiles.scope import Scope
from lanecast.scale import build, platform, point
from lanecast.scale import software as costs
from lanecast.scale.build import Simulator
from lanecast.scale.contenders import Case, Plan, on, plan

NATIVE_SELECTION = "mpich"  # stands for the machine's MPI: Cray's is made of it
_FLAT = ("ring", "double_tree")  # what vendors' libraries do; others without levels only cost simulating time
_NEAR = 1.2  # times the best: what is slower in the first round hardly wins another
_LATENCY_STEP = 0.01

Say = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """One way to run a case. name: as the database has it; case: as it is met, see lanecast.scale.contenders.on;
    software: what it adds to each message, if that is to count.
    """

    name: str
    case: Case
    plan: Plan
    software: costs.Cost | None = None


@dataclass(frozen=True)
class Source:
    """Where times come from, and with what software."""

    times: Callable[[Sequence[Contender]], list[Timed]]
    software: dict[str, Any]


def scope_of_machine(name: str, machine: Machine, origin: str, with_software: bool = False) -> Scope:
    """name: as it is loaded by."""
    node = topology_in(machine, machine.ranks_per_node)
    added = [str(cost) for cost in costs.load()] if with_software else []
    figures = " ".join([build.core_digest(), *platform.words(machine), *added])
    digest = hashlib.sha256(figures.encode()).hexdigest()[:12]
    return Scope(name, origin, node, 0, "", lanecast.__version__, digest=digest)


def contenders_of(case: Case, backends: Sequence[str] = (), with_software: bool = False) -> list[Contender]:
    """What is compared: these backends of `lanecast scale`, each algorithm once.

    Without any, hierarchies, what vendors' libraries do across nodes, and the selection of an MPI.
    """
    found: dict[str, Contender] = {}
    for backend in backends or _usual(case):
        met = on(backend, case)
        way = plan(backend, met)
        name = MPI if backend == NATIVE_SELECTION else backend if backend in BESIDE else way.algorithm
        cost = costs.cost_of(met.machine, backend, way.algorithm) if with_software else None
        found.setdefault(name, Contender(name, met, way, cost))
    return list(found.values())


def _usual(case: Case) -> list[str]:
    inside = case.ranks <= case.machine.ranks_per_node
    known = contenders(case.collective, case.topology, mpi=False)
    names = [f"lanecast:{name}" for name in known if inside or "(" in name or name in _FLAT]
    return [*names, *([] if inside else [VENDORS_RING]), NATIVE_SELECTION]


def simulate(simulator: Simulator, rounds: int, say: Say, some: Sequence[Contender]) -> list[Timed]:
    """Each one's simulated time; those near the best in several rounds, since a schedule is an accident.

    Repetitions would be equal, so each round has latencies of its own, a per cent or two off. say: is told of a point
    that takes long how far it is.
    """

    def seconds(each: Contender, number: int) -> float:
        words = [*platform.words(_in_round(each.case.machine, number)), *costs.words(each.software)]
        how_far = partial(_say_of, say, each.name)
        return point.run(simulator, [*words, *each.plan.words(each.case)], how_far).seconds

    first = [(each, seconds(each, 0)) for each in some]
    near = _NEAR * min((taken for each, taken in first if each.name not in BESIDE), default=0)

    def again(each: Contender, taken: float) -> range:
        return range(1, rounds if taken <= near and each.name not in BESIDE else 1)

    return [_timed(each, (taken, *(seconds(each, number) for number in again(each, taken)))) for each, taken in first]


def _say_of(say: Say, name: str, text: str) -> None:
    say(f"  {name}: {text}")


def _in_round(machine: Machine, number: int) -> Machine:
    """With all latencies off by 0, +1, -1, +2, -2, … %."""
    share = 1 + _LATENCY_STEP * ((number + 1) // 2) * (1 if number % 2 else -1)
    network = machine.network
    return replace(
        machine,
        levels=[replace(level, latency_us=share * level.latency_us) for level in machine.levels],
        network=replace(
            network, latency_us=share * network.latency_us, global_latency_us=share * network.global_latency_us
        ),
    )


def predicted(some: Sequence[Contender]) -> list[Contender]:
    """Those that the cost model knows: nothing of what others do."""
    return [each for each in some if each.plan.predicted_s is not None and each.name not in BESIDE]


def model(some: Sequence[Contender]) -> list[Timed]:
    """Their times by the cost model and the machine's figures."""
    return [_timed(each, (each.plan.predicted_s,)) for each in some if each.plan.predicted_s is not None]


def _timed(each: Contender, seconds: tuple[float, ...]) -> Timed:
    predicted_s = None if each.name in BESIDE else each.plan.predicted_s
    return Timed(each.name, each.plan.chunks, predicted_s, seconds)


def fill(database: Database, scope: Scope, cases: Sequence[Sequence[Contender]], source: Source, say: Say) -> int:
    """Add what the database lacks, configuration by configuration; how many these were. cases: contenders of each."""
    known = {one: {timed.algorithm for timed in times} for one, times in database.read(scope).items()}
    lacking = [
        (one, [each for each in some if each.name not in known.get(one, ())])
        for one, some in ((_configuration(some[0].case), some) for some in cases)
    ]
    missing = [(one, some) for one, some in lacking if some]
    run = database.add_run(scope, source.software) if missing else 0
    for done, (one, some) in enumerate(missing, 1):
        say(f"[{done}/{len(missing)}] {scope.origin}: {one.collective} of {one.bytes} B on {one.ranks} ranks")
        database.add(run, one, source.times(some))
    return len(missing)


def _configuration(case: Case) -> Configuration:
    return Configuration(case.collective, case.ranks, case.bytes)
