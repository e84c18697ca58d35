# SPDX-License-Identifier: Apache-2.0
"""Compiled compositions at work: among threads and processes, with other buffers, beside other calls, and misused."""

from __future__ import annotations

import random
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from composed_cases import all_forms, form, wrong_in
from lanecast import Communicator, Topology
from lanecast.compose import Block, Composition, Knobs
from launch import OPENMPI, mpich, openmpi
from random_compositions import some_composition, some_knobs, some_topology

PROGRAM = str(Path(__file__).parent / "composed_rank.py")


def on_threads(size: int, function: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    return lanecast.run_threads(size, function, **{"timeout_s": 60.0, **options})


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7])
def test_forms_among_threads(size: int) -> None:
    rng = random.Random(size)
    knobs_of = [Knobs(), *(some_knobs(rng, size) for _ in range(3))]
    topology = some_topology(rng, size)
    assert on_threads(size, lambda comm: all_forms(comm, knobs_of, seed=size), topology=topology) == [[]] * size


def test_forms_on_the_papers_machine() -> None:
    knobs_of = [Knobs([2, 2, 3], stripe=3, chunks=3), Knobs([4, 3], stripe=3, ring=4, chunks=5), Knobs([12])]
    assert on_threads(12, lambda comm: all_forms(comm, knobs_of), topology="4x3") == [[]] * 12


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_random_compositions_among_threads(size: int) -> None:
    """Cuts that stay visible in the result too, whatever the pipeline depth."""

    def body(comm: Communicator) -> list[str]:
        wrong = []
        for seed in range(25):
            rng = random.Random(1000 * size + seed)
            composition = some_composition(rng, size, ("sum", "max", "min", "prod", "bxor"))
            counts = [rng.choice([0, 1, 3, 10, 700]) for _ in range(composition.parts)]
            wrong.append(wrong_in(comm, composition, counts, some_knobs(rng, size), seed))
        return [line for line in wrong if line]

    assert on_threads(size, body) == [[]] * size


def test_depth_does_not_move_cuts() -> None:
    """Half of a chunk is not half of the part."""

    def body(comm: Communicator) -> list[list[float]]:
        composition = Composition([[0], [0]], [[0], [0]])
        composition.multicast(0, [1], Block(0).cut(0, 2))
        results = []
        for chunks in (1, 2, 3, 100):
            x = np.full(10, 1.0 + comm.rank)
            comm.compile(composition, x, x, chunks=chunks).run()
            results.append(x.tolist())
        return results

    assert on_threads(2, body)[1] == [[1.0] * 5 + [2.0] * 5] * 4


def test_averages_and_types() -> None:
    def body(comm: Communicator) -> None:
        composition = Composition([[0, 1]] * comm.size, [[1, 0]] * comm.size)
        composition.reduce([0, 2], 1, 0, "avg")
        composition.reduce(range(comm.size), 0, 1, "max")
        composition.fence()
        composition.multicast(1, range(comm.size), 0)
        composition.multicast(0, range(comm.size), 1)
        for dtype in (np.float64, np.float32, np.float16):
            kept = np.empty(7, dtype)
            comm.compile(composition, kept, np.arange(7, dtype=dtype) * (comm.rank + 1), counts=[4, 3]).run()
            assert kept.tolist() == [16.0, 20.0, 24.0, 0.0, 2.0, 4.0, 6.0]
        with pytest.raises(lanecast.UsageError, match=r"reduce \(avg\) .*: op avg does not take dtype int64"):
            comm.compile(composition, np.empty(7, int), np.arange(7), counts=[4, 3])

    on_threads(4, body, topology="2x2")


def test_among_other_calls() -> None:
    def body(comm: Communicator) -> float:
        x, y = np.full(3000, 1.0), np.empty(3000)
        call = comm.compile(form("all_reduce_by_all_gather", comm.size), y, x)
        call.start()
        work = comm.all_reduce(x, async_op=True)
        assert work is not None
        call.wait()
        work.wait()
        call.run()
        return float(y[0])

    assert on_threads(2, body) == [4.0, 4.0]


def test_only_what_depends_waits() -> None:
    """Ranks 2 and 3 have done all their steps, fences included, before rank 0 even begins."""
    done = threading.Event()
    composition = Composition([[0], [], [1], []], [[0], [0], [1], [1]])
    composition.multicast(0, [1], 0)
    composition.multicast(2, [3], 1)
    composition.fence()
    composition.multicast(1, [0], 0)
    composition.multicast(3, [2], 1)

    def body(comm: Communicator) -> None:
        x = np.full(5000, float(comm.rank))
        call = comm.compile(composition, x, x if comm.rank % 2 == 0 else None)
        if comm.rank == 0:
            assert done.wait(60)
        call.run()
        if comm.rank == 2:
            done.set()

    on_threads(4, body)


def test_misuse() -> None:
    def body(comm: Communicator) -> None:
        composition = form("all_reduce", comm.size)
        x, y = np.ones(10), np.empty(10)
        for options, message in (
            ({"hierarchy": [3]}, r"rank \d: .*product is 3, but there are 2 ranks"),
            ({"ring": 5}, r"rank \d: compile: ring: 5"),
            ({"chunks": -1}, r"rank \d: compile: chunks: -1"),
            ({"transports": "shm"}, r"rank \d: compile: transports: 'shm' is not open.*open are: loopback"),
            ({"transports": "loopback,loopback"}, r"needs one name"),
            ({"counts": [3, 4]}, r"rank \d: counts: needs 1 number, one per part"),
            ({"counts": 11}, r"input has 10 elements of float64, and its 1 part takes 11"),
            ({"stripe": "all"}, "a knob is of the wrong type"),
            ({"counts": 1.5}, "expected a whole number"),
        ):
            with pytest.raises(lanecast.UsageError, match=message):
                comm.compile(composition, y, x, **options)
        with pytest.raises(lanecast.UsageError, match=r"compile: composition: is for 3 ranks, but there are 2"):
            comm.compile(form("all_reduce", 3), y, x)
        with pytest.raises(lanecast.UsageError, match=r"composition: is of type function; build one with"):
            comm.compile(form, y, x)  # type: ignore[arg-type]
        with pytest.raises(lanecast.UsageError, match="input and output overlap"):
            comm.compile(composition, x[1:], x[:-1], counts=9)
        with pytest.raises(lanecast.UsageError, match="output: None, but this rank has 1 part there"):
            comm.compile(composition, None, x)
        call = comm.compile(composition, y, x)
        with pytest.raises(lanecast.UsageError, match="output has 9 elements"):
            call.start(np.empty(9), x)
        with pytest.raises(lanecast.UsageError, match="bound out of place, and these are in place"):
            call.start(x, x)
        call.run()
        assert (y == comm.size).all()

    on_threads(2, body)


def test_reproducible_communicators_refuse_sums_of_floats() -> None:
    def body(comm: Communicator) -> None:
        composition = form("all_reduce", comm.size)
        with pytest.raises(lanecast.UsageError, match="reproducible"):
            comm.compile(composition, np.empty(3), np.ones(3))
        x = np.ones(3, int)
        comm.compile(composition, x, x).run()
        assert (x == 2).all()

    on_threads(2, body, reproducible=True)


@pytest.mark.parametrize("what", ["composition", "knobs"])
def test_ranks_that_differ_are_told(what: str) -> None:
    def body(comm: Communicator) -> str:
        x = np.ones(1000)
        odd = comm.rank == 1
        composition = form("all_reduce" if odd and what == "composition" else "all_reduce_by_broadcast", comm.size)
        call = comm.compile(composition, x, x, hierarchy=[2, 2] if odd and what == "knobs" else [4])

        def run() -> None:
            for _ in range(2):  # where nothing is missing, the next call finds out
                call.run()

        with pytest.raises(lanecast.Error) as caught:
            run()
        return str(caught.value)

    texts = on_threads(4, body)
    assert any(
        re.search(r"rank \d calls composition [0-9a-f]{16} of 1000 float64, by .* rank \d calls", t) for t in texts
    )


def test_uneven_hierarchy_and_a_split() -> None:
    def body(comm: Communicator) -> list[str]:
        child = comm.split(comm.rank % 2)
        assert child is not None
        knobs_of = [Knobs(), Knobs(Topology.parse("1+3", 4), stripe=2, chunks=2), Knobs("3+1", ring=2)]
        return all_forms(child, knobs_of)

    assert on_threads(8, body, topology="3+5") == [[]] * 8


def judge(output: str, ranks: int) -> None:
    """Launchers glue the lines of ranks together."""
    agrees = r"rank-(\d+)-agrees"
    assert sorted(int(rank) for rank in re.findall(agrees, output)) == list(range(ranks)), output
    assert not re.sub(agrees, "", output).strip()


@pytest.mark.parametrize("ranks", [3, 4])
def test_against_mpich(ranks: int) -> None:
    judge(mpich(ranks, [sys.executable, PROGRAM]), ranks)


def test_against_open_mpi() -> None:
    judge(openmpi(4, [str(OPENMPI / "python"), PROGRAM]), 4)
