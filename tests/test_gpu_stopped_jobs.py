# SPDX-License-Identifier: Apache-2.0
"""Jobs with GPUs that are stopped as a whole for longer than their deadline, while kernels wait, and go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import gpu_host_library
import lanecast
from gpu_stand_in import Tensor, another, between_hosts, in_environment, tensor
from lanecast import Communicator
from pipe_jobs import PipeJob, Tell, stays_until

DEADLINE_S, STOPPED_S = 8.0, 12.0
Started = Callable[[], None]  # waits for what was enqueued


def reduces(algorithm: str, comm: Communicator) -> Callable[[], Started]:
    x = tensor(comm, 1000)

    def start() -> Started:
        work = comm.all_reduce(x, algorithm=algorithm, async_op=True)
        assert work is not None
        return lambda: ends(comm, x)

    return start


def ends(comm: Communicator, x: Tensor) -> None:
    """The tensor stays until then."""
    comm.synchronize()
    assert len(set(x.array)) == 1


def sends(comm: Communicator) -> Callable[[], Started]:
    x = tensor(comm, 1000)

    def start() -> Started:
        (comm.irecv if comm.rank == 0 else comm.isend)(x, 1 - comm.rank)
        return lambda: ends(comm, x)

    return start


def replays(algorithm: str, comm: Communicator) -> Callable[[], Started]:
    x = tensor(comm, 1000)
    comm.all_reduce(x, algorithm=algorithm)
    comm.synchronize()
    graph = gpu_host_library.Graph(comm.rank, lambda: comm.all_reduce(x, algorithm=algorithm))
    stream = gpu_host_library.stream(comm.rank)

    def start() -> Started:
        graph.launch(stream)

        def wait() -> None:
            gpu_host_library.synchronize(comm.rank, stream)
            ends(comm, x)

        return wait

    return start


WITHIN_A_HOST = {
    "one kernel": partial(reduces, "peer_kernel"),
    "copy engines": partial(reduces, "copy_engine"),
    "a program": partial(reduces, "ring"),
    "messages": sends,
    "a graph": partial(replays, "peer_kernel"),
}
BETWEEN_HOSTS = {"a program": partial(reduces, "ring"), "a graph": partial(replays, "ring")}


def one_comes_late(ways: dict[str, Any], all_ready: Path, comm: Communicator, tell: Tell) -> dict[str, str]:
    """Rank 1, by each of these, while kernels of rank 0 wait; why any of the waits has failed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    own = [another(comm, timeout_s=DEADLINE_S) for _ in ways]
    starts = [way(each) for way, each in zip(ways.values(), own, strict=True)]
    for start in starts:
        start()()
    comm.barrier()
    tell("ready")
    if comm.rank == 0:
        stays_until(all_ready)  # its deadline would pass while the other job still opens its GPUs
        waits = [start() for start in starts]
        tell("waits")
    else:
        assert signal.sigtimedwait([signal.SIGUSR1], 300) is not None
        waits = [start() for start in starts]
    failed = {}
    for name, wait in zip(ways, waits, strict=True):
        try:
            wait()
        except (lanecast.Error, AssertionError) as error:
            failed[name] = repr(error)
    comm.barrier()
    return failed


@pytest.mark.timeout(400)
def test_kernels_wait_on_behind_a_stop(kernel_cache: str, tmp_path: Path) -> None:
    environment = gpu_host_library.environment()
    jobs = [
        PipeJob(
            2,
            partial(in_environment, environment, partial(one_comes_late, ways, tmp_path / "all ready")),
            kernel_cache=kernel_cache,
            environment=environment,
            timeout_s=100,
            **where,
        )
        for ways, where in ((WITHIN_A_HOST, {}), (BETWEEN_HOSTS, between_hosts("2x1")))
    ]
    for job in jobs:
        assert [job.told(rank, timeout_s=300) for rank in range(2)] == ["ready"] * 2
    (tmp_path / "all ready").touch()
    for job in jobs:
        assert job.told(0) == "waits"
    time.sleep(1)  # kernels wait
    pids = [process.pid or 0 for job in jobs for process in job.processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.5)  # kernels look at their deadlines
    for job in jobs:
        os.kill(job.processes[1].pid or 0, signal.SIGUSR1)
    for job in jobs:
        for rank in range(2):
            outcome = job.outcome(rank)
            assert (outcome.text, outcome.value) == ("", {})
        assert job.end() == [0, 0]
