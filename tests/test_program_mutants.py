# SPDX-License-Identifier: Apache-2.0
"""A program with a small fault is caught when it is run, under some order of events, or it still does the same."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable

import pytest

import lanecast
from composed_cases import FORMS, form
from lanecast import _core
from lanecast._core import Plan, Topology
from plan_memory import parts
from program_cases import Call, Shape, lowered, programs_of
from program_mutants import (
    MUTATORS,
    Mutator,
    Programs,
    change_peer,
    drop_message,
    join_to_another,
    move_end,
    one_generation_fewer,
    wait_in_a_circle,
)
from program_rings import WrongProgram, longest_message
from random_compositions import some_knobs

NAMED = (
    ("all_gather", "ring"),
    ("all_reduce", "ring"),
    ("all_reduce", "double_tree"),
    ("all_reduce", "direct"),
    ("reduce_scatter", "bruck"),
    ("all_to_all", "bruck"),
    ("broadcast", "scatter_all_gather"),
    ("reduce", "binomial"),
)
SCHEDULES = 16


def some_call(rng: random.Random, mutator: Mutator) -> tuple[Call, Programs]:
    """Every part has several granules, so that hardly an instruction has no bytes."""
    size = rng.randint(2, 6)
    plans: list[Plan]
    chunks = rng.choice([1, 2, 5, 9])
    if mutator is move_end:
        plans = _core.make_plans("all_to_all", Topology(18), "bruck")
        shape = Shape([4] * 18 * 18)
    elif rng.random() < 0.3:
        collective, algorithm = rng.choice(NAMED)
        plans = _core.make_plans(collective, Topology(size), algorithm)
        shape = Shape([20 * chunks + rng.randrange(40)] * parts(plans[0].to_dict()), 1, chunks)
    else:
        composition = form(rng.choice(list(FORMS)), size, rng.randrange(size), rng.choice(["sum", "avg"]))
        shape = Shape([20 * chunks + rng.randrange(40) for _ in range(composition.parts)], 1, chunks)
        plans = lowered(composition, some_knobs(rng, size), shape, in_place=rng.random() < 0.3)
    call = Call([plan.to_dict() for plan in plans], shape, rng.getrandbits(32))
    return call, [program.to_dict() for program in programs_of(plans, shape)]


def fault(rng: random.Random, call: Call, programs: Programs, longest: int) -> str:
    """The kind of what is caught, or nothing."""
    for turn in range(SCHEDULES):
        try:
            call.run(programs, longest if turn % 3 == 0 else 4 * longest + 48, rng.getrandbits(32))
        except WrongProgram as error:
            said = str(error)
            kinds = {"nobody goes on": "hangs", "is wrong": "wrong data", "was written": "wrong data"}
            return next((kind for text, kind in kinds.items() if text in said), "sizes or bounds")
    return ""


def outcomes(mutator: Mutator, mutants: int, seed: int) -> Counter[str]:
    rng = random.Random(f"{mutator.__name__} {seed}")
    count: Counter[str] = Counter()
    while count.total() < mutants:
        call, programs = some_call(rng, mutator)
        longest = longest_message(programs)
        mutant = copy.deepcopy(programs)
        if mutator(rng, mutant):
            count[fault(rng, call, mutant, longest) or "right"] += 1
    return count


# Of a hundred mutants of a kind so many may do the same as before, at most; they are about 7, all, 6 and 13.
RIGHT_IN_A_HUNDRED = {
    "need_one_less": 15,  # the put it waited for leads, by way of other ranks, to the message that it takes
    "move_end": 0,
    "drop_end": 0,
    "one_generation_fewer": 100,  # one more than the delays is enough; the last one spares the queues a wait
    "swap_neighbours": 15,  # two that add to one value in place, or messages of equal values
    "change_peer": 0,
    "drop_message": 0,
    "wait_in_a_circle": 0,
    "change_operand": 0,
    "change_delay": 25,  # a take that waits for its message anyway, or a put that depends on nothing
    "join_to_another": 100,  # what was taken may be put at once as well; the proof refuses all
}


def check_mutants(mutator: Mutator, mutants: int, seed: int) -> Counter[str]:
    count = outcomes(mutator, mutants, seed)
    assert count["right"] * 100 <= RIGHT_IN_A_HUNDRED[mutator.__name__] * mutants, count
    return count


@pytest.mark.parametrize("mutator", MUTATORS)
def test_mutants_are_caught_or_right(mutator: Mutator, record_property: Callable[[str, object], None]) -> None:
    record_property("mutants", dict(check_mutants(mutator, 40, seed=1)))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutator", MUTATORS)
def test_many_mutants_are_caught_or_right(mutator: Mutator, record_property: Callable[[str, object], None]) -> None:
    record_property("mutants", dict(check_mutants(mutator, 600, seed=2)))


def told_by_the_proof(programs: Programs, ring_bytes: int) -> str:
    """What the library says of programs that it has read back."""
    try:
        read = [_core.Program.from_dict(program) for program in programs]
    except lanecast.UsageError:
        return "refused"
    try:
        _core.check_queues(read, ring_bytes)
    except lanecast.PlanError as error:
        return "misjoined" if "joins step" in str(error) else "caught"  # the former comes right, too, in some orders
    return "passed"


def proofs(mutator: Mutator, mutants: int, seed: int) -> Counter[str]:
    """A mutant that the proof finds wrong is wrong, and right programs pass it."""
    rng = random.Random(f"proof of {mutator.__name__} {seed}")
    count: Counter[str] = Counter()
    while count.total() < mutants:
        call, programs = some_call(rng, mutator)
        longest = longest_message(programs)
        mutant = copy.deepcopy(programs)
        if not mutator(rng, mutant):
            continue
        assert told_by_the_proof(programs, longest) == "passed"
        count[said := told_by_the_proof(mutant, longest)] += 1
        if said == "caught":
            assert fault(rng, call, mutant, longest)
    return count


# The proof sees no data, only who waits for whom, how many bytes go through each ring, and what is joined. So it has
# to catch these.
CAUGHT_BY_THE_PROOF: dict[Mutator, str] = {
    change_peer: "caught", drop_message: "caught", wait_in_a_circle: "caught", join_to_another: "misjoined",
}  # fmt: skip


@pytest.mark.parametrize("mutator", MUTATORS)
def test_the_proof_of_the_queues_meets_mutants(
    mutator: Mutator, record_property: Callable[[str, object], None]
) -> None:
    count = proofs(mutator, 40, seed=5)
    record_property("mutants", dict(count))
    if said := CAUGHT_BY_THE_PROOF.get(mutator):
        assert count == {said: 40}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutator", CAUGHT_BY_THE_PROOF)
def test_the_proof_of_the_queues_meets_many_mutants(mutator: Mutator) -> None:
    assert proofs(mutator, 600, seed=6) == {CAUGHT_BY_THE_PROOF[mutator]: 600}


def test_one_generation_more_than_the_delays_is_enough() -> None:
    assert outcomes(one_generation_fewer, 40, seed=3) == {"right": 40}


def test_a_ring_shorter_than_the_longest_message_hangs() -> None:
    rng = random.Random(4)
    for _ in range(40):
        call, programs = some_call(rng, change_peer)
        with pytest.raises(WrongProgram, match=r"nobody goes on:\n(?s:.*)waits for room for \d+ bytes"):
            call.run(programs, longest_message(programs) - 16, rng.getrandbits(32))
