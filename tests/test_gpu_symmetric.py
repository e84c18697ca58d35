# SPDX-License-Identifier: Apache-2.0
"""Collectives on symmetric memory, over a driver that runs kernels on the CPU: read and written at the peers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from collective_cases import Array
from gpu_stand_in import Tensor, expect_different_calls, expect_named_absence, outcomes
from lanecast import Communicator
from pipe_jobs import Tell

BY_ENGINES = (16 << 20) // 4  # elements of a share that copy engines bring to the peers where it is in its place
MOST = 2 * BY_ENGINES + 64  # elements; shares of three ranks are short here


class Symmetric:
    """An array of symmetric memory; collective."""

    def __init__(self, comm: Communicator) -> None:
        self._memory: Any = comm._core.symmetric_allocate(comm.rank, 4 * MOST)
        self.array: Array = np.ctypeslib.as_array((ctypes.c_float * MOST).from_address(self._memory.address))


def own(rank: int, count: int) -> Array:
    return (np.arange(count, dtype=np.float32) % 1009 + 10_000 * rank).astype(np.float32)


def total(size: int, count: int) -> Array:
    added = own(0, count)
    for rank in range(1, size):
        added += own(rank, count)
    return added


class Rank:
    def __init__(self, comm: Communicator) -> None:
        self.comm, self.size, self.rank = comm, comm.size, comm.rank
        self.memory = Symmetric(comm), Symmetric(comm)  # keeps what the arrays lie in
        self.one, self.two = (each.array for each in self.memory)
        self.wrong: list[str] = []

    def on(self, array: Array) -> Tensor:
        return Tensor(array, "float32", self.rank)

    def expect(self, what: str, got: Array, expected: Array) -> None:
        self.comm.synchronize()
        if not np.array_equal(got, expected):
            self.wrong.append(f"rank {self.rank}: {what}: {np.count_nonzero(got != expected)} of {got.size}")

    def all_gather(self, count: int, in_place: bool) -> None:
        whole, place = self.one[: self.size * count], slice(self.rank * count, (self.rank + 1) * count)
        whole[:] = -1
        source = whole[place] if in_place else self.two[:count]
        source[:] = own(self.rank, count)
        self.comm.all_gather_into_tensor(self.on(whole), self.on(source), algorithm="peer_direct")
        everyone = np.concatenate([own(rank, count) for rank in range(self.size)])
        self.expect(f"all_gather of {count}, in place: {in_place}", whole, everyone)

    def reduce_scatter(self, count: int) -> None:
        whole, share = self.one[: self.size * count], self.two[:count]
        whole[:] = own(self.rank, whole.size)
        self.comm.reduce_scatter_tensor(self.on(share), self.on(whole), algorithm="peer_direct")
        expected = total(self.size, whole.size)[self.rank * count : (self.rank + 1) * count]
        self.expect(f"reduce_scatter of {count}", share, expected)

    def all_reduce(self, count: int) -> None:
        vector = self.two[:count]
        vector[:] = own(self.rank, count)
        self.comm.all_reduce(self.on(vector), algorithm="peer_direct")
        self.expect(f"all_reduce of {count}", vector, total(self.size, count))

    def all_to_all(self, count: int) -> None:
        given, got = self.two[: self.size * count], self.one[: self.size * count]
        given[:] = own(self.rank, given.size)
        self.comm.all_to_all_single(self.on(got), self.on(given), algorithm="peer_direct")
        shares = [own(rank, given.size)[self.rank * count : (self.rank + 1) * count] for rank in range(self.size)]
        self.expect(f"all_to_all of {count}", got, np.concatenate(shares))


def every_kind(comm: Communicator, _: Tell) -> list[str]:
    rank = Rank(comm)
    for count in (1, 7, 2003, 20_000):
        rank.all_gather(count, in_place=False)
        rank.all_gather(count, in_place=True)
        rank.reduce_scatter(count)
        rank.all_reduce(count)
        rank.all_to_all(count)
    return rank.wrong


@pytest.mark.timeout(400)  # the first one builds the driver
@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_kind(size: int, kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(size, every_kind, kernel_cache)] == [[]] * size


def by_engines_and_by_kernel(comm: Communicator, _: Tell) -> list[str]:
    rank = Rank(comm)
    for in_place in (True, comm.rank == 0, False, comm.rank == 1):
        rank.all_gather(BY_ENGINES + 5, in_place)
        rank.all_gather(12, in_place)
    return rank.wrong


@pytest.mark.timeout(400)
def test_ranks_need_not_agree_on_what_moves_their_shares(kernel_cache: str) -> None:
    ended = outcomes(2, by_engines_and_by_kernel, kernel_cache)
    assert [outcome.text or outcome.value for outcome in ended] == [[]] * 2


def alone(comm: Communicator, _: Tell) -> None:
    rank = Rank(comm)
    rank.all_reduce(100)
    if comm.rank == 0:
        rank.all_reduce(100)


def test_a_peer_that_does_not_come_to_the_meeting(kernel_cache: str) -> None:
    expect_named_absence(outcomes(2, alone, kernel_cache, timeout_s=8))


def another_call(comm: Communicator, _: Tell) -> None:
    Rank(comm).all_reduce(100 + comm.rank)


def test_different_calls(kernel_cache: str) -> None:
    expect_different_calls(outcomes(2, another_call, kernel_cache, timeout_s=60.0))
