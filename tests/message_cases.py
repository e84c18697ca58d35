# SPDX-License-Identifier: Apache-2.0
"""Messages between pairs of ranks, alone and among collectives: each function is run by every rank and tells what is
wrong. Every payload is unique per sender, receiver, tag and element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lanecast import Communicator, P2POp

Array = npt.NDArray[Any]
SIZES = (0, 1, 7, 1000, 5001, 200_003)  # elements: nothing, odd, eager, beyond every eager limit


def payload(source: int, target: int, tag: int, size: int) -> Array:
    return np.arange(size, dtype=np.int64) * 1009 + (source * 64 + target) * 64 + tag + 1


def judge(got: Array, source: int, target: int, tag: int) -> list[str]:
    if np.array_equal(got, payload(source, target, tag, got.size)):
        return []
    return [f"rank {target}: {got.size} elements from rank {source} under tag {tag} are wrong: {got[:3]} …"]


def blanks(size: int) -> Array:
    return np.full(size, -1, np.int64)


def everybody_to_everybody(comm: Communicator, size: int, *, blocking: bool, receives_first: bool) -> list[str]:
    """In one batch; half of the ranks list their sends first."""
    others = [peer for peer in range(comm.size) if peer != comm.rank]
    got = {peer: blanks(size + peer) for peer in others}
    receives = [P2POp(comm.irecv, got[peer], peer, 5) for peer in others]
    sends = [P2POp("isend", payload(comm.rank, peer, 5, size + comm.rank), peer, 5) for peer in others]
    operations = receives + sends if receives_first == bool(comm.rank % 2) else sends + receives
    if blocking:
        comm.batch_send_recv(operations)
    else:
        for work in comm.batch_isend_irecv(operations):
            work.wait()
    return [line for peer in others for line in judge(got[peer], peer, comm.rank, 5)]


def tags_out_of_order(comm: Communicator, size: int) -> list[str]:
    """From each even rank to the next one; received in another order than sent, with a collective in between."""
    peer = comm.rank ^ 1
    works, got = [], {}
    if peer < comm.size and comm.rank < peer:
        works = [comm.isend(payload(comm.rank, peer, tag, size), peer, tag) for tag in (3, 1, 2)]
    elif peer < comm.size:
        got = {tag: blanks(size) for tag in (2, 3, 1)}
        works = [comm.irecv(buffer, peer, tag) for tag, buffer in got.items()]
    total = np.ones(3)
    comm.all_reduce(total)
    wrong = [] if (total == comm.size).all() else [f"rank {comm.rank}: the collective among messages gave {total}"]
    for work in works:
        work.wait()
    return wrong + [line for tag, buffer in got.items() for line in judge(buffer, peer, comm.rank, tag)]


def equal_tags_in_order(comm: Communicator) -> list[str]:
    """Sizes on both sides of every limit, so that what overtakes would be noticed."""
    sizes = [1, 200_003, 2, 5001, 3, 0, 200_001, 4]
    wrong: list[str] = []
    if comm.rank == 0 and comm.size > 1:
        for number, size in enumerate(sizes):
            comm.send(payload(0, comm.size - 1, number, size), comm.size - 1)
    elif comm.rank == comm.size - 1 and comm.size > 1:
        for number, size in enumerate(sizes):
            got = blanks(size)
            comm.recv(got, 0)
            wrong += judge(got, 0, comm.rank, number)
    return wrong


def known_to_two_ranks(comm: Communicator, size: int) -> list[str]:
    """Many messages between two ranks, between collectives of all: no rank counts calls that it does not make."""
    wrong: list[str] = []
    first, last = 0, comm.size - 1
    for turn in range(5):
        gathered = blanks(comm.size)
        works = []
        if comm.size > 1 and comm.rank == last:
            got = [blanks(size) for _ in range(turn)]
            works = [comm.irecv(buffer, first, turn) for buffer in got]
        comm.all_gather_into_tensor(gathered, np.array([comm.rank + 7 * turn]))
        if comm.size > 1 and comm.rank == first:
            for _ in range(turn):
                comm.send(payload(first, last, turn, size), last, turn)
        for work, buffer in zip(works, got if works else [], strict=True):
            work.wait()
            wrong += judge(buffer, first, last, turn)
        if gathered.tolist() != [rank + 7 * turn for rank in range(comm.size)]:
            wrong.append(f"rank {comm.rank}: gathered {gathered} in turn {turn}")
    return wrong


def all_cases(comm: Communicator, sizes: Sequence[int] = SIZES) -> tuple[list[str], int]:
    """What is wrong, and how much was tried."""
    wrong: list[str] = []
    tried = 0
    for size in sizes:
        for blocking in (True, False):
            for receives_first in (True, False):
                wrong += everybody_to_everybody(comm, size, blocking=blocking, receives_first=receives_first)
        wrong += tags_out_of_order(comm, size)
        comm.barrier()
        wrong += known_to_two_ranks(comm, size)
        tried += 7
    wrong += equal_tags_in_order(comm)
    barrier = comm.barrier(async_op=True)
    assert barrier is not None
    barrier.wait()
    return wrong, tried + 2
