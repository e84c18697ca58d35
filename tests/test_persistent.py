# SPDX-License-Identifier: Apache-2.0
"""Calls bound once and made many times: results, order among other calls, misuse, and that they plan and allocate
nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator
from launch import compiled, mpich

ROOT = Path(__file__).parent.parent


def on_threads(size: int, function: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    return lanecast.run_threads(size, function, **{"timeout_s": 60.0, **options})


def test_a_start_keeps_what_nobody_holds() -> None:
    """A call that is dropped while it is under way still has its buffers, and other memory stays as it is."""

    def body(comm: Communicator) -> bool:
        good = True
        for _ in range(5):
            call = comm.persistent("all_reduce", np.full(1 << 18, 1.0))
            if comm.rank == 1:
                time.sleep(0.01)
            call.start()
            del call
            others = [np.full(1 << 18, 7.0) for _ in range(3)]
            comm.barrier()
            good &= all(bool((other == 7).all()) for other in others)
        return good

    assert on_threads(3, body) == [True] * 3


@pytest.mark.parametrize("count", [0, 1, 5001, 300_000])
def test_each_start_takes_what_the_buffers_hold(count: int) -> None:
    def body(comm: Communicator) -> bool:
        size, rank = comm.size, comm.rank
        vector = np.zeros(count)
        gathered, mine = np.zeros(size * count), np.zeros(count)
        summed, whole = np.zeros(count), np.zeros(size * count)
        calls = [
            comm.persistent("all_reduce", vector, op="max", chunks=2),
            comm.persistent("all_gather_into_tensor", gathered, mine),
            comm.persistent("reduce_scatter_tensor", summed, whole),
        ]
        good = True
        numbers = np.arange(count)
        for turn in range(4):
            vector[:] = numbers + rank + turn
            mine[:] = numbers * (rank + 1) + turn
            whole[:] = np.arange(size * count) + rank + turn
            if turn % 2:
                for call in calls:
                    call.run()
            else:
                for call in calls:
                    call.start()
                for call in reversed(calls):
                    call.wait()
            good &= all(call.is_completed() for call in calls)
            good &= bool((vector == numbers + size - 1 + turn).all())
            shares = gathered.reshape(size, count)
            good &= all((shares[r] == numbers * (r + 1) + turn).all() for r in range(size))
            first = size * (numbers + rank * count) + size * (size - 1) // 2 + size * turn
            good &= bool((summed == first).all())
        return good

    assert on_threads(3, body) == [True] * 3


def test_in_order_among_other_calls() -> None:
    def body(comm: Communicator) -> float:
        value = np.full(3000, 1.0)
        call = comm.persistent("all_reduce", value)
        call.start()
        work = comm.all_reduce(value, async_op=True)
        comm.all_reduce(value)
        call.run()
        assert work is not None
        assert work.is_completed()
        return float(value[0])

    assert on_threads(2, body) == [16.0, 16.0]


def test_misuse() -> None:
    def body(comm: Communicator) -> None:
        value = np.ones(10)
        with pytest.raises(lanecast.UsageError, match="collective 'split' is unknown; known: all_reduce"):
            comm.persistent("split", 0)
        with pytest.raises(lanecast.UsageError, match="async_op"):
            comm.persistent("all_reduce", value, async_op=True)
        with pytest.raises(lanecast.UsageError, match="op 'plus'"):
            comm.persistent("all_reduce", value, "plus")
        with pytest.raises(lanecast.UsageError, match="counts="):
            comm.persistent("all_gather_into_tensor", np.ones(10 * comm.size), value, counts=[10.0] * comm.size)
        call = comm.persistent("all_reduce", value)
        call.wait()  # nothing was started
        if comm.rank == 0:  # rank 1 has not come, so the first start is under way
            call.start()
            with pytest.raises(lanecast.UsageError, match="rank 0: start: this call is under way"):
                call.start()
            comm.send(value, 1)
            call.wait()
        else:
            comm.recv(np.ones(10), 0)
            call.run()
        assert (value == 2).all()

    on_threads(2, body)


def test_outlives_its_names() -> None:
    def body(comm: Communicator) -> bool:
        child = comm.split(0)
        assert child is not None
        vector = np.ones(1000)
        call = child.persistent("all_reduce", vector)
        del child
        call.run()
        return bool((vector == comm.size).all())

    assert on_threads(2, body) == [True, True]


def test_after_a_failure() -> None:
    def body(comm: Communicator) -> None:
        call = comm.persistent("all_reduce", np.ones(10))
        comm.abort("the test wants it")
        for attempt in (call.start, call.run):
            with pytest.raises(lanecast.TransportError, match="has failed and takes no more calls"):
                attempt()

    on_threads(2, body)


@pytest.mark.parametrize("count", [100, 40_000])  # sent at once; asked for first
@pytest.mark.parametrize("how", ["run", "start"])
def test_no_run_after_the_first_allocates(how: str, count: int, tmp_path: Path) -> None:
    """Counted by a malloc of the program's own, around each run, the progress thread's allocations included."""
    program = compiled(ROOT / "tests/c/persistent_allocations.c", tmp_path, standard="c11")
    for _ in range(10):
        said = mpich(2, [str(program), how, str(count)]).splitlines()
        outcomes = [[int(word) for word in line.split()] for line in said]
        assert len(outcomes) == 2
        # What is left: a rank that has waited for long looks after its peers. On a crowded machine many have.
        if all(quiet > 0.95 * runs for quiet, runs in outcomes):
            return
    pytest.fail(f"{outcomes}: runs without an allocation, and all")
