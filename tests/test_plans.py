# SPDX-License-Identifier: Apache-2.0
"""Every algorithm, on any topology: proven right, run with data, and as cheap as its source file says."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from math import ceil, floor, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanecast import _core
from lanecast._core import (
    Topology,
    UsageError,
    algorithms_for,
    make_plan,
    make_plans,
    own_share_first,
    verify,
    verify_all_ranks,
)
from plan_interpreter import run_and_check
from plan_memory import PlanDict, Schedule, parts
from processor_time import processor_s
from topologies import question, topologies

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")
NEVER_MORE_STEPS = 2  # open at once are needed by any plan: the smallest window that an executor may be given


def dicts(collective: str, topology: Topology, algorithm: str, in_place: bool = False, root: int = 0) -> list[PlanDict]:
    return [plan.to_dict() for plan in make_plans(collective, topology, algorithm, in_place, root)]


def prove(topology: Topology, data: st.DataObject) -> None:
    proof = verify_all_ranks(*question(data, topology).arguments)
    assert proof["min_window"] <= NEVER_MORE_STEPS


@settings(max_examples=500)
@given(topologies(64), st.data())
def test_any_plan_is_proven(topology: Topology, data: st.DataObject) -> None:
    prove(topology, data)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=5000)
@given(topologies(64), st.data())
def test_many_plans_are_proven(topology: Topology, data: st.DataObject) -> None:
    prove(topology, data)


@pytest.mark.parametrize("collective", _core.KINDS)
@pytest.mark.parametrize("size", [*range(1, 18), 31, 32, 33, 63, 64])
def test_every_flat_algorithm_at_every_size(collective: str, size: int) -> None:
    """With every root, where there are few ranks."""
    roots = [0] if not _core.has_root(collective) else range(size) if size < 10 else [0, size // 3, size - 1]
    for algorithm in algorithms_for(collective, Topology(size)):
        for in_place in {False, _core.may_be_in_place(collective)}:
            for root in roots:
                proof = verify_all_ranks(collective, Topology(size), algorithm, in_place, root)
                assert proof["min_window"] <= NEVER_MORE_STEPS


def run_with_data(plans: list[_core.Plan], data: st.DataObject) -> None:
    window = verify(plans)["min_window"]
    described = [plan.to_dict() for plan in plans]
    some = st.sampled_from([0, 1, 2, 3, 7, 30])
    schedule = Schedule(
        counts=data.draw(st.lists(some, min_size=parts(described[0]), max_size=parts(described[0]))),
        chunks=data.draw(st.sampled_from([1, 3])),
        average=data.draw(st.booleans()),
        window=data.draw(st.sampled_from([None, window])),
        seed=data.draw(st.integers(0, 2**32)),
    )
    run_and_check(described, schedule)


@settings(max_examples=300)
@given(topologies(16), st.data())
def test_plans_compute_under_any_schedule(topology: Topology, data: st.DataObject) -> None:
    run_with_data(make_plans(*question(data, topology).arguments), data)


@pytest.mark.long
@pytest.mark.timeout(600)
@settings(max_examples=5000)
@given(topologies(16), st.data())
def test_plans_compute_under_many_schedules(topology: Topology, data: st.DataObject) -> None:
    run_with_data(make_plans(*question(data, topology).arguments), data)


@settings(max_examples=300)
@given(topologies(16), st.data())
def test_any_ranks_may_copy_their_own_share_first(topology: Topology, data: st.DataObject) -> None:
    """Each decides for itself: the others see no difference."""
    plans = make_plans(*question(data, topology).arguments)
    run_with_data([own_share_first(plan) or plan if data.draw(st.booleans()) else plan for plan in plans], data)


def test_the_own_share_is_sent_from_the_output() -> None:
    for algorithm in SENDS:
        for plan in make_plans("all_gather", Topology(4), algorithm):
            other = own_share_first(plan)
            assert other is not None
            assert other.describe(0) == f"step 0 of {len(plan)}: copy in/part {plan.rank} -> out/part {plan.rank}"
            assert " in/" not in "".join(other.describe(step) for step in range(1, len(plan)))
    assert own_share_first(make_plan("all_gather", 0, Topology(4), "ring", in_place=True)) is None
    assert own_share_first(make_plan("gather", 0, Topology(4), "direct")) is None  # the root's goes to nobody
    assert own_share_first(make_plan("all_reduce", 0, Topology(4), "ring")) is None


def sends(plan: PlanDict) -> list[PlanDict]:
    return [step for step in plan["steps"] if step["kind"] == "send"]


def amount(blocks: Sequence[tuple[int, int, tuple[int, int], tuple[int, int]]]) -> Fraction:
    """In parts: 1 is what one rank brings to an all-gather, or the whole vector of an all-reduce."""
    return sum((Fraction(*hi) - Fraction(*lo) for _, _, lo, hi in blocks), start=Fraction(0))


SENDS: dict[str, Callable[[int], int]] = {
    "ring": lambda n: n - 1,
    "direct": lambda n: n - 1,
    "recursive_doubling": lambda n: round(log2(n)),
    "bruck": lambda n: ceil(log2(n)),
}


SIZES = [2, 3, 4, 7, 8, 16, 24]


@pytest.mark.parametrize(
    ("algorithm", "size"), [(a, n) for n in SIZES for a in SENDS if a in algorithms_for("all_gather", Topology(n))]
)
def test_sends_and_bytes_are_those_of_the_file_header(algorithm: str, size: int) -> None:
    for collective, passes, whole in (("all_gather", 1, size), ("reduce_scatter", 1, size), ("all_reduce", 2, 1)):
        for plan in dicts(collective, Topology(size), algorithm):
            assert len(sends(plan)) == passes * SENDS[algorithm](size)
            sent = sum(amount(step["src"]) for step in sends(plan))
            assert sent == passes * whole * Fraction(size - 1, size)


@pytest.mark.parametrize("size", [2, 3, 4, 6, 8, 15])
def test_whole_vector_algorithms(size: int) -> None:
    power = 2 ** floor(log2(size))
    for rank, plan in enumerate(dicts("all_reduce", Topology(size), "folding")):
        extra = size - power
        expected = 1 if rank >= power else floor(log2(size)) + (rank < extra)
        assert [amount(step["src"]) for step in sends(plan)] == [1] * expected
    for plan in dicts("all_reduce", Topology(size), "one_shot"):
        assert [amount(step["src"]) for step in sends(plan)] == [1] * (size - 1)
        (step,) = (step for step in plan["steps"] if step["kind"] == "reduce")
        assert step["sources"] == size


@given(topologies(32), st.data())
def test_reduce_scatter_sends_what_the_all_gather_receives(topology: Topology, data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(algorithms_for("all_gather", topology)))

    def messages(collective: str, forward: bool) -> Counter[tuple[int, int, tuple[object, ...]]]:
        found: Counter[tuple[int, int, tuple[object, ...]]] = Counter()
        for plan in dicts(collective, topology, algorithm):
            for step in sends(plan):
                pieces: dict[int, Fraction] = defaultdict(Fraction)
                for block in step["src"]:
                    pieces[block[1]] += amount([block])
                pair = (plan["rank"], step["peer"]) if forward else (step["peer"], plan["rank"])
                found[*pair, tuple(sorted(pieces.items()))] += 1
        return found

    assert messages("all_gather", forward=True) == messages("reduce_scatter", forward=False)


@pytest.mark.parametrize("size", [4, 9, 16, 64])
def test_ring_reduce_scatter_needs_few_slots_at_any_size(size: int) -> None:
    assert max(plan["slots"] for plan in dicts("reduce_scatter", Topology(size), "ring")) <= 3


def test_wrong_names_are_refused_with_those_that_exist() -> None:
    for algorithm, said in (
        ("rings", "unknown name 'rings'; known: ring recursive_doubling bruck direct"),
        ("rings", "for an all_reduce, not within hierarchical: folding one_shot double_tree$"),
        ("folding", "all_reduce only"),
        ("recursive_doubling", "does not take 6 ranks; bruck"),
        ("hierarchical(ring,ring)", "one level only"),
        ("hierarchical(ring", "closing parenthesis"),
    ):
        with pytest.raises(UsageError, match=said.replace("(", r"\(")):
            make_plan("all_gather", 0, Topology(6), algorithm)
    for algorithm, said in (
        ("hierarchical(ring)", "needs 2 names for topology 2x3"),
        ("hierarchical(ring,recursive_doubling)", "recursive_doubling does not take the group sizes of topology 2x3"),
        ("hierarchical(,ring)", "unknown name ''"),
    ):
        with pytest.raises(UsageError, match=said):
            make_plan("all_gather", 0, Topology.parse("2x3", 6), algorithm)
    with pytest.raises(UsageError, match="rank 6 does not exist among 6"):
        make_plan("all_gather", 6, Topology(6), "ring")
    with pytest.raises(UsageError, match="collective 'all_together'"):
        make_plan("all_together", 0, Topology(6), "ring")


@pytest.mark.parametrize("algorithm", ["ring", "direct", "hierarchical(ring,direct)", "hierarchical(bruck,peers)"])
def test_one_rank_of_1024_plans_in_an_instant(algorithm: str) -> None:
    topology = Topology.parse("128x8", 1024)
    assert min(processor_s(lambda: make_plan("all_reduce", 517, topology, algorithm)) for _ in range(3)) < 0.5


LARGE = ["bruck", "recursive_doubling", "hierarchical(bruck,peers)", "hierarchical(ring,direct)"]


@pytest.mark.parametrize("algorithm", LARGE[:1])
def test_1024_ranks_are_proven(algorithm: str) -> None:
    topology = Topology.parse("128x8", 1024)
    assert any(processor_s(lambda: verify_all_ranks("all_gather", topology, algorithm)) < 5 for _ in range(3))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("algorithm", [*LARGE, "ring"])
def test_1024_ranks_are_proven_with_every_algorithm(collective: str, algorithm: str) -> None:
    topology = Topology.parse("128x8", 1024)
    proves = partial(verify_all_ranks, collective, topology, algorithm, in_place=True)
    assert any(processor_s(proves) < 60 for _ in range(3))
