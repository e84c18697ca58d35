# SPDX-License-Identifier: Apache-2.0
"""Starts this program's ranks where no launcher has, and ends all of them when one fails."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lanecast import _core
from lanecast import job as jobs
from lanecast.wording import counted

# Set for the ranks that start_ranks() starts: the streams of theirs that end at a terminal.
_STARTED_BY_US = "_LANECAST_TERMINALS"


@dataclass(frozen=True)
class Launcher:
    """An mpiexec, with what starts several ranks with it."""

    path: Path
    is_open_mpi: bool

    @property
    def mpi_name(self) -> str:
        return "Open MPI" if self.is_open_mpi else "MPICH"

    def command(self, ranks: int, program: list[str]) -> list[str]:
        crowded = ["--oversubscribe"] if self.is_open_mpi and ranks > cores() else []
        return [str(self.path), *crowded, "-n", str(ranks), *program]

    def environment(self, ranks: int, *, as_root: bool | None = None) -> dict[str, str]:
        """What this MPI needs for so many ranks on this machine; as_root: will they be root? Default: as we are."""
        if not self.is_open_mpi:
            # A rank that polls shared memory holds the core of the one it waits for; over the network layer it yields.
            return {"MPIR_CVAR_NOLOCAL": "1"} if ranks > cores() else {}
        if not (os.geteuid() == 0 if as_root is None else as_root):
            return {}
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def find_launcher(mpiexec: Path | None = None) -> Launcher | None:
    """The mpiexec given, or beside this Python, else the first on PATH; None without one that works."""
    beside = mpiexec.absolute() if mpiexec is not None else Path(sys.executable).with_name("mpiexec")
    path = str(beside) if mpiexec is not None or os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if path is None:
        return None
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return Launcher(Path(path), any(name in answer for name in ("Open MPI", "OpenRTE", "PRRTE", "prte")))


def job(launcher: Launcher, ranks: int, program: list[str]) -> tuple[list[str], dict[str, str]]:
    """Command and environment that start `program` on so many ranks; says so on standard error."""
    extra = {name: value for name, value in launcher.environment(ranks).items() if name not in os.environ}
    shown = shlex.join(["mpiexec", *launcher.command(ranks, [])[1:]])
    settings = "".join(f"{name}={value} " for name, value in extra.items())
    print(f"starting {counted(ranks, 'rank')} with {launcher.mpi_name}: {settings}{shown}", file=sys.stderr, flush=True)
    # The core looks for the library beside the first mpiexec on PATH.
    path = os.pathsep.join([str(launcher.path.parent), os.environ.get("PATH", os.defpath)])
    return launcher.command(ranks, program), {**os.environ, **extra, **of_our_terminal(), "PATH": path}


def of_our_terminal() -> dict[str, str]:
    """What tells the ranks that we start which of their streams end at our terminal, and how wide that is."""
    terminals = [name for name in ("stdout", "stderr") if _is_terminal_here(name)]
    width = str(shutil.get_terminal_size((120, 40)).columns)
    return {_STARTED_BY_US: ",".join(terminals), "COLUMNS": width}


def start_ranks(launcher: Launcher, ranks: int) -> NoReturn:
    """Become the launcher of `ranks` processes that run this same command line; its exit status becomes ours."""
    if _STARTED_BY_US in os.environ:
        raise _core.TransportError(
            f"{launcher.path} started this process without telling it its rank; start it with "
            f"mpirun -n {ranks} lanecast … of the MPI that you want to use"
        )
    command, environment = job(launcher, ranks, [sys.executable, "-m", "lanecast", *sys.argv[1:]])
    os.execve(command[0], command, environment)


def is_terminal(stream: str) -> bool:
    """Does this process's "stdout" or "stderr" end at a terminal, maybe through the launcher?"""
    if _STARTED_BY_US in os.environ:
        return stream in os.environ[_STARTED_BY_US].split(",")
    # Some launchers give each rank a terminal of their own, whatever the job writes to.
    return _is_terminal_here(stream) and not jobs.under_launcher()


def _is_terminal_here(stream: str) -> bool:
    opened = getattr(sys, stream)  # None where the caller has closed it
    return opened is not None and opened.isatty()


def rank() -> int:
    """This process's rank as its launcher tells it; 0 where none does."""
    found = jobs.detect()
    return 0 if found is None or found.rank is None else found.rank


def fail(error: BaseException) -> NoReturn:
    """Say what went wrong and end this process, and when it is a rank all others of its job with it."""
    if rank() != 0:
        time.sleep(0.5)  # of a mistake that all ranks make rank 0 speaks, and its end ends the job
    if isinstance(error, (_core.Error, OSError, MemoryError)):
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        name = type(error).__name__.lstrip("_")  # numpy's own for want of memory
        print(f"lanecast: {name}: {error}{notes}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # Not by an exception: atexit would enter MPI_Finalize and there, as threads do at an interpreter's end, wait for
    # ranks that wait for this one. Launchers end a job when a rank goes without finalizing.
    os._exit(2 if isinstance(error, _core.UsageError) else 1)
