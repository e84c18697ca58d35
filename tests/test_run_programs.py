# SPDX-License-Identifier: Apache-2.0
"""Plans as programs: any set of them computes the right thing, in rings that hold the longest message and no more, and
in whatever order their queues get on."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from composed_cases import FORMS, form
from lanecast import _core
from lanecast._core import PlanError, Topology, UsageError
from lanecast.compose import Composition, Knobs, lower
from plan_memory import parts
from processor_time import processor_s
from program_cases import Call, Shape, check_call, lowered, programs_of, some_counts, some_even_composition
from program_rings import WrongProgram, longest_message
from random_compositions import some_composition, some_knobs

MOST_SOURCES = 16  # of a step of a program; see test_more_sources_than_a_kernel_takes
OPS = ("sum", "max", "avg", "bxor")
SHAPES = {"1": 1, "2": 2, "3": 3, "5": 5, "7": 7, "2x2": 4, "1+2": 3, "2x3": 6, "3+1+2": 6, "2x2x2": 8, "4x2:cyclic": 8}
LARGE_SHAPES = {"11": 11, "3x4": 12, "16": 16, "2x2x4": 16, "5+4+8": 17, "4x6": 24, "8x4": 32, "2x4x4": 32}


def some_shape(rng: random.Random, parts: int, op: str = "sum", chunks: int = 0) -> Shape:
    return Shape(some_counts(rng, parts), rng.choice([1, 1, 3]), chunks or rng.choice([1, 2, 5]), op)


def check_forms(name: str, sizes: Sequence[int], seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    for size in sizes:
        for _ in range(2):
            composition = form(name, size, rng.randrange(size), rng.choice(OPS))
            shape = some_shape(rng, composition.parts)
            plans = lowered(composition, some_knobs(rng, size), shape, in_place=rng.random() < 0.5)
            check_call(plans, shape, rng.getrandbits(32))


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    check_forms(name, range(1, 9), seed=1)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FORMS)
def test_forms_of_many_ranks(name: str) -> None:
    check_forms(name, (*range(1, 17), 20, 24, 27, 32), seed=2)


KNOBS = {
    "chain": Knobs([8], ring=8, stripe=1),
    "chain of nodes": Knobs([4, 2], ring=4, stripe=2),
    "tree": Knobs([2, 2, 2], stripe=1),
    "striped": Knobs([2, 4], stripe=4),
    "deep": Knobs([2, 2, 2], stripe=2, ring=2),
}


@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS)
def test_all_forms_on_a_machine(knobs: Knobs) -> None:
    rng = random.Random(str(knobs))
    for name in FORMS:
        composition = form(name, 8, rng.randrange(8), rng.choice(OPS))
        shape = some_shape(rng, composition.parts)
        check_call(lowered(composition, knobs, shape, in_place=False), shape, 1)


def check_random(seeds: range, largest: int) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        size = rng.randint(1, largest)
        composition = some_even_composition(rng, size)
        shape = some_shape(rng, composition.parts)
        plans = lowered(composition, some_knobs(rng, size), shape, in_place=rng.random() < 0.5)
        try:
            check_call(plans, shape, seed)
        except (WrongProgram, PlanError) as error:
            raise AssertionError(f"seed {seed}: {shape} of\n{composition}\n{error}") from None


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_compositions(first: int) -> None:
    check_random(range(first, first + 50), largest=8)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_random_compositions() -> None:
    check_random(range(1000, 9000), largest=10)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_random_compositions_of_many_ranks() -> None:
    check_random(range(10000, 10300), largest=32)


def check_named(collective: str, text: str, size: int, most: int, turns: int = 1) -> None:
    """All flat algorithms, and of the many hierarchical ones so many."""
    topology, rng = Topology.parse(text, size), random.Random(f"{collective} {text}")
    known = [name for name in _core.algorithms_for(collective, topology) if not _core.has_library(name)]
    nested = [name for name in known if name.startswith("hierarchical")]
    names = [name for name in known if name not in nested] + rng.sample(nested, min(most, len(nested)))
    for name in names * turns:
        in_place = _core.may_be_in_place(collective) and rng.random() < 0.5
        root = rng.randrange(size) if _core.has_root(collective) else 0
        plans = _core.make_plans(collective, topology, name, in_place, root)
        if any(step["sources"] > MOST_SOURCES for step in plans[0].to_dict()["steps"]):
            continue
        shape = some_shape(rng, parts(plans[0].to_dict()), rng.choice(OPS))
        try:
            check_call(plans, shape, rng.getrandbits(32))
        except (WrongProgram, PlanError) as error:
            raise AssertionError(f"{name} on {text}: {shape}: {error}") from None


@pytest.mark.parametrize("collective", _core.KINDS)
def test_named_algorithms(collective: str) -> None:
    for text, size in SHAPES.items():
        check_named(collective, text, size, most=4)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("collective", _core.KINDS)
def test_named_algorithms_of_many_ranks(collective: str) -> None:
    for text, size in {**SHAPES, **LARGE_SHAPES}.items():
        check_named(collective, text, size, most=40 if size <= 8 else 8, turns=2)


def test_reproducible_ones() -> None:
    for collective in ("all_reduce", "reduce_scatter", "reduce"):
        topology = Topology.parse("2x3", 6)
        for name in _core.algorithms_for(collective, topology, True):
            if not _core.has_library(name):
                plans = _core.make_plans(collective, topology, name, reproducible=True)
                check_call(plans, Shape([7] * parts(plans[0].to_dict()), 1, 2), 1)


def test_group_steps_are_refused() -> None:
    plan = _core.make_plan("all_reduce", 0, Topology(3), "peers")
    with pytest.raises(UsageError, match="'peers': no program has group steps, as step 0 of 1: group"):
        _core.program_of(plan, [8])


def test_more_sources_than_a_kernel_takes() -> None:
    plan = _core.make_plan("all_reduce", 0, Topology(17), "one_shot")
    with pytest.raises(UsageError, match="adds up to 16 contributions, and this one of 17 ranks has more"):
        _core.program_of(plan, [8])


@pytest.mark.parametrize("chunks", [1, 2])
def test_as_many_lanes_as_there_are(chunks: int) -> None:
    """Most of them have nothing to do."""
    for name in ("all_reduce_by_all_gather", "all_gather", "broadcast_by_scatter"):
        composition = form(name, 4)
        shape = Shape([53, 0, 1000, 7][: composition.parts], 64, chunks)
        check_call(lower(composition, Knobs([2, 2])), shape, chunks)


@pytest.mark.parametrize("dtype", ["int16", "uint8", "int32"])
def test_elements_that_do_not_fill_a_granule(dtype: str) -> None:
    for name in FORMS:
        composition = form(name, 5, 3)
        for count in (1, 7, 100):
            check_call(lower(composition, Knobs([5], ring=5)), Shape([count] * composition.parts, 3, 2, dtype=dtype), 1)


def test_messages_of_many_runs() -> None:
    """More than an instruction has: several instructions are one message."""
    size = 18
    plans = _core.make_plans("all_to_all", Topology(size), "bruck")
    shape = Shape([1] * size * size, 2, 2)
    exported = [program.to_dict() for program in programs_of(plans, shape)]
    assert any(len(what["runs"]) == 8 and not what["ends"] for program in exported for what in program["puts"])
    check_call(plans, shape, 1)


def through_one_slot() -> Composition:
    """Rank 0 holds three parts one after the other in one slot of scratch memory, and passes on the first."""
    c = Composition([[], [0, 1, 2], []], [[], [], [0]])
    c.multicast(1, [0], 0)
    c.fence()
    c.multicast(0, [2], 0)
    c.fence()
    c.multicast(1, [0], 1)
    c.fence()
    c.multicast(1, [0], 2)
    return c


@pytest.mark.parametrize("chunks", [1, 2, 5])
def test_steps_without_bytes_wait_for_nobody(chunks: int) -> None:
    """What comes after them still does: here for the put from the slot, by way of a take that has no bytes."""
    plans = lower(through_one_slot(), Knobs([3]))
    assert plans[0].slots == 1
    for seed in range(20):
        check_call(plans, Shape([1, 0, 1], 1, chunks), seed, schedules=4)


@pytest.mark.parametrize("counts", [[0, 10], [0, 0], [10, 0]])
def test_parts_without_elements(counts: list[int]) -> None:
    """Steps write to scratch memory that has no bytes: it has no generations to wait for."""
    size = 4
    c = Composition([[0, 1], [], [], []], [[1]] * size)
    c.multicast(0, range(size), [0, 1])
    c.fence()
    c.multicast(0, range(size), [0, 1])
    for knobs in (Knobs([2, 2]), Knobs([4], ring=4), Knobs([4])):
        check_call(lower(c, knobs), Shape(counts, 1, 5), 1)


def test_each_program_is_made_alone() -> None:
    """From its rank's plan, which is made from no other's."""
    rng = random.Random(3)
    for size in (1, 3, 8, 12):
        composition, knobs = some_composition(rng, size), some_knobs(rng, size)
        machine = knobs.machine(Topology(size))
        shape = some_shape(rng, composition.parts)
        together = programs_of(_core.lower_all(composition._core, machine), shape)
        for rank in reversed(range(size)):
            (alone,) = programs_of([_core.lower(composition._core, rank, machine)], shape)
            assert alone.to_dict() == together[rank].to_dict()


def test_rings_shorter_than_a_message_are_told() -> None:
    plans = lower(form("all_gather", 4), Knobs([2, 2]))
    shape = Shape([20] * 4)
    programs = programs_of(plans, shape)
    exported = [program.to_dict() for program in programs]
    longest = longest_message(exported)
    with pytest.raises(PlanError, match=r"rank \d never gets past step \d+ of its plan, in chunk 0 of a lane"):
        _core.check_queues(programs, longest - 16)
    with pytest.raises(WrongProgram, match=r"rank \d lane 0, puts \d of tick 0: put rank \d, step \d, waits for room"):
        Call([plan.to_dict() for plan in plans], shape).run(exported, longest - 16, 1)


@pytest.mark.parametrize("name", ["all_reduce_by_all_gather", "all_gather", "all_to_all"])
def test_a_program_of_a_thousand_ranks_takes_milliseconds(name: str) -> None:
    """At most 20 ms; five times that is allowed, and the least of three counts, since others use the caches, too."""
    machine = Knobs([128, 8]).machine(Topology(1024))
    plan = _core.lower(form(name, 1024)._core, 517, machine)
    assert min(processor_s(lambda: _core.program_of(plan, [100], lanes=8, chunks=4)) for _ in range(3)) < 0.1
