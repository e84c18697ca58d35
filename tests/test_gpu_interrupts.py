# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while a call on GPUs waits for another thread's, on a stand-in for the driver."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import gpu_host_library
from gpu_stand_in import another, opened, tensor
from lanecast import Communicator
from pipe_jobs import PipeJob, Tell, is_interrupted

pytestmark = pytest.mark.timeout(400)  # the first one builds the driver

Waits = Callable[[Communicator], None]


def reduces(comm: Communicator) -> None:
    comm.all_reduce(tensor(comm, 10))


def receives(comm: Communicator) -> None:
    comm.recv(tensor(comm, 10), 0)


def behind_a_first_call(waits: Waits, comm: Communicator, tell: Tell) -> bool:
    """The other thread's call opens the GPUs, for which rank 0 comes late. Interrupted, ours was never made."""
    own = another(opened(comm), timeout_s=60.0)
    x, token = tensor(own, 10), np.ones(1)
    if comm.rank == 0:
        comm.recv(token, 1)
        own.all_reduce(x)
        own.synchronize()
        return False
    other = threading.Thread(target=lambda: own.all_reduce(x))
    other.start()
    time.sleep(2.0)  # on a busy machine, too, it is in by then
    interrupted = is_interrupted(tell, lambda: waits(own))
    comm.send(token, 0)
    other.join()
    own.synchronize()
    return interrupted


@pytest.mark.parametrize("waits", [reduces, receives])
def test_ctrl_c_ends_the_wait_for_another_threads_first_call(kernel_cache: str, waits: Waits) -> None:
    body, environment = partial(behind_a_first_call, waits), gpu_host_library.environment()
    job = PipeJob(2, body, kernel_cache=kernel_cache, environment=environment)
    assert job.told(1, timeout_s=300) == "waiting"
    time.sleep(0.5)
    os.kill(job.processes[1].pid or 0, signal.SIGINT)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [(outcome.text, outcome.value) for outcome in outcomes] == [("", False), ("", True)]
    assert job.end() == [0, 0]
