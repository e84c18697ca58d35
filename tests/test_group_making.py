# SPDX-License-Identifier: Apache-2.0
"""MPI makes the communicator of a split, or of a library's group, without a deadline: a member that never comes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch import OPENMPI, standing_before
from test_fault_campaign import Launch

HERE = Path(__file__).parent
RANKS, STRUCK, DEADLINE_S = 3, 1, 3.0
OTHERS = [rank for rank in range(RANKS) if rank != STRUCK]
LATE_S = 60.0  # what a rank that has been asked may take to answer, a quarter of the deadline; and a busy machine


@pytest.mark.parametrize("call", ["split", "of_mpi", "started"])
@pytest.mark.parametrize(
    ("openmpi", "number"),
    [(False, signal.SIGSTOP), (False, signal.SIGKILL), (True, signal.SIGSTOP)],
    ids=["mpich stopped", "mpich killed", "openmpi stopped"],
)
def test_member_that_never_comes(call: str, openmpi: bool, number: signal.Signals, tmp_path: Path) -> None:
    launch = Launch(openmpi=openmpi)
    library = OPENMPI.parent / "lib" / "libmpi.so.40" if openmpi else Path(sys.prefix) / "lib" / "libmpi.so.12"
    strikes = standing_before(HERE / "mpi_strikes.c", library, tmp_path)
    settings = {"STRIKE_RANK": str(STRUCK), "STRIKE_SIGNAL": str(int(number)), "LANECAST_MPI_LIBRARY": str(strikes)}
    arguments = [call, str(tmp_path), str(DEADLINE_S), str(len(OTHERS))]
    job = subprocess.Popen(
        [*launch.command(RANKS, tmp_path), str(HERE / "group_rank.py"), *arguments],
        env={**launch.environment(), **settings},
        stdin=subprocess.DEVNULL, stdout=(tmp_path / "log").open("w"), stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    ends = [tmp_path / f"{'outcome' if openmpi else 'status'}.{rank}" for rank in OTHERS]
    deadline = time.monotonic() + 200
    while not all(end.exists() for end in ends) and time.monotonic() < deadline:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(int((tmp_path / f"pid.{STRUCK}").read_text()), signal.SIGKILL)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    logs = "".join(path.read_text() for path in tmp_path.glob("log*"))
    for rank in OTHERS:
        error, text, took_s = json.loads((tmp_path / f"outcome.{rank}").read_text())
        assert error == "TimeoutError", f"{error}: {text}\n{logs}"
        assert re.search(rf"for rank [\d, ]*\b{STRUCK}\b", text), text
        assert ("split" if call == "split" else "the making of a library's group") in text, text
        # As whoever gave up first says: a rank that came later hears of it sooner after its own call.
        assert max(map(float, re.findall(r"waited (\d+\.\d) s", text)), default=0) >= DEADLINE_S, text
        assert took_s < DEADLINE_S + LATE_S, took_s
    assert openmpi or [end.read_text().strip() for end in ends] == ["0"] * len(OTHERS), logs
