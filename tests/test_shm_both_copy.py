# SPDX-License-Identifier: Apache-2.0
"""Large messages of shared memory that both ends copy: the receiver reads pieces, and the sender writes others."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os

import numpy as np
import pytest

from ranks import Rank, in_processes
from test_shm import open_shm
from transport_endpoint import Bytes, Endpoint, Item, payload

SIZE = (3 << 20) + 5
PIECES = (64 << 10, 128 << 10, 256 << 10)  # how long they are, by the message


def begin(end: Endpoint, into: Bytes) -> None:
    """Rank 0 has sent SIZE bytes to rank 1, which reads the first piece and leaves the rest for now."""
    if end.rank == 1:
        end.watch(end.transport.receive(0, 1, [into]))
    end.barrier()
    if end.rank == 0:
        end.send(1, Item(1, 0, SIZE))
        for _ in range(3):
            end.progress()  # it may have been asked for
    end.barrier()
    if end.rank == 1:
        end.progress_until(lambda: bool((into != 0xEE).any()))
    end.barrier()


def write_what_there_is(end: Endpoint) -> None:
    if end.rank == 0:
        for _ in range(3 * SIZE // min(PIECES)):
            end.progress()
    end.barrier()


def _sender_writes(me: Rank) -> None:
    end, into = Endpoint(open_shm(me, single_copy=1), me), np.full(SIZE, 0xEE, np.uint8)
    begin(end, into)
    write_what_there_is(end)
    if me.rank == 1:
        assert np.array_equal(into, payload(0, 1, 0, SIZE)), "the sender has written less than was left"
    end.wait()
    me.barrier()


@pytest.mark.parametrize("ranks", [2, 3])  # what is noticed, and what is asked for
def test_a_sender_writes_what_its_receiver_leaves(ranks: int) -> None:
    in_processes(ranks, _sender_writes)


def _gives_up_meanwhile(me: Rank) -> None:
    end, into = Endpoint(open_shm(me, single_copy=1), me), np.full(SIZE, 0xEE, np.uint8)
    begin(end, into)
    if me.rank == 1:
        end.transport.abort("the user has had enough")
        into[:] = 0xDD  # it is the user's again
    me.barrier()
    write_what_there_is(end)
    assert me.rank == 0 or (into == 0xDD).all()
    me.barrier()


def test_nobody_writes_to_a_receiver_that_has_given_up() -> None:
    in_processes(2, _gives_up_meanwhile)


def secret_memory(size: int) -> Bytes:
    """Which other processes can neither read nor write."""
    libc, memfd_secret = ctypes.CDLL(None, use_errno=True), 447
    file = libc.syscall(memfd_secret, 0)
    if file < 0:
        pytest.skip(f"no secret memory here: {os.strerror(ctypes.get_errno())}")
    os.ftruncate(file, size)
    return np.frombuffer(mmap.mmap(file, size), np.uint8)


def _where_nobody_may_write(me: Rank) -> None:
    end, into = Endpoint(open_shm(me, single_copy=1), me), secret_memory(SIZE)
    into[:] = 0xEE
    for _ in range(2):  # a sender that was refused does not try again
        begin(end, into)
        write_what_there_is(end)
        end.wait()
        if me.rank == 1:
            assert np.array_equal(into, payload(0, 1, 0, SIZE))
            into[:] = 0xEE
        me.barrier()


def test_memory_that_the_sender_may_not_write_is_read_into() -> None:
    secret_memory(1)  # or this test is skipped
    in_processes(2, _where_nobody_may_write)


def _many_sizes(options: dict[str, int], me: Rank) -> None:
    end = Endpoint(open_shm(me, **options), me)
    sizes = [k * piece + more for piece in PIECES for k in (1, 2, 3, 7) for more in (-1, 0, 1)]
    rng = np.random.default_rng(len(sizes))
    for turn in range(6):
        items = [
            Item(int(rng.integers(3)), 100 * turn + k, int(size), sorted(rng.integers(0, size, k % 3).tolist()))
            for k, size in enumerate(rng.permutation(sizes)[:8])
        ]
        for peer in end.peers:
            first, second = (end.send, end.receive) if (me.rank + peer + turn) % 2 else (end.receive, end.send)
            if turn < 3 or me.rank < peer:  # to and fro, and then one way
                for item in items:
                    first(peer, item)
            if turn < 3 or me.rank > peer:
                for item in items:
                    second(peer, item)
        end.wait()
    me.barrier()


@pytest.mark.parametrize("options", [{"single_copy": 1}, {}, {"all_far": 1}], ids=["read", "as they choose", "far"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_of_all_lengths_arrive_whole(ranks: int, options: dict[str, int]) -> None:
    """far: those that senders pass on, here of odd tags, are streamed whatever was asked for."""
    in_processes(ranks, functools.partial(_many_sizes, options))
