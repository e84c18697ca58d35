# SPDX-License-Identifier: Apache-2.0
"""Beginnings and ends under MPI: whatever is destroyed when, or never, a job ends with 0 and does not hang."""

import re
import sys
from pathlib import Path

import pytest

from launch import OPENMPI, compiled, mpich, openmpi, standing_before

HERE = Path(__file__).parent
PROGRAM = (HERE / "mpi_life_rank.py").read_text()
ENDS = re.findall(r"^def (\w+)\(\) -> None:", PROGRAM, re.MULTILINE)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("launch", ["mpich", "openmpi"])
def test_job_ends(launch: str, end: str) -> None:
    script = str(HERE / "mpi_life_rank.py")
    if launch == "mpich":
        library = Path(sys.prefix) / "lib" / "libmpi.so.12"
        output = mpich(3, [sys.executable, script, end, str(library)])
    else:
        library = OPENMPI.parent / "lib" / "libmpi.so.40"
        output = openmpi(3, [str(OPENMPI / "python"), script, end, str(library)])
    assert output.count("as it should be") == 3


def test_process_in_c_ends_while_its_threads_wait(tmp_path: Path) -> None:
    """Their calls fail, so that whoever waits for one of them goes on."""
    output = mpich(3, [str(compiled(HERE / "c/ends.c", tmp_path))])
    assert output.count("as it should be") == 3


@pytest.mark.parametrize("call", ["run", "start"])
def test_rank_that_cannot_send_says_so(call: str, tmp_path: Path) -> None:
    """Nor can it tell its peers why it gives up: an error in that ended the process, in whichever thread it was."""
    refuses = standing_before(HERE / "mpi_refuses.c", Path(sys.prefix) / "lib" / "libmpi.so.12", tmp_path)
    program = [sys.executable, str(HERE / "refused_rank.py"), call]
    output = mpich(3, program, REFUSING_RANK="1", REFUSES_FROM=str(tmp_path / "now"), LANECAST_MPI_LIBRARY=str(refuses))
    assert output.count("as it should be") == 3
