# SPDX-License-Identifier: Apache-2.0
"""Peers that never come, die, stop or leave, users who want to stop: every wait ends and says who waited for whom."""

from __future__ import annotations

import os
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from collective_cases import Case, run_cases
from lanecast import Communicator
from pipe_jobs import PipeJob

Tell = Callable[[Any], None]


def waits(comm: Communicator, async_op: bool = False, algorithm: str = "ring") -> float:
    """Call what rank 0 never calls; the seconds that a rank says it waited, which leave out what a busy machine took.

    Then the communicator must refuse everything.
    """
    tensor = np.ones(1000)
    if async_op:
        work = comm.all_reduce(tensor, async_op=True, algorithm=algorithm, chunks=2)
        assert work is not None
        with pytest.raises(lanecast.TimeoutError) as caught:
            work.wait()
    else:
        with pytest.raises(lanecast.TimeoutError) as caught:
            comm.all_reduce(tensor, algorithm=algorithm, chunks=2)
    text = str(caught.value)
    # Who waited for whom how long, in which step of which plan. Who hears of it from a peer says so.
    assert text.startswith((f"rank {comm.rank} waited ", f"rank {comm.rank} lost rank ")), text
    assert re.search(r"rank \d waited \d+\.\d s for rank [\d, ]+ in .*step \d+ of \d+", text), text
    assert re.search(r"for rank [\d, ]*\b0\b|rank 0,? (which )?has not answered", text), text  # whoever is asked
    assert f"all_reduce by {algorithm} over {comm.transports}" in text, text
    for call in (
        lambda: comm.all_reduce(np.ones(3)),
        lambda: comm.all_reduce(np.ones(3), async_op=True),
        lambda: comm.split(0),
    ):
        with pytest.raises(lanecast.TransportError, match=f"rank {comm.rank}.*has failed.*new one.*because"):
            call()
    return waited_s(text)


def waited_s(text: str) -> float:
    waited = re.search(r"waited (\d+\.\d) s", text)
    assert waited, text
    return float(waited[1])


@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("algorithm", ["ring", "direct", "one_shot"])
def test_rank_that_never_calls(algorithm: str, async_op: bool) -> None:
    ended = threading.Barrier(3, timeout=200)
    deadline_s = 4.0  # for the splits and the fresh call as well

    def body(comm: Communicator) -> float:
        failing, fresh = comm.split(0), comm.split(0)
        assert failing is not None
        assert fresh is not None
        took_s = waits(failing, async_op, algorithm) if comm.rank != 0 else deadline_s
        ended.wait()
        assert run_cases(fresh, [Case("all_reduce", (100,))]) == []  # a failure stays where it was
        return took_s

    took = lanecast.run_threads(3, body, timeout_s=deadline_s)
    assert all(deadline_s <= seconds < 2 * deadline_s for seconds in took), took


def test_rank_that_never_splits() -> None:
    ended = threading.Barrier(3, timeout=200)

    def body(comm: Communicator) -> None:
        if comm.rank == 1:
            ended.wait()
            return
        with pytest.raises(lanecast.TimeoutError, match=r"waited \d+\.\d s for rank .*1.* in split \(call 1\)"):
            comm.split(0)
        with pytest.raises(lanecast.TransportError, match="has failed"):
            comm.all_reduce(np.ones(3))
        ended.wait()

    lanecast.run_threads(3, body, timeout_s=0.5)


def test_split_names_the_missing_rank_that_waits_for_no_other() -> None:
    ended = threading.Barrier(4, timeout=200)

    def body(later_s: float, comm: Communicator) -> str:
        text = "all have come"
        try:
            time.sleep(later_s if comm.rank == 2 else 0)  # so that its deadline is a later one
            if comm.rank != 3:
                comm.recv(np.ones(3), 3) if comm.rank == 2 else comm.split(0)
        except lanecast.Error as error:
            text = str(error)
        ended.wait()
        return text

    waited = r"for rank 2, 3 in split \(call 1\) over loopback; rank 3 has not answered; is that rank alive"
    for later_s in (1.0, 15.0):  # the former is enough where the machine is not too busy
        texts = lanecast.run_threads(4, partial(body, later_s), timeout_s=2 * later_s)
        if all(re.search(waited, text) for text in texts[:2]):
            break
    else:
        pytest.fail(str(texts))


def test_rank_that_makes_another_call() -> None:
    def body(comm: Communicator) -> str:
        try:
            comm.all_reduce(np.ones(1000 + comm.rank), algorithm="ring")
        except lanecast.TransportError as error:
            return str(error)
        return ""

    texts = lanecast.run_threads(2, body, timeout_s=60.0)
    assert any("call 1 of this communicator differs" in text for text in texts), texts


def test_rank_that_leaves() -> None:
    def body(comm: Communicator) -> None:
        child = comm.split(0)
        assert child is not None
        if comm.rank == 2:
            return
        with pytest.raises(lanecast.TransportError, match=rf"rank {comm.rank} lost rank \d"):
            child.all_reduce(np.ones(1000), algorithm="ring")

    lanecast.run_threads(3, body, timeout_s=60.0)


def calls_until_it_fails(comm: Communicator, tell: Tell) -> str:
    tell("ready")
    tensor = np.ones(200_000)
    turn = 0
    while True:
        comm.all_reduce(tensor, "max", async_op=False, algorithm="ring", chunks=1 + turn % 3)
        turn += 1


def starts_until_it_fails(comm: Communicator, tell: Tell) -> str:
    tell("ready")
    tensor = np.ones(200_000)
    while True:
        work = comm.all_reduce(tensor, "max", async_op=True, algorithm="ring")
        assert work is not None
        work.wait()


# Over shared memory, and over UCX: hosts of their own.
@pytest.mark.parametrize(
    ("hosts", "lanes", "words"),
    [("", "0", "lost rank 1 .*has ended"), ("abcd", "0", "lost rank 1 "), ("abcd", "2", "lost rank 1 ")],
    ids=["shm", "ucx", "ucx-lanes"],
)
@pytest.mark.parametrize("body", [calls_until_it_fails, starts_until_it_fails])
def test_killed_rank_is_named_by_all_others(
    body: Callable[[Communicator, Tell], str], hosts: str, lanes: str, words: str
) -> None:
    job = PipeJob(4, body, hosts=hosts, environment={"LANECAST_UCX_LANES": lanes}, timeout_s=60.0)
    assert [job.told(rank) for rank in range(4)] == ["ready"] * 4
    time.sleep(0.3)
    os.kill(job.processes[1].pid or 0, signal.SIGKILL)
    outcomes = [job.outcome(rank) for rank in (0, 2, 3)]
    assert [outcome.error for outcome in outcomes] == ["TransportError"] * 3, outcomes
    for outcome in outcomes:  # in a ring, rank 3 hears of it from rank 2 or 0
        assert re.search(words, outcome.text), outcome.text
    job.end()


@pytest.mark.parametrize(("hosts", "lanes"), [("", "0"), ("abc", "0"), ("abc", "2")], ids=["shm", "ucx", "ucx-lanes"])
def test_stopped_rank_runs_into_the_deadline(hosts: str, lanes: str) -> None:
    named = r"for rank [\d, ]*\b2\b|rank 2,? (which )?has not answered"
    for timeout_s in (4.0, 8.0, 30.0):  # in the former the one that goes on answers, if the machine is not too busy
        settings = {"LANECAST_UCX_LANES": lanes}
        job = PipeJob(3, calls_until_it_fails, hosts=hosts, environment=settings, timeout_s=timeout_s)
        assert [job.told(rank) for rank in range(3)] == ["ready"] * 3
        time.sleep(0.3)
        pid = job.processes[2].pid or 0
        os.kill(pid, signal.SIGSTOP)
        outcomes = [job.outcome(rank) for rank in (0, 1)]
        os.kill(pid, signal.SIGKILL)
        job.end()
        assert [outcome.error for outcome in outcomes] == ["TimeoutError"] * 2, outcomes
        assert max(waited_s(outcome.text) for outcome in outcomes) < timeout_s + 8.0, outcomes
        if all(re.search(named, outcome.text) for outcome in outcomes):
            break
    else:
        pytest.fail(str(outcomes))


def interrupted(comm: Communicator, tell: Tell) -> int:
    """Rank 0 does not call before it is sent a signal. How many calls of others are interrupted, and do not wait for
    their deadline; and what they can do afterwards."""
    if comm.rank == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    other = comm.split(0)
    assert other is not None
    if comm.rank == 0:
        signal.sigtimedwait([signal.SIGUSR1], 200)
        return 0
    results = 0
    for async_op in (True, False):
        each = other if async_op else comm
        tensor = np.ones(100_000)
        tell("waiting")
        try:
            work = each.all_reduce(tensor, async_op=async_op)
            if work is not None:
                work.wait()
        except KeyboardInterrupt:
            results += 1
    with pytest.raises(lanecast.TransportError, match=r"has failed.*KeyboardInterrupt"):
        comm.all_reduce(np.ones(3))
    # A blocking call behind a started one that does not end can be interrupted too; then the communicator has failed.
    tell("waiting")
    try:
        other.all_reduce(np.ones(100_000))
    except KeyboardInterrupt:
        results += 1
    with pytest.raises(lanecast.TransportError, match="has failed"):
        other.all_reduce(np.ones(3))
    return results


def test_ctrl_c_ends_every_wait() -> None:
    job = PipeJob(2, interrupted, timeout_s=60.0)
    for _ in range(3):
        assert job.told(1) == "waiting"
        time.sleep(0.4)
        os.kill(job.processes[1].pid or 0, signal.SIGINT)
    outcome = job.outcome(1)
    assert outcome.error == "", outcome
    assert outcome.value == 3
    os.kill(job.processes[0].pid or 0, signal.SIGUSR1)
    assert job.end() == [0, 0]


def test_handlers_of_other_signals_run_during_a_wait() -> None:
    job = PipeJob(2, with_handler, timeout_s=60.0)
    assert [job.told(rank) for rank in range(2)] == ["ready", "waiting"]
    time.sleep(0.2)
    os.kill(job.processes[1].pid or 0, signal.SIGUSR1)
    assert job.told(1) == "handled"
    os.kill(job.processes[0].pid or 0, signal.SIGUSR1)
    assert [job.outcome(rank).error for rank in (0, 1)] == ["", ""]


def with_handler(comm: Communicator, tell: Tell) -> None:
    if comm.rank == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        tell("ready")
        signal.sigtimedwait([signal.SIGUSR1], 200)
    else:
        signal.signal(signal.SIGUSR1, lambda *_: tell("handled"))
        tell("waiting")
    comm.all_reduce(np.ones(10))


def leaves_at_once(comm: Communicator, _: Tell) -> float:
    """The last message is on its way when its sender goes."""
    tensor = np.full(30_000, float(comm.rank + 1))
    comm.all_reduce(tensor, algorithm="ring")
    return float(tensor[-1])


@pytest.mark.parametrize("hosts", ["", "abc"], ids=["shm", "ucx"])
def test_leaving_right_after_a_call_harms_nobody(hosts: str) -> None:
    for _ in range(3):
        job = PipeJob(3, leaves_at_once, hosts=hosts, timeout_s=60.0)
        assert [job.outcome(rank).value for rank in range(3)] == [6.0] * 3
        assert job.end() == [0] * 3


def out_of_files(comm: Communicator, _: Tell) -> float:
    """Nothing can be read of the peer meanwhile, which comes late and is alive."""
    tensor = np.ones(10)
    if comm.rank == 1:
        time.sleep(0.5)
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    comm.all_reduce(tensor)
    return float(tensor[0])


def test_a_rank_that_may_open_no_file_takes_no_peer_for_dead() -> None:
    job = PipeJob(2, out_of_files, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [outcome.value for outcome in outcomes] == [2.0, 2.0], outcomes


def ours_in_dev_shm() -> list[Path]:
    return list(Path("/dev/shm").glob("*lanecast*"))


def test_nothing_is_left_in_dev_shm() -> None:
    job = PipeJob(2, calls_until_it_fails, timeout_s=60.0)
    assert [job.told(rank) for rank in range(2)] == ["ready"] * 2
    assert ours_in_dev_shm() == []
    os.kill(job.processes[0].pid or 0, signal.SIGKILL)
    job.outcome(1)
    job.end()
    assert ours_in_dev_shm() == []


def test_abort_ends_a_blocking_call_of_another_thread() -> None:
    caught: list[lanecast.Error] = []
    aborted = threading.Event()

    def body(comm: Communicator) -> None:
        if (
            comm.rank == 1
        ):  # makes no call, or its calls would be found to differ, but hears of the reason in the next one
            assert aborted.wait(200)
            with pytest.raises(lanecast.TransportError, match=r"rank 0.*enough of it"):
                comm.recv(np.empty(1), 0)
            return

        def blocks() -> None:
            try:
                comm.all_reduce(np.ones(1000), algorithm="ring")
            except lanecast.Error as error:
                caught.append(error)

        thread = threading.Thread(target=blocks)
        thread.start()
        time.sleep(0.2)
        comm.abort("enough of it")
        aborted.set()
        thread.join()

    lanecast.run_threads(2, body, timeout_s=60.0)
    assert [type(error) for error in caught] == [lanecast.TransportError], caught
    assert "enough of it" in str(caught[0])
