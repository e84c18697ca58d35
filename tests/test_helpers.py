# SPDX-License-Identifier: Apache-2.0
"""Several processes for each leader: the same results by any number of them, over two MPIs and without one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from launch import OPENMPI, mpich, openmpi

PROGRAM = str(Path(__file__).parent / "helpers_rank.py")


def judge(output: str, leaders: int) -> None:
    closing = r"rank (\d+) of (\d+): [1-9]\d* cases"
    said = re.findall(closing, output)
    assert sorted(said) == [(str(rank), str(leaders)) for rank in range(leaders)], output
    assert not re.sub(closing, "", output).strip()


@pytest.mark.parametrize(
    ("leaders", "processes", "topology", "transports"),
    [(2, 2, "2x1", "mpi,shm"), pytest.param(4, 4, "2x2", "mpi,shm", marks=pytest.mark.long), (3, 3, "-", "-")],
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
