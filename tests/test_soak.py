# SPDX-License-Identifier: Apache-2.0
"""A million calls leave memory and file descriptors as they were. SOAK_CALLS=20000 makes it a matter of seconds."""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lanecast
from lanecast import Communicator
from launch import OPENMPI, mpich, openmpi
from pipe_jobs import PipeJob, Tell
from soak_rank import READINGS, soak

CALLS = int(os.environ.get("SOAK_CALLS", "1000000"))
SLOWER = CALLS // 10  # where a network's library carries the messages, each takes several times as long
RANKS = 4
FIGURES = Path(__file__).parent.parent / "build" / "soak"
GROWTH_MIB = 4.0  # from where a quarter of the calls are made: caches are full by then; 8 bytes a call

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


@pytest.fixture(autouse=True)
def as_long_as_it_takes() -> None:
    """pytest's own watch ends a process after 300 s; the mark above and the ranks' deadlines do for these."""
    faulthandler.cancel_dump_traceback_later()


def judge(name: str, readings: list[dict[str, float]]) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(readings, indent=1))
    settled = readings[len(readings) // 4 :]
    early, late = settled[: len(settled) // 3], settled[-len(settled) // 3 :]
    growth = min(reading["rss_mib"] for reading in late) - min(reading["rss_mib"] for reading in early)
    assert growth < GROWTH_MIB, settled
    # A rank that is a thread sees the files of the others, too, which make communicators meanwhile.
    assert min(reading["files"] for reading in late) <= min(reading["files"] for reading in early), settled


def show(capsys: pytest.CaptureFixture[str], name: str, reading: dict[str, float]) -> None:
    with capsys.disabled():
        print(f"\n{name}: {reading}", end="", flush=True)


def test_among_threads(capsys: pytest.CaptureFixture[str]) -> None:
    readings: list[dict[str, float]] = []

    def tell(reading: dict[str, float]) -> None:
        readings.append(reading)
        show(capsys, "threads", reading)

    def body(comm: Communicator) -> None:
        soak(comm, CALLS, tell if comm.rank == 0 else lambda reading: None)

    lanecast.run_threads(RANKS, body, topology="2x2", timeout_s=120.0)
    judge("threads", readings)


def process_body(calls: int, comm: Communicator, tell: Tell) -> None:
    soak(comm, calls, tell)


@pytest.mark.parametrize(
    ("name", "hosts", "calls"), [("shm", "", CALLS), ("ucx", "abcd", SLOWER), ("ucx+shm", "aabb", SLOWER)]
)
def test_among_processes(name: str, hosts: str, calls: int, capsys: pytest.CaptureFixture[str]) -> None:
    job = PipeJob(RANKS, functools.partial(process_body, calls), hosts=hosts, topology="2x2", timeout_s=120.0)
    readings: list[list[dict[str, float]]] = [[] for _ in range(RANKS)]
    for _ in range(READINGS):
        for rank in range(RANKS):
            told = job.told(rank, timeout_s=3600)  # shared machines can be slow
            assert isinstance(told, dict), told
            readings[rank].append(told)
        show(capsys, f"{name}, rank 0", readings[0][-1])
    assert [job.outcome(rank).error for rank in range(RANKS)] == [""] * RANKS
    assert job.end() == [0] * RANKS
    for rank in range(RANKS):
        judge(f"{name}.rank{rank}", readings[rank])


@pytest.mark.parametrize("transports", ["mpi", "mpi,shm"])
@pytest.mark.parametrize(("launch", "python"), [(mpich, Path(sys.executable)), (openmpi, OPENMPI / "python")])
def test_under_mpiexec(launch: Callable[..., str], python: Path, transports: str, tmp_path: Path) -> None:
    program = [str(python), str(Path(__file__).parent / "soak_rank.py"), str(SLOWER), str(tmp_path), transports]
    launch(RANKS, program, timeout_s=7000)
    for rank in range(RANKS):
        judge(f"{launch.__name__}.{transports}.rank{rank}", json.loads((tmp_path / f"{rank}.json").read_text()))
