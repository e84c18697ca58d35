# SPDX-License-Identifier: Apache-2.0
"""Several processes for each leader: the same results by any number of them, over two MPIs and without one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from collective_cases import Case, run_cases
from lanecast import Communicator
from lanecast.helpers import report
from lanecast.helpers.leading import Leader
from lanecast.job import Job
from launch import OPENMPI, mpich, openmpi
from pipe_jobs import PipeJob, Tell

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
