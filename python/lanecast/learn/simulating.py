# SPDX-License-Identifier: Apache-2.0
"""Fills a database for a described machine: by simulation, or by the cost model's closed forms, and says which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import lanecast
from lanecast.learn.contenders import NATIVE, contenders
from lanecast.learn.database import Configuration, Database, Timed
from lanecast.learn.scope import Scope
from lanecast.machines import Machine, topology_in
from lanecast.scale import platform, point
from lanecast.scale.build import Simulator
from lanecast.scale.contenders import Case, Plan, plan

NATIVE_SELECTION = "mpich"  # stands for the machine's MPI: Cray's is made of it
_FLAT = ("ring", "double_tree")  # what vendors' libraries do; others without levels only cost simulating time
_NEAR = 1.2  # times the best: what is slower in the first round hardly wins another
_LATENCY_STEP = 0.01

Say = Callable[[str], None]


@dataclass(frozen=True)
class Source:
    """Where times come from, and with what software."""

    times: Callable[[Case], list[Timed]]
    software: dict[str, Any]


def scope_of_machine(name: str, machine: Machine, origin: str) -> Scope:
    """name: as it is loaded by."""
    node = topology_in(machine, machine.ranks_per_node)
    return Scope(name, origin, node, 0, "", lanecast.__version__)


def plans(case: Case) -> list[Plan]:
    """What is compared: hierarchies, what vendors' libraries do across nodes, and the selection of an MPI."""
    topology = case.topology
    inside = case.ranks <= case.machine.ranks_per_node
    names = [
        name for name in contenders(case.collective, topology, native=False) if inside or "(" in name or name in _FLAT
    ]
    return [*(plan(f"lanecast:{name}", case) for name in names), plan(NATIVE_SELECTION, case)]


def simulate(simulator: Simulator, rounds: int, case: Case) -> list[Timed]:
    """Each plan's simulated time; those near the best in several rounds, since a schedule is an accident.

    Repetitions would be equal, so each round has latencies of its own, a per cent or two off.
    """

    def seconds(each: Plan, number: int) -> float:
        words = platform.words(_in_round(case.machine, number))
        return point.run(simulator, [*words, *each.words(case)]).seconds

    first = [(each, seconds(each, 0)) for each in plans(case)]
    near = _NEAR * min(taken for _, taken in first)
    return [
        _timed(each, (taken, *(seconds(each, number) for number in range(1, rounds) if taken <= near)))
        for each, taken in first
    ]


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


def model(case: Case) -> list[Timed]:
    """Each plan's time by the cost model and the machine's figures; knows nothing of an MPI's own collectives."""
    return [_timed(each, (each.predicted_s,)) for each in plans(case) if each.predicted_s is not None]


def _timed(each: Plan, seconds: tuple[float, ...]) -> Timed:
    return Timed(NATIVE if each.algorithm == "mpi" else each.algorithm, each.chunks, each.predicted_s, seconds)


def fill(database: Database, scope: Scope, cases: list[Case], source: Source, say: Say) -> int:
    """Add what the database lacks, configuration by configuration; how many these were."""
    known = database.read(scope)
    missing = [case for case in cases if _configuration(case) not in known]
    run = database.add_run(scope, source.software) if missing else 0
    for done, case in enumerate(missing, 1):
        say(f"[{done}/{len(missing)}] {scope.origin}: {case.collective} of {case.bytes} B on {case.ranks} ranks")
        database.add(run, _configuration(case), source.times(case))
    return len(missing)


def _configuration(case: Case) -> Configuration:
    return Configuration(case.collective, case.ranks, case.bytes)
