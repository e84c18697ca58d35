# SPDX-License-Identifier: Apache-2.0
"""Communicators among threads: several at once, split in every way, with calls started, dropped and repeated."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from collective_cases import Call, Case, run_cases
from lanecast import Communicator
from launch import compiled, mpich

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 60.0


def on_threads(size: int, function: Callable[[Communicator], list[str]], **options: Any) -> None:
    """Run on every rank; nothing may be wrong on any."""
    wrong = lanecast.run_threads(size, function, **{"timeout_s": TIMEOUT_S, **options})
    assert [line for lines in wrong for line in lines] == []


def every_kind(size: int, count: int = 24, **options: Any) -> list[Case]:
    return [
        Case("all_reduce", (count * size,), **options),
        Case("all_gather", (count,) * size, **options),
        Case("reduce_scatter", (count,) * size, **options),
    ]


def test_interleaved_communicators_do_not_meet() -> None:
    def body(comm: Communicator) -> list[str]:
        others = [comm.split(0, comm.rank), comm.split(0, -comm.rank), comm.split(comm.rank % 2)]
        communicators = [comm, *(other for other in others if other is not None)]
        calls = [
            Call(each, case)
            for case in every_kind(comm.size, async_op=True)
            for each in communicators
            if each.size == comm.size or case.kind == "all_reduce"
        ]
        for call in calls:
            call.start()
        order = np.random.default_rng(comm.rank).permutation(len(calls))  # each rank waits in an order of its own
        return [line for at in order for line in calls[at].finish()]

    on_threads(4, body, topology="2x2")


@pytest.mark.parametrize("blocking_first", [False, True])
def test_started_calls_run_in_order_and_blocking_ones_among_them(blocking_first: bool) -> None:
    def body(comm: Communicator) -> list[str]:
        value = np.full(5000, float(comm.rank))
        if blocking_first:
            comm.all_reduce(value)
        works = [comm.all_reduce(value, async_op=True) for _ in range(5)]  # each works on the result of the last
        comm.all_reduce(value)
        assert all(work is not None and work.is_completed() for work in works)
        final = comm.size * (comm.size - 1) / 2 * float(comm.size) ** (5 + blocking_first)
        return [] if (value == final).all() else [f"rank {comm.rank}: {value[0]} instead of {final}"]

    on_threads(3, body)


def test_starting_a_call_waits_for_none_under_way() -> None:
    all_started = threading.Event()

    def body(comm: Communicator) -> None:
        vectors = [np.ones(1 << 21) for _ in range(3)]  # 16 MiB each
        works: list[Any] = []
        for vector in vectors:
            if comm.rank == 1 and len(works) == 1:  # so that the second is under way, however busy the machine is
                assert all_started.wait(TIMEOUT_S / 2), "rank 0 has waited for a call under way"
            if len(works) == 2:
                time.sleep(0.002)  # by now the first moves
            works.append(comm.all_reduce(vector, async_op=True, algorithm="ring", chunks=16))
        if comm.rank == 0:
            assert not works[1].is_completed()
            all_started.set()
        for work in works:
            work.wait()

    lanecast.run_threads(2, body, timeout_s=TIMEOUT_S)


def test_dropped_work_keeps_its_arrays() -> None:
    def body(comm: Communicator) -> list[str]:
        for _ in range(20):
            comm.all_reduce(np.ones(100_000), async_op=True)  # neither the work nor the array has a name
            gc.collect()
            _ = np.full(100_000, 7.0)  # would get the memory if it were free
        return run_cases(comm, every_kind(comm.size))

    on_threads(3, body)


def test_communicator_may_go_while_calls_are_under_way() -> None:
    def body(comm: Communicator) -> list[str]:
        child = comm.split(0)
        assert child is not None
        work = child.all_reduce(np.ones(1000), async_op=True) if comm.rank > 0 else None  # rank 0 never comes
        del child
        if work is not None:  # ended by this rank, or by the other one that left earlier
            with pytest.raises(lanecast.TransportError, match=r"destroyed|has closed|has given up"):
                work.wait()
        return run_cases(comm, every_kind(comm.size))

    on_threads(3, body)


def test_function_that_raises_on_one_rank_stops_the_others() -> None:
    def body(comm: Communicator) -> None:
        if comm.rank == 1:
            raise LookupError("rank 1 has lost its way")
        comm.all_reduce(np.ones(10))

    with pytest.raises(LookupError, match="lost its way") as caught:
        lanecast.run_threads(3, body, timeout_s=TIMEOUT_S)
    assert len(caught.value.__notes__) == 2
    assert all("its function raised LookupError" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("topology", ["6", "2x3", "3x2", "3+1+2", "3x2:cyclic"])
def test_split_by_colors_and_keys(topology: str) -> None:
    def body(comm: Communicator) -> list[str]:
        wrong: list[str] = []
        assert comm.split(-1) is None
        halves = comm.split(comm.rank // 3, key=-comm.rank)
        assert halves is not None
        assert (halves.size, halves.rank) == (3, 2 - comm.rank % 3)
        alone = comm.split(comm.rank)
        assert alone is not None
        assert alone.size == 1
        some = comm.split(0 if comm.rank in (1, 2, 5) else -5, key=comm.rank)
        assert (some is None) == (comm.rank not in (1, 2, 5))
        for child in (halves, alone, some):
            if child is not None:
                wrong += run_cases(child, every_kind(child.size, chunks=2))
        return wrong + run_cases(comm, every_kind(comm.size))

    on_threads(6, body, **({} if topology == "6" else {"topology": topology}))


def test_equal_keys_keep_the_order_of_ranks() -> None:
    def body(comm: Communicator) -> list[str]:
        child = comm.split(7, key=comm.rank < 2)
        assert child is not None
        order = np.empty(4, np.int64)
        child.all_gather_into_tensor(order, np.array([comm.rank]))
        return [] if order.tolist() == [2, 3, 0, 1] else [str(order)]

    on_threads(4, body)


def test_child_outlives_its_parent_and_splits_again() -> None:
    def body(comm: Communicator) -> list[str]:
        child = comm.split(comm.rank % 2)
        assert child is not None
        core = comm._core
        comm.__dict__.clear()  # run_threads still holds the wrapper
        del core
        gc.collect()
        grandchild = child.split(0, key=-child.rank)
        assert grandchild is not None
        wrong = run_cases(child, every_kind(child.size))
        del child
        return wrong + run_cases(grandchild, every_kind(grandchild.size))

    on_threads(6, body, topology="3x2")


def test_split_takes_what_remains_of_the_topology() -> None:
    def body(comm: Communicator) -> list[str]:
        node = comm.split(comm.rank // 4)
        lane = comm.split(comm.rank % 2)
        assert node is not None
        assert lane is not None
        assert (str(node.topology), str(lane.topology)) == ("2x2", "2x2x1")
        # A pinned algorithm stays behind where its levels do.
        return [line for each in (comm, node, lane) for line in run_cases(each, every_kind(each.size))]

    on_threads(8, body, topology="2x2x2", algorithm="hierarchical(ring,ring,direct)")


@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_ranks_may_differ_in_being_in_place(kind: str) -> None:
    def body(comm: Communicator) -> list[str]:
        wrong = []
        for algorithm in ("ring", "bruck", "direct", "hierarchical(ring,direct)", "hierarchical(bruck,ring)"):
            for chunks in (1, 3):
                calls = {
                    flag: Call(comm, Case(kind, (50,) * comm.size, algorithm, in_place=flag, chunks=chunks))
                    for flag in (False, True)
                }
                call = calls[comm.rank in (0, 3)]
                call.start()
                wrong += call.finish()
        return wrong

    on_threads(4, body, topology="2x2")


class Mallinfo2(ctypes.Structure):
    """What the C library says of its heap, in the order of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    ))  # fmt: skip


def heap_bytes() -> int:
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo2
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def quiet_heap_bytes(comm: Communicator) -> int:
    """While no rank does anything: all are threads of one process, so its heap tells of all."""
    comm.barrier()
    found = heap_bytes()
    comm.barrier()
    return found


def test_memory_stays_flat_over_many_calls() -> None:
    def body(comm: Communicator) -> list[str]:
        vector, share = np.ones(96, np.float32), np.ones(24, np.float32)

        def calls(times: int) -> None:
            for turn in range(times):
                comm.all_reduce(vector, "max", chunks=1 + turn % 2)
                comm.all_gather_into_tensor(vector, share, algorithm="hierarchical(bruck,direct)")
                work = comm.reduce_scatter_tensor(share, vector, "avg", async_op=turn % 4 == 0)
                if work is not None:
                    work.wait()

        calls(50)
        if comm.rank == 0:
            tracemalloc.start()
        before = quiet_heap_bytes(comm), tracemalloc.get_traced_memory()[0]
        calls(700)
        grown = quiet_heap_bytes(comm) - before[0], tracemalloc.get_traced_memory()[0] - before[1]
        # Less than 30 bytes a call is no call's plan, binding or buffer; heap and threads have some play.
        return [] if comm.rank != 0 or max(grown) < 60_000 else [f"grown by {grown} bytes in 2,100 calls"]

    try:
        on_threads(4, body, topology="2x2")
    finally:
        tracemalloc.stop()  # or all tests behind this one would allocate some ten times as slowly


def test_many_shapes_do_not_pile_up() -> None:
    def body(comm: Communicator) -> list[str]:
        grown = []
        for _ in range(3):
            before = quiet_heap_bytes(comm)
            for count in range(1, 301):
                comm.all_reduce(np.ones(1000 * count, np.float32), "max", algorithm="ring")
            grown.append(quiet_heap_bytes(comm) - before)
        # The first round fills the cache; later ones replace what is in it.
        return [] if comm.rank != 0 or grown[2] < 4 << 20 else [f"grown by {grown} bytes"]

    on_threads(2, body)


def test_shapes_share_their_scratch() -> None:
    """One-shot keeps what the others send: three vectors beside the rank's own."""

    def body(comm: Communicator) -> list[str]:
        vector = np.ones(1 << 17)
        persistent = [
            comm.persistent("all_reduce", vector[: 1 - count], algorithm="one_shot") for count in range(2, 10)
        ]
        before = quiet_heap_bytes(comm)
        for count in range(24):
            comm.all_reduce(vector[: vector.size - count], algorithm="one_shot", chunks=2)
        for call in persistent:
            call.run()
        grown = quiet_heap_bytes(comm) - before
        most = comm.size * 4 * vector.nbytes  # a shape's on each rank, and some play
        return [] if comm.rank != 0 or grown < most else [f"grown by {grown} bytes, more than {most}"]

    on_threads(4, body)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "bruck", "hierarchical(ring,direct)"])
def test_repeated_call_plans_and_allocates_nothing(algorithm: str, tmp_path: Path) -> None:
    program = compiled(ROOT / "tests/c/allocations.c", tmp_path, standard="c11")
    fewest = [int(line) for line in mpich(4, [str(program), algorithm, "1"]).split()]
    assert len(fewest) == 4
    # Of 30 calls: a rank that has waited for long looks after its peers.
    assert max(fewest) < 10
