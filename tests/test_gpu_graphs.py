# SPDX-License-Identifier: Apache-2.0
"""Graphs of calls between hosts without a GPU: replays beside each other and beside eager calls, in any order that the
ranks agree on, and what is said where they do not."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpu_host_library
from gpu_host_library import Graph
from gpu_stand_in import Tensor, another, between_hosts, opened, outcomes, tensor
from lanecast import Communicator
from pipe_jobs import Outcome, Tell, stays_until

COUNT = 1001  # no multiple of what a lane, a vector or a line takes
MANY = 5  # chunks
Array = np.ndarray[Any, np.dtype[np.float32]]


def drawn(turn: int, rank: int, count: int = COUNT) -> Array:
    """Other numbers in each turn and of each rank, whose sums are exact."""
    return ((np.arange(count) * 7 + turn * 31 + rank * 101) % 509).astype(np.float32)


class Captured:
    """A graph of an all-reduce, an all-gather of its result's first part, and a broadcast, on buffers of its own."""

    def __init__(self, comm: Communicator, count: int = COUNT, algorithm: str = "", **options: Any) -> None:
        self.comm, self.count = comm, count
        self.source, self.sum = tensor(comm, count), tensor(comm, count)
        self.all, self.told = tensor(comm, count * comm.size), tensor(comm, count)
        named = {"algorithm": algorithm, "chunks": 0, **options}

        def calls() -> None:
            comm.all_reduce(self.sum, **named)
            comm.all_gather_into_tensor(self.all, self.source, **named)
            comm.broadcast(self.told, comm.size - 1)

        self.calls = calls
        self.graph = Graph(comm.rank, calls)

    def fill(self, turn: int) -> None:
        self.source.array[:] = drawn(turn, self.comm.rank, self.count)
        self.sum.array[:] = self.source.array
        self.told.array[:] = self.source.array

    def wrong(self, turn: int) -> list[str]:
        parts = [drawn(turn, rank, self.count) for rank in range(self.comm.size)]
        expected = {"sum": np.sum(parts, axis=0), "all": np.concatenate(parts), "told": parts[-1]}
        return [
            f"{name}, turn {turn}, rank {self.comm.rank}"
            for name, right in expected.items()
            if not np.array_equal(getattr(self, name).array, right)
        ]


def settled(comm: Communicator) -> None:
    """Also raises what has gone wrong in a replay."""
    assert gpu_host_library.synchronize(comm.rank) == 0
    comm.synchronize()


def replays(turns: int, comm: Communicator, _: Tell) -> list[str]:
    opened(comm)
    captured = Captured(comm)
    wrong = []
    for turn in range(turns):
        captured.fill(turn)
        captured.graph.launch()
        settled(comm)
        wrong += captured.wrong(turn)
    captured.graph.destroy()
    return wrong


def all_right(ended: list[Outcome]) -> None:
    for outcome in ended:
        assert (outcome.text, outcome.value) == ("", [])


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("size", "topology", "turns"),
    [
        (2, "2x1", 20),
        (3, "2+1", 20),
        pytest.param(4, "2x2", 200, marks=pytest.mark.long),
        pytest.param(2, "2x1", 10_000, marks=[pytest.mark.long, pytest.mark.timeout(3000)]),
    ],
)
def test_replays_of_fresh_data(size: int, topology: str, turns: int, kernel_cache: str) -> None:
    all_right(outcomes(size, partial(replays, turns), kernel_cache, **between_hosts(topology)))


def beside_others(turns: int, comm: Communicator, _: Tell) -> list[str]:
    """Two graphs and eager calls on one communicator, eager calls on another, host collectives between them: in one
    order on all ranks, who are late now and then, and wait for the GPU seldom."""
    common, own = random.Random(3), random.Random(comm.rank)
    other = comm.split(0, comm.rank)
    assert other is not None
    opened(comm)
    opened(other)
    graphs = [Captured(comm), Captured(comm, 20_003, chunks=MANY)]
    wrong: list[str] = []
    last: dict[int, int] = {}

    def judge() -> None:
        settled(comm)
        for k, turn in last.items():
            wrong.extend(graphs[k].wrong(turn))
        last.clear()

    for turn in range(turns):
        if own.random() < 0.2:
            time.sleep(own.uniform(0, 0.02))
        what = common.choice(["graph", "graph", "graph", "eager", "other", "host", "judge"])
        if what == "graph":
            k = common.randrange(len(graphs))
            if k in last:  # its buffers are in use
                judge()
            graphs[k].fill(turn)
            graphs[k].graph.launch()
            last[k] = turn
        elif what in ("eager", "other"):
            x = Tensor(drawn(turn, comm.rank), "float32", comm.rank)
            on = comm if what == "eager" else other
            on.all_reduce(x, chunks=common.choice([0, 3]))
            on.synchronize()
            if not np.array_equal(x.array, np.sum([drawn(turn, r) for r in range(comm.size)], axis=0)):
                wrong.append(f"{what}, turn {turn}")
        elif what == "host":
            y = drawn(turn, comm.rank)
            comm.all_reduce(y)  # of the host's memory, which no launch waits for
            if not np.array_equal(y, np.sum([drawn(turn, r) for r in range(comm.size)], axis=0)):
                wrong.append(f"host, turn {turn}")
        else:
            judge()
    judge()
    return wrong


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("size", "topology", "turns"), [(2, "2x1", 60), pytest.param(4, "2x2", 300, marks=pytest.mark.long)]
)
def test_beside_other_graphs_and_calls(size: int, topology: str, turns: int, kernel_cache: str) -> None:
    all_right(outcomes(size, partial(beside_others, turns), kernel_cache, **between_hosts(topology)))


def many_unheard(comm: Communicator, _: Tell) -> list[float]:
    """More launches than the ring of announcements holds, of which rank 0 carries nothing to another host."""
    opened(comm)
    x = tensor(comm, 40)
    x.array[:] = 5 if comm.rank == 0 else 0
    graph = Graph(comm.rank, lambda: comm.broadcast(x, 0, algorithm="chain"))
    for _turn in range(150):
        graph.launch()
    settled(comm)
    return [float(each) for each in np.unique(x.array)]


@pytest.mark.timeout(400)
def test_more_launches_than_are_announced_at_a_time(kernel_cache: str) -> None:
    for outcome in outcomes(3, many_unheard, kernel_cache, **between_hosts("2+1")):
        assert (outcome.text, outcome.value) == ("", [5.0])


def barrier_behind(comm: Communicator, _: Tell) -> list[str]:
    """Rank 0 is in a barrier of the host's while rank 1 still waits for a replay that needs rank 0's messages."""
    opened(comm)
    captured = Captured(comm)
    wrong = []
    for turn in range(10):
        captured.fill(turn)
        captured.graph.launch()
        if comm.rank == 1:
            settled(comm)
            time.sleep(0.005)
        comm.barrier()
        settled(comm)
        wrong += captured.wrong(turn)
    return wrong


def test_a_barrier_of_the_hosts_holds_up_no_replay(kernel_cache: str) -> None:
    all_right(outcomes(2, barrier_behind, kernel_cache, **between_hosts("2x1"), timeout_s=60.0))


def captured_again(comm: Communicator, _: Tell) -> list[str]:
    """Graphs come and go, and take with them what was theirs alone; one is updated."""
    opened(comm)
    held: list[str] = []
    wrong = []
    for turn in range(6):
        captured = Captured(comm, COUNT + turn % 2)
        captured.fill(turn)
        captured.graph.launch()
        if turn % 3 == 1:
            captured.graph.update(captured.calls)
            settled(comm)
            captured.fill(turn)
            captured.graph.launch()
        settled(comm)
        wrong += captured.wrong(turn)
        captured.graph.destroy()
        comm.barrier()
        held.append(gpu_host_library.held())
    if len(set(held[2:])) > 1:
        wrong.append(" | ".join(held))
    return wrong


def test_graphs_are_captured_again_and_updated(kernel_cache: str) -> None:
    all_right(outcomes(2, captured_again, kernel_cache, **between_hosts("2x1")))


def ends_before_its_graph(comm: Communicator, _: Tell) -> list[int]:
    mine = another(comm, topology="2x1")
    opened(mine)
    captured = Captured(mine)
    captured.graph.launch()
    graph = captured.graph
    captured.comm = comm
    captured.calls = lambda: None
    del mine
    results = [gpu_host_library.synchronize(comm.rank)]
    comm.barrier()
    graph.launch()
    results.append(gpu_host_library.synchronize(comm.rank))
    graph.destroy()
    return results


def test_a_replay_after_its_communicator_has_gone_is_an_error(kernel_cache: str) -> None:
    for outcome in outcomes(2, ends_before_its_graph, kernel_cache, **between_hosts("2x1")):
        assert (outcome.text, outcome.value) == ("", [0, 719])


def stops(ended: Path, turns: int, comm: Communicator, _: Tell) -> str:
    """Rank 1 replays no more after so many times."""
    opened(comm)
    captured = Captured(comm)
    try:
        for turn in range(turns + (1 if comm.rank == 0 else 0)):
            captured.fill(turn)
            captured.graph.launch()
            settled(comm)
    finally:
        if comm.rank == 0:
            ended.touch()
    stays_until(ended)
    return ""


@pytest.mark.parametrize("turns", [7, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.timeout(2000)])])
def test_a_rank_that_stops_is_named(turns: int, kernel_cache: str, tmp_path: Path) -> None:
    body = partial(stops, tmp_path / "ended", turns)
    waited, _ = outcomes(2, body, kernel_cache, **between_hosts("2x1"), timeout_s=8)
    assert "rank 0 waited " in waited.text
    assert "for rank 1 in " in waited.text
    assert "of all_reduce by " in waited.text
    assert f"(launch {turns * 3 + 2})" in waited.text


def differ(comm: Communicator, _: Tell) -> None:
    opened(comm)
    graphs = [Captured(comm), Captured(comm, COUNT + 64)]
    graphs[comm.rank].graph.launch()
    settled(comm)
    comm.synchronize()


def test_ranks_that_replay_different_graphs(kernel_cache: str) -> None:
    for outcome in outcomes(2, differ, kernel_cache, **between_hosts("2x1"), timeout_s=8.0):
        assert outcome.error != ""
    # Whose messages meet first is open, and whether any do before the deadline; that the calls differ is not.


def overlap(ended: Path, comm: Communicator, _: Tell) -> str:
    """Rank 0 launches a second graph beside the first, which waits for rank 1."""
    opened(comm)
    x, y = tensor(comm, 64), tensor(comm, 32)
    first = Graph(comm.rank, lambda: comm.all_reduce(x, algorithm="ring"))
    second = Graph(comm.rank, lambda: comm.all_reduce(y, "max", algorithm="ring"))
    comm.barrier()
    if comm.rank == 1:
        stays_until(ended)
        return ""
    first.launch()
    time.sleep(0.2)  # it has begun, or the two begin at once: either is found
    beside = gpu_host_library.stream(comm.rank)
    second.launch(beside)
    try:
        settled(comm)
        gpu_host_library.synchronize(comm.rank, beside)
        comm.synchronize()
    finally:
        ended.touch()
    return ""


def test_launches_at_once_are_found_and_named(kernel_cache: str, tmp_path: Path) -> None:
    body = partial(overlap, tmp_path / "ended")
    found, _ = outcomes(2, body, kernel_cache, **between_hosts("2x1"), timeout_s=60)
    assert "rank 0: a replay of all_reduce of 32 float32, max" in found.text, found.text
    assert "began on the GPU while a replay of all_reduce of 64 float32, sum" in found.text
    assert "have to follow each other" in found.text


def idle(comm: Communicator, _: Tell) -> float:
    """Processor time of a second, or of what a busy machine makes of one, in which nothing is replayed, though it could
    be: per second."""
    opened(comm)
    captured = Captured(comm)
    captured.graph.launch()
    settled(comm)
    comm.barrier()
    time.sleep(0.5)
    before, begun = time.process_time(), time.monotonic()
    time.sleep(1)
    return (time.process_time() - before) / (time.monotonic() - begun)


def test_a_graph_at_rest_takes_little_processor_time(kernel_cache: str) -> None:
    for outcome in outcomes(2, idle, kernel_cache, **between_hosts("2x1")):
        assert outcome.text == ""
        assert outcome.value < 0.15


def in_other_ways(comm: Communicator, _: Tell) -> list[str]:
    """A composition, a call beside the caller's stream, counts that each rank knows for itself."""
    opened(comm)
    mine, all_of_them, x = tensor(comm, 6), tensor(comm, 6), tensor(comm, 90)
    counts = [2, 4] if comm.rank == 0 else [4, 2]

    def calls() -> None:
        comm.all_to_all_single(all_of_them, mine, counts, counts)
        work = comm.all_reduce(x, algorithm="ring", async_op=True)
        assert work is not None
        work.wait()
        comm.all_reduce(x, algorithm="ring")

    graph = Graph(comm.rank, calls)
    wrong = []
    for turn in range(5):
        mine.array[:] = np.arange(6) + 10 * comm.rank + turn
        x.array[:] = turn
        graph.launch()
        settled(comm)
        comm.synchronize()
        gathered = [0, 1, 10, 11, 12, 13] if comm.rank == 0 else [2, 3, 4, 5, 14, 15]
        if all_of_them.array.tolist() != [each + turn for each in gathered]:
            wrong.append(f"all-to-all, turn {turn}: {all_of_them.array}")
        if not (x.array == 4 * turn).all():
            wrong.append(f"all-reduce, turn {turn}: {x.array[:3]}")
    return wrong


def test_other_calls(kernel_cache: str) -> None:
    all_right(outcomes(2, in_other_ways, kernel_cache, **between_hosts("2x1")))
