# SPDX-License-Identifier: Apache-2.0
"""Ranks that leave over UCX right after their last message, while their peers have notes on the way to them."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lanecast import Communicator, _core
from pipe_jobs import PipeJob
from ranks import Rank, in_processes
from transport_endpoint import Endpoint, Item

Tell = Callable[[Any], None]


def leaves_with_notes_unread(stays_busy: bool, me: Rank) -> None:
    """Rank 0 stays. TCP resets a connection that is closed with something unread, or written to after its end."""
    transport = _core.open_ucx(me.rank, me.size, me.all_gather)
    end = Endpoint(transport, me)
    # UCX connects two ranks for notes when one has the first for the other.
    end.wait_and_tell(end.peers, lambda: all((transport.waiting(p, 1.0) or ([], 0.0))[0] for p in end.peers))
    end.wait()
    me.barrier()
    last = [Item(2, 1, 8), Item(3, 2, 3_000)]
    if me.rank != 0:
        me.barrier()
        for item in last:
            end.send(0, item)
        end.wait()
        transport.close()
        me.barrier()
        return
    for peer in end.peers:
        transport.waiting(peer, 1.0)
    me.barrier()
    if stays_busy:
        me.barrier()
    for note in range(3):  # none of them looks for messages
        for peer in end.peers:
            transport.waiting(peer, 0.0)
            transport.want(peer, 100 + note, note)
    for peer in end.peers:
        for item in last:
            end.receive(peer, item)
    end.wait()
    if not stays_busy:
        me.barrier()


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("stays_busy", [False, True], ids=["answers", "busy"])
def test_what_a_rank_sends_last_is_not_lost_with_the_notes_that_it_leaves_unread(size: int, stays_busy: bool) -> None:
    in_processes(size, functools.partial(leaves_with_notes_unread, stays_busy))


def blocks_a_signal(comm: Communicator, _: Tell) -> bool:
    comm.all_reduce(np.ones(3))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    os.kill(os.getpid(), signal.SIGUSR1)
    return signal.sigtimedwait([signal.SIGUSR1], 30) is not None


def test_a_signal_that_the_program_has_blocked_is_not_for_threads_of_ucx() -> None:
    job = PipeJob(2, blocks_a_signal, hosts="ab", timeout_s=60.0)
    assert [job.outcome(rank).value for rank in range(2)] == [True, True]
    assert job.end() == [0, 0]
