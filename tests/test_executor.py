# SPDX-License-Identifier: Apache-2.0
"""The executor overlaps the levels of a hierarchy, and a window of two steps is enough for every plan.

Time is measured against links of a known speed: a message leaves its rank when the wire to that level is free and the
message has passed it, so how long the phases take one after the other, and at best, follows from bytes alone.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import lanecast
from collective_cases import Case, among_threads, even
from lanecast import _core
from lanecast.startup import progress_thread

NODES, PER_NODE = 4, 2
RANKS = NODES * PER_NODE
COUNT = RANKS * 8192
FULL_S = 0.32  # to send the whole vector over the wire within a node
# Per all-gather of the hierarchy, as shares of the vector: own parts within the node, lanes across, the rest within.
OWN, ACROSS, REST = 1 / RANKS, (NODES - 1) / RANKS, (NODES - 1) / RANKS
ACROSS_SLOWER = (OWN + REST) / ACROSS  # so that both levels have equally much to do


def seconds_of_all_reduce(**options: Any) -> float:
    """Over slow links, by their clock."""
    world, clock = _core.make_world(RANKS), _core.make_simulated_clock(RANKS)
    per_byte = FULL_S / (4 * COUNT)
    links = [(0.0, per_byte * ACROSS_SLOWER), (0.0, per_byte)]
    elapsed = [0.0] * RANKS
    wrong: list[int] = []

    def rank_main(rank: int) -> None:
        link_of_peer = [int(peer // PER_NODE == rank // PER_NODE) for peer in range(RANKS)]
        settings = {"topology": f"{NODES}x{PER_NODE}", "timeout_s": 30.0, "algorithm": "hierarchical(ring,direct)"}
        slowness = _core.Slowness(links, link_of_peer, clock)
        comm = lanecast.Communicator(
            _core.Communicator.from_slow_threads(world, rank, progress_thread(), {**settings, **options}, slowness)
        )
        vector = np.full(COUNT, rank, np.float32)
        comm.barrier()
        begin = clock.seconds()
        comm.all_reduce(vector)
        elapsed[rank] = clock.seconds() - begin
        if (vector != RANKS * (RANKS - 1) / 2).any():
            wrong.append(rank)

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    return max(elapsed)


# An all-reduce is the all-gather backwards, then forwards; own parts go beside the lanes even in one chunk.
ONE_AFTER_THE_OTHER_S = 2 * FULL_S * (max(OWN, ACROSS * ACROSS_SLOWER) + REST)
AT_BEST_S = 2 * FULL_S * (OWN + REST)


def test_one_chunk_takes_the_sum_of_its_phases() -> None:
    assert seconds_of_all_reduce(chunks=1) == pytest.approx(ONE_AFTER_THE_OTHER_S, rel=1e-4)


def test_chunks_let_the_levels_overlap() -> None:
    took_s = seconds_of_all_reduce(chunks=8)
    assert AT_BEST_S < took_s < 1.1 * AT_BEST_S


def test_overlap_comes_from_chunks_in_flight() -> None:
    """The same chunks one at a time: as slow as one chunk."""
    took_s = seconds_of_all_reduce(chunks=8, chunks_in_flight=1)
    assert took_s == pytest.approx(ONE_AFTER_THE_OTHER_S, rel=1e-4)


# Of an algorithm for each of three levels there are hundreds: every 17th shows any of them on each level.
@pytest.mark.parametrize(
    ("topology", "every"),
    [("5", 1), ("8", 1), ("2x3", 1), ("3+1+2", 1), ("2x2x2", 17), pytest.param("2x2x2", 1, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("chunks_in_flight", [1, 3])
def test_window_of_two_is_enough_for_every_algorithm(topology: str, every: int, chunks_in_flight: int) -> None:
    """Sends between threads have no buffer at all: one ends when its receiver has taken it."""
    size = {"5": 5, "8": 8, "2x3": 6, "3+1+2": 6, "2x2x2": 8}[topology]
    described = _core.Topology(size) if topology.isdigit() else _core.Topology.parse(topology, size)
    cases = [
        Case(
            kind,
            even(kind, 40, size),
            name,
            "int32",
            in_place=turn % 2 == 0 and _core.may_be_in_place(kind),
            chunks=5,
            root=turn % size if _core.has_root(kind) else 0,
        )
        for kind in _core.KINDS
        for turn, name in enumerate(
            [a for a in _core.algorithms_for(kind, described) if not _core.has_library(a)][::every]
        )
    ]
    options = {} if topology.isdigit() else {"topology": topology}
    assert among_threads(size, cases, window=2, chunks_in_flight=chunks_in_flight, **options) == []


@pytest.mark.parametrize("option", [{"window": 1}, {"window": -1}, {"chunks_in_flight": 0}, {"chunks_in_flight": 1025}])
def test_options_out_of_range_are_refused(option: dict[str, int]) -> None:
    with pytest.raises(lanecast.UsageError, match=next(iter(option))):
        lanecast.run_threads(1, lambda comm: None, **option)


@pytest.mark.parametrize("number", [10**12, -(10**12), 1.5, "4"])
def test_a_number_that_no_option_can_hold_is_named_with_what_fits(number: object) -> None:
    expected = f"option chunks_in_flight: {number!r} is not a whole number of 32 bits"
    with pytest.raises(lanecast.UsageError, match=expected):
        lanecast.run_threads(1, lambda comm: None, chunks_in_flight=number)
