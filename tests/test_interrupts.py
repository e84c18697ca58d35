# SPDX-License-Identifier: Apache-2.0
"""What a signal's handler may do while a call waits, and what another thread may; nothing of it may hang."""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core
from pipe_jobs import PipeJob, Tell, is_interrupted

Waits = Callable[[Communicator], Any]


def all_reduces(comm: Communicator) -> None:
    comm.all_reduce(np.ones(100_000))


def splits(comm: Communicator) -> None:
    comm.split(0)


def takes_over_models(comm: Communicator) -> None:
    comm._core.adopt(_core.Models(links=[]))


def comes_when_told(tell: Tell) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    tell("ready")
    signal.sigtimedwait([signal.SIGUSR1], 50)


def handler_aborts(comm: Communicator, tell: Tell, waits: Waits) -> None:
    if comm.rank == 1:
        signal.signal(signal.SIGUSR1, lambda *_: comm.abort("the user has had enough"))
        tell("waiting")
    else:
        comes_when_told(tell)
    waits(comm)


def handler_calls(comm: Communicator, tell: Tell, waits: Waits) -> list[str]:
    refused: list[str] = []
    own = np.ones(1)
    bound = comm.persistent("all_reduce", own)

    def handler(*_: Any) -> None:
        with contextlib.suppress(lanecast.UsageError):
            bound._core.rebind(own, own)  # is refused inside a call as well, and waits for nobody
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGUSR1]).start()  # the call has yet to begin
            return
        with pytest.raises(lanecast.UsageError) as caught:
            waits(comm)
        refused.append(str(caught.value))
        tell("handled")

    if comm.rank == 1:
        signal.signal(signal.SIGUSR1, handler)
        tell("waiting")
    else:
        comes_when_told(tell)
    waits(comm)
    all_reduces(comm)  # which works as before
    return refused


def never_comes(comm: Communicator, tell: Tell, waits: Waits) -> None:
    if comm.rank == 1:
        tell("waiting")
        waits(comm)
    else:
        comes_when_told(tell)


class Body:
    """A body of a job and how it waits; a class, since jobs pickle it."""

    def __init__(self, body: Callable[..., Any], waits: Waits) -> None:
        self.body, self.waits = body, waits

    def __call__(self, comm: Communicator, tell: Tell) -> Any:
        return self.body(comm, tell, self.waits)


def signalled(body: Callable[..., Any], waits: Waits, number: signal.Signals) -> PipeJob:
    job = PipeJob(2, Body(body, waits), timeout_s=60.0)
    assert [job.told(rank) for rank in range(2)] == ["ready", "waiting"]
    time.sleep(0.1)
    os.kill(job.processes[1].pid or 0, number)
    return job


def come(job: PipeJob) -> None:
    """Rank 0 of a body above."""
    os.kill(job.processes[0].pid or 0, signal.SIGUSR1)


@pytest.mark.parametrize("waits", [all_reduces, pytest.param(splits, marks=pytest.mark.long)])
def test_a_handler_may_abort_the_call_that_it_interrupts(waits: Waits) -> None:
    job = signalled(handler_aborts, waits, signal.SIGUSR1)
    aborted = job.outcome(1)
    come(job)
    outcomes = [job.outcome(0), aborted]
    assert [outcome.error for outcome in outcomes] == ["TransportError"] * 2, outcomes
    assert all("the user has had enough" in outcome.text for outcome in outcomes), outcomes


@pytest.mark.parametrize("waits", [all_reduces, pytest.param(splits, marks=pytest.mark.long)])
def test_a_handler_is_refused_other_calls_and_the_call_goes_on(waits: Waits) -> None:
    job = signalled(handler_calls, waits, signal.SIGUSR1)
    assert job.told(1) == "handled"
    come(job)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [outcome.error for outcome in outcomes] == [""] * 2, outcomes
    assert re.search("rank 1: a signal's handler runs inside a call", outcomes[1].value[0])


@pytest.mark.parametrize("waits", [splits, takes_over_models])
def test_ctrl_c_ends_what_ranks_come_together_for(waits: Waits) -> None:
    job = signalled(never_comes, waits, signal.SIGINT)
    assert job.outcome(1).error == "KeyboardInterrupt"
    come(job)
    job.outcome(0)


def blocks(comm: Communicator) -> None:
    comm.barrier()


def behind_another_thread(comm: Communicator, tell: Tell, *, waits: Waits) -> bool:
    """A thread's call waits for that of another on the same communicator. Interrupted, it was never made."""
    part, token = comm.split(0), np.ones(1)
    assert part is not None
    if comm.rank == 0:
        part.recv(token, 1)
        comm.send(token, 1)
        comm.barrier()
        return False
    other = threading.Thread(target=lambda: comm.recv(np.empty(1), 0))
    other.start()
    time.sleep(0.2)
    interrupted = is_interrupted(tell, lambda: waits(comm))
    part.send(token, 0)
    other.join()
    comm.barrier()
    return interrupted


@pytest.mark.parametrize("waits", [blocks, splits, takes_over_models])
def test_ctrl_c_ends_the_wait_for_another_threads_call(waits: Waits) -> None:
    job = PipeJob(2, functools.partial(behind_another_thread, waits=waits), timeout_s=60.0)
    assert job.told(1) == "waiting"
    time.sleep(0.1)
    os.kill(job.processes[1].pid or 0, signal.SIGINT)
    assert job.outcome(1).value is True
    assert job.outcome(0).error == ""


def test_other_buffers_while_another_thread_waits_in_a_call() -> None:
    """Whoever waits wants Python's lock now and then, and rebinding wants the communicator, which the other holds."""

    def body(comm: Communicator) -> None:
        bound = comm.persistent("all_reduce", np.ones(10))
        if comm.rank == 1:
            time.sleep(0.3)  # the other rank waits for this one
            comm.all_reduce(np.ones(5))
            return
        waiting = threading.Thread(target=lambda: comm.all_reduce(np.ones(5)))
        waiting.start()
        time.sleep(0.1)
        bound._core.rebind(np.ones(10), np.ones(10))
        waiting.join()

    with pytest.raises(lanecast.UsageError, match="other buffers"):
        lanecast.run_threads(2, body, timeout_s=60.0)


def sum_is_started(comm: Communicator, tensor: Any) -> None:
    comm.all_reduce(tensor, async_op=True)


def message_is_started(comm: Communicator, tensor: Any) -> None:
    if comm.rank == 0:
        comm.isend(tensor, 1)
    else:
        comm.recv(tensor, 0)


def dropped_as_it_starts(
    comm: Communicator, tell: Tell, start: Callable[[Communicator, Any], None], pause_s: float
) -> tuple[bool, bool] | None:
    """Ctrl-C comes during the start, which waits for another thread's call: Python hears of it and not of the work."""
    part = comm.split(0)
    assert part is not None
    tensor, token = np.ones(1 << 18), np.ones(1)
    if comm.rank == 1:
        comm.recv(token, 0)
        part.send(token, 0, tag=1)
        comm.recv(token, 0)
        start(part, tensor)
        part.barrier()
        return None

    def interrupt() -> None:
        _thread.interrupt_main()
        comm.send(token, 1)

    receiver = threading.Thread(target=lambda: part.recv(np.empty(1), 1, tag=1))
    receiver.start()
    time.sleep(pause_s)
    is_interrupted = False
    try:
        threading.Timer(pause_s, interrupt).start()
        start(part, tensor)
    except KeyboardInterrupt:
        is_interrupted = True
    alive = weakref.ref(tensor)
    del tensor
    gc.collect()
    stays = alive() is not None
    receiver.join()
    comm.send(token, 1)
    part.barrier()
    return is_interrupted, stays


@pytest.mark.parametrize("start", [sum_is_started, message_is_started])
def test_buffers_stay_where_a_handler_raises_as_a_call_starts(start: Callable[[Communicator, Any], None]) -> None:
    for pause_s in (0.2, 3.0, 20.0):  # on a busy machine Ctrl-C may come before the start
        job = PipeJob(2, functools.partial(dropped_as_it_starts, start=start, pause_s=pause_s), timeout_s=60.0)
        outcomes = [job.outcome(rank) for rank in range(2)]
        job.end()
        if outcomes[0].value == (True, True):
            break
    assert outcomes[0].value == (True, True), outcomes
    assert outcomes[1].error == ""


THREAD_OF_OURS = """
import os, signal
from pathlib import Path
import numpy as np
import lanecast

threads = lambda: set(os.listdir("/proc/self/task"))
comm = lanecast.from_all_gather(0, 1, lambda mine: mine)
before = threads()
comm.all_reduce(np.ones(10), async_op=True).wait()
ours = threads() - before
assert ours
for thread in ours:
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    print(*(number.name for number in signal.valid_signals()
            if hasattr(number, "name") and not blocked >> number - 1 & 1))
"""


def test_signals_for_the_program_do_not_come_to_threads_of_ours() -> None:
    """One that the program's threads block, to take it in sigwait(), would end the process there."""
    told = subprocess.run([sys.executable, "-c", THREAD_OF_OURS], check=True, capture_output=True, text=True)
    faults_of_its_own = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT"}
    assert set(told.stdout.split()) == faults_of_its_own | {"SIGKILL", "SIGSTOP"}, told.stdout


WAITS_AT_THE_END = """
import threading, time
import numpy as np
import lanecast
from lanecast import _core
from lanecast.startup import progress_thread

world, comms = _core.make_world(2), {}

def make(rank):
    comms[rank] = lanecast.Communicator(_core.Communicator.from_threads(world, rank, progress_thread(), {}))

threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
threading.Thread(target=lambda: comms[1].WAITS, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("waits", ["recv(np.ones(3), 0)", "all_reduce(np.ones(3))", "split(0)", "barrier()"])
def test_a_process_ends_while_a_daemon_thread_waits(waits: str) -> None:
    """Python ends such a thread when it wants the lock again; past frames of C++ that ended the process by SIGABRT."""
    program = [sys.executable, "-c", WAITS_AT_THE_END.replace("WAITS", waits)]
    ended = subprocess.run(program, check=False, capture_output=True, text=True, timeout=240)
    assert (ended.returncode, ended.stderr) == (0, "")


ENDS_SLOWLY = """
import ctypes, sys, threading, time
import numpy as np
import lanecast
from lanecast import _core
from lanecast.startup import progress_thread

libc = ctypes.CDLL(None)
libc.on_exit(libc.sleep, None)  # for as many seconds as the exit status says, when Python has ended
comms = []

def make(world, rank):
    comms.append(lanecast.Communicator(_core.Communicator.from_threads(world, rank, progress_thread(), {})))

for _ in range(16):
    world = _core.make_world(2)
    pair = [threading.Thread(target=make, args=(world, rank)) for rank in range(2)]
    [thread.start() for thread in pair]
    [thread.join() for thread in pair]
    waiting = comms[-1]
    threading.Thread(target=waiting.recv, args=(np.ones(3), 1 - waiting.rank), daemon=True).start()
    time.sleep(0.0013)  # so that one of them looks for signals at whatever time
sys.exit(1)
"""


def test_daemon_threads_may_wait_longer_than_python_is_there() -> None:
    """Whoever asked for the lock of a Python that had ended crashed."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_SLOWLY], check=False, capture_output=True, text=True, timeout=240
    )
    assert (ended.returncode, ended.stderr) == (1, "")
