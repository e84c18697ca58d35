# SPDX-License-Identifier: Apache-2.0
"""Broadcast, reduce, gather, scatter, all-to-all and the double tree: as cheap as their files say, and chosen where
they are cheapest."""

from __future__ import annotations

import os
from collections import defaultdict
from fractions import Fraction
from math import ceil, log2

import pytest

import lanecast
from lanecast import _core
from lanecast._core import Topology, make_plan, make_plans
from lanecast.plans.flow import Flow, Transfer, trace
from processor_time import processor_s
from ranks import Rank, in_processes

SIZES = [2, 3, 5, 8, 13, 16]


def flow_of(collective: str, topology: Topology, algorithm: str, root: int = 0) -> Flow:
    return trace(make_plans(collective, topology, algorithm, root=root), topology)


def sent(flow: Flow) -> dict[int, Fraction]:
    """Share of the full buffer that each rank sends."""
    total: dict[int, Fraction] = defaultdict(Fraction)
    for t in flow.transfers:
        total[t.sender] += flow.share(t.pieces)
    return total


def messages(flow: Flow) -> dict[int, int]:
    count: dict[int, int] = defaultdict(int)
    for t in flow.transfers:
        count[t.sender] += 1
    return count


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_rounds_and_bytes(size: int) -> None:
    topology, root = Topology(size), size // 2
    log, shared = ceil(log2(size)), Fraction(size - 1, size)
    # Algorithm → rounds, messages in all, the most that one rank sends.
    promised: dict[str, tuple[int, int, int | Fraction]] = {
        "binomial": (log, size - 1, log),
        "chain": (size - 1, size - 1, 1),
        "direct": (1, size - 1, size - 1),
        "scatter_all_gather": (log + size - 1, (size - 1) * (size + 1), 2 * shared),
    }
    for algorithm, (rounds, total, most) in promised.items():
        for collective in ("broadcast", "reduce"):
            flow = flow_of(collective, topology, algorithm, root)
            assert len(flow.transfers) == total
            if collective == "broadcast" or algorithm != "direct":  # whose root adds one after the other
                assert flow.rounds <= rounds
            if collective == "broadcast":
                assert max(sent(flow).values()) <= most


@pytest.mark.parametrize("size", SIZES)
def test_reduce_sends_what_the_broadcast_receives(size: int) -> None:
    def pairs(collective: str, algorithm: str) -> list[tuple[int, int, Fraction]]:
        flow = flow_of(collective, Topology(size), algorithm, size - 1)
        ends = (("sender", "receiver"), ("receiver", "sender"))[collective in ("reduce", "gather")]
        return sorted((getattr(t, ends[0]), getattr(t, ends[1]), flow.share(t.pieces)) for t in flow.transfers)

    for forward, backward in (("broadcast", "reduce"), ("scatter", "gather")):
        for algorithm in _core.algorithms_for(forward, Topology(size)):
            if not _core.has_library(algorithm):
                assert pairs(forward, algorithm) == pairs(backward, algorithm)


@pytest.mark.parametrize("size", SIZES)
def test_scatter_rounds_and_bytes(size: int) -> None:
    for algorithm, rounds in (("binomial", ceil(log2(size))), ("direct", 1)):
        flow = flow_of("scatter", Topology(size), algorithm, root=1)
        assert flow.rounds <= rounds
        assert len(flow.transfers) == size - 1
        assert max(sent(flow).values()) == sent(flow)[1] == Fraction(size - 1, size)


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all_rounds_and_bytes(size: int) -> None:
    log = ceil(log2(size))
    pairwise = flow_of("all_to_all", Topology(size), "pairwise")
    assert set(messages(pairwise).values()) == {size - 1}
    assert set(sent(pairwise).values()) == {Fraction(size - 1, size)}
    bruck = flow_of("all_to_all", Topology(size), "bruck")
    assert bruck.rounds <= log
    assert set(messages(bruck).values()) == {log}
    assert max(sent(bruck).values()) <= Fraction(log, 2)


@pytest.mark.parametrize("size", [*SIZES, 64, 100])
def test_two_trees_share_the_work(size: int) -> None:
    flow = flow_of("all_reduce", Topology(size), "double_tree")
    assert max(sent(flow).values()) <= 2
    assert max(messages(flow).values()) <= 6
    assert flow.rounds <= 3 * ceil(log2(size))


def across(flow: Flow) -> list[Transfer]:
    return [t for t in flow.transfers if t.level == 0]


@pytest.mark.parametrize("root", [0, 5, 11])
@pytest.mark.parametrize("name", ["hierarchical(chain,direct)", "hierarchical(binomial,chain)"])
def test_a_broadcast_enters_each_node_once_and_through_every_lane(name: str, root: int) -> None:
    flow = flow_of("broadcast", Topology.parse("3x4", 12), name, root)
    entered: dict[int, Fraction] = defaultdict(Fraction)
    for t in across(flow):
        entered[t.receiver] += flow.share(t.pieces)
    assert entered == {rank: Fraction(1, 4) for rank in range(12) if rank // 4 != root // 4}


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_stripes_take_the_link_between_the_root_and_each_rank_of_its_node(collective: str) -> None:
    """A tree would send half of the vector by one link."""
    flow = flow_of(collective, Topology.parse("2x8", 16), "hierarchical(chain,direct)", 3)
    stripes: dict[int, Fraction] = defaultdict(Fraction)
    for t in flow.transfers:
        root, other = (t.sender, t.receiver) if collective == "broadcast" else (t.receiver, t.sender)
        if root == 3 and other < 8:
            stripes[other] += flow.share(t.pieces)
    assert set(stripes) == set(range(8)) - {3}
    assert max(stripes.values()) <= Fraction(2, 8)  # its stripe to hand out, and the root's own to be gathered


@pytest.mark.parametrize(("shape", "largest"), [("2x4x2", Fraction(1, 8)), ("2x4x4", Fraction(1, 2))])
def test_of_several_levels_few_ranks_get_their_stripes_from_the_root(shape: str, largest: Fraction) -> None:
    """Many may be those of a rack, where each message of the root takes its NIC: they go down a tree."""
    topology = Topology.parse(shape, 2 * 4 * int(shape[-1]))
    flow = flow_of("broadcast", topology, "hierarchical(chain,direct,direct)", 3)
    first = [flow.share(t.pieces) for t in flow.transfers if t.sender == 3 and t.round == 1]
    assert max(first) == largest


@pytest.mark.parametrize("root", [0, 5, 11])
def test_a_scatter_leaves_through_every_lane(root: int) -> None:
    flow = flow_of("scatter", Topology.parse("3x4", 12), "hierarchical(direct,direct)", root)
    left: dict[int, Fraction] = defaultdict(Fraction)
    for t in across(flow):
        left[t.sender] += flow.share(t.pieces)
    assert left == {root // 4 * 4 + j: Fraction(2, 12) for j in range(4)}


def test_an_all_to_all_sends_each_other_node_one_message_a_rank() -> None:
    flow = flow_of("all_to_all", Topology.parse("3x4", 12), "hierarchical(pairwise,pairwise)")
    crossing = across(flow)
    assert {(t.sender, t.receiver // 4) for t in crossing} == {
        (rank, node) for rank in range(12) for node in range(3) if node != rank // 4
    }
    assert len(crossing) == 12 * 2
    assert {flow.share(t.pieces) for t in crossing} == {Fraction(4, 12)}


@pytest.mark.parametrize(
    ("text", "size", "levels", "rounds"),
    [("3x4", 12, 2, 2), ("2x4x2", 16, 3, 3), ("3x3x3", 27, 3, 3), ("3+1+4", 8, 2, 3)],
)
def test_exchanges_of_an_all_to_all_wait_for_nothing_but_their_level(
    text: str, size: int, levels: int, rounds: int
) -> None:
    """What came by another level lies in scratch, which is free once it is sent: no message of that exchange waits."""
    algorithm = f"hierarchical({','.join(['pairwise'] * levels)})"
    assert flow_of("all_to_all", Topology.parse(text, size), algorithm).rounds == rounds


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("all_to_all", "pairwise"),
        ("all_to_all", "bruck"),
        ("all_to_all", "hierarchical(bruck,pairwise)"),
        ("gather", "hierarchical(binomial,direct)"),
        ("reduce", "hierarchical(chain,direct)"),
    ],
)
def test_one_rank_of_1024_plans_in_an_instant(collective: str, algorithm: str) -> None:
    topology = Topology.parse("128x8", 1024)
    root = 3 if _core.has_root(collective) else 0
    assert min(processor_s(lambda: make_plan(collective, 517, topology, algorithm, root=root)) for _ in range(3)) < 0.5


def test_roots_that_do_not_exist_are_refused() -> None:
    for root in (-1, 3):
        with pytest.raises(lanecast.UsageError, match=f"root: rank {root} does not exist among 3"):
            make_plan("broadcast", 0, Topology(3), "chain", root=root)


LINKS = _core.Models(links=[(1e-6, 2e-10)])


def cheapest(collective: str, size: int, ranks: int, models: _core.Models) -> tuple[str, int]:
    best = _core.candidates(collective, size, Topology(ranks), models)[0]
    return best["algorithm"], best["chunks"]


@pytest.mark.parametrize(
    ("collective", "small", "large"),
    [
        ("broadcast", {"binomial"}, {"chain", "scatter_all_gather"}),
        ("reduce", {"binomial"}, {"chain", "scatter_all_gather"}),
        ("all_to_all", {"bruck"}, {"pairwise"}),
    ],
)
def test_choice_by_size(collective: str, small: set[str], large: set[str]) -> None:
    assert cheapest(collective, 64, 16, LINKS)[0] in small
    assert cheapest(collective, 1 << 24, 16, LINKS)[0] in large


def _in_shared_memory(me: Rank) -> list[str]:
    comm = lanecast.from_all_gather(me.rank, me.size, me.all_gather, transports="shm", profile="none")
    counts = (16 << 10, 256 << 10, 4 << 20)
    return [comm.explain(kind, count).algorithm for kind in ("broadcast", "reduce") for count in counts]


def test_what_a_host_copies_once_goes_straight_to_everyone() -> None:
    """A root's copy serves all ranks of a host; what they send to the root are as many copies as ever."""
    chosen = in_processes(4, _in_shared_memory)[0]
    assert chosen[:3] == ["direct"] * 3
    assert "direct" not in chosen[3:]


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_pipelines_do_not_pay_where_ranks_share_cores(collective: str) -> None:
    """A chain's ranks cannot all work at once there, and each chunk costs every one of them a switch."""
    crowded = _core.Models(links=[(10e-6, 2e-10)]).with_crowd(2)
    for size in (1 << 16, 1 << 18, 1 << 20, 1 << 22):
        assert cheapest(collective, size, 4, crowded)[1] <= min(4, cheapest(collective, size, 4, LINKS)[1])
    assert cheapest(collective, 1 << 18, 4, LINKS)[0] == "chain"
    assert cheapest(collective, 1 << 18, 4, crowded) == ("binomial", 1)


@pytest.mark.parametrize(("kib", "alone", "in_a_row"), [(64, 12, 12), (128, 16, 8), (256, 24, 12), (512, 32, 16)])
def test_pipelines_of_a_host_have_fewer_chunks(kib: int, alone: int, in_a_row: int) -> None:
    """Its ranks are in the call before while a pipeline fills: that time is not lost, and what each chunk costs is."""

    def chunks(models: _core.Models) -> int:
        return _core.best_chunks("reduce", kib << 10, Topology(8), models, "chain")

    network, host = (
        _core.Models(links=[(1e-6, 2e-10)]).with_filling(_core.filling_of(over, kib << 10)) for over in ("ucx", "shm")
    )
    assert (chunks(network), chunks(host)) == (alone, in_a_row)
    assert chunks(host.with_crowd(2)) == chunks(network.with_crowd(2))


@pytest.mark.parametrize(
    ("topology", "links"),
    [(Topology(16), [(1e-6, 2e-10)]), (Topology.parse("4x4", 16), [(2e-6, 2.5e-10), (1e-6, 2e-10)])],
)
def test_receivers_of_a_scatter_copy_their_own_parts_beside_each_other(
    topology: Topology, links: list[tuple[float, float]]
) -> None:
    """By 16 ranks with a core each, the binomial tree took 1.5 ms for 16 MiB, and one to all 0.25."""
    models = _core.Models(links=links).with_reading(32 << 10)
    for size in (1 << 20, 16 << 20):
        assert _core.explain("scatter", size, topology, models)["algorithm"] == "direct"
    one_copy_s = (16 << 20) / 16 * links[0][1]
    assert one_copy_s < _core.predict("scatter", 16 << 20, topology, models, "direct", 1) < 1.2 * one_copy_s
    copied_by_the_root_s = (256 << 10) * 15 / 16 * links[0][1]
    assert _core.predict("scatter", 256 << 10, topology, models, "direct", 1) > copied_by_the_root_s


EAGER = 64 << 10  # bytes of a message


def chunks_where_asked(collective: str, size: int, ranks: int = 2, asking: int = 32 << 10, algorithm: str = "") -> int:
    """Asking takes as long as copying so many bytes, 6.5 us of 32 KiB, and each further message 1 us."""
    models = _core.Models(links=[(1e-6, 2e-10)]).with_asking(EAGER + 1, asking)
    usual = {"reduce": "binomial", "broadcast": "binomial", "all_to_all": "pairwise"}
    algorithm = algorithm or usual.get(collective, "direct")
    return _core.best_chunks(collective, size, Topology(ranks), models, algorithm)


def test_sums_go_in_messages_that_leave_unasked_where_those_are_few() -> None:
    assert [chunks_where_asked("reduce", EAGER * k) for k in (1, 2, 4, 8)] == [1, 2, 4, 1]
    assert chunks_where_asked("reduce", EAGER + 4) == 2
    for ranks in (2, 8):
        size = ranks * EAGER
        assert [chunks_where_asked("reduce_scatter", size * k, ranks) for k in (1, 2, 4, 8)] == [1, 2, 4, 1]
    assert chunks_where_asked("reduce_scatter", 4 * EAGER, asking=1 << 10) == 1


def test_what_is_not_added_goes_in_one_message_each() -> None:
    """Receivers have faster ways for long ones, and what goes to several is copied once only where it is asked for."""
    for collective in ("all_gather", "broadcast", "all_to_all"):
        assert chunks_where_asked(collective, 4 * EAGER) == 1
    assert [chunks_where_asked("all_reduce", 2 * ranks * EAGER, ranks) for ranks in (2, 8)] == [2, 1]
    assert chunks_where_asked("reduce", 16 * EAGER, 8, algorithm="scatter_all_gather") == 1


def _chunks_of_sums(me: Rank) -> list[int]:
    comm = lanecast.from_all_gather(me.rank, me.size, me.all_gather, transports="shm", profile="none")
    return [comm.explain("reduce", kib << 10, "uint8").chunks for kib in (64, 128)]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="each message costs a switch where ranks share a core")
def test_shared_memory_says_what_it_asks_for() -> None:
    assert in_processes(2, _chunks_of_sums) == [[1, 2]] * 2


def test_choice_where_ranks_know_their_own_counts_only() -> None:
    def on_rank(comm: lanecast.Communicator) -> list[str]:
        explained = comm.explain("all_to_all", 1, own_counts=True)
        assert explained.full_bytes == 0
        assert "bruck" not in {candidate.algorithm for candidate in explained.candidates}  # it forwards
        return [comm.chosen("all_to_all", 1)[0], comm.chosen("all_to_all", 1, own_counts=True)[0]]

    for equal, own in lanecast.run_threads(16, on_rank):
        assert (equal, own != equal) == ("bruck", True)


def test_a_communicators_algorithm_is_for_the_collectives_that_have_it() -> None:
    def on_rank(comm: lanecast.Communicator) -> list[str]:
        return [comm.chosen(kind, 4)[0] for kind in ("all_gather", "broadcast")]

    for gathers, broadcasts in lanecast.run_threads(3, on_rank, algorithm="ring"):
        assert gathers == "ring"
        assert broadcasts in _core.algorithms_for("broadcast", Topology(3))
