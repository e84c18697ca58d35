# SPDX-License-Identifier: Apache-2.0
"""Memory that each rank lets its peers map by itself, over a driver that runs kernels on the CPU: calls on it copy
nothing where all ranks' buffers lie in such memory, and are right wherever they lie."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpu_host_library
import lanecast
from collective_cases import Array
from gpu_stand_in import Tensor, expect_different_calls, expect_named_absence, outcomes
from lanecast import Communicator, _core
from pipe_jobs import Tell

LONG = (512 << 10) // 4  # elements of a message from which on a rank offers
KINDS = ("all_gather", "reduce_scatter", "all_reduce")
MOST_WINDOWS = 256

pytestmark = pytest.mark.timeout(400)  # the first one builds the driver


class Memory:
    """Of a rank, that its peers may map; floats."""

    def __init__(self, comm: Communicator, count: int) -> None:
        self.held: Any = _core.WindowMemory(comm.rank, 4 * count)
        self.array: Array = np.ctypeslib.as_array((ctypes.c_float * count).from_address(self.held.address))
        self.opened = comm._core.open_window(self.held)

    def close(self) -> None:
        self.held.retire()
        del self.array, self.held


def settled(comm: Communicator) -> None:
    """All ranks have mapped what has been opened, and let go of what has been closed, when they come here."""
    for _ in range(3):  # each goes on when the peers have looked, which they do when they make a call
        small(comm)
        comm.barrier()


def small(comm: Communicator) -> None:
    x = np.ones(3, np.float32)
    comm.all_reduce(Tensor(x, "float32", comm.rank))
    comm.synchronize()
    assert x.tolist() == [comm.size] * 3


def brought(rank: int, count: int, turn: int) -> Array:
    return ((np.arange(count) * (turn % 5 + 1)) % 1009 + 5_000 * rank + turn).astype(np.float32)


def tried(comm: Communicator, kind: str, buffers: tuple[Array, Array], count: int, turn: int) -> list[str]:
    """A call of `count` elements a share on the first elements of two arrays; what is wrong with its result."""
    inputs, outputs = buffers
    n, rank = comm.size, comm.rank
    mine = slice(rank * count, (rank + 1) * count)
    taken, given = (count, n * count) if kind == "all_gather" else (n * count, n * count)
    if kind == "reduce_scatter":
        given = count
    source, target = inputs[:taken], outputs[:given]
    everyone = [brought(r, taken, turn) for r in range(n)]
    if inputs is outputs:  # in place
        source = target[mine] if kind == "all_gather" else source
        target = source[mine] if kind == "reduce_scatter" else target
    else:
        target[:] = -1
    source[:] = everyone[rank]
    given_tensor, taken_tensor = Tensor(target, "float32", rank), Tensor(source, "float32", rank)
    if kind == "all_gather":
        comm.all_gather_into_tensor(given_tensor, taken_tensor)
        expected = np.concatenate(everyone)
    elif kind == "reduce_scatter":
        comm.reduce_scatter_tensor(given_tensor, taken_tensor)
        expected = np.sum(everyone, axis=0)[mine]
    else:
        if inputs is not outputs:
            target[:] = source
        comm.all_reduce(given_tensor)
        expected = np.sum(everyone, axis=0)
    comm.synchronize()
    wrong = np.count_nonzero(target != expected)
    return [f"rank {rank}, turn {turn}: {kind} of {count}: {wrong} of {target.size} are wrong"] if wrong else []


def each_kind(comm: Communicator, _: Tell) -> list[str]:
    """Every rank has its buffers elsewhere in its memory; the count is odd, so that some are at no good address."""
    small(comm)
    room = comm.size * (LONG + 40)
    one, two = Memory(comm, 3 * room), Memory(comm, 2 * room)
    assert one.opened
    assert two.opened
    settled(comm)
    wrong: list[str] = []
    at, count = (comm.rank * 12 + 1) * 4, LONG + 7
    for kind in KINDS:
        apart = one.array[at:], two.array[room - 8 * at :]
        wrong += tried(comm, kind, apart, count, 1)
        wrong += tried(comm, kind, (apart[0], apart[0]), count, 11)
        wrong += tried(comm, kind, (apart[1], apart[1]), 5, 21)  # too short to be worth it
    assert comm._core.calls_by_windows() == (2 * len(KINDS) if comm.size > 1 else 0)
    return wrong


@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.long), 3])
def test_each_kind(size: int, kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(size, each_kind, kernel_cache)] == [[]] * size


def where_one_has_none(comm: Communicator, _: Tell) -> list[str]:
    """A rank whose buffer lies elsewhere, or that gets to hear of windows later, costs the others nothing but speed."""
    small(comm)
    room = comm.size * (LONG + 8)
    memory, plain = Memory(comm, 2 * room), np.empty(2 * room, np.float32)
    wrong: list[str] = []
    for turn in range(comm.size):
        here = plain if turn % comm.size == comm.rank else memory.array
        for kind in KINDS:
            wrong += tried(comm, kind, (here, here), LONG + turn, turn)
            if turn == 0:
                wrong += tried(comm, kind, (here[room:], plain), LONG, turn)
    assert comm._core.calls_by_windows() == 0
    for kind in KINDS:
        wrong += tried(comm, kind, (memory.array, memory.array[room:]), LONG, 1)
    assert comm._core.calls_by_windows() == len(KINDS)
    return wrong


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_rank_without(size: int, kernel_cache: str) -> None:
    ended = outcomes(size, where_one_has_none, kernel_cache)
    assert [outcome.text or outcome.value for outcome in ended] == [[]] * size


def come_and_go(turns: int, comm: Communicator, _: Tell) -> list[str]:
    """Each rank opens, closes and uses memory as its own dice say; all make the same calls."""
    small(comm)
    at_first = gpu_host_library.held()
    dice, agreed = random.Random(comm.rank), random.Random(17)
    room = comm.size * (LONG + 8)
    mine: list[Memory] = []
    wrong: list[str] = []
    for turn in range(turns):
        if len(mine) < 3 and dice.random() < 0.7:
            mine.append(Memory(comm, 2 * room))
        if mine and dice.random() < 0.3:
            mine.pop(dice.randrange(len(mine))).close()
        here = [memory.array for memory in mine] * 3 + [np.empty(2 * room, np.float32)]
        buffers = dice.choice(here), dice.choice(here)
        at = dice.randrange(8), dice.randrange(8)
        if buffers[0] is buffers[1]:
            at = at[0], at[0] + room
        kind, count = agreed.choice(KINDS), agreed.choice((LONG, LONG + 3, 100))
        wrong += tried(comm, kind, (buffers[0][at[0] :], buffers[1][at[1] :]), count, turn)
    assert comm._core.calls_by_windows() > 0
    for memory in mine:
        memory.close()
    comm.barrier()
    settled(comm)
    held = gpu_host_library.held()
    comm.barrier()
    return wrong if held == at_first else [*wrong, f"rank {comm.rank}: {held} at last, {at_first} at first"]


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.long)])
def test_memory_comes_and_goes(size: int, kernel_cache: str) -> None:
    """What is closed is freed on its rank, and mapped by none."""
    ended = outcomes(size, partial(come_and_go, 24), kernel_cache)
    assert [outcome.text or outcome.value for outcome in ended] == [[]] * size


def other_groups(comm: Communicator, _: Tell) -> list[str]:
    """The same memory in several groups; it outlives them, on some ranks longer than on others."""
    small(comm)
    memory = Memory(comm, 2 * comm.size * LONG)
    half, rest = comm.split(0, comm.rank), comm.split(0, comm.rank)
    assert half is not None
    assert rest is not None
    wrong: list[str] = []
    for group in (half, rest):
        small(group)
        assert group._core.open_window(memory.held)
        settled(group)
        wrong += tried(group, "all_reduce", (memory.array, memory.array), LONG, 3)
        assert group._core.calls_by_windows() == 1
    del group, half
    if comm.rank == 0:
        memory.close()
    settled(comm)
    settled(rest)
    here = np.empty(comm.size * LONG, np.float32) if comm.rank == 0 else memory.array
    wrong += tried(rest, "all_reduce", (here, here), LONG, 4)
    assert rest._core.calls_by_windows() == 1
    return wrong


def test_other_groups(kernel_cache: str) -> None:
    ended = outcomes(2, other_groups, kernel_cache)
    assert [outcome.text or outcome.value for outcome in ended] == [[]] * 2


def too_many(comm: Communicator, _: Tell) -> list[str]:
    small(comm)
    many = [Memory(comm, 8) for _ in range(MOST_WINDOWS + 1 if comm.rank else 1)]
    assert [memory.opened for memory in many] == ([True] * MOST_WINDOWS + [False])[: len(many)]
    settled(comm)
    if comm.rank:
        many.pop(0).close()
        settled(comm)
        assert comm._core.open_window(many[-1].held)
    else:
        settled(comm)
    return tried(comm, "all_reduce", (np.empty(2 * LONG, np.float32),) * 2, LONG, 1)


def test_there_may_be_too_many(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, too_many, kernel_cache)] == [[]] * 2


def cannot_be_mapped(comm: Communicator, _: Tell) -> list[str]:
    small(comm)
    if comm.rank:
        gpu_host_library.fail_next("cuIpcOpenMemHandle", 1)
    memory = Memory(comm, 2 * comm.size * LONG)
    settled(comm)
    wrong = tried(comm, "all_gather", (memory.array, memory.array), LONG, 1)
    assert comm._core.calls_by_windows() == 0
    return wrong


def test_a_peer_that_cannot_map_it(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, cannot_be_mapped, kernel_cache)] == [[]] * 2


def registered(comm: Communicator, _: Tell) -> list[str]:
    """Tensors that are there; refused are others' memory, and what is no tensor of a GPU."""
    small(comm)
    given: Any = _core.WindowMemory(comm.rank, 8 * comm.size * LONG)  # as an allocator's
    array = np.ctypeslib.as_array((ctypes.c_float * (2 * comm.size * LONG)).from_address(given.address))
    part = array[100:]
    wrong: list[str] = []
    with comm.register(Allocated(part, "float32", comm.rank)):
        settled(comm)
        wrong += tried(comm, "all_reduce", (part, part), LONG, 1)
        wrong += tried(comm, "all_reduce", (array, array), LONG, 1)  # begins before it
        assert comm._core.calls_by_windows() == 1
    settled(comm)
    wrong += tried(comm, "all_reduce", (part, part), LONG, 2)
    assert comm._core.calls_by_windows() == 1
    with pytest.raises(lanecast.UsageError, match=f"rank {comm.rank}: register: memory: .*no other process can map"):
        comm.register(Allocated(np.empty(8, np.float32), "float32", comm.rank))
    with pytest.raises(lanecast.UsageError, match="contiguous CUDA tensor"):
        comm.register(np.empty(8))
    with pytest.raises(lanecast.UsageError, match="of no use"):
        comm.register(Allocated(part, "float32", comm.rank + 1))
    return wrong


class Allocated(Tensor):
    """With what registering asks of a tensor of torch's besides."""

    is_cuda = True

    def __init__(self, array: Any, dtype: str, ordinal: int) -> None:
        super().__init__(array, dtype, ordinal)
        self.device = SimpleNamespace(index=ordinal)

    def is_contiguous(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.described().address

    def numel(self) -> int:
        return int(self.array.size)

    def element_size(self) -> int:
        return int(self.array.itemsize)


def test_registered_tensors(kernel_cache: str) -> None:
    assert [outcome.text or outcome.value for outcome in outcomes(2, registered, kernel_cache)] == [[]] * 2


def before_the_gpu_is_open(comm: Communicator, _: Tell) -> None:
    assert not Memory(comm, 8).opened


def test_before_the_gpu_is_open(kernel_cache: str) -> None:
    assert [outcome.text for outcome in outcomes(2, before_the_gpu_is_open, kernel_cache)] == ["", ""]


def alone(comm: Communicator, _: Tell) -> None:
    small(comm)
    memory = Memory(comm, 2 * LONG)
    settled(comm)
    for _turn in range(2 - comm.rank):
        comm.all_reduce(Tensor(memory.array, "float32", comm.rank))
    comm.synchronize()


def test_a_peer_that_does_not_come(kernel_cache: str) -> None:
    expect_named_absence(outcomes(2, alone, kernel_cache, timeout_s=8))


UNTIL_THE_END = np.empty(2 * LONG, np.float32)  # what a call that has failed may still read


def another_call(both_offer: bool, comm: Communicator, _: Tell) -> None:
    small(comm)
    memory = Memory(comm, 2 * LONG)
    settled(comm)
    here = memory.array if both_offer or comm.rank else UNTIL_THE_END
    comm.all_reduce(Tensor(here[: LONG + comm.rank], "float32", comm.rank))
    comm.synchronize()


@pytest.mark.parametrize("both_offer", [True, False])
def test_different_calls(both_offer: bool, kernel_cache: str) -> None:
    expect_different_calls(outcomes(2, partial(another_call, both_offer), kernel_cache, timeout_s=60.0))


# Elements of a message of more pieces than a flag counts, by one multiprocessor, also where they are the longest.
TOO_LONG = 65_000 * (256 << 10) // 4


def refused(comm: Communicator, _: Tell) -> None:
    """Calls that all ranks refuse alike, whoever offers, so that the next one finds all as they were."""
    small(comm)
    count = comm.size * TOO_LONG
    array = np.ctypeslib.as_array((ctypes.c_float * count).from_address(gpu_host_library.memory(comm.rank, 4 * count)))
    whole, own = array, array[comm.rank * TOO_LONG :][:TOO_LONG]
    whole_tensor, own_tensor = (Allocated(each, "float32", comm.rank) for each in (whole, own))
    opened = comm.register(whole_tensor) if comm.rank else None
    settled(comm)
    calls: tuple[Callable[[], object], ...] = (
        lambda: comm.all_gather_into_tensor(whole_tensor, own_tensor),
        lambda: comm.reduce_scatter_tensor(own_tensor, whole_tensor),
        lambda: comm.all_reduce(whole_tensor),
    )
    for call in calls:
        with pytest.raises(lanecast.UsageError, match=f"rank {comm.rank}: a message of .* is too long for max_ctas=1;"):
            call()
        small(comm)
    del opened


def test_messages_that_are_too_long(kernel_cache: str) -> None:
    ended = outcomes(3, refused, kernel_cache, timeout_s=60.0, max_ctas=1)
    assert [outcome.text for outcome in ended] == [""] * 3
