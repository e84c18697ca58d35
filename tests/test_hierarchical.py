# SPDX-License-Identifier: Apache-2.0
"""What a hierarchy promises: who meets whom, and how little crosses from node to node."""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanecast._core import Topology, algorithms_for, make_plans, verify_all_ranks
from plan_memory import PlanDict
from topologies import grids, scattered, topologies, uneven

ACROSS = ["ring", "bruck", "direct"]
even = grids(36)


def dicts(collective: str, topology: Topology, algorithm: str) -> list[PlanDict]:
    return [plan.to_dict() for plan in make_plans(collective, topology, algorithm)]


def hierarchical(topology: Topology, across: str, within: str) -> str:
    return f"hierarchical({','.join([across] * len(topology.levels) + [within])})"


def nodes_of(topology: Topology) -> list[list[int]]:
    return topology.partition(list(range(topology.size)), 0)


def crossings(topology: Topology, plans: list[PlanDict]) -> Iterator[tuple[int, int, Fraction]]:
    """(from, to, parts) of every message between nodes."""
    node = topology.levels[0][1]
    for plan in plans:
        for step in plan["steps"]:
            if step["kind"] == "send" and node[plan["rank"]] != node[step["peer"]]:
                parts = sum((Fraction(*hi) - Fraction(*lo) for _, _, lo, hi in step["src"]), start=Fraction(0))
                yield plan["rank"], step["peer"], parts


@given(even, st.sampled_from(ACROSS), st.sampled_from(["all_gather", "reduce_scatter", "all_reduce"]))
def test_messages_cross_nodes_in_lanes_only(topology: Topology, across: str, collective: str) -> None:
    place = {rank: node.index(rank) for node in nodes_of(topology) for rank in node}
    plans = dicts(collective, topology, hierarchical(topology, across, "direct"))
    assert all(place[a] == place[b] for a, b, _ in crossings(topology, plans))


@given(st.one_of(uneven(32), even, scattered(16)), st.sampled_from(ACROSS))
def test_only_what_a_node_lacks_enters_it(topology: Topology, across: str) -> None:
    plans = dicts("all_gather", topology, hierarchical(topology, across, "ring"))
    entered: dict[int, Fraction] = defaultdict(Fraction)
    for _, to, parts in crossings(topology, plans):
        entered[topology.levels[0][1][to]] += parts
    for node in nodes_of(topology):
        assert entered[topology.levels[0][1][node[0]]] == topology.size - len(node)


@given(even, st.sampled_from(ACROSS))
def test_all_lanes_carry_the_same(topology: Topology, across: str) -> None:
    nodes = nodes_of(topology)
    for collective, expected in (
        ("all_gather", Fraction(topology.size - len(nodes[0]), len(nodes[0]))),
        ("reduce_scatter", Fraction(topology.size - len(nodes[0]), len(nodes[0]))),
        ("all_reduce", Fraction(2 * (len(nodes) - 1), topology.size)),
    ):
        entered: dict[int, Fraction] = defaultdict(Fraction)
        for _, to, parts in crossings(topology, dicts(collective, topology, hierarchical(topology, across, "direct"))):
            entered[to] += parts
        assert [entered[rank] for rank in range(topology.size)] == [expected] * topology.size


@given(uneven(32), st.sampled_from(ACROSS))
def test_uneven_nodes_have_as_many_lanes_as_the_smallest_has_ranks(topology: Topology, across: str) -> None:
    nodes = nodes_of(topology)
    lanes = min(len(node) for node in nodes)
    lane = {node[j]: j for node in nodes for j in range(lanes)}
    for a, b, _ in crossings(topology, dicts("all_gather", topology, hierarchical(topology, across, "direct"))):
        assert lane[a] == lane[b]


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(["", ":cyclic"]))
def test_groups_are_exactly_the_nodes_and_the_lanes(nodes: int, ranks: int, layout: str) -> None:
    topology = Topology.parse(f"{nodes}x{ranks}{layout}", nodes * ranks)
    members = nodes_of(topology)
    lanes = [[node[j] for node in members] for j in range(ranks)]
    for collective in ("all_gather", "reduce_scatter", "all_reduce"):
        for plan in dicts(collective, topology, "hierarchical(mpi,mpi)"):
            entered = {tuple(group["ranks"]) for group in plan["groups"]}
            mine = [g for g in (*members, *lanes) if plan["rank"] in g and len(g) > 1]
            assert entered == {tuple(group) for group in mine}


def test_three_levels_meet_level_by_level() -> None:
    topology = Topology.parse("2x3x4", 24)
    plans = dicts("all_gather", topology, "hierarchical(mpi,mpi,mpi)")
    for plan in plans:
        node, device, die = plan["rank"] // 12, plan["rank"] // 4 % 3, plan["rank"] % 4
        assert {tuple(group["ranks"]) for group in plan["groups"]} == {
            tuple(range(node * 12 + device * 4, node * 12 + device * 4 + 4)),  # the dies of this device
            tuple(node * 12 + d * 4 + die for d in range(3)),  # the same die of the node's devices
            tuple(n * 12 + device * 4 + die for n in range(2)),  # the same die of all nodes
        }


@settings(max_examples=30)
@given(st.lists(topologies(16), min_size=2, max_size=4))
def test_several_grids_live_side_by_side(several: list[Topology]) -> None:
    last = [algorithms_for("all_reduce", topology)[-1] for topology in several]
    alone = [dicts("all_reduce", t, a) for t, a in zip(several, last, strict=True)]
    with ThreadPoolExecutor(2) as threads:
        proofs = threads.map(verify_all_ranks, ["all_reduce"] * len(several), several, last)
        assert [dicts("all_reduce", t, a) for t, a in zip(several, last, strict=True)] == alone
        for proof, plans in zip(proofs, alone, strict=True):
            assert proof["messages"] == sum(step["kind"] == "send" for plan in plans for step in plan["steps"])


@pytest.mark.parametrize(("nodes", "across"), [(8, "recursive_doubling"), *((n, "bruck") for n in (2, 3, 5, 6, 7, 12))])
def test_far_nodes_exchange_first_and_near_ones_most(nodes: int, across: str) -> None:
    """Networks have the least bandwidth between far nodes, and what is exchanged grows from round to round."""
    topology = Topology.parse(f"{nodes}x2", 2 * nodes)
    for plan in dicts("all_gather", topology, f"hierarchical({across},direct)"):
        sent = list(crossings(topology, [plan]))
        apart = [(a // 2 - b // 2) % nodes for a, b, _ in sent]
        assert apart[-1] in {1, nodes - 1}
        assert apart == sorted(apart, key=lambda steps: -steps) or across == "recursive_doubling"
        assert [parts for *_, parts in sent] == sorted(parts for *_, parts in sent)
        assert sent[0][2] == 1


@pytest.mark.parametrize("size", [2, 4, 8])
def test_shares_that_join_are_exchanged_as_one_block(size: int) -> None:
    """Among all ranks neighbours exchange first, so that each message is one run of memory."""
    for algorithm in ("recursive_doubling", "bruck"):
        for plan in dicts("all_gather", Topology(size), algorithm):
            sends = [step["src"] for step in plan["steps"] if step["kind"] == "send"]
            parts = [[part for _, part, _, _ in src] for src in sends]
            assert all((b - a) % size == 1 for run in parts for a, b in pairwise(run))


@pytest.mark.parametrize("across", ACROSS)
def test_two_levels_use_fewer_rounds_across_nodes_than_a_flat_one(across: str) -> None:
    """A rank of 8 × 8 sends 7 messages (ring, direct) or 3 (Bruck) to other nodes, where a flat ring sends 63."""
    topology = Topology.parse("8x8", 64)
    sent: dict[int, int] = defaultdict(int)
    for a, _, _ in crossings(topology, dicts("all_gather", topology, f"hierarchical({across},direct)")):
        sent[a] += 1
    assert set(sent.values()) == {3 if across == "bruck" else 7}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_pair_of_algorithms_on_every_small_grid() -> None:
    for nodes, ranks in combinations(range(1, 9), 2):
        for shape in (f"{nodes}x{ranks}", f"{ranks}x{nodes}:cyclic"):
            topology = Topology.parse(shape, nodes * ranks)
            for collective in ("all_gather", "reduce_scatter", "all_reduce"):
                # Plans by NCCL and by peers are those by MPI.
                for algorithm in (
                    a for a in algorithms_for(collective, topology) if "nccl" not in a and "peers" not in a
                ):
                    verify_all_ranks(collective, topology, algorithm, in_place=True)
