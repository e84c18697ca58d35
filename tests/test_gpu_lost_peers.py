# SPDX-License-Identifier: Apache-2.0
"""What a GPU's memory holds after a peer is lost, on a stand-in for the driver."""

from __future__ import annotations

import gc
import os
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import another, between_hosts, in_environment, opened, tensor
from lanecast import Communicator, _core
from pipe_jobs import PATIENCE_S, PipeJob, Tell
from test_gpu_without_gpu import ENGINES, NOTHING_HELD


def two_ranks(body: Callable[[Communicator, Tell], Any], kernel_cache: str) -> PipeJob:
    return PipeJob(
        2, partial(in_environment, gpu_host_library.environment(), body), kernel_cache=kernel_cache, timeout_s=60.0
    )


def called(own: Communicator, comm: Communicator) -> None:
    own.all_reduce(tensor(comm, 8))
    own.synchronize()


def second_rank_is_killed(comm: Communicator, _: Tell) -> tuple[str, int]:
    """What the first one's communicator leaves, and how long its end takes."""
    own, x = another(comm, device=comm.rank), tensor(comm, 8)
    window = _core.WindowMemory(comm.rank, 4096)
    own._core.open_window(window)
    for engine in ENGINES:
        own.all_reduce(x, algorithm=engine)
    own.synchronize()
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    own.all_reduce(x)
    with pytest.raises((lanecast.TransportError, lanecast.TimeoutError), match="rank 1"):
        own.synchronize()
    naps = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    del own, window
    gc.collect()
    return gpu_host_library.held(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - naps


@pytest.mark.timeout(400)
def test_a_communicator_whose_peer_was_killed_leaves_nothing(kernel_cache: str) -> None:
    job = two_ranks(second_rank_is_killed, kernel_cache)
    survivor = job.outcome(0, timeout_s=300)
    assert job.end() == [0, -signal.SIGKILL]
    assert survivor.text == ""
    held, naps = survivor.value
    assert held == NOTHING_HELD
    assert naps < 5000  # who lives is waited for in naps of 200 us, for two seconds


def makes_one_meanwhile(ordinal: int) -> bool:
    """Is a communicator made while the GPU's default stream is at work?"""
    made: list[Communicator] = []
    making = threading.Thread(
        target=lambda: made.append(lanecast.from_all_gather(0, 1, lambda mine: mine, device=ordinal))
    )
    with gpu_host_library.held_up(ordinal):
        making.start()
        making.join(PATIENCE_S / 2)  # however busy the machine; held up, it would not return at all
        meanwhile = bool(made)
    making.join()
    return meanwhile


def peer_is_stopped(comm: Communicator, tell: Tell) -> str:
    own = another(comm, timeout_s=8)  # the first call needs some of it on a busy machine
    called(own, comm)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        with pytest.raises(lanecast.Error, match="rank 1"):
            called(own, comm)
    del own
    gc.collect()
    tell((makes_one_meanwhile(comm.rank), gpu_host_library.held()))
    for _again in range(2):  # the second finds all of the first one's back
        own = another(comm)
        called(own, comm)
        del own
        gc.collect()
    return gpu_host_library.held()


@pytest.mark.timeout(400)
def test_memory_that_a_stopped_peer_has_mapped_is_freed_when_it_has_let_go(kernel_cache: str) -> None:
    job = two_ranks(peer_is_stopped, kernel_cache)
    made_meanwhile, held = job.told(0, timeout_s=300)
    os.kill(job.processes[1].pid or 0, signal.SIGCONT)
    assert made_meanwhile  # nobody looks at that memory on a stream that others' kernels hold up
    assert held.startswith("memory ")
    assert held != NOTHING_HELD  # its kernels may write there yet
    outcomes = [job.outcome(rank, timeout_s=300) for rank in range(2)]
    assert [outcome.value or outcome.text for outcome in outcomes] == [NOTHING_HELD] * 2
    assert job.end() == [0, 0]


def second_rank_is_killed_while_it_maps(comm: Communicator, _: Tell) -> tuple[str, str]:
    """What the first one keeps of a communicator that was not made, and after the next."""
    if comm.rank == 1:
        gpu_host_library.end_in("cuIpcOpenMemHandle")
    own = another(comm, timeout_s=60.0)
    with pytest.raises(lanecast.TransportError, match="rank 1"):
        called(own, comm)
    del own
    gc.collect()
    kept = gpu_host_library.held()
    for _again in range(400):  # a process that was killed takes its time to end
        alone = lanecast.from_all_gather(0, 1, lambda mine: mine)
        called(alone, comm)
        del alone
        gc.collect()
        if gpu_host_library.held() == NOTHING_HELD:
            break
        time.sleep(0.05)
    return kept, gpu_host_library.held()


@pytest.mark.timeout(400)
def test_memory_that_a_killed_peer_may_have_mapped_is_freed_by_the_next(kernel_cache: str) -> None:
    job = two_ranks(second_rank_is_killed_while_it_maps, kernel_cache)
    survivor = job.outcome(0, timeout_s=300)
    assert job.end() == [0, -signal.SIGKILL]
    assert survivor.text == ""
    assert survivor.value[0].startswith("memory 1 opened 0 ")
    assert survivor.value[1] == NOTHING_HELD


def neighbour_is_killed_while_it_opens(call: str, after: int, comm: Communicator, _: Tell) -> str:
    """What a rank hears of rank 1, which goes in that call of the driver's."""
    if comm.rank == 1:
        gpu_host_library.end_in(call, after)
    with pytest.raises(lanecast.TransportError) as caught:
        opened(comm)
    return str(caught.value)


# In steps of all ranks, and of the two of a host amid one of all.
@pytest.mark.parametrize(
    ("call", "after"),
    [("cuMemAlloc", 0), ("cuMemAlloc", 1), ("cuMemAlloc", 3), ("cuIpcGetMemHandle", 1), ("cuIpcOpenMemHandle", 0)],
)
def test_a_peer_that_is_killed_while_gpus_are_opened_is_named(call: str, after: int, kernel_cache: str) -> None:
    """By its neighbour as well, which cannot tell the other host what it has heard."""
    body = partial(neighbour_is_killed_while_it_opens, call, after)
    body = partial(in_environment, gpu_host_library.environment(), body)
    job = PipeJob(3, body, kernel_cache=kernel_cache, timeout_s=60.0, **between_hosts("1+2"))
    outcomes = [job.outcome(rank, timeout_s=300) for rank in (0, 2)]
    assert job.end() == [0, -signal.SIGKILL, 0]
    for outcome in outcomes:
        assert outcome.text == ""
        assert re.search(r"rank 1\b", outcome.value), outcome


def second_rank_aborts(comm: Communicator, _: Tell) -> str:
    """What the first one's call hears that comes right after a call whose kernel the abort has ended."""
    own, x = another(comm), tensor(comm, 8)
    called(own, comm)
    if comm.rank == 0:
        own.all_reduce(x)
    comm.barrier()
    if comm.rank == 1:
        own.abort("no more of these")
    comm.barrier()
    if comm.rank == 1:
        return ""
    with pytest.raises(lanecast.Error) as heard:
        own.all_reduce(x)
    return str(heard.value)


@pytest.mark.timeout(400)
def test_the_next_call_hears_why_a_peer_has_ended_the_kernel(kernel_cache: str) -> None:
    job = two_ranks(second_rank_aborts, kernel_cache)
    outcomes = [job.outcome(rank, timeout_s=300) for rank in range(2)]
    assert job.end() == [0, 0]
    assert [outcome.text for outcome in outcomes] == ["", ""]
    assert "lost rank 1" in outcomes[0].value
    assert "no more of these" in outcomes[0].value
