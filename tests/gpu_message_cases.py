# SPDX-License-Identifier: Apache-2.0
"""Messages of GPUs' memory between two ranks, each byte of which is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpu_stand_in import Tensor, opened
from lanecast import Communicator, P2POp
from pipe_jobs import Tell, stays_until

# Bytes: in a frame and just beyond, a slot and just beyond, several parcels, and more than all slots hold.
LENGTHS = (0, 1, 8, 248, 249, 16_385, 32_768, 32_769, 98_309, 1_048_577, 9 << 20)


KEPT: list[Tensor] = []  # what is sent: streams still read it when its call has returned


def content(count: int, rank: int, turn: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Other bytes of each rank, in each turn and at each place."""
    where = np.arange(count, dtype=np.uint32)
    return ((where * 2654435761 >> 13) + rank * 101 + turn * 31).astype(np.uint8)


def filled(comm: Communicator, count: int, turn: int = 0) -> Tensor:
    KEPT.append(Tensor(content(count, comm.rank, turn), "uint8", comm.rank))
    return KEPT[-1]


def empty(comm: Communicator, count: int) -> Tensor:
    return Tensor(np.full(count, 0xA5, np.uint8), "uint8", comm.rank)


def wrong_in(comm: Communicator, got: Tensor, source: int, turn: int = 0) -> list[str]:
    right = content(got.array.size, source, turn)
    if np.array_equal(got.array, right):
        return []
    first = int(np.argmax(got.array != right))
    return [f"turn {turn}: {got.array.size} bytes from rank {source} differ from byte {first} on"]


def around(comm: Communicator, turn: int, count: int) -> list[str]:
    """To the next rank from the one before: first alone, then both ways at once in lists, then started."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got, mine, back, later = (empty(comm, count) for _ in range(4))
    sent = filled(comm, count, turn=turn)
    if comm.rank % 2 == 0:
        comm.send(sent, after)
        comm.recv(got, before)
    else:
        comm.recv(got, before)
        comm.send(sent, after)
    operations = [
        P2POp("irecv", back, after), P2POp("isend", sent, before), P2POp("isend", sent, comm.rank),
        P2POp("irecv", mine, comm.rank),
    ]  # fmt: skip
    comm.batch_send_recv(operations if comm.rank else operations[::-1])
    receive = comm.irecv(later, before)
    comm.isend(sent, after)
    receive.wait()
    comm.synchronize()
    return [
        *wrong_in(comm, got, before, turn), *wrong_in(comm, back, after, turn), *wrong_in(comm, mine, comm.rank, turn),
        *wrong_in(comm, later, before, turn),
    ]  # fmt: skip


def nobody_sends(ended: Path, comm: Communicator, _: Tell) -> None:
    """The first rank waits for eight bytes of the second."""
    opened(comm)
    if comm.rank == 1:
        stays_until(ended)  # or its going would be noticed
        return
    try:
        comm.recv(empty(comm, 8), 1)
        comm.synchronize()
    finally:
        ended.touch()
