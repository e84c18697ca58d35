# SPDX-License-Identifier: Apache-2.0
"""Named algorithms among the GPUs of one host, without a GPU: each is a program, which one kernel interprets."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Case, even
from gpu_stand_in import (
    Tensor,
    expect_different_calls,
    in_place_is_offered,
    judge,
    outcomes,
    shape_cases,
    tensor,
    type_cases,
)
from lanecast import Communicator
from pipe_jobs import Tell

SHAPES = [
    (2, "2x1", "ring", (0, 1, 5, 2003)),
    (3, "3", "direct", (1, 700)),
    (4, "2x2", "hierarchical(ring,peers)", (331,)),
    (3, "2+1", "hierarchical(direct,peers)", (83,)),
    (4, "4", "recursive_doubling", (77,)),
    (4, "2x2", "hierarchical(bruck,direct)", (40,)),
]


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize(("size", "topology", "algorithm", "counts"), SHAPES)
def test_each_shape(size: int, topology: str, algorithm: str, counts: tuple[int, ...], kernel_cache: str) -> None:
    judge(size, shape_cases(size, algorithm, counts, (0, 5)), kernel_cache, topology=topology)


@pytest.mark.timeout(400)
def test_each_type_and_operator(kernel_cache: str) -> None:
    judge(2, type_cases(), kernel_cache, topology="2")


@pytest.mark.timeout(400)
def test_all_reduces_that_are_no_all_gathers(kernel_cache: str) -> None:
    cases = [Case("all_reduce", (count,), name) for name in ("one_shot", "double_tree", "folding") for count in (1, 90)]
    judge(3, cases, kernel_cache, topology="3")


@pytest.mark.timeout(400)
def test_rooted_ones_and_all_to_all(kernel_cache: str) -> None:
    algorithms = [
        *itertools.product(("broadcast", "reduce"), ("binomial", "chain", "direct", "scatter_all_gather")),
        *itertools.product(("gather", "scatter"), ("binomial", "direct")),
        *itertools.product(("all_to_all",), ("pairwise", "bruck")),
    ]
    cases = [
        Case(kind, even(kind, 50, 3), algorithm, in_place=in_place_is_offered(kind)[0], root=1, chunks=2)
        for kind, algorithm in algorithms
    ]
    judge(3, cases, kernel_cache, topology="3")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [1, 3])
def test_counts_that_each_rank_knows_for_itself_by_a_named_algorithm(size: int, kernel_cache: str) -> None:
    counts = (4, 7, 20, 1, 0, 33, 5, 0, 2)[: size * size]
    cases = [
        Case("all_to_all", counts, "pairwise", "float64", async_op=async_op, own_counts=True)
        for async_op in (False, True)
    ]
    judge(size, cases, kernel_cache, topology=str(size))


def forwards(comm: Communicator, _: Tell) -> list[str]:
    said = []
    for options in ({"algorithm": "bruck"}, {"algorithm": "pairwise", "chunks": 2}):
        with pytest.raises(lanecast.UsageError) as caught:
            comm.all_to_all_single(tensor(comm, 8), tensor(comm, 8), [4, 4], [4, 4], **options)
        said.append(str(caught.value))
    return said


def test_counts_of_its_own_and_what_has_no_use_for_them(kernel_cache: str) -> None:
    for outcome in outcomes(2, forwards, kernel_cache, topology="2"):
        assert outcome.text == ""
        assert "algorithm 'bruck': forwards what other ranks are to get" in outcome.value[0]
        assert "chunks=2: messages of send_counts and recv_counts are cut pair by pair" in outcome.value[1]


def captured(comm: Communicator, _: Tell) -> list[str]:
    """What is captured runs when its graph does, which the stand-in has no replays of."""
    x = tensor(comm, 8)
    said = []
    gpu_host_library.capture(on=True)
    with pytest.raises(lanecast.UsageError) as caught:
        comm.all_reduce(x, algorithm="ring")
    said.append(str(caught.value).split(": ", 1)[1][:50])
    gpu_host_library.capture(on=False)
    comm.all_reduce(x, algorithm="ring")
    comm.synchronize()
    gpu_host_library.capture(on=True)
    comm.all_reduce(x, algorithm="ring")
    gpu_host_library.capture(on=False)
    comm.synchronize()
    return [*said, str(x.array[0])]


def test_captures(kernel_cache: str) -> None:
    for outcome in outcomes(2, captured, kernel_cache, topology="2"):
        assert outcome.text == ""
        first, total = outcome.value
        assert first.startswith("no CUDA graph can capture a communicator's first c")
        assert total == "2.0"


def ranks_differ(comm: Communicator, _: Tell) -> None:
    x: Any = tensor(comm, 8)
    comm.all_reduce(x, algorithm="ring")
    comm.all_reduce(tensor(comm, 8 + 8 * comm.rank), algorithm="ring")
    comm.synchronize()


def test_different_calls(kernel_cache: str) -> None:
    expect_different_calls(outcomes(2, ranks_differ, kernel_cache, topology="2", timeout_s=60.0))


def same_shapes_in_turn(comm: Communicator, _: Tell) -> list[bool]:
    """More than fit on a device at a time would be made again; these are not."""
    right = []
    for turn in range(3):
        for count in range(1, 41):
            x = Tensor(np.full(count, 1.0 + comm.rank + turn), "float64", comm.rank)
            comm.all_reduce(x, algorithm="direct")
            comm.synchronize()
            right.append(bool((x.array == comm.size * (1 + turn) + comm.size * (comm.size - 1) / 2).all()))
    return [all(right)]


@pytest.mark.timeout(400)
def test_many_shapes(kernel_cache: str) -> None:
    for outcome in outcomes(2, same_shapes_in_turn, kernel_cache, topology="2"):
        assert (outcome.text, outcome.value) == ("", [True])
