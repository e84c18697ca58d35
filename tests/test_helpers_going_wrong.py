# SPDX-License-Identifier: Apache-2.0
"""Leaders and helpers that are killed or stopped: the error names who, and nothing stays behind."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lanecast
from lanecast import Communicator
from lanecast.helpers import joining, placing, serving
from lanecast.helpers.channel import Channel
from lanecast.helpers.leading import Leader
from lanecast.helpers.slices import ranges
from launch import mpich
from open_files import open_files
from pipe_jobs import PipeJob, Tell

OPTIONS: dict[str, Any] = {"processes_per_gpu": 3, "allow_shared_cores": True, "timeout_s": 60.0}
CALLED, LONG = 20, 1 << 19


def gone(pids: list[int]) -> bool:
    """Have all of these ended, within the time that a busy machine takes?"""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}").exists() and "Z" not in state_of(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def calls_for_ever(comm: Communicator, tell: Tell) -> None:
    """After some calls it says who helps, and goes on until one fails."""
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    vector = comm.shared_empty(LONG)
    for turn in range(1 << 30):
        if turn == CALLED:
            tell([helper.pid for helper in comm.helpers])
        vector[:] = 1
        comm.all_reduce(vector)
        assert (vector == comm.size).all()


def test_a_helper_that_is_killed_is_named_by_its_leader_and_heard_of_by_the_others() -> None:
    job = PipeJob(2, calls_for_ever, **OPTIONS)
    pids = [job.told(rank) for rank in range(2)]
    os.kill(pids[1][0], signal.SIGKILL)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert outcomes[1].error in {"TransportError", "LostPeerError"}, outcomes[1]
    # Its own leader, or the one whose helper has lost its peer first.
    named = f"its helper 1 of 2 (process {pids[1][0]}) has ended, killed by signal 9"
    lost = f"rank 0: its helper 1 of 2 (process {pids[0][0]})"
    assert any(named in outcome.text or lost in outcome.text for outcome in outcomes), outcomes
    assert all(outcome.error for outcome in outcomes)
    assert job.end() == [0, 0]
    assert gone([*pids[0], *pids[1]])


def test_a_leader_that_is_killed_takes_its_helpers_with_it() -> None:
    job = PipeJob(2, calls_for_ever, **OPTIONS)
    pids = [job.told(rank) for rank in range(2)]
    job.processes[1].kill()
    outcome = job.outcome(0)
    assert (outcome.error, "rank 1" in outcome.text) == ("TransportError", True), outcome
    job.end()
    assert gone([*pids[0], *pids[1]])


def starts_for_ever(comm: Communicator, tell: Tell) -> None:
    """As above by started calls, of which one that nobody waits for is always under way."""
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    for turn in range(1 << 30):
        if turn == CALLED:
            tell([helper.pid for helper in comm.helpers])
        works = [comm.all_reduce(np.ones(LONG, np.float32), async_op=True) for _ in range(3)]
        for work in works[:2]:
            assert work is not None
            work.wait()


def test_a_started_call_names_the_helper_that_is_killed() -> None:
    job = PipeJob(2, starts_for_ever, **OPTIONS)
    pids = [job.told(rank) for rank in range(2)]
    os.kill(pids[1][1], signal.SIGKILL)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert {outcome.error for outcome in outcomes} <= {"TransportError", "LostPeerError"}, outcomes
    named = f"its helper 2 of 2 (process {pids[1][1]}) has ended, killed by signal 9"
    lost = f"rank 0: its helper 2 of 2 (process {pids[0][1]})"
    assert any(named in outcome.text or lost in outcome.text for outcome in outcomes), outcomes
    assert job.end() == [0, 0]
    assert gone([*pids[0], *pids[1]])


def waits_for_one_that_is_stopped(comm: Communicator, tell: Tell) -> float:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    comm.all_reduce(np.ones(99, np.float32))
    pids = [helper.pid for helper in comm.helpers]
    os.kill(pids[1], signal.SIGSTOP)
    tell(pids)
    comm.all_reduce(np.ones(99, np.float32))
    raise AssertionError("the call has ended without a helper")


def test_a_helper_that_is_stopped_is_named_after_the_deadline() -> None:
    job = PipeJob(1, waits_for_one_that_is_stopped, **{**OPTIONS, "timeout_s": 10.0})
    pids = job.told(0)
    outcome = job.outcome(0)
    assert outcome.error == "TimeoutError", outcome
    assert f"its helper 2 of 2 (process {pids[1]}) has not worked for 10 s: it is stopped" in outcome.text
    os.kill(pids[1], signal.SIGCONT)  # its leader has ended without a chance to kill it
    job.end()
    assert gone(pids)


def who_ends(draw: random.Random, job: PipeJob, helpers: list[list[int]]) -> tuple[int, int]:
    """A rank, and a process of it: the leader or a helper."""
    rank = draw.randrange(2)
    leader = job.processes[rank].pid
    assert leader is not None
    return rank, draw.choice([leader, *helpers[rank]])


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("seed", range(25))
def test_any_process_may_end_or_stop_at_any_point(seed: int, how: signal.Signals) -> None:
    draw = random.Random(seed)
    timeout_s = 60.0 if how == signal.SIGKILL else 20.0
    job = PipeJob(2, draw.choice([calls_for_ever, starts_for_ever]), **{**OPTIONS, "timeout_s": timeout_s})
    helpers = [job.told(rank) for rank in range(2)]
    rank, pid = who_ends(draw, job, helpers)
    time.sleep(draw.random() * 0.3)
    os.kill(pid, how)
    leads = pid == job.processes[rank].pid
    outcome = job.outcome(1 - rank)
    assert outcome.error in {"TransportError", "LostPeerError", "TimeoutError"}, outcome
    assert f"rank {rank}" in outcome.text or "its helper " in outcome.text, outcome
    if how == signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
    if not (leads and how == signal.SIGKILL):
        assert job.outcome(rank).error in {"TransportError", "LostPeerError", "TimeoutError"}
    job.end()
    assert gone([*helpers[0], *helpers[1]])


def refuses_and_goes_on(comm: Communicator, _: Tell) -> list[str]:
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    said = []
    calls: tuple[Callable[[], Any], ...] = (
        lambda: comm.all_reduce(np.ones(2, np.float32)),
        lambda: comm.all_reduce(np.ones(99, np.float32), algorithm="none"),
        lambda: comm.use_processes(4),
    )
    for call in calls:
        try:
            call()
        except lanecast.UsageError as error:
            said.append(str(error))
    vector = np.ones(99, np.float32)
    comm.all_reduce(vector)
    assert (vector == comm.size).all()
    return said


def test_what_cannot_be_shared_is_refused_and_the_communicator_lives() -> None:
    job = PipeJob(2, refuses_and_goes_on, **OPTIONS)
    for rank in range(2):
        outcome = job.outcome(rank)
        assert outcome.error == "", outcome
        empty, unknown, many = outcome.value
        assert "3 processes are to share parts of at most 2 elements" in empty
        assert "'none'" in unknown
        assert "use_processes: 4 of the 3" in many
    assert job.end() == [0, 0]


def test_processes_that_would_share_cores_are_refused() -> None:
    cores = len(placing.cores_here())
    with pytest.raises(lanecast.UsageError, match=f"are {cores + 1} processes, and they may run on {cores} cores"):
        lanecast.from_all_gather(0, 1, lambda mine: mine, processes_per_gpu=cores + 1)


@pytest.mark.parametrize("processes", [0, -1, 65, 1 << 40, "two"])
def test_numbers_of_processes_that_are_none_are_refused(processes: Any) -> None:
    with pytest.raises(lanecast.UsageError, match="processes_per_gpu="):
        lanecast.from_all_gather(0, 1, lambda mine: mine, processes_per_gpu=processes)


def test_leaders_are_whole_runs_of_a_hosts_ranks() -> None:
    assert joining.groups_of(list("aabbaabb"), 2) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert joining.groups_of(list("abab"), 2) == [[0, 2], [1, 3]]
    with pytest.raises(lanecast.UsageError, match="3 ranks on the host of rank 1"):
        joining.groups_of(list("abbba"), 2)


def test_cores_are_dealt_out_in_neighbourhoods() -> None:
    assert placing.cores_of([0, 1, 2, 3, 8, 9], 2, 2) == [[[0], [1]], [[2], [3]]]
    assert placing.cores_of([4, 5], 2, 2) == [[[4, 5]] * 2] * 2


@pytest.mark.parametrize("processes", [1, 2, 3, 7, 16])
def test_slices_cover_every_part_once(processes: int) -> None:
    parts = [5, 0, 1, 16, 7]
    taken = [
        element
        for index in range(processes)
        for first, count in ranges(parts, index, processes)
        for element in range(first, first + count)
    ]
    assert sorted(taken) == list(range(sum(parts)))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def left_over() -> tuple[int, int, int]:
    """Files, threads and mappings of this process."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("lanecast-helpers")
    return open_files(), threading.active_count(), maps


A_THOUSAND = pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(3000)])


@pytest.fixture
def unhurried() -> None:
    """No end after the minutes in which pytest takes a test for hanging in the core; its own timeout holds."""
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("times", [20, A_THOUSAND])
def test_nothing_grows_where_helpers_are_ranks(times: int) -> None:
    command = [sys.executable, str(Path(__file__).parent / "coming_helpers_rank.py"), str(times), "2"]
    output = mpich(4, command, timeout_s=3000)
    assert f"{times} times, and nothing has grown" in output


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("times", [4, A_THOUSAND])
def test_nothing_grows_with_communicators_that_come_and_go(times: int) -> None:
    seen, resident = [], 0
    for turn in range(times):
        if turn == times // 10:
            resident = resident_bytes()
        comm = lanecast.from_all_gather(0, 1, lambda mine: mine, processes_per_gpu=2, allow_shared_cores=True)
        assert isinstance(comm, Leader)
        pids = [helper.pid for helper in comm.helpers]
        comm.use_processes(2)
        for _ in range(20):  # arrays come and go, too
            vector = comm.shared_empty(5000)
            comm.all_reduce(vector)
        del vector, comm
        seen.append(left_over())
        assert gone(pids)
    assert seen[1] == seen[-1]
    assert resident_bytes() - resident < (8 << 20)


def test_who_watches_a_leader_ends_though_its_files_number_is_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a busy machine wakes it late, and files of the next communicator have come meanwhile."""
    ours, theirs = socket.socketpair()
    silent, kept = os.pipe()
    channel, same = Channel(theirs), theirs.dup()

    def close() -> None:
        os.dup2(silent, theirs.fileno())
        same.shutdown(socket.SHUT_RDWR)  # who waits there looks its number up only now

    monkeypatch.setattr(channel, "close", close)
    thread = threading.Thread(target=serving.Helper(channel, None).serve, args=(os.getpid(),), daemon=True)
    thread.start()
    Channel(ours).send(do="end")
    thread.join(200.0)  # which joins the one that watches
    assert not thread.is_alive()
    for each in ours, theirs, same:
        each.close()
    for end in silent, kept:
        os.close(end)


def test_a_helper_that_waits_takes_no_processor_time() -> None:
    comm = lanecast.from_all_gather(0, 1, lambda mine: mine, processes_per_gpu=2, allow_shared_cores=True)
    assert isinstance(comm, Leader)
    comm.use_processes(2)
    comm.all_reduce(np.ones(99, np.float32))
    pid = comm.helpers[0].pid

    def ticks() -> int:
        return sum(int(field) for field in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])

    def ticks_of_a_second() -> int:
        before = ticks()
        time.sleep(1.0)
        return ticks() - before

    assert any(ticks_of_a_second() <= 2 for _ in range(20))  # of 10 ms; a call may end late


def test_a_forked_process_leaves_the_helpers_to_its_parent() -> None:
    comm = lanecast.from_all_gather(0, 1, lambda mine: mine, processes_per_gpu=2, allow_shared_cores=True)
    assert isinstance(comm, Leader)
    comm.use_processes(2)
    child = os.fork()
    if child == 0:
        try:
            comm.all_reduce(np.ones(99, np.float32))
            os._exit(1)
        except lanecast.Error:
            del comm
            gc.collect()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    vector = np.ones(99, np.float32)
    comm.all_reduce(vector)
    assert (vector == 1).all()


class SlowToEnd:
    """A communicator of a helper's. Its end lets other threads have Python's lock, as that of a real one does."""

    def __init__(self, ended: list[int]) -> None:
        self._ended = ended

    def split(self, *_: int) -> SlowToEnd:
        return SlowToEnd(self._ended)

    def __del__(self) -> None:
        time.sleep(0.5)
        self._ended.append(1)


def test_a_helpers_threads_end_before_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that wanted Python's lock after that was ended within C++, so std::terminate() ended the process."""
    monkeypatch.setattr(serving, "ignore_interrupts", lambda: None)
    ended: list[int] = []
    world = SlowToEnd(ended)
    control, channel = socket.socketpair(), socket.socketpair()
    with control[1], channel[1]:
        leader = Channel(control[0])
        leader.send(channel[1].fileno(), do="join", options={}, leader=os.getpid())
        of_it = Channel(channel[0])
        of_it.send(do="end")
        leader.send(do="end")
        with pytest.raises(SystemExit) as exit_:
            joining._serve(Channel(control[1].dup()), joining._Seat([[0, 1]], 0, 1), lambda options: world)
    assert exit_.value.code == 0
    assert ended == [1]
    of_it.close()
    leader.close()
