# SPDX-License-Identifier: Apache-2.0
"""Counts that change from call to call between hosts, in the host's memory and in the GPU's, without a GPU."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Case
from gpu_stand_in import Tensor, between_hosts, judge, outcomes, tensor
from lanecast import Communicator
from pipe_jobs import Outcome, Tell

BOUND = 900  # rows


def table(size: int, turn: int, most: int) -> list[list[int]]:
    """Rows from each rank to each: zeros, all zeros, the bound, one."""
    draw = random.Random(turn)
    some = [0] if turn % 4 == 3 else [0, 1, most // 3, most]
    return [[draw.choice(some) for _ in range(size)] for _ in range(size)]


def block(sender: int, receiver: int, count: int, turn: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(count, dtype=np.int64) * 64 + sender * 8 + receiver + turn * 1_000_003


class CountedCall:
    """An all-to-all whose split sizes lie on the GPU, in buffers that any of them fit."""

    def __init__(self, comm: Communicator, row: int = 1) -> None:
        size = comm.size
        self.comm, self.row = comm, row
        shape = (size * BOUND, row) if row > 1 else (size * BOUND,)
        self.source, self.target = (Tensor(np.zeros(shape, np.int64), "int64", comm.rank) for _ in range(2))
        self.sends, self.receives = (Tensor(np.zeros(size, np.int64), "int64", comm.rank) for _ in range(2))

    def fill(self, turn: int) -> None:
        rank, size = self.comm.rank, self.comm.size
        counts = table(size, turn, BOUND)
        self.sends.array[:] = counts[rank]
        self.receives.array[:] = [each[rank] for each in counts]
        given = np.concatenate([block(rank, to, counts[rank][to] * self.row, turn) for to in range(size)])
        self.source.array.reshape(-1)[: len(given)] = given
        self.target.array[:] = -1
        came = [block(by, rank, counts[by][rank] * self.row, turn) for by in range(size)]
        self.wanted = np.concatenate([*came, np.full(self.target.array.size, -1)])[: self.target.array.size]

    def make(self) -> None:
        self.comm.all_to_all_single(self.target, self.source, self.receives, self.sends, bound=BOUND)

    def wrong(self, turn: int) -> list[str]:
        found = self.target.array.reshape(-1)
        return (
            [] if np.array_equal(found, self.wanted) else [f"turn {turn}: {np.flatnonzero(found != self.wanted)[:4]}"]
        )


def all_right(ended: list[Outcome]) -> None:
    for outcome in ended:
        assert (outcome.text, outcome.value) == ("", [])


def settled(comm: Communicator) -> None:
    assert gpu_host_library.synchronize(comm.rank) == 0
    comm.synchronize()


def eager_and_replayed(turns: int, comm: Communicator, _: Tell) -> list[str]:
    call = CountedCall(comm, row=2)
    wrong = []
    for turn in range(turns):
        call.fill(turn)
        call.make()
        settled(comm)
        wrong += call.wrong(turn)
    graph = gpu_host_library.Graph(comm.rank, call.make)
    for turn in range(turns, 3 * turns):
        call.fill(turn)
        graph.launch() if turn % 3 else call.make()
        settled(comm)
        wrong += call.wrong(turn)
    graph.destroy()
    return wrong


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "topology"), [(2, "2x1"), (3, "2+1")])
def test_counts_on_the_gpu(size: int, topology: str, kernel_cache: str) -> None:
    all_right(outcomes(size, partial(eager_and_replayed, 4), kernel_cache, **between_hosts(topology)))


def wrong_counts(change: str, comm: Communicator, _: Tell) -> None:
    call = CountedCall(comm)
    call.sends.array[:] = call.receives.array[:] = 3
    if change == "above" and comm.rank == 1:
        call.sends.array[0] = BOUND + 1
    elif change == "negative" and comm.rank == 1:
        call.receives.array[0] = -2
    elif change == "own" and comm.rank == 1:
        call.sends.array[1] = 5
    elif change == "differ" and comm.rank == 1:
        call.sends.array[0] = 0
    call.make()
    comm.synchronize()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("above", f"rank 1: all_to_all with counts in the GPU's memory: input_split_sizes[0] is {BOUND + 1}, which"),
        ("negative", "rank 1: all_to_all with counts in the GPU's memory: output_split_sizes[0] is -2, which is not"),
        ("own", "rank 1: all_to_all with counts in the GPU's memory: input_split_sizes[1] is 5, and what the rank"),
        ("differ", "rank 1 sends 0 elements to rank 0, and rank 0 expects 3 elements from rank 1"),
    ],
)
def test_counts_that_nobody_can_follow(change: str, said: str, kernel_cache: str) -> None:
    ended = outcomes(2, partial(wrong_counts, change), kernel_cache, **between_hosts("2x1"), timeout_s=60.0)
    assert all(said in outcome.text for outcome in ended), [outcome.text for outcome in ended]


def refused(comm: Communicator, _: Tell) -> list[str]:
    call, said = CountedCall(comm), []
    short = Tensor(np.zeros(comm.size + 1, np.int64), "int64", comm.rank)
    host = np.zeros(4)
    for output, source, receives, sends, bound in [
        (call.target, call.source, short, call.sends, 4),
        (call.target, call.source, call.receives, [1, 1], 4),
        (call.target, call.source, call.receives, call.sends, -1),
        (np.zeros(4), host, call.receives, call.sends, 4),
    ]:
        try:
            comm.all_to_all_single(output, source, receives, sends, bound=bound)
        except lanecast.UsageError as error:
            said.append(str(error))
    return said


def test_refusals(kernel_cache: str) -> None:
    for outcome in outcomes(2, refused, kernel_cache, **between_hosts("2x1")):
        texts = [
            "output_split_sizes: with bound it is an int64 tensor of 2 numbers on the GPU",
            "input_split_sizes: with bound it is an int64 tensor of 2 numbers on the GPU",
            "bound=-1: expected the most rows that any split size may be",
            "bound: is for tensors of a GPU, whose split sizes lie there; give none",
        ]
        assert len(outcome.value) == len(texts), outcome
        for text, said in zip(texts, outcome.value, strict=True):
            assert text in said


def many_sets(comm: Communicator, _: Tell) -> list[str]:
    """What the driver gives out stays the same, however many sets of counts come: no program is made anew."""
    size, held, wrong = comm.size, [], []
    for turn in range(30):
        counts = table(size, turn, 400)
        given = np.concatenate([block(comm.rank, to, counts[comm.rank][to], turn) for to in range(size)])
        receives = [each[comm.rank] for each in counts]
        target = Tensor(np.zeros(sum(receives), np.int64), "int64", comm.rank)
        comm.all_to_all_single(target, Tensor(given, "int64", comm.rank), receives, counts[comm.rank])
        each = [100 + turn % 7, *[110] * (size - 1)]
        whole, mine = (Tensor(np.zeros(n, np.int64), "int64", comm.rank) for n in (sum(each), each[comm.rank]))
        comm.all_gather_into_tensor(whole, mine, counts=each)
        comm.synchronize()
        came = [block(by, comm.rank, counts[by][comm.rank], turn) for by in range(size)]
        if not np.array_equal(target.array, np.concatenate(came)):
            wrong.append(f"turn {turn}")
        held.append(gpu_host_library.held())
    return wrong + [f"{held[4]}, then {held[-1]}"] * (held[4] != held[-1])


@pytest.mark.timeout(400)
def test_no_program_is_made_anew(kernel_cache: str) -> None:
    all_right(outcomes(3, many_sets, kernel_cache, **between_hosts("2+1")))


@pytest.mark.timeout(400)
def test_seven_ranks(kernel_cache: str) -> None:
    draw = random.Random(7)
    cases = [
        Case("all_to_all", tuple(draw.choice([0, 0, 1, 40]) for _ in range(49)), own_counts=True),
        Case("all_gather", tuple(draw.choice([0, 9, 30]) for _ in range(7)), "direct"),
        Case("reduce_scatter", (0, 0, 0, 0, 0, 0, 0), "direct"),
    ]
    judge(7, cases, kernel_cache, **between_hosts("3+3+1"))


def shorter_by_one(comm: Communicator, _: Tell) -> None:
    """The last call of a communicator, and what is not sent is less than a line of a cache."""
    counts = [[2, 2], [1 if comm.rank == 0 else 2, 2]]
    mine, other = tensor(comm, sum(counts[comm.rank])), tensor(comm, sum(each[comm.rank] for each in counts))
    comm.all_to_all_single(other, mine, [each[comm.rank] for each in counts], counts[comm.rank])
    comm.synchronize()


@pytest.mark.timeout(400)
def test_no_difference_passes_unseen(kernel_cache: str) -> None:
    ended = outcomes(2, shorter_by_one, kernel_cache, **between_hosts("2x1"), timeout_s=60.0)
    said = "rank 1 sends 2 elements to rank 0, and rank 0 expects 1 elements from rank 1"
    assert all(said in outcome.text for outcome in ended), [outcome.text for outcome in ended]
