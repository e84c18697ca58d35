# SPDX-License-Identifier: Apache-2.0
"""Collectives among threads: every algorithm, type, operator and count, in place or not, chunked, started."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collective_cases import DTYPES, Case, among_threads, ops_of
from lanecast import _core

KINDS: tuple[str, ...] = _core.KINDS
TOPOLOGIES = {
    "1": 1, "2": 2, "3": 3, "4": 4, "7": 7,
    "2x2": 4, "2x3:cyclic": 6, "3+1+2": 6, "2x2x2": 8,
}  # fmt: skip
# None, one, some that nothing here divides, some that everything here divides.
COUNTS = (0, 1, 2, 7, 48, 101)


def algorithms(kind: str, topology: str) -> list[str]:
    size = TOPOLOGIES[topology]
    described = _core.Topology.parse(topology, size) if topology != str(size) else _core.Topology(size)
    return [name for name in _core.algorithms_for(kind, described) if "native" not in name]


def parts(kind: str, count: int, size: int) -> tuple[int, ...]:
    return (count,) if kind == "all_reduce" else (count,) * size


def uneven(size: int) -> tuple[int, ...]:
    return tuple((5 * rank * rank) % 11 for rank in range(size))  # 0, 5, 9, 1, 3, 4, 4, 3: zeros among them


def cases(kind: str, topology: str) -> Iterator[Case]:
    """Every algorithm with every count; the other properties take turns so that all meet all."""
    size = TOPOLOGIES[topology]
    properties = itertools.product((False, True), (0, 1, 3, 16), (False, True), ("float32", "int64", "int8"))
    turns = itertools.cycle(properties)
    for algorithm in algorithms(kind, topology):
        shapes = [parts(kind, count, size) for count in COUNTS]
        if kind != "all_reduce" and size > 1:
            shapes += [uneven(size), uneven(size)[::-1], (0,) * (size - 1) + (13,)]
        for counts in shapes:
            in_place, chunks, async_op, dtype = next(turns)
            yield Case(kind, counts, algorithm, dtype, in_place=in_place, chunks=chunks, async_op=async_op)


def described(topology: str) -> dict[str, str]:
    return {} if topology.isdigit() else {"topology": topology}


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_algorithm(kind: str, topology: str) -> None:
    assert among_threads(TOPOLOGIES[topology], list(cases(kind, topology)), **described(topology)) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ["ring", "folding", "one_shot", "hierarchical(bruck,direct)"])
def test_every_type_and_operator(algorithm: str, dtype: str) -> None:
    kinds = ["all_reduce"] if algorithm in ("folding", "one_shot") else KINDS
    chosen = [
        Case(kind, parts(kind, 37, 6), algorithm, dtype, op, chunks=chunks, exact=exact)
        for kind in kinds
        for op in ops_of(dtype)
        for exact in (True, False)
        for chunks in (1, 2)
        if kind != "all_gather" or op == "sum"
    ]
    assert among_threads(6, chosen, topology="3x2") == []


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_average_divides_once_by_any_number_of_ranks(dtype: str) -> None:
    for size in (1, 2, 3, 5):
        chosen = [
            Case(kind, parts(kind, 11, size), algorithm, dtype, "avg", in_place)
            for kind in ("all_reduce", "reduce_scatter")
            for algorithm in ("ring", "bruck", "direct")
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
        shares = 1 if kind == "all_reduce" else size
        some.append(
            Case(
                kind,
                tuple(data.draw(st.lists(st.integers(0, 300), min_size=shares, max_size=shares))),
                data.draw(st.sampled_from(["", *algorithms(kind, topology)])),
                dtype,
                data.draw(st.sampled_from(ops_of(dtype))),
                data.draw(st.booleans()),
                data.draw(st.integers(0, 40)),
                data.draw(st.booleans()),
            )
        )
    assert among_threads(size, some, **described(topology)) == []


@pytest.mark.parametrize("count", [100_003, 1_000_000])
@pytest.mark.parametrize("algorithm", ["", "ring", "hierarchical(ring,direct)", "hierarchical(bruck,bruck)"])
def test_large_buffers_in_many_chunks(algorithm: str, count: int) -> None:
    chosen = [
        Case(kind, parts(kind, count if kind == "all_reduce" else count // 4, 4), algorithm, dtype, chunks=chunks)
        for kind in KINDS
        for dtype, chunks in (("float32", 0), ("int16", 7), ("uint8", 64))
    ]
    assert among_threads(4, chosen, topology="2x2") == []
