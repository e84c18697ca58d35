# SPDX-License-Identifier: Apache-2.0
"""A million calls leave memory and file descriptors as they were. SOAK_CALLS=20000 makes it a matter of seconds."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest

import lanecast
from lanecast import Communicator
from pipe_jobs import PipeJob, Tell
from soak_rank import READINGS, soak

CALLS = int(os.environ.get("SOAK_CALLS", "1000000"))
RANKS = 4
FIGURES = Path(__file__).parent.parent / "build" / "soak"
GROWTH_MIB = 4.0  # from where a quarter of the calls are made: caches are full by then; 8 bytes a call

pytestmark = [pytest.mark.long, pytest.mark.timeout(7200)]


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


def test_among_processes(capsys: pytest.CaptureFixture[str]) -> None:
    job = PipeJob(RANKS, functools.partial(process_body, CALLS), topology="2x2", timeout_s=120.0)
    readings: list[list[dict[str, float]]] = [[] for _ in range(RANKS)]
    for _ in range(READINGS):
        for rank in range(RANKS):
            told = job.told(rank, timeout_s=3600)  # shared machines can be slow
            assert isinstance(told, dict), told
            readings[rank].append(told)
        show(capsys, "rank 0", readings[0][-1])
    assert [job.outcome(rank).error for rank in range(RANKS)] == [""] * RANKS
    assert job.end() == [0] * RANKS
    for rank in range(RANKS):
        judge(f"rank{rank}", readings[rank])
