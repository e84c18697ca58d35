# SPDX-License-Identifier: Apache-2.0
"""Jobs that are stopped as a whole, for longer than their deadline, and go on: no peer was silent meanwhile."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator, _core
from launch import MPICH, OPENMPI
from pipe_jobs import PATIENCE_S, PipeJob, Tell

DEADLINE_S = 10.0
STOPPED_S = 13.0  # longer than a rank waits for one that may yet answer, too
RANK = str(Path(__file__).with_name("stopped_rank.py"))


def seconds(looks: list[tuple[float, float]], timeout_s: float, then_s: float) -> float:
    return _core.running_seconds(looks, timeout_s, then_s)


def idle(*times: float) -> list[tuple[float, float]]:
    return [(at, 0.0) for at in times]


def test_a_pause_without_work_counts_a_second_at_most() -> None:
    every_20_ms = [1 + 0.02 * k for k in range(501)]
    assert seconds(idle(*every_20_ms), 300, 1) == pytest.approx(10)
    assert seconds(idle(1, 2, 3, 3.5), 300, 1) == pytest.approx(2.5)  # a crowded machine
    assert seconds(idle(1, 2, 602), 300, 1) == pytest.approx(2)
    assert seconds(idle(1, 2, 602), 2, 1) == pytest.approx(0.25 + 0.25)
    assert seconds(idle(1, 2, 602, 602.5, 1602), 300, 1) == pytest.approx(1 + 1 + 0.5 + 1)
    assert seconds([(1, 5), (2, 6), (602, 506)], 300, 1) == pytest.approx(1 + 501)  # elsewhere, and at work
    assert seconds([(1, 5), (602, 5000)], 300, 1) == pytest.approx(601)  # by several threads


def test_what_began_within_a_pause_has_lost_its_own_part_alone() -> None:
    assert seconds(idle(1, 602), 300, 600) == 0
    assert seconds(idle(1, 602, 602.5), 300, 601.9) == pytest.approx(0.5)
    assert seconds(idle(1, 602, 602.5), 300, 602.1) == pytest.approx(0.4)


def test_a_deadline_is_over_after_some_looks_however_late_they_are() -> None:
    hourly = idle(*[1 + 3600 * k for k in range(301)])
    assert seconds(hourly[:200], 300, 1) < 300 <= seconds(hourly, 300, 1)
    assert seconds(idle(1, 11, 21, 31, 41, 51, 61, 71, 81), 0.1, 1) == pytest.approx(0.1)


def waits_for_signal() -> None:
    assert signal.sigtimedwait([signal.SIGUSR1], PATIENCE_S) is not None


def all_reduces(comm: Communicator) -> None:
    tensor = np.full(1000, comm.rank + 1.0)
    comm.all_reduce(tensor)
    assert (tensor == comm.size * (comm.size + 1) / 2).all()


def starts(comm: Communicator) -> None:
    work = comm.all_reduce(np.ones(1000), async_op=True)
    assert work is not None
    work.wait()


def splits(comm: Communicator) -> None:
    comm.split(0)


def receives(comm: Communicator) -> None:
    (comm.recv if comm.rank == 0 else comm.send)(np.ones(3), 1 - comm.rank)


def receives_later(comm: Communicator) -> None:
    work = (comm.irecv if comm.rank == 0 else comm.isend)(np.ones(3), 1 - comm.rank)
    work.wait()


def late(comm: Communicator, tell: Tell, *, waits: Callable[[Communicator], None]) -> None:
    """Rank 0 waits for the others, which are sent a signal."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    tell("ready")
    waits_for_signal()
    tell("begun")
    if comm.rank != 0:
        waits_for_signal()
    waits(comm)


def late_thread(comm: Communicator, tell: Tell) -> None:
    """The same among ranks that are threads of one process; one waits for another to make the communicators."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    tell("ready")
    waits_for_signal()
    tell("begun")
    go = threading.Event()
    world = _core.make_world(2, DEADLINE_S)

    def waits() -> None:
        _core.world_all_gather(world, 0, b"0")

    def rank(each: Communicator) -> None:
        if each.rank == 1:
            go.wait()
        all_reduces(each)

    failed: list[BaseException] = []

    def guarded(function: Callable[[], Any]) -> None:
        try:
            function()
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=guarded, args=[each])
        for each in (waits, lambda: lanecast.run_threads(2, rank, timeout_s=DEADLINE_S))
    ]
    for thread in threads:
        thread.start()
    waits_for_signal()
    go.set()
    _core.world_all_gather(world, 1, b"1")
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


class MpiJob:
    """Two ranks under a launcher; the same of both MPIs."""

    def __init__(self, mpiexec: Path, waits_in: str, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        python = mpiexec.with_name("python")
        many = ["--oversubscribe", "--allow-run-as-root"] if mpiexec.parent == OPENMPI else []
        self._log = folder / "log"
        self._job = subprocess.Popen(
            [str(mpiexec), *many, "-n", "2", str(python), RANK, str(folder), str(DEADLINE_S), waits_in],
            env={**os.environ, "PATH": f"{mpiexec.parent}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL, stdout=self._log.open("w"), stderr=subprocess.STDOUT,
        )  # fmt: skip

    def until_all(self, name: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while len(list(self._folder.glob(f"{name}.?"))) < 2:
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.02)

    def signalled(self, number: signal.Signals) -> None:
        for file in self._folder.glob("pid.?"):
            os.kill(int(file.read_text()), number)

    def tell(self, name: str) -> None:
        (self._folder / name).touch()

    def outcome(self) -> str:
        status = self._job.wait(PATIENCE_S)
        return "" if status == 0 else f"status {status}: {self._log.read_text()}"


def signalled(jobs: list[PipeJob], number: signal.Signals, only: int | None = None) -> None:
    for job in jobs:
        for rank, process in enumerate(job.processes):
            if only is None or rank == only or len(job.processes) == 1:
                os.kill(process.pid or 0, number)


def test_jobs_that_are_stopped_as_a_whole_go_on(tmp_path: Path) -> None:
    """All at once, since most of this test is the stop."""
    piped = functools.partial(PipeJob, 2, timeout_s=DEADLINE_S)
    ucx = {"hosts": "ab", "transports": "ucx"}
    jobs = {
        "shm": piped(functools.partial(late, waits=all_reduces)),
        "started": piped(functools.partial(late, waits=starts)),
        "split": piped(functools.partial(late, waits=splits)),
        "recv": piped(functools.partial(late, waits=receives)),
        "ucx": piped(functools.partial(late, waits=all_reduces), **ucx),
        "irecv over ucx": piped(functools.partial(late, waits=receives_later), **ucx),
        "threads": PipeJob(1, late_thread),
    }
    under_mpi = {
        f"{name} {waits_in}": MpiJob(mpiexec, waits_in, tmp_path / f"{name}-{waits_in}")
        for name, mpiexec in (("MPICH", MPICH), ("Open MPI", OPENMPI / "mpiexec"))
        for waits_in in ("init", "call")
    }
    piped_jobs, launched = list(jobs.values()), list(under_mpi.values())
    for word in ("ready", "begun"):
        for job in piped_jobs:
            assert [job.told(rank) for rank in range(len(job.processes))] == [word] * len(job.processes)
        for each in launched:
            each.until_all("pid" if word == "ready" else "begun")
        if word == "ready":
            signalled(piped_jobs, signal.SIGUSR1)
            for each in launched:
                each.tell("begin")
    time.sleep(0.3)  # they wait
    signalled(piped_jobs, signal.SIGSTOP)
    for each in launched:
        each.signalled(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    signalled(piped_jobs, signal.SIGCONT)
    for each in launched:
        each.signalled(signal.SIGCONT)
    signalled(piped_jobs, signal.SIGUSR1, only=1)
    for each in launched:
        each.tell("go")
    outcomes = {f"{name} {rank}": job.outcome(rank) for name, job in jobs.items() for rank in range(len(job.processes))}
    assert {name: outcome.text for name, outcome in outcomes.items()} == dict.fromkeys(outcomes, "")
    ends = {name: each.outcome() for name, each in under_mpi.items()}
    assert ends == dict.fromkeys(under_mpi, "")
    for job in piped_jobs:
        job.end()


def test_what_a_peer_has_sent_before_it_left_arrives_behind_a_stop() -> None:
    """That peer says farewell for a second at most, and goes without an answer."""
    bodies = (all_reduces, receives, receives_later)
    jobs = [
        PipeJob(2, functools.partial(late, waits=waits), timeout_s=60.0, hosts="ab", transports="ucx")
        for waits in bodies
    ]
    for word in ("ready", "begun"):
        for job in jobs:
            assert [job.told(rank) for rank in range(2)] == [word] * 2
        if word == "ready":
            signalled(jobs, signal.SIGUSR1)
    time.sleep(0.3)  # rank 0 waits, and mostly it has sent what rank 1 needs
    signalled(jobs, signal.SIGSTOP, only=0)
    signalled(jobs, signal.SIGUSR1, only=1)
    for job in jobs:
        job.processes[1].join(5)
    signalled(jobs, signal.SIGCONT, only=0)
    for job in jobs:
        assert [job.outcome(rank).text for rank in range(2)] == ["", ""]
        job.end()


def waits_in_a_row(comm: Communicator, tell: Tell) -> None:
    tell("ready")
    if comm.rank == 2:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        waits_for_signal()
    else:
        comm.recv(np.ones(3), comm.rank + 1)


def test_who_never_comes_after_a_stop_is_named() -> None:
    """The stop makes no rank look silent that waits, and postpones nothing for ever."""
    jobs = [PipeJob(3, waits_in_a_row, timeout_s=4.0, **options) for options in ({}, {"hosts": "abc"})]
    for job in jobs:
        assert [job.told(rank) for rank in range(3)] == ["ready"] * 3
    time.sleep(0.3)
    signalled(jobs, signal.SIGSTOP)
    time.sleep(5)
    signalled(jobs, signal.SIGCONT)
    for job in jobs:
        outcomes = [job.outcome(rank) for rank in range(2)]
        assert [outcome.error for outcome in outcomes] == ["TimeoutError"] * 2, outcomes
        assert all(re.search(r"waited \d+\.\d s for rank", outcome.text) for outcome in outcomes), outcomes
        assert re.search(r"rank 1 waits for rank 2, which has not answered|for rank 2 in recv", outcomes[0].text)
        os.kill(job.processes[2].pid or 0, signal.SIGUSR1)
        job.end()


def one_comes_later(comm: Communicator, tell: Tell) -> None:
    comm.all_reduce(np.ones(3))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    tell("ready")
    if comm.rank == 1:
        waits_for_signal()
    all_reduces(comm)


@pytest.mark.parametrize("options", [{}, {"hosts": "ab", "transports": "ucx"}], ids=["shm", "ucx"])
def test_what_has_come_from_a_peer_that_has_left_meanwhile_is_taken(options: dict[str, str]) -> None:
    """Rank 0 goes on last: its peer's part lies there, and the connection has ended."""
    for pause_s in (0.3, 3.0, 20.0):  # by then rank 0 has sent its part and waits, if the machine is not too busy
        job = PipeJob(2, one_comes_later, timeout_s=60.0, **options)
        assert [job.told(rank) for rank in range(2)] == ["ready"] * 2
        time.sleep(pause_s)
        os.kill(job.processes[0].pid or 0, signal.SIGSTOP)
        os.kill(job.processes[1].pid or 0, signal.SIGUSR1)
        outcome = job.outcome(1)
        job.processes[1].join(PATIENCE_S)
        os.kill(job.processes[0].pid or 0, signal.SIGCONT)
        outcomes = [job.outcome(0).text, outcome.text]
        ended = job.end()
        if outcome.text == "":
            break
    assert outcomes == ["", ""]
    assert ended == [0, 0]
