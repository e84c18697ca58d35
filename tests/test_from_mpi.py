# SPDX-License-Identifier: Apache-2.0
"""A communicator from mpi4py's, beside which the program goes on using MPI; and whose timeout wins."""

import subprocess
import sys
from pathlib import Path

import pytest

import lanecast
from launch import MPICH, OPENMPI, compiled, mpich, openmpi


def test_beside_mpi4py() -> None:
    program = Path(__file__).parent / "from_mpi_rank.py"
    output = mpich(4, [sys.executable, str(program)], LANECAST_TIMEOUT="47")
    assert "".join(output.split()) == 4 * "good"


@pytest.mark.parametrize(("given", "expected"), [({}, 7.0), ({"timeout_s": 300.0}, 300.0), ({"timeout_s": 5}, 5.0)])
def test_timeout_in_code_wins_even_where_it_is_the_default(
    given: dict[str, float], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANECAST_TIMEOUT", "7")
    assert lanecast.from_all_gather(0, 1, lambda mine: mine, **given)._core.timeout_s == expected
    monkeypatch.delenv("LANECAST_TIMEOUT")
    assert lanecast.from_all_gather(0, 1, lambda mine: mine)._core.timeout_s == 300.0


@pytest.mark.parametrize("compiler", [MPICH.with_name("mpicc"), MPICH.with_name("mpicc_abi"), OPENMPI / "mpicc"])
def test_what_is_no_communicator_of_one_group_is_refused(compiler: Path, tmp_path: Path) -> None:
    program = compiled(Path(__file__).parent / "c/parents.c", tmp_path, compiler=compiler)
    launch = openmpi if compiler.parent == OPENMPI else mpich
    assert launch(2, [str(program)]).count("as it should be") == 2


@pytest.mark.parametrize(
    ("communicators", "ranks", "processes"), [("spawns", 2, 3), ("session", 3, 3), ("ordered", 3, 3)]
)
def test_communicators_of_mpi4py(communicators: str, ranks: int, processes: int) -> None:
    output = mpich(ranks, [sys.executable, str(Path(__file__).parent / "parents_rank.py"), communicators])
    assert output.count("as it should be") == processes


LATE = """
import os, sys, time
from pathlib import Path
import lanecast
from lanecast.startup import mpi

mpi()
ended, said = Path(sys.argv[1]), Path(sys.argv[1]).with_name("said")
rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
if rank == 1:
    while not ended.exists():
        time.sleep(0.02)  # and never calls init
else:
    try:
        lanecast.init(timeout_s=0.7)
    except lanecast.TimeoutError as error:
        said.write_text(str(error))  # launchers that clean up may lose what is printed last
    ended.touch()
os._exit(0)  # MPI could not end with a call under way
"""


@pytest.mark.parametrize("bin", [MPICH.parent, OPENMPI], ids=["mpich", "open mpi"])
def test_a_rank_that_never_makes_the_communicator(bin: Path, tmp_path: Path) -> None:
    oversubscribe = ["--oversubscribe"] if bin == OPENMPI else []
    command = [
        str(bin / "mpiexec"),
        *oversubscribe,
        "-n",
        "2",
        str(bin / "python"),
        "-c",
        LATE,
        str(tmp_path / "ended"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    said = (tmp_path / "said").read_text() if (tmp_path / "said").exists() else done.stdout + done.stderr
    assert "rank 0 of 2 waited 0.7 s for rank 1 to make a communicator" in said
    assert "from_mpi" in said


COMES_LATE = """
import os
import time
import lanecast
from lanecast.startup import mpi

mpi()
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    time.sleep(1.5)  # the others have asked for it meanwhile
comm = lanecast.init(timeout_s=60.0)
comm.barrier()
left = MPI.COMM_WORLD.iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG)
os.write(1, f"{comm.rank} of {comm.size}, left on the world: {left}\\n".encode())  # in one piece
"""


def test_a_late_rank_finds_nothing_on_the_world() -> None:
    output = mpich(3, [sys.executable, "-c", COMES_LATE])
    assert sorted(output.splitlines()) == [f"{rank} of 3, left on the world: False" for rank in range(3)]


STARTS_LATE = """
import sys, time
from pathlib import Path
from lanecast import job, startup

said = Path(sys.argv[1])


class Told:
    def write(self, text):
        sys.__stderr__.write(text)
        if "has waited" in text:
            said.touch()

    def flush(self):
        sys.__stderr__.flush()


if job.detect().rank == 0:
    startup._STARTS_WITHIN_S = 0.3
    sys.stderr = Told()
else:
    while not said.exists():
        time.sleep(0.02)
startup.init(timeout_s=60.0).barrier()
"""


def test_who_waits_for_mpi_to_start_says_so(tmp_path: Path) -> None:
    command = [str(MPICH), "-n", "2", sys.executable, "-c", STARTS_LATE, str(tmp_path / "said")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "lanecast: rank 0 has waited 0.3 s for MPI to start, which waits for all ranks" in done.stderr
    assert "rank 1" not in done.stderr
