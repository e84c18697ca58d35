# SPDX-License-Identifier: Apache-2.0
"""Several processes for each leader: the same results by any number of them, over two MPIs and without one."""

from __future__ import annotations

import gc
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collective_cases import Case, run_cases
from gpu_stand_in import another
from lanecast import Communicator, _core
from lanecast.bound import KIND
from lanecast.helpers import report
from lanecast.helpers.leading import Leader
from lanecast.job import Job
from launch import OPENMPI, mpich, openmpi
from pipe_jobs import Body, PipeJob, Tell
from test_helpers_going_wrong import gone

PROGRAM = str(Path(__file__).parent / "helpers_rank.py")


def judge(output: str, leaders: int) -> None:
    closing = r"rank (\d+) of (\d+): [1-9]\d* cases"
    said = re.findall(closing, output)
    assert sorted(said) == [(str(rank), str(leaders)) for rank in range(leaders)], output
    assert not re.sub(closing, "", output).strip()


@pytest.mark.parametrize(
    ("leaders", "processes", "topology", "transports"),
    [
        (2, 2, "2x1", "mpi,shm"),
        pytest.param(4, 4, "2x2", "mpi,shm", marks=pytest.mark.long),
        pytest.param(3, 3, "-", "-", marks=pytest.mark.long),
    ],
)
def test_mpich(leaders: int, processes: int, topology: str, transports: str) -> None:
    command = [sys.executable, PROGRAM, str(processes), topology, transports]
    judge(mpich(leaders * processes, command), leaders)


@pytest.mark.parametrize(
    ("leaders", "processes", "topology", "transports"),
    [(2, 2, "-", "mpi"), pytest.param(4, 2, "2x2", "mpi,shm", marks=pytest.mark.long)],
)
def test_open_mpi(leaders: int, processes: int, topology: str, transports: str) -> None:
    command = [str(OPENMPI / "python"), PROGRAM, str(processes), topology, transports]
    judge(openmpi(leaders * processes, command), leaders)


def without_mpi(comm: Communicator, _: Tell) -> list[str]:
    assert isinstance(comm, Leader)
    wrong = []
    for number in (1, 3):
        comm.use_processes(number)
        counts = tuple(1000 * rank + 3 for rank in range(comm.size))
        kinds = [
            Case("all_reduce", (10_007,), in_place=True),
            Case("all_gather", counts),
            Case("reduce_scatter", counts),
        ]
        wrong += run_cases(comm, kinds)
    return wrong


@pytest.mark.parametrize("hosts", ["aa", "ab"])
def test_helpers_that_the_library_starts(hosts: str) -> None:
    """Over shared memory, and as on two hosts over UCX."""
    job = PipeJob(2, without_mpi, hosts=hosts, processes_per_gpu=3, allow_shared_cores=True, timeout_s=60.0)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [(outcome.value, outcome.text) for outcome in outcomes] == [([], "")] * 2
    assert job.end() == [0, 0]


OPTIONS: dict[str, Any] = {"processes_per_gpu": 3, "allow_shared_cores": True, "timeout_s": 60.0}


def both_end_well(body: Body, **options: Any) -> None:
    job = PipeJob(2, body, **options)
    outcomes = [job.outcome(rank) for rank in range(2)]
    assert [(outcome.value, outcome.text) for outcome in outcomes] == [(None, "")] * 2
    assert job.end() == [0, 0]


def starts_calls(comm: Communicator, _: Tell) -> None:
    """Started calls, others between them, and one that nobody waits for, in memory of both kinds."""
    assert isinstance(comm, Leader)
    comm.use_processes(3)
    for turn in range(20):
        vectors = [comm.shared_empty(4_001), np.zeros(4_001, np.float32), comm.shared_empty(99)]
        for number, vector in enumerate(vectors):
            vector[:] = comm.rank + number
        works = [comm.all_reduce(vector, async_op=True) for vector in vectors]
        short, word = np.ones(50, np.float32), np.full(1, comm.rank)
        comm.broadcast(word, 1)  # by the leader alone
        forgotten = np.ones(4_001, np.float32)
        comm.all_reduce(forgotten, async_op=True)
        if turn % 2:
            comm.all_reduce(short)
        for work in reversed(works) if turn % 3 else works:
            assert work is not None
            work.wait()
            assert work.is_completed()
        assert [set(vector) for vector in vectors] == [{1.0}, {3.0}, {5.0}]
        assert (int(word[0]), set(short.tolist())) == (1, {2.0 if turn % 2 else 1.0})
    last = comm.all_reduce(np.ones(4_001, np.float32), async_op=True)
    assert last is not None
    while not last.is_completed():
        time.sleep(1e-3)


def test_started_calls() -> None:
    both_end_well(starts_calls, **OPTIONS)


def splits(outer: Communicator, _: Tell) -> None:
    """Children have the same helpers, and may outlive their parent."""
    comm = another(outer, **OPTIONS)
    assert isinstance(comm, Leader)
    child, alone, none = comm.split(0, -comm.rank), comm.split(comm.rank), comm.split(0 if comm.rank else -1)
    assert isinstance(child, Leader)
    assert isinstance(alone, Leader)
    assert (none is None) == (comm.rank == 0)
    pids = [helper.pid for helper in comm.helpers]
    assert [helper.pid for helper in child.helpers] == pids
    assert (child.rank, child.size, alone.size) == (1 - comm.rank, 2, 1)
    for each in (comm, child, alone):
        each.use_processes(3)
        vector = each.shared_empty(10_007)
        vector[:] = each.rank + 1
        each.all_reduce(vector)
        assert set(vector) == {float(sum(range(1, each.size + 1)))}
    del each, comm, none, alone
    gc.collect()
    shares = np.zeros(2 * 999, np.float32)
    child.all_gather_into_tensor(shares, np.full(999, child.rank, np.float32))
    assert list(np.unique(shares[:999])) == [0.0]
    assert list(np.unique(shares[999:])) == [1.0]
    del child
    gc.collect()
    assert gone(pids)


def test_children_have_helpers() -> None:
    both_end_well(splits)


def test_numbers_of_processes_are_tried_in_turn_and_one_stays() -> None:
    kind, size = KIND["all_reduce"], 3 << 20
    for seconds, found in (((9.0, 5.0, 4.0, 6.0), 4), ((9.0, 8.6, 8.8, 9.0), 1), ((9.0, 8.5, 8.8, 9.0), 2)):
        trials = _core.ProcessTrials(6)
        of = dict(zip((1, 2, 4, 6), seconds, strict=True))
        tried: list[tuple[int, bool]] = []
        while not trials.is_due(kind, size):
            number, is_timed = trials.next(kind, size + len(tried))  # sizes within a factor of two are one class
            tried.append((number, is_timed))
            trials.note(kind, size, number, of[number] * (1 if is_timed else 2))
        assert tried == [(number, timed) for number in (1, 2, 4, 6) for timed in (False, True, True)]
        assert trials.best(kind, size) == pytest.approx([each / size for each in seconds])
        assert (trials.found(kind, size), trials.calls_until_due) == (0, 12)
        trials.settle(kind, size, trials.best(kind, size))
        assert (trials.found(kind, size), trials.next(kind, size), trials.is_due(kind, size)) == (
            found, (found, False), False,
        )  # fmt: skip
        assert trials.next(kind, 2 * size) == (1, False), "another class"


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (None, "this one may run on core"),
        (Job("mpirun", 5, 8, 1, 4, 2, (), True), "this rank helper 1 of rank 0 here, on core"),
        (Job("mpirun", 4, 8, 0, 4, 2, (), True), "this rank leads 1 helper, on core"),
        (Job("torchrun", 1, 2, 1, 2, 1, (), False), "helper 1: core"),
        (Job("torchrun", 1, 2, 1, None, 1, (), False), "does not say how many ranks share this host"),
    ],
)
def test_info_says_where_processes_run(job: Job | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(report.VARIABLE, "2")
    assert expected in "\n".join(report.lines(job))
    monkeypatch.delenv(report.VARIABLE)
    assert "1; this one may run on core" in report.lines(job)[0]


def test_cores_have_numa_nodes(tmp_path: Path) -> None:
    for node, cores in enumerate(("0-2,8", "3-7\n")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(cores)
    assert [report.numa_node_of(core, tmp_path) for core in (0, 2, 8, 3, 7, 9)] == [0, 0, 0, 1, 1, None]
