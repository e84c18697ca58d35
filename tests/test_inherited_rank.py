# SPDX-License-Identifier: Apache-2.0
"""A child process that has the launcher's variables of a rank is told so before MPI starts, where it would end the job
or wait for ever. What stands between a launcher and its ranks is no rank."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from launch import OPENMPI, mpich, openmpi

HERE = Path(__file__).parent
USES = "import lanecast; comm = lanecast.init(timeout_s=60.0); comm.barrier(); print(f'fine of {comm.size}')"


def python_of(launch: Callable[..., str]) -> str:
    return sys.executable if launch is mpich else str(OPENMPI / "python")


def refused(output: str) -> list[str]:
    return [line for line in output.splitlines() if "refused, beside 1: " in line]


@pytest.mark.parametrize(
    ("launch", "how", "when"),
    [
        (mpich, "closed", "started"),
        (mpich, "open", "opened"),
        (mpich, "forked", "started"),
        (openmpi, "closed", "started"),
        (openmpi, "forked", "started"),
    ],
)
def test_child_of_a_rank_is_refused(launch: Callable[..., str], how: str, when: str) -> None:
    lines = refused(launch(2, [python_of(launch), str(HERE / "child_rank.py"), how, when]))
    assert len(lines) == 2, lines
    for rank in range(2):
        (line,) = (line for line in lines if line.startswith(f"rank {rank}: "))
        assert "lanecast.from_all_gather" in line or "by an all-gather of their own (from_all_gather)" in line
        if how == "forked":
            assert "forked from a rank that had started MPI" in line
        elif how == "closed" and launch is mpich:
            assert f"(PMI_RANK={rank}), but not its connection to the launcher, descriptor" in line
            assert "without the variables PMI_*. " in line
        else:
            assert f"({'PMI' if launch is mpich else 'PMIX'}_RANK={rank}) from process " in line
            assert "(python" in line
            assert "which has loaded MPI itself" in line


def test_child_of_a_rank_that_found_the_others_by_a_port() -> None:
    """Hydra's own process manager says no more than where it listens."""
    program = [sys.executable, str(HERE / "child_rank.py"), "closed", "started"]
    lines = refused(mpich(2, program, options=["-pmi-port"]))
    assert sorted(line.partition(") from")[0][-1] for line in lines) == ["0", "1"], lines


TWICE = """
import lanecast
try:
    lanecast.init(timeout_s=60.0).barrier()
    print("fine")
except lanecast.UsageError as error:
    print("refused:", error)
"""


def test_second_program_of_a_rank_is_refused() -> None:
    """MPICH serves one for each; Open MPI serves several, one after the other."""
    output = mpich(2, ["sh", "-c", 2 * f"{shlex.join([sys.executable, '-c', TWICE])};"])
    assert output.count("fine") == 2, output
    assert output.count("another program has been that rank before") == 2, output


PASSES_ON = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:], close_fds=False).returncode)"


@pytest.mark.parametrize(
    ("launch", "wrapper"),
    [(mpich, "shells"), (mpich, "python"), (mpich, "preloading"), (openmpi, "shells"), (openmpi, "preloading")],
)
def test_what_stands_between_launcher_and_rank_is_no_rank(launch: Callable[..., str], wrapper: str) -> None:
    program = [python_of(launch), "-c", USES]
    in_shell = ["sh", "-c", f"{shlex.join(program)}; true"]
    library = next((Path(python_of(launch)).parent.parent / "lib").glob("libmpi.so.[14]*"))
    command = {
        "shells": ["sh", "-c", f"{shlex.join(in_shell)}; true"],
        "python": [sys.executable, "-c", PASSES_ON, *program],
        "preloading": ["env", f"LD_PRELOAD={library}", *in_shell],  # as tools that look at a rank's MPI do
    }[wrapper]
    assert launch(2, command).count("fine of 2") == 2


LAUNCHES = """
import subprocess, sys
import lanecast
comm = lanecast.init(timeout_s=60.0)
if comm.rank == 0:
    inner = subprocess.run(sys.argv[1:], close_fds=False, capture_output=True, text=True, timeout=240)
    print(inner.stdout, inner.stderr)
comm.barrier()
"""


@pytest.mark.parametrize("launch", [mpich, openmpi])
def test_launcher_within_a_rank_starts_ranks(launch: Callable[..., str]) -> None:
    python = python_of(launch)
    oversubscribe = ["--oversubscribe"] if launch is openmpi else []
    inner = [str(Path(python).with_name("mpiexec")), *oversubscribe, "-n", "2", python, "-c", USES]
    assert launch(2, [python, "-c", LAUNCHES, *inner]).count("fine of 2") == 2


SHOWS = """
import subprocess, sys
import lanecast
comm = lanecast.init(timeout_s=60.0)
if comm.rank == 1:
    print(subprocess.run([sys.executable, "-m", "lanecast", "info"], capture_output=True, text=True, check=True).stdout)
comm.barrier()
"""


def test_info_within_a_rank_says_whose_variables_it_has() -> None:
    """And starts no MPI, which would have ended it."""
    shown = " ".join(mpich(2, [sys.executable, "-c", SHOWS]).split())
    assert "rank 1 of 2, 1 of 2 on its host" in shown, shown
    assert "it has the variables of a launcher's rank (PMI_RANK=1), but not its connection to the launcher" in shown
