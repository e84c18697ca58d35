# SPDX-License-Identifier: Apache-2.0
"""Collectives among threads: every algorithm, type, operator and count, in place or not, chunked, started."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lanecast
from collective_cases import DTYPES, Call, Case, among_threads, even, ops_of
from lanecast import _core

KINDS: tuple[str, ...] = _core.KINDS
REDUCING = ("reduce_scatter", "all_reduce", "reduce")
TOPOLOGIES = {
    "1": 1, "2": 2, "3": 3, "4": 4, "7": 7,
    "2x2": 4, "2x3:cyclic": 6, "3+1+2": 6, "2x2x2": 8,
}  # fmt: skip
# None, one, some that nothing here divides, some that everything here divides.
COUNTS = (0, 1, 2, 7, 48, 101)


def algorithms(kind: str, topology: str) -> list[str]:
    size = TOPOLOGIES[topology]
    described = _core.Topology.parse(topology, size) if topology != str(size) else _core.Topology(size)
    return [name for name in _core.algorithms_for(kind, described) if not _core.has_library(name)]


def uneven(size: int) -> tuple[int, ...]:
    return tuple((5 * rank * rank) % 11 for rank in range(size))  # 0, 5, 9, 1, 3, 4, 4, 3: zeros among them


def uneven_pairs(size: int) -> tuple[int, ...]:
    """Of an all-to-all: no two ranks send each other the same, and some nothing."""
    return tuple((7 * sender + 3 * receiver * receiver) % 13 for sender in range(size) for receiver in range(size))


def own_counts_suffice(kind: str, algorithm: str) -> bool:
    """Algorithms in which no rank forwards what others are to get."""
    return kind in ("gather", "scatter", "all_to_all") and algorithm in ("", "direct", "pairwise")


def cases(kind: str, topology: str, every: int) -> Iterator[Case]:
    """Every algorithm with every count, or in turn with every so-manieth; so take turns the other properties."""
    size = TOPOLOGIES[topology]
    properties = itertools.product((False, True), (0, 1, 3, 16), (False, True), ("float32", "int64", "int8"))
    turns = itertools.cycle(properties)
    roots = itertools.cycle(range(size) if _core.has_root(kind) else [0])
    for turn, algorithm in enumerate(algorithms(kind, topology)):
        shapes = [even(kind, count, size) for count in COUNTS]
        if len(shapes[0]) == size > 1:
            shapes += [uneven(size), uneven(size)[::-1], (0,) * (size - 1) + (13,)]
        for counts in shapes[turn % every :: every]:
            in_place, chunks, async_op, dtype = next(turns)
            in_place = in_place and _core.may_be_in_place(kind)
            yield Case(
                kind, counts, algorithm, dtype, in_place=in_place, chunks=chunks, async_op=async_op, root=next(roots)
            )
        if own_counts_suffice(kind, algorithm):
            for counts in (uneven_pairs(size),) if kind == "all_to_all" else (uneven(size), uneven(size)[::-1]):
                in_place, chunks, async_op, dtype = next(turns)
                in_place = in_place and _core.may_be_in_place(kind)
                yield Case(
                    kind, counts, algorithm, dtype, in_place=in_place, chunks=chunks, async_op=async_op,
                    root=next(roots), own_counts=True,
                )  # fmt: skip


def described(topology: str) -> dict[str, str]:
    return {} if topology.isdigit() else {"topology": topology}


# For three levels there are hundreds of algorithms.
@pytest.mark.parametrize(
    ("topology", "every"),
    [*((topology, 4 if topology == "2x2x2" else 1) for topology in TOPOLOGIES),
     pytest.param("2x2x2", 1, marks=pytest.mark.long)],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_every_algorithm(kind: str, topology: str, every: int) -> None:
    assert among_threads(TOPOLOGIES[topology], list(cases(kind, topology, every)), **described(topology)) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("algorithm", "kinds"),
    [
        ("ring", ["all_gather", "reduce_scatter", "all_reduce"]),
        ("folding", ["all_reduce"]),
        ("one_shot", ["all_reduce"]),
        ("double_tree", ["all_reduce"]),
        ("hierarchical(bruck,direct)", ["all_gather", "reduce_scatter", "all_reduce"]),
        ("binomial", ["broadcast", "reduce", "scatter", "gather"]),
        ("hierarchical(direct,binomial)", ["broadcast", "reduce", "scatter", "gather"]),
        ("hierarchical(bruck,pairwise)", ["all_to_all"]),
    ],
)
def test_every_type_and_operator(algorithm: str, kinds: list[str], dtype: str) -> None:
    chosen = [
        Case(kind, even(kind, 37, 6), algorithm, dtype, op, chunks=chunks, exact=exact, root=4)
        for kind in kinds
        for op in ops_of(dtype)
        for exact in (True, False)
        for chunks in (1, 2)
        if kind in REDUCING or op == "sum"
    ]
    assert among_threads(6, chosen, topology="3x2") == []


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_average_divides_once_by_any_number_of_ranks(dtype: str) -> None:
    for size in (1, 2, 3, 5):
        chosen = [
            Case(kind, even(kind, 11, size), algorithm, dtype, "avg", in_place, root=size - 1)
            for kind, algorithm in (
                *itertools.product(("all_reduce", "reduce_scatter"), ("ring", "bruck", "direct")),
                *itertools.product(["reduce"], ("binomial", "chain", "direct", "scatter_all_gather")),
                ("all_reduce", "double_tree"),
            )
            for in_place in (False, True)
        ]
        assert among_threads(size, chosen) == []


@given(data=st.data())
def test_any_counts_and_options(data: st.DataObject) -> None:
    topology = data.draw(st.sampled_from(["3", "2x2", "3+1+2"]))
    size = TOPOLOGIES[topology]
    some = []
    for _ in range(8):
        kind = data.draw(st.sampled_from(KINDS))
        dtype = data.draw(st.sampled_from(list(DTYPES)))
        shares = len(even(kind, 0, size))
        own = kind == "all_to_all" or (kind in ("gather", "scatter") and data.draw(st.booleans()))
        names = [name for name in algorithms(kind, topology) if not own or own_counts_suffice(kind, name)]
        some.append(
            Case(
                kind,
                tuple(data.draw(st.lists(st.integers(0, 300), min_size=shares, max_size=shares))),
                data.draw(st.sampled_from(["", *names])),
                dtype,
                data.draw(st.sampled_from(ops_of(dtype))),
                _core.may_be_in_place(kind) and data.draw(st.booleans()),
                data.draw(st.integers(0, 40)),
                data.draw(st.booleans()),
                root=data.draw(st.integers(0, size - 1)),
                own_counts=own,
            )
        )
    assert among_threads(size, some, **described(topology)) == []


@pytest.mark.parametrize("count", [100_003, 1_000_000])
@pytest.mark.parametrize(
    ("algorithm", "kinds"),
    [
        ("", KINDS),
        ("ring", KINDS[:3]),
        ("hierarchical(ring,direct)", KINDS[:3]),
        ("hierarchical(bruck,bruck)", KINDS[:3]),
        ("hierarchical(direct,binomial)", ("broadcast", "reduce", "gather", "scatter")),
        ("chain", ("broadcast", "reduce")),
    ],
)
def test_large_buffers_in_many_chunks(algorithm: str, kinds: Sequence[str], count: int) -> None:
    chosen = [
        Case(kind, even(kind, count // len(even(kind, 0, 4)), 4), algorithm, dtype, chunks=chunks, root=2)
        for kind in kinds
        for dtype, chunks in (("float32", 0), ("int16", 7), ("uint8", 64))
    ]
    assert among_threads(4, chosen, topology="2x2") == []


@pytest.mark.parametrize("kind", ["gather", "scatter", "all_to_all"])
def test_own_counts_refuse_algorithms_that_forward(kind: str) -> None:
    size = 4
    case = Case(kind, uneven_pairs(size) if kind == "all_to_all" else uneven(size), own_counts=True)

    def on_rank(comm: lanecast.Communicator) -> None:
        for algorithm in algorithms(kind, "2x2"):
            if own_counts_suffice(kind, algorithm):
                continue
            with pytest.raises(lanecast.UsageError, match=re.escape(f"'{algorithm}': forwards")):
                Call(comm, replace(case, algorithm=algorithm)).start()

    lanecast.run_threads(size, on_rank, topology="2x2")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("broadcast", (3,), root=2), "rank 0: broadcast: root: rank 2 does not exist among 2"),
        (Case("gather", (3, 3), root=-1), "rank 0: dst: rank -1 is outside 0 to 1"),
        (Case("gather", (3, 3), root=-1, own_counts=True), "gather: root: rank -1 does not exist"),
        (Case("all_to_all", (1, 2, 3, 4)), "rank 0: input has 3 rows, which 2 ranks cannot share evenly"),
        (Case("reduce", (3,), own_counts=True), "only gather, scatter and all_to_all take them"),
    ],
)
def test_roots_and_counts_that_do_not_fit_are_refused(case: Case, said: str) -> None:
    def on_rank(comm: lanecast.Communicator) -> None:
        if comm.rank == 0:
            with pytest.raises(lanecast.UsageError, match=said):
                Call(comm, case).start()

    lanecast.run_threads(2, on_rank)


def test_an_all_to_all_is_never_in_place() -> None:
    def on_rank(comm: lanecast.Communicator) -> None:
        array = np.zeros(6, np.float32)
        kind, dtype = _core.KINDS.index("all_to_all"), _core.DTYPES.index("float32")
        with pytest.raises(lanecast.UsageError, match="it cannot be in-place"):
            comm._core.run(kind, array, array, dtype, 0, 3, [], "", 0)

    lanecast.run_threads(2, on_rank)
    with pytest.raises(lanecast.UsageError, match="needs two buffers"):
        _core.make_plan("all_to_all", 0, _core.Topology(2), "bruck", in_place=True)
