# SPDX-License-Identifier: Apache-2.0
"""Ends of communicators whose GPU still has something to do, on a stand-in for the driver: what a rank that leaves
waits for, what ends that wait, and who says so."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gpu_host_library
from gpu_message_cases import empty, filled
from gpu_stand_in import Tensor, another, between_hosts, opened, tensor
from lanecast import Communicator
from pipe_jobs import Outcome, PipeJob, Tell, stays_until
from test_gpu_counts import CountedCall

pytestmark = pytest.mark.timeout(400)  # the first one builds the driver

Leaves = Callable[[Communicator, CountedCall], None]
END = "lanecast: at the end of a communicator: "
LONG_S = 3000.0  # nobody waits for it
KEPT: list[object] = []  # what the device reads and writes when the body has returned


def kept(tensor: Tensor) -> Tensor:
    KEPT.append(tensor)
    return tensor


def first_leaves(ended: Path, leaves: Leaves, comm: Communicator, _: Tell) -> None:
    counted = CountedCall(opened(comm))
    KEPT.extend([counted.source, counted.target, counted.sends, counted.receives])  # and not the communicator
    counted.make()  # the first one takes memory, for which the driver waits
    comm.synchronize()
    if comm.rank == 0:
        leaves(comm, counted)
    else:
        stays_until(ended)


def job_of(size: int, leaves: Leaves, ended: Path, kernel_cache: str, **options: object) -> PipeJob:
    """Of which the first rank leaves, the others only when that one has ended."""
    body, environment = partial(first_leaves, ended, leaves), gpu_host_library.environment()
    return PipeJob(size, body, kernel_cache=kernel_cache, environment=environment, **options)


def receives_in_vain(comm: Communicator, _: CountedCall) -> None:
    """Of a rank of this host; what is behind that the device never begins."""
    comm.recv(kept(empty(comm, 8)), 1)


def sends_behind(comm: Communicator, counted: CountedCall) -> None:
    comm.send(filled(comm, 8), 2)
    receives_in_vain(comm, counted)
    comm.send(filled(comm, 8), 2)


def counts_behind(comm: Communicator, counted: CountedCall) -> None:
    receives_in_vain(comm, counted)
    counted.make()


@pytest.mark.parametrize("leaves", [receives_in_vain, sends_behind, counts_behind])
def test_behind_a_message_that_nobody_sends(leaves: Leaves, kernel_cache: str, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    job = job_of(3, leaves, ended, kernel_cache, **between_hosts("2+1"), timeout_s=6)
    assert job.outcome(0, timeout_s=300).text == ""
    job.processes[0].join(60)
    ended.touch()
    assert [job.outcome(rank).text for rank in (1, 2)] == ["", ""]
    assert job.end() == [0] * 3
    assert f"{END}rank 0 waited for rank 1 in a recv of 8 bytes from rank 1" in job.words(0)


def calls_alone(comm: Communicator, _: Tell) -> None:
    opened(comm)
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(kept(tensor(comm, 1000)))


def test_behind_a_call_of_a_rank_that_was_killed(kernel_cache: str) -> None:
    """Long before the deadline."""
    job = PipeJob(
        2, calls_alone, kernel_cache=kernel_cache, environment=gpu_host_library.environment(), timeout_s=LONG_S
    )
    assert job.outcome(0, timeout_s=300).text == ""
    assert job.end() == [0, -signal.SIGKILL]
    assert f"{END}rank 0 lost rank 1 (process {job.processes[1].pid} has ended)" in job.words(0)


class SharedWord:
    """One that another process, and a stream, sees: what waits on the stream goes on when it is 1."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened_file:
            self._page = mmap.mmap(opened_file.fileno(), mmap.PAGESIZE)
        self.word = ctypes.c_uint32.from_buffer(self._page)

    def hold_up(self, ordinal: int) -> None:
        gpu_host_library.wait_for_one(ordinal, 0, self.word)


def sends_held_up(file: Path, comm: Communicator, _: CountedCall) -> None:
    KEPT.append(word := SharedWord(file))
    word.hold_up(comm.rank)
    comm.send(filled(comm, 8), 1)


def test_a_stream_that_does_not_go_on_is_named(kernel_cache: str, tmp_path: Path) -> None:
    ended, word = tmp_path / "ended", SharedWord(tmp_path / "word")
    leaves = partial(sends_held_up, tmp_path / "word")
    job = job_of(2, leaves, ended, kernel_cache, **between_hosts("2x1"), timeout_s=6)
    assert job.outcome(0, timeout_s=300).text == ""
    while "for its GPU, which has not done all that is enqueued there" not in job.words(0):
        assert job.processes[0].is_alive()
        time.sleep(0.05)
    assert "lanecast: rank 0 has waited 6.0 s at the end of a communicator" in job.words(0)
    word.word.value = 1
    job.processes[0].join(60)  # or it might find that its peer has gone
    ended.touch()
    assert job.end() == [0, 0]
    assert END not in job.words(0)


def lets_go_by_a_thread(comm: Communicator, _: Tell) -> None:
    """Another thread of the program has to go on first, which waits for the end to have begun."""
    opened(comm)
    own = another(comm, timeout_s=LONG_S)
    opened(own)
    word = ctypes.c_uint32(0)
    if comm.rank == 0:
        gpu_host_library.wait_for_one(comm.rank, 0, word)
    own.broadcast(kept(tensor(own, 1000)), 0)
    begins = threading.Event()

    def let_go() -> None:
        begins.wait()
        time.sleep(0.1)
        word.value = 1

    thread = threading.Thread(target=let_go)
    thread.start()
    begins.set()
    del own
    gc.collect()
    thread.join()


def test_another_thread_of_the_program_goes_on_meanwhile(kernel_cache: str) -> None:
    environment = gpu_host_library.environment()
    job = PipeJob(2, lets_go_by_a_thread, kernel_cache=kernel_cache, environment=environment)
    assert [job.outcome(rank, timeout_s=300).text for rank in range(2)] == ["", ""]
    assert job.end() == [0, 0]


def sender_leaves_first(file: Path, comm: Communicator, tell: Tell) -> list[float]:
    opened(comm)
    own = another(comm, timeout_s=LONG_S)
    opened(own)
    x = kept(tensor(own, 4))
    x.array[:] = comm.rank
    comm.barrier()
    if comm.rank == 0:
        KEPT.append(word := SharedWord(file))
        word.hold_up(comm.rank)
    if comm.rank == 1:
        own.send(x, 0)
    else:
        own.recv(x, 1)
    tell("leaves")
    del own
    gc.collect()
    return [float(each) for each in np.unique(x.array)]


def test_a_rank_that_has_left_has_done_its_part(kernel_cache: str, tmp_path: Path) -> None:
    """It left long before the other's GPU came to the call, and that one gets all the same what was sent."""
    word = SharedWord(tmp_path / "word")
    body, environment = partial(sender_leaves_first, tmp_path / "word"), gpu_host_library.environment()
    job = PipeJob(2, body, kernel_cache=kernel_cache, environment=environment)
    assert [job.told(rank, timeout_s=300) for rank in range(2)] == ["leaves"] * 2
    left = job.outcome(1)
    time.sleep(3.0)  # longer than a rank waits for the last writes of one that has gone
    word.word.value = 1
    assert [outcome_of(left), outcome_of(job.outcome(0))] == [("", [1.0])] * 2
    assert job.end() == [0, 0]
    assert END not in job.words(0)


def outcome_of(outcome: Outcome) -> tuple[str, object]:
    return outcome.text, outcome.value
