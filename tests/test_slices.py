# SPDX-License-Identifier: Apache-2.0
"""Slices of calls, as several processes move them: together they give the whole, and each touches its own alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core
from lanecast.bound import KIND, Bound
from lanecast.helpers.slices import parts_read, parts_written, ranges

INT32, SUM = _core.DTYPES.index("int32"), _core.OPS.index("sum")
KINDS = ("all_reduce", "all_gather", "reduce_scatter")
UNTOUCHED = -77


def calls(size: int, topology: _core.Topology) -> Iterator[tuple[str, list[int], str, int]]:
    """Collective, elements of each part, algorithm, chunks."""
    for kind in KINDS:
        for algorithm in _core.algorithms_for(kind, topology):
            if any(library in algorithm for library in ("mpi", "nccl", "peers")):
                continue
            parts = 1 if kind == "all_reduce" else size
            yield kind, [97] * parts, algorithm, 3
            yield kind, [5] * parts, algorithm, 1
            if kind != "all_reduce":
                yield kind, [0, *(13 * r + 1 for r in range(1, size))], algorithm, 2


def bound(call: tuple[str, list[int], str, int], buffers: tuple[Any, Any]) -> Bound:
    kind, counts, algorithm, chunks = call
    uneven = counts if len(set(counts)) > 1 else ()
    return Bound(KIND[kind], *buffers, INT32, SUM, counts[0], uneven, algorithm, chunks)


def moved_in_slices(comm: Communicator, slices: int) -> list[str]:
    wrong = []
    rank, size = comm.rank, comm.size
    for call in calls(size, comm.topology):
        counts = call[1]
        plain = bound(call, (None, None))
        read, written = parts_read(plain, rank, size), parts_written(plain, rank, size)
        source = np.random.default_rng([rank, sum(counts)]).integers(0, 1000, sum(read), np.int32)
        whole, target = np.empty(sum(written), np.int32), np.full(sum(written), UNTOUCHED, np.int32)
        comm._core.run(*bound(call, (source, whole)))
        for index in reversed(range(slices)):
            before = target.copy()
            comm._core.run_slice(index, slices, *bound(call, (source, target)))
            own = np.zeros(target.size, bool)
            for first, count in ranges(written, index, slices):
                own[first : first + count] = True
            if (target[own] != whole[own]).any() or (target[~own] != before[~own]).any():
                wrong.append(f"rank {rank}: {call}: slice {index} of {slices}")
    return wrong


@pytest.mark.parametrize(
    ("topology", "slices"),
    [
        ("1", 3),
        ("3", 2),
        ("3", 16),
        ("2x2", 3),
        ("2+1", 4),
        *(pytest.param("7", n, marks=pytest.mark.long) for n in (2, 8)),
    ],
)
def test_slices_make_the_whole(topology: str, slices: int) -> None:
    size = {"1": 1, "3": 3, "2x2": 4, "2+1": 3, "7": 7}[topology]
    for wrong in lanecast.run_threads(size, lambda comm: moved_in_slices(comm, slices), topology=topology):
        assert wrong == []


def test_ranks_that_move_other_slices_are_named() -> None:
    def differ(comm: Communicator) -> str:
        vector = np.zeros(100, np.int32)
        call = bound(("all_reduce", [100], "ring", 1), (vector, vector))
        with pytest.raises(lanecast.TransportError) as raised:
            comm._core.run_slice(comm.rank, 2, *call)
        return str(raised.value)

    for said in lanecast.run_threads(2, differ):
        assert "slice 0 of 2" in said
        assert "slice 1 of 2" in said


@pytest.mark.parametrize(("index", "slices"), [(2, 2), (-1, 2), (0, 0), (0, 1025)])
def test_slices_that_are_none_are_refused(index: int, slices: int) -> None:
    comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
    vector = np.zeros(100, np.int32)
    with pytest.raises(lanecast.UsageError, match=f"slice: {index} of {slices} is none of at most 1024"):
        comm._core.run_slice(index, slices, *bound(("all_reduce", [100], "", 0), (vector, vector)))
