# SPDX-License-Identifier: Apache-2.0
"""A plan with a small fault is refused by verify(), naming rank and step, or it still computes the right thing."""

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from lanecast import _core
from lanecast._core import Plan, PlanError, Topology, algorithms_for, make_plans, verify
from lanecast.compose import lower
from plan_interpreter import run_and_check
from plan_memory import Schedule, parts
from plan_mutants import MUTATORS, Mutator, Plans
from random_compositions import some_composition, some_knobs

SHAPES = {"2": 2, "3": 3, "5": 5, "2x2": 4, "1+2": 3, "2x3": 6, "3+1+2": 6, "2x2x2": 8}
SCHEDULES = 20


def some_composed_plans(rng: random.Random) -> Plans:
    size = rng.randint(2, 6)
    while True:
        plans = [plan.to_dict() for plan in lower(some_composition(rng, size, cuts=False), some_knobs(rng, size))]
        if all(plan["steps"] for plan in plans):
            return plans


def some_plans(rng: random.Random) -> Plans:
    if rng.random() < 0.3:
        return some_composed_plans(rng)
    shape = rng.choice(list(SHAPES))
    topology = Topology.parse(shape, SHAPES[shape])
    collective = rng.choice(_core.KINDS)
    algorithm = rng.choice(algorithms_for(collective, topology))
    in_place = _core.may_be_in_place(collective) and rng.random() < 0.5
    root = rng.randrange(topology.size) if _core.has_root(collective) else 0
    return [plan.to_dict() for plan in make_plans(collective, topology, algorithm, in_place, root)]


def some_schedule(rng: random.Random, plans: Plans) -> Schedule:
    counts = [rng.choice([1, 2, 5, 24]) for _ in range(parts(plans[0]))]
    return Schedule(counts, rng.choice([1, 1, 3]), average=rng.random() < 0.5, seed=rng.getrandbits(32))


def fault(plans: Plans) -> str | None:
    try:
        verify([Plan.from_dict(plan) for plan in plans])
    except PlanError as error:
        return str(error)
    return None


def outcomes(mutator: Mutator, mutants: int, seed: int) -> Counter[str]:
    """Makes that many mutants and says what became of them."""
    rng = random.Random(seed)
    count: Counter[str] = Counter()
    while count["refused"] + count["right"] < mutants:
        plans = some_plans(rng)
        mutant = mutator(rng, plans)
        if mutant is None or mutant == plans:
            continue
        if (said := fault(mutant)) is not None:
            assert re.search(r"rank \d+.*step", said)
            count["refused"] += 1
            continue
        for _ in range(SCHEDULES):
            run_and_check(mutant, some_schedule(rng, mutant))
        count["right"] += 1
    return count


@pytest.mark.parametrize("mutator", MUTATORS)
def test_mutants_are_refused_or_right(mutator: Mutator, record_property: Callable[[str, object], None]) -> None:
    count = outcomes(mutator, mutants=150, seed=1)
    record_property("mutants", dict(count))
    assert count["refused"] > 0


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutator", MUTATORS)
def test_many_mutants_are_refused_or_right(mutator: Mutator, record_property: Callable[[str, object], None]) -> None:
    record_property("mutants", dict(outcomes(mutator, mutants=1500, seed=2)))
