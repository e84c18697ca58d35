# SPDX-License-Identifier: Apache-2.0
"""Topology: shapes from text, hosts and levels; groups of ranks; NICs; and wrong input named as such."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanecast._core import Topology, UsageError, assign_nics, nic_balance
from topologies import topologies


def domains(topology: Topology) -> list[list[int]]:
    return [domain for _, domain in topology.levels]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", []),
        ("2x4", [[0, 0, 0, 0, 1, 1, 1, 1]]),
        ("2x4:block", [[0, 0, 0, 0, 1, 1, 1, 1]]),
        ("2x4:cyclic", [[0, 1, 0, 1, 0, 1, 0, 1]]),
        ("1x8", [[0] * 8]),
        ("8x1", [list(range(8))]),
        ("3+1+4", [[0, 0, 0, 1, 2, 2, 2, 2]]),
        ("3+1+4:cyclic", [[0, 1, 2, 0, 2, 0, 2, 2]]),
        ("2x2x2", [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3]]),
        ("2x2x2:cyclic", [[0, 1, 0, 1, 0, 1, 0, 1], [0, 2, 1, 3, 0, 2, 1, 3]]),
    ],
)
def test_parse(text: str, expected: list[list[int]]) -> None:
    assert domains(Topology.parse(text, 8)) == expected


@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.booleans())
def test_nested_levels_are_mixed_radix_digits_of_the_rank(shape: list[int], cyclic: bool) -> None:
    size = 1
    for n in shape:
        size *= n
    topology = Topology.parse("x".join(map(str, shape)) + (":cyclic" if cyclic else ""), size)
    assert len(topology.levels) == len(shape) - 1
    for rank in range(size):
        rest, digits = rank, []
        for n in shape if cyclic else reversed(shape):
            digits.append(rest % n)
            rest //= n
        place = digits if cyclic else digits[::-1]
        index = 0
        for level, (_, domain) in enumerate(topology.levels):
            index = index * shape[level] + place[level]
            assert domain[rank] == index


def test_level_names() -> None:
    assert [name for name, _ in Topology.parse("2x2x2x2", 16).levels] == ["node", "device", "die"]
    assert [name for name, _ in Topology.parse("2x2x2x2x2", 32).levels] == [f"level{k}" for k in range(4)]


@pytest.mark.parametrize("text", ["8", "2x4", "3+1+4", "2x2x2", "1x8", "8x1"])
def test_text_round_trip(text: str) -> None:
    assert str(Topology.parse(text, 8)) == text
    assert repr(Topology.parse(text, 8)) == f"Topology('{text}')"


def test_levels_round_trip() -> None:
    levels = [("rack", [0, 0, 0, 1, 1]), ("node", [0, 0, 1, 2, 2])]
    topology = Topology(5, levels)
    assert topology.levels == levels
    assert topology.size == 5
    assert str(topology) == "2xuneven(3 nodes)"


def test_domains_may_carry_any_numbers() -> None:
    topology = Topology(4, [("node", [70, -3, 70, -3])])
    assert topology.partition([0, 1, 2, 3], 0) == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [(["a"], []), (["a", "a"], []), (["b", "a", "b"], [[0, 1, 0]]), (["a", "b", "c"], [[0, 1, 2]])],
)
def test_hosts(hosts: list[str], expected: list[list[int]]) -> None:
    assert domains(Topology.from_hosts(hosts)) == expected


@given(topologies(40), st.randoms(use_true_random=False))
def test_partition_keeps_every_rank_and_its_order(topology: Topology, random: Any) -> None:
    ranks = random.sample(range(topology.size), random.randint(1, topology.size))
    for k, (_, domain) in enumerate(topology.levels):
        parts = topology.partition(ranks, k)
        assert sorted(r for part in parts for r in part) == sorted(ranks)
        assert [part[0] for part in parts] == sorted((p[0] for p in parts), key=ranks.index)
        for part in parts:
            assert part == [r for r in ranks if domain[r] == domain[part[0]]]


@given(topologies(40), st.data())
def test_ranks_part_at_the_outermost_level_that_divides_them(topology: Topology, data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(0, topology.size - 1)) for _ in range(2))
    apart = [k for k, domain in enumerate(domains(topology)) if domain[a] != domain[b]]
    assert topology.parting_level(a, b) == min(apart, default=len(topology.levels))


@given(topologies(40), st.randoms(use_true_random=False))
def test_subset_groups_as_the_whole_does(topology: Topology, random: Any) -> None:
    ranks = random.sample(range(topology.size), random.randint(1, topology.size))
    subset = topology.subset(ranks)
    assert subset.size == len(ranks)
    kept = dict(subset.levels)
    for name, domain in topology.levels:
        places = [domain[r] for r in ranks]
        assert kept.get(name) == (places if len(set(places)) > 1 else None)


@pytest.mark.parametrize(
    ("ranks", "nics", "nic_map", "expected", "balance"),
    [
        (8, 4, "packed", [0, 0, 1, 1, 2, 2, 3, 3], 1.0),
        (8, 4, "round_robin", [0, 1, 2, 3, 0, 1, 2, 3], 1.0),
        (4, 4, "one_to_one", [0, 1, 2, 3], 1.0),
        (12, 8, "round_robin", [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3], 0.75),
        (12, 8, "packed", [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7], 0.75),
        (2, 4, "packed", [0, 2], 0.5),
        (1, 1, "one_to_one", [0], 1.0),
    ],
)
def test_nics(ranks: int, nics: int, nic_map: str, expected: list[int], balance: float) -> None:
    assert assign_nics(ranks, nics, nic_map) == expected
    assert nic_balance(expected, nics) == balance


@given(st.integers(1, 64), st.integers(1, 16), st.sampled_from(["packed", "round_robin"]))
def test_nics_are_loaded_as_evenly_as_can_be(ranks: int, nics: int, nic_map: str) -> None:
    nic_of_rank = assign_nics(ranks, nics, nic_map)
    loads = [nic_of_rank.count(nic) for nic in range(nics)]
    assert max(loads) == -(-ranks // nics)
    assert nic_balance(nic_of_rank, nics) == pytest.approx(ranks / (nics * max(loads)))


def levels(*lists: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    return [(f"level{k}", domain) for k, domain in enumerate(lists)]


HUGE = "x".join(["100000"] * 5)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Topology.parse("2x4", 9), "topology '2x4' describes 8 ranks, but there are 9"),
        (lambda: Topology.parse("3+4", 9), "topology '3\\+4' describes 7 ranks"),
        (lambda: Topology.parse("2x4", 1), "describes 8 ranks, but there is only this one; start them by mpirun -n 8"),
        (lambda: Topology.parse("2x4:random", 8), "topology '2x4:random': unknown layout 'random'"),
        (lambda: Topology.parse("2x4:", 8), "topology '2x4:': unknown layout ''"),
        *[
            (lambda text=text: Topology.parse(text, 8), "topology '.*': expected sizes such as")
            for text in (
                "",
                "x",
                "2x",
                "x4",
                "2x-4",
                "0x8",
                "2 x 4",
                "2x4.0",
                "4+",
                "+",
                "4+0+4",
                "2+2x3",
                "9999999999",
            )
        ],
        (lambda: Topology.parse(HUGE, 8), f"topology '{HUGE}' describes more than"),
        (lambda: Topology(0), "size: .* not 0"),
        (lambda: Topology(-1), "size: .* not -1"),
        (lambda: Topology(4, levels([0, 0, 1])), "topology: level 'level0' places 3 ranks, the communicator has 4"),
        (
            lambda: Topology(4, levels([0, 0, 1, 1], [0, 1, 1, 2])),
            r"domain 1 of level 'level1' \(rank 2\) reaches into",
        ),
        (lambda: Topology.from_hosts([]), "hosts: "),
        (lambda: Topology(4).partition([0], 0), "level: 0 does not exist"),
        (lambda: Topology.parse("2x2", 4).partition([0], -1), "level: -1 does not exist"),
        (lambda: Topology.parse("2x2", 4).partition([0, 4], 0), "ranks: rank 4 does not exist among 4"),
        (lambda: Topology.parse("2x2", 4).parting_level(0, 4), "rank 4 does not exist among 4"),
        (lambda: Topology.parse("2x2", 4).subset([-1]), "ranks: rank -1 does not exist"),
        (lambda: Topology.parse("2x2", 4).subset([]), "ranks: "),
        (lambda: Topology.parse("2x2", 4).subset([2, 3, 2]), "ranks: rank 2 is named twice"),
        (lambda: assign_nics(8, 4, "one_to_one"), "nics: one-to-one .* not 4 NICs for 8 ranks"),
        (lambda: assign_nics(8, 0, "packed"), "nics: "),
        (lambda: assign_nics(0, 4, "packed"), "nics: .* at least one rank"),
        (lambda: assign_nics(8, 4, "dealt"), "nic_map 'dealt': expected packed, round_robin or one_to_one"),
        (lambda: nic_balance([0], 0), "nics: "),
        (lambda: nic_balance([], 4), "nic_of_rank: "),
        (lambda: nic_balance([0, 4], 4), "nic_of_rank: NIC 4 does not exist among 4"),
    ],
)
def test_wrong_input_is_named(call: Callable[[], Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        call()
