# SPDX-License-Identifier: Apache-2.0
"""Compositions and their plans: proven whatever the knobs, refused where wrong, shaped as the paper says."""

import inspect
import random

import pytest

from composed_cases import FORMS, form
from lanecast import _core
from lanecast._core import Plan, PlanError, Topology
from lanecast.compose import Block, Composition, Knobs, forms, lower, stages, verify
from lanecast.plans import from_json, show, to_json
from plan_interpreter import run_and_check
from plan_memory import Schedule
from processor_time import processor_s
from random_compositions import some_composition, some_factors, some_knobs, some_topology

SIZES = (1, 2, 3, 4, 6, 7, 8, 12)


def test_table_two_is_whole() -> None:
    assert len(forms.SINGLE_STEP) == 8
    assert len(forms.MULTI_STEP) == 6
    for name, function in FORMS.items():
        lines = [line.strip() for line in inspect.getsource(function).splitlines()]
        body = [line for line in lines if not line.startswith(("def ", '"""', "c = ", "return")) and line]
        assert len(body) <= 5, name
        assert (form(name, 4)._core.steps == 2) == (name in forms.MULTI_STEP)


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_proven(name: str) -> None:
    """In any shape, whichever rank is the root, in place too; and run with data under random schedules."""
    rng = random.Random(name)
    for size in SIZES:
        for turn in range(6):
            composition = form(name, size, rng.randrange(size), rng.choice(["sum", "max", "avg"]))
            knobs, in_place = some_knobs(rng, size), turn % 2 == 1 and name != "all_to_all"
            verify(composition, knobs, some_topology(rng, size), in_place=in_place)
            if turn < 2 and size < 8:
                plans = [plan.to_dict() for plan in lower(composition, knobs, in_place=in_place)]
                counts = [rng.choice([0, 1, 2, 5, 24]) for _ in range(composition.parts)]
                run_and_check(plans, Schedule(counts, rng.choice([1, 3]), seed=size))


def check_random(seeds: range, largest: int) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        size = rng.randint(1, largest)
        composition, knobs, in_place = some_composition(rng, size), some_knobs(rng, size), rng.random() < 0.5
        proof = verify(composition, knobs, in_place=in_place)
        assert proof["min_window"] == 1
        if size <= 8:
            plans = [plan.to_dict() for plan in lower(composition, knobs, in_place=in_place)]
            counts = [rng.choice([0, 1, 2, 7, 24]) for _ in range(composition.parts)]
            run_and_check(plans, Schedule(counts, seed=seed))


def test_random_compositions_are_proven_and_right() -> None:
    check_random(range(600), largest=8)


def test_random_compositions_of_many_ranks() -> None:
    check_random(range(1000, 1040), largest=24)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_many_random_compositions() -> None:
    check_random(range(2000, 42000), largest=12)


def edges(composition: Composition, knobs: Knobs) -> list[list[tuple[int, int]]]:
    found = stages(lower(composition, knobs), knobs.machine(Topology(composition.size)).topology)
    return [[(edge.sender, edge.receiver) for edge in stage] for stage in found]


ASSEMBLY = [
    (sender, receiver)
    for sender in range(12)
    for receiver in range(12)
    if sender // 3 == receiver // 3 and receiver not in (sender, 0)
]
HAND_OUT = [(0, 1), (0, 2)]


def test_the_papers_tree() -> None:
    """Figures 6(a) and 7(a): a broadcast over 4 nodes of 3 ranks, {2,2,3}, 3 stripes: 4 stages."""
    across_halves = [(0, 6), (1, 7), (2, 8)]
    inside_halves = [(0, 3), (1, 4), (2, 5), (6, 9), (7, 10), (8, 11)]
    found = edges(form("broadcast", 12), Knobs([2, 2, 3], stripe=3))
    assert found == [HAND_OUT, across_halves, inside_halves, ASSEMBLY]


def test_the_papers_ring() -> None:
    """Figures 6(b) and 7(b): {4,3}, ring(4), 3 stripes: 5 stages, the nodes an open chain."""
    found = edges(form("broadcast", 12), Knobs([4, 3], stripe=3, ring=4))
    chain = [[(3 * node + lane, 3 * node + 3 + lane) for lane in range(3)] for node in range(3)]
    assert found == [HAND_OUT, *chain, ASSEMBLY]


def test_a_reduction_takes_the_same_way_back() -> None:
    for knobs in (Knobs([2, 2, 3], stripe=3), Knobs([4, 3], stripe=3, ring=4)):
        there, back = edges(form("broadcast", 12), knobs), edges(form("reduce", 12), knobs)
        returned = [sorted((receiver, sender) for sender, receiver in stage) for stage in reversed(there)]
        own = {(0, 1), (0, 2)}  # the root's own share goes to those who add up its stripes
        assert [[edge for edge in stage if edge not in own] for stage in back] == returned
        assert sum(own <= set(stage) for stage in back) == 1


@pytest.mark.parametrize("name", ["broadcast", "all_gather", "gather", "reduce_scatter", "all_reduce_by_all_gather"])
def test_a_ring_of_one_is_the_tree(name: str) -> None:
    for factors in ([12], [2, 6], [2, 2, 3]):
        ring, tree = Knobs(factors, stripe=1, ring=1), Knobs(factors, stripe=1)
        composition = form(name, 12)
        assert [str(plan) for plan in lower(composition, ring)] == [str(plan) for plan in lower(composition, tree)]


def test_stage_counts() -> None:
    """n + m - 2 steps of a chain of n nodes with m chunks, two more with striping: the stages are those at m = 1."""
    for nodes in (2, 3, 4, 6):
        composition = form("broadcast", 2 * nodes)
        assert len(edges(composition, Knobs([nodes, 2], stripe=1, ring=nodes))) == nodes
        assert len(edges(composition, Knobs([nodes, 2], stripe=2, ring=nodes))) == nodes + 1


def across_nodes(composition: Composition, knobs: Knobs, topology: Topology) -> dict[int, int]:
    """How often each rank sends to another node, in stripes of anything."""
    nodes = dict(enumerate(topology.levels[0][1]))
    sent: dict[int, int] = {}
    for plan in lower(composition, knobs, topology):
        for step in plan.to_dict()["steps"]:
            if step["kind"] == "send" and nodes[plan.rank] != nodes[step["peer"]]:
                sent[plan.rank] = sent.get(plan.rank, 0) + 1
    return sent


@pytest.mark.parametrize(("shape", "size"), [("2x4", 8), ("3+2+4", 9), ("4+3", 7), ("2x4:cyclic", 8)])
@pytest.mark.parametrize("root", [0, 1, 5])
def test_every_rank_of_the_root_node_sends_across(shape: str, size: int, root: int) -> None:
    """By default, whatever the size of the nodes; and with all ranks as roots nothing is striped."""
    topology = Topology.parse(shape, size)
    node = next(ranks for ranks in topology.partition(list(range(size)), 0) if root in ranks)
    assert set(node) <= set(across_nodes(form("broadcast", size, root), Knobs(), topology))
    gathering = lower(form("all_gather", size), Knobs(), topology)
    assert all(step["stage"] > 0 for plan in gathering for step in plan.to_dict()["steps"] if step["kind"] == "send")


def test_domains_without_leaves_are_left_alone() -> None:
    composition = Composition([[0], *[[]] * 15], [[], [0], *[[]] * 12, [0], [0]])
    composition.multicast(0, [1, 14, 15], 0)
    for knobs in (Knobs([4, 4], stripe=4), Knobs([4, 4], stripe=4, ring=4), Knobs([2, 2, 2, 2], stripe=1)):
        verify(composition, knobs)
        touched = {rank for stage in edges(composition, knobs) for edge in stage for rank in edge}
        assert touched <= {0, 1, 2, 3, 12, 13, 14, 15}


def test_upper_levels_carry_a_vector_once() -> None:
    """Every node gets a broadcast once, whatever the number of its ranks; in {p} each rank gets it from the root."""
    composition = form("broadcast", 12)
    flat = edges(composition, Knobs([12]))
    assert flat == [[(0, rank) for rank in range(1, 12)]]
    for factors in ([4, 3], [2, 2, 3]):
        crossing = [
            e for stage in edges(composition, Knobs(factors, stripe=1)) for e in stage if e[0] // 3 != e[1] // 3
        ]
        assert len(crossing) == 3


def test_messages_of_a_stage_are_one_per_peer() -> None:
    for name in ("all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"):
        for stage in edges(form(name, 12), Knobs([2, 2, 3])):
            assert len(set(stage)) == len(stage)


def test_order_of_registration_does_not_count() -> None:
    def composed(order: list[int]) -> Composition:
        composition = Composition.of("all_reduce", 6)
        for rank in order:
            composition.reduce(range(6), rank, Block(0).cut(rank, 6))
        composition.fence()
        for rank in reversed(order):
            composition.multicast(rank, range(6), Block(0).cut(rank, 6))
        return composition

    one, other = composed([0, 1, 2, 3, 4, 5]), composed([3, 0, 5, 1, 4, 2])
    assert one._core.digest == other._core.digest
    knobs = Knobs([2, 3])
    assert [str(plan) for plan in lower(one, knobs)] == [str(plan) for plan in lower(other, knobs)]
    assert one._core.digest != composed([0, 1, 2])._core.digest


def test_scratch_is_used_again() -> None:
    """A relay's partial sums live for a stage or two; a step's scratch serves the next."""
    composition = Composition([[0]] * 8, [[0]] * 8)
    slots = set()
    for _ in range(5):
        composition.reduce(range(8), 0, 0)
        composition.fence()
        composition.multicast(0, range(8), 0)
        composition.fence()
        slots.add(tuple(plan.slots for plan in lower(composition, Knobs([2, 2, 2]))))
    assert len(slots) == 1


def test_several_operators() -> None:
    """Sums of maxima, and averages of averages, are what they say: a plan that adds by another operator is refused."""
    composition = Composition([[0]] * 4, [[0]] * 4)
    for pair in (0, 2):
        composition.reduce([pair, pair + 1], pair, 0, "max")
    composition.fence()
    composition.reduce([0, 2], 0, 0, "avg")
    composition.fence()
    composition.multicast(0, range(4), 0)
    plans = [plan.to_dict() for plan in lower(composition, Knobs([2, 2]))]
    run_and_check(plans, Schedule([24], seed=3))
    for plan in plans:
        for step in plan["steps"]:
            if step.get("op") == "max":
                step["op"] = "sum"
    with pytest.raises(PlanError, match="another operator"):
        _core.verify([Plan.from_dict(plan) for plan in plans])


def plan_for_a_thousand(name: str) -> None:
    composition = form(name, 1024)
    _core.lower(composition._core, 517, Knobs([128, 8]).machine(Topology(1024)))


@pytest.mark.parametrize("name", ["all_reduce_by_all_gather", "all_gather"])
def test_planning_for_a_thousand_ranks_takes_less_than_a_second(name: str) -> None:
    # The least of three: others may use the cores, too.
    assert min(processor_s(lambda: plan_for_a_thousand(name)) for _ in range(3)) < 1


def test_plans_are_shown_and_saved() -> None:
    """By what shows and saves all plans: as text, and as JSON that is proven again."""
    knobs = Knobs([2, 2, 3], stripe=3)
    composition, hierarchy = form("broadcast", 12), knobs.machine(Topology(12)).topology
    plans = lower(composition, knobs)
    shown = show(plans, hierarchy)
    assert shown.startswith("composition on 2x2x3, stripe 3\n12 ranks, 4 stages, 33 messages")
    again, _ = from_json(to_json(plans, hierarchy))
    assert [str(plan) for plan in again] == [str(plan) for plan in plans]
    assert _core.verify(again)["messages"] == 33


def test_factorings_of_everything() -> None:
    rng = random.Random(1)
    for size in (8, 12, 16, 24):
        for _ in range(4):
            factors = some_factors(rng, size)
            assert str(Knobs(factors, stripe=1).machine(Topology(size))) == "x".join(map(str, factors))
