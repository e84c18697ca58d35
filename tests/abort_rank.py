# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a communicator hear of an abort on one of them: the last one, in a part of the ranks' communicator.

Run by threads and processes of test_abort.py, and as a program under mpiexec, over the transports that it is given.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator

DEADLINE_S = 60.0  # that no wait here ends by: its error would be another
SOON_S = DEADLINE_S / 2  # of what does not wait
REASON = "rank {}: this communicator was aborted and takes no more calls: enough of it"
COUNTS = (0, 1, 7, 1000, 400_001)


def all_reduce(comm: Communicator, count: int) -> None:
    comm.all_reduce(np.ones(count), algorithm="ring")


def started(comm: Communicator, count: int) -> None:
    works = [comm.all_reduce(np.ones(count), async_op=True, algorithm="direct") for _ in range(2)]
    for work in works:
        assert work is not None
        work.wait()


def persistent(comm: Communicator, count: int) -> None:
    comm.persistent("all_reduce", np.ones(count)).run()


def barrier(comm: Communicator, _: int) -> None:
    comm.barrier()


def message(comm: Communicator, count: int) -> None:
    comm.recv(np.empty(count + 1), comm.size - 1)


def split(comm: Communicator, _: int) -> None:
    comm.split(0)


def broadcast(comm: Communicator, count: int) -> None:
    comm.broadcast(np.ones(count), src=0)


def of_mpi(comm: Communicator, count: int) -> None:
    comm.all_reduce(np.ones(count + 1), algorithm="mpi")


CALLS: tuple[Callable[[Communicator, int], None], ...] = (all_reduce, started, persistent, barrier, message, split)


def is_told(comm: Communicator, call: Callable[[], Any]) -> None:
    """The call ends with the reason; so does each later one, and an abort here changes nothing."""
    reason = REASON.format(comm.size - 1)
    with pytest.raises(lanecast.TransportError) as caught:
        call()
    assert reason in str(caught.value), str(caught.value)
    comm.abort("too late")
    with pytest.raises(lanecast.TransportError, match="has failed and takes no more calls; make a new one") as caught:
        comm.all_reduce(np.ones(1))
    assert reason in str(caught.value), str(caught.value)
    assert "too late" not in str(caught.value)


def aborts(comm: Communicator) -> None:
    at_s = time.monotonic()
    comm.abort("enough of it")
    comm.abort("once more")
    assert time.monotonic() - at_s < SOON_S
    with pytest.raises(lanecast.TransportError, match=r"aborted.*enough of it"):
        comm.all_reduce(np.ones(1))


def works(comm: Communicator) -> None:
    ranks = np.empty(comm.size)
    comm.all_gather_into_tensor(ranks, np.array([float(comm.rank)]))
    assert ranks.tolist() == list(range(comm.size))


def in_a_call(comm: Communicator, call: Callable[[Communicator, int], None], count: int, goes: bool) -> None:
    """goes: the last rank destroys its communicator at once, as ncclCommAbort does."""
    child = comm.split(0)
    assert child is not None
    if comm.rank < comm.size - 1:
        is_told(child, lambda: call(child, count))
    else:
        time.sleep(0.1)
        aborts(child)
        if goes:
            del child
    works(comm)


def until_it_fails(comm: Communicator, call: Callable[[Communicator, int], None]) -> None:
    """Of calls that need not wait for anybody: a moment after the abort one fails, if not the first."""
    for _ in range(1000):
        call(comm, 1)
        time.sleep(0.01)


def between_calls(comm: Communicator, call: Callable[[Communicator, int], None], used: bool) -> None:
    child = comm.split(0)
    assert child is not None
    if used:
        all_reduce(child, 3)
    comm.barrier()
    if comm.rank == comm.size - 1:
        aborts(child)
    comm.barrier()
    time.sleep(0.1)
    if comm.rank < comm.size - 1:
        is_told(child, lambda: until_it_fails(child, call))
    works(comm)


def run(comm: Communicator) -> None:
    in_wait = (*CALLS, of_mpi) if comm.transports == "mpi" else CALLS
    for k, call in enumerate(in_wait):
        for count in COUNTS if call is all_reduce else COUNTS[k : k + 1] or COUNTS[1:2]:
            in_a_call(comm, call, max(count, 1), goes=k % 2 == 1)
    for call in (*in_wait, broadcast):
        for used in (True, False):
            between_calls(comm, call, used)


def main() -> None:
    comm = lanecast.init(transports=sys.argv[1], timeout_s=DEADLINE_S)
    run(comm)
    print("as it should be")


if __name__ == "__main__":
    main()
